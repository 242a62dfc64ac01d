//! Coordinators that say nothing, although their hosts answer; and what agents tell of links.

use super::*;
use crate::external::agent::obey;
use crate::external::heartbeat::{self, Silence};
use crate::remote::{link_changes, locked};

const LIMIT: Duration = Duration::from_millis(600);

/// A coordinator, whose thread says nothing of itself, and its two agents, the second of which obeys.
fn gathered(folder: &Path) -> (Coordinator, JoinHandle<Result<u8, Departure>>) {
    let coordinator = gathering(seat(folder, 0, 2), Duration::from_secs(20));
    let agents = [0, 1].map(|rank| {
        let external = seat(folder, rank, 2);
        spawn(move || {
            let (mut channel, secret) = arrive(&external, None, Duration::from_secs(20))?;
            if rank == 0 {
                // Keeps its place until it is let go.
                while channel.receive()? == ToRank::Alive {}
                return Ok(0);
            }
            obey(&external, &mut channel, &secret, Silence::new(LIMIT))
        })
    });
    let [_, second] = agents;
    (coordinator.join().unwrap().unwrap(), second)
}

#[test]
fn a_coordinator_that_stands_still_is_given_up_with_its_host() {
    let folder = tempfile::tempdir().unwrap();
    let (coordinator, agent) = gathered(folder.path());
    // Nothing is expected of one that sends no signs of life.
    std::thread::sleep(LIMIT * 2);
    assert!(!agent.is_finished());
    locked(&coordinator.agents)[1].connection.send(&ToRank::Alive).unwrap();
    let begun = Instant::now();
    let departure = agent.join().unwrap().unwrap_err();
    assert!(begun.elapsed() >= LIMIT / 2 && begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!((departure.code(), departure.is_orphaned()), (70, false));
    let (told, host) = (departure.to_string(), host_name());
    let begins = format!("{host} has heard nothing from Rankmark on {host}, the host of rank 0, for 60 s, although");
    assert!(told.starts_with(&begins) && told.ends_with(&format!("--exclude={host}")), "{told}");
}

#[test]
fn signs_of_life_keep_agents_until_they_are_let_go() {
    let folder = tempfile::tempdir().unwrap();
    let (coordinator, agent) = gathered(folder.path());
    heartbeat::start(&coordinator.agents, LIMIT / 20).unwrap();
    std::thread::sleep(LIMIT * 3);
    assert!(!agent.is_finished());
    coordinator.dismiss(7);
    assert_eq!(agent.join().unwrap().unwrap(), 7);
}

#[test]
fn links_that_flap_are_told_by_one_agent_of_each_host() {
    let folder = tempfile::tempdir().unwrap();
    let coordinator = gathering(seat(folder.path(), 0, 3), Duration::from_secs(20));
    let agents: Vec<_> = (0..3)
        .map(|rank| {
            let external = seat(folder.path(), rank, 3);
            spawn(move || -> Result<(), Departure> {
                let (mut channel, _) = arrive(&external, None, Duration::from_secs(20))?;
                while let ToRank::Links(number) = channel.receive()? {
                    channel.send(&FromRank::Links { number, changed: vec![(format!("eth{rank}"), 4)] })?;
                }
                Ok(())
            })
        })
        .collect();
    let coordinator = coordinator.join().unwrap().unwrap();
    locked(&coordinator.agents).iter_mut().zip(["a", "a", "b"]).for_each(|(agent, host)| agent.host = host.to_owned());
    let told = [("a", "eth0"), ("b", "eth2")].map(|(host, name)| (host.to_owned(), name.to_owned(), 4_u64));
    assert_eq!(link_changes(&coordinator.agents), told);
    coordinator.dismiss(0);
    for agent in agents {
        agent.join().unwrap().unwrap();
    }
}

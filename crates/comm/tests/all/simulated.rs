//! The simulated backend has known answers, to the nanosecond.

use std::sync::Mutex;
use std::time::Duration;

use comm::{Call, Communicator, Options, Own, Pace, sim};
use device::Region;
use terms::{Bandwidth, Bytes, Collective, Direction, Dtype, Reduce, Seconds};

use crate::worlds;

const LIMIT: Duration = Duration::from_secs(20);

const LINK: Pace = Pace { bandwidth: Bandwidth(1e9), latency: Seconds(2e-6) };

/// This link, as settings of `sim`.
pub(crate) fn over(link: Pace) -> Own {
    let entry = |name: &str, value: f64| (name.to_owned(), value.into());
    [entry("link_bandwidth", link.bandwidth.0), entry("link_latency", link.latency.0)].into_iter().collect()
}

fn options() -> Options {
    Options { own: over(LINK), ..Options::default() }
}

/// S = 8,000 bytes for whole-buffer operations.
pub(crate) fn all_reduce(bytes: usize) -> Call {
    let buffer = Region::host(bytes).expect("memory").whole();
    let (dtype, reduce, direction) = (Dtype::F32, Reduce::Sum, Direction::OneWay);
    let (input, output) = (buffer.clone(), buffer);
    Call { op: Collective::AllReduce, input, output, dtype, reduce, peer: 0, direction, counts: None }
}

fn now(comm: &dyn Communicator) -> u64 {
    comm.clock().now_ns()
}

#[test]
fn operations_last_what_the_formula_says() {
    worlds::run("sim", 4, &options(), LIMIT, |member| {
        let comm = &mut *member.comm;
        assert!(comm.clock().is_fake());
        comm.run(&all_reduce(8_000)).unwrap();
        // 6 steps of 2 us, and 1.5 x 8,000 bytes at a byte a nanosecond.
        assert_eq!(now(comm), 12_000 + 12_000);
        comm.run(&Call { op: Collective::Barrier, ..all_reduce(0) }).unwrap();
        assert_eq!(now(comm), 24_000 + 4_000);
        let expected = sim::cost(Collective::AllReduce, Bytes(1 << 20), 4, LINK).0;
        comm.run(&all_reduce(1 << 20)).unwrap();
        assert_eq!(now(comm), 28_000 + (expected * 1e9).round() as u64);
    });
}

#[test]
fn operations_wait_for_the_ranks_that_they_need() {
    worlds::run("sim", 3, &options(), LIMIT, |member| {
        let (rank, comm) = (member.rank(), &mut *member.comm);
        comm.clock().advance(u64::from(rank) * 1_000_000);
        let broadcast = |peer| {
            let call = Call { op: Collective::Broadcast, peer, ..all_reduce(1_000) };
            let empty = call.input.slice(0, 0).expect("nothing");
            if rank == peer { call } else { Call { input: empty, ..call } }
        };
        // From rank 1: rank 0 waits for it, rank 2 comes later. Two steps and 1,000 bytes.
        comm.run(&broadcast(1)).unwrap();
        assert_eq!(now(comm), [1_005_000, 1_005_000, 2_005_000][rank as usize]);
        // A collective that synchronises brings all to the last.
        comm.run(&Call { op: Collective::Barrier, ..all_reduce(0) }).unwrap();
        assert_eq!(now(comm), 2_005_000 + 4_000);
    });
}

#[test]
fn a_group_shares_the_clock_of_its_ranks() {
    worlds::run("sim", 4, &options(), LIMIT, |member| {
        let rank = member.rank();
        let mut pair = member.comm.split(Some(rank / 2), 0).unwrap().expect("a group");
        if rank < 2 {
            pair.run(&all_reduce(8_000)).unwrap();
        }
        assert_eq!(now(&*member.comm), if rank < 2 { 4_000 + 8_000 } else { 0 });
        assert_eq!(now(&*pair), now(&*member.comm));
    });
}

#[test]
fn noise_is_shared_reproducible_and_has_a_known_median() {
    let mut options = options();
    for (name, value) in [("noise", 0.2.into()), ("noise_correlation", 0.5.into()), ("noise_seed", 11.into())] {
        options.own.insert(name.to_owned(), value);
    }
    let series = || {
        let times = Mutex::new(vec![Vec::new(); 2]);
        worlds::run("sim", 2, &options, LIMIT, |member| {
            let call = all_reduce(8_000);
            for _ in 0..2000 {
                let before = now(&*member.comm);
                member.comm.run(&call).unwrap();
                times.lock().unwrap()[member.rank() as usize].push(now(&*member.comm) - before);
            }
        });
        times.into_inner().unwrap()
    };
    let first = series();
    assert_eq!(first[0], first[1]);
    assert_eq!(first, series());
    let mut sorted = first[0].clone();
    sorted.sort_unstable();
    let median = sorted[1000] as f64;
    // Without noise 2 steps of 2 us and 8,000 bytes; three standard errors of the median of a correlated series.
    assert!((median / 12_000.0).ln().abs() < 3.0 * 0.2 * 1.2533 * (3.0f64 / 2000.0).sqrt(), "{median}");
    assert!(sorted[50] < 9_500 && sorted[1950] > 15_000, "no spread: {} to {}", sorted[50], sorted[1950]);
}

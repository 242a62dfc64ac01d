//! A process that an external launcher started. It joins its coordinator, starts a rank for each world on request,
//! and ends with the run's exit code. The one of rank 0 starts the coordinator.

use std::ffi::{OsStr, OsString};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use control::reach::{having, toward};
use control::{ChannelError, FromRank, Here, Invitation, RankChannel, Secret, ToRank, join};
use measure::machine::LinkCounts;
use process::{
    ITSELF, Interest, PollSet, Process, Tie, allowed_cores, host_name, interrupt, keep_children, own_name, signal_name,
};
use trace::Clock;

use crate::departure::Departure;

use super::External;
use super::above::{launchers, tell_end};
use super::doors::{Door, unreached};
use super::heartbeat::Silence;
use super::meeting_point::{MeetingPoint, NotFound};
use super::owned::OwnedRank;

/// The hidden argument of a coordinator that the agent of rank 0 starts; what follows it is the user's.
const COORDINATOR: &str = "__coordinator";

/// How long one attempt to join may take: the file may be that of a coordinator which is gone.
const ATTEMPT: Duration = Duration::from_secs(2);

/// Whether these arguments (with the program's name) are those of a coordinator that an agent started.
pub fn is_coordinator(arguments: &[OsString]) -> bool {
    arguments.get(1).is_some_and(|argument| argument == OsStr::new(COORDINATOR))
}

/// The arguments that the user gave, without the hidden one.
pub fn coordinator_arguments(arguments: &[OsString]) -> Vec<OsString> {
    arguments.iter().enumerate().filter(|(index, _)| *index != 1).map(|(_, argument)| argument.clone()).collect()
}

/// The life of an agent. Gives the exit code of the run. To be called on the main thread.
///
/// # Errors
/// Why it ended otherwise. When the coordinator is gone, the departure [is orphaned](Departure::is_orphaned): only the
/// agent of rank 0 should report that.
pub fn serve(external: &External, arguments: &[OsString]) -> Result<u8, Departure> {
    let ended = live(external, arguments);
    // If all were interrupted, none waits for that of rank 0.
    external.meeting_point.leave(external.rank == 0 && interrupt::why().is_none());
    ended
}

fn live(external: &External, arguments: &[OsString]) -> Result<u8, Departure> {
    interrupt::install().map_err(Departure::System)?;
    keep_children().map_err(Departure::System)?;
    tell_end(launchers(0), |title| interrupt::stop(title.to_owned())).map_err(Departure::System)?;
    let mut coordinator = if external.rank == 0 { Some(start_coordinator(arguments)?) } else { None };
    if let Some(child) = &coordinator {
        forward_signals(child.id()).map_err(Departure::System)?;
    }
    let arrived = arrive(external, coordinator.as_mut(), external.arrival).and_then(|arrived| {
        let told = coordinator.as_mut().map_or(Ok(()), |child| tell_all(external, child));
        told.map(|()| arrived)
    });
    let dismissed = arrived.and_then(|(mut channel, secret)| obey(external, &mut channel, &secret, Silence::default()));
    let stands_still = dismissed.as_ref().is_err_and(|departure| matches!(departure, Departure::Standstill(_)));
    match coordinator {
        // It would wait for ranks that cannot find it, and name them rather than the launcher; or it would never end.
        Some(mut child) if stands_still || external.meeting_point.is_broken() => {
            child.kill().and_then(|()| child.wait()).map_err(Departure::System)?;
            dismissed
        }
        // It may be at its last words.
        Some(mut child) => {
            let status = child.wait().map_err(Departure::System)?;
            match (status.code(), status.signal()) {
                (Some(code), _) => Ok(u8::try_from(code).unwrap_or(1)),
                (None, signal) => {
                    let how =
                        signal.map_or_else(|| "ended".to_owned(), |signal| format!("died of {}", signal_name(signal)));
                    Err(Departure::CoordinatorDied(how))
                }
            }
        }
        None => dismissed,
    }
}

/// Starts the coordinator, which is asked to end when this process does: it then leaves a valid record.
fn start_coordinator(arguments: &[OsString]) -> Result<Child, Departure> {
    let mut command = Command::new(ITSELF);
    command.arg0(own_name()).arg(COORDINATOR).args(arguments.iter().skip(1)).stdin(Stdio::null());
    // Its group is its own: what the launcher sends to this one is passed on, once.
    Tie::asked().apply(&mut command);
    command.spawn().map_err(Departure::System)
}

/// A thread that passes the first signal of the launcher on to the coordinator.
fn forward_signals(coordinator: u32) -> io::Result<()> {
    let process = Process::watch(coordinator)?;
    let wait = move || {
        let mut polls = PollSet::default();
        while interrupt::why().is_none() {
            polls.clear();
            let Some(alarm) = interrupt::descriptor() else { return };
            polls.add(alarm, Interest::Read);
            let ended = polls.add(process.descriptor(), Interest::Read);
            if polls.wait(None).is_err() || polls.happened(ended) {
                return;
            }
        }
        // Of its launcher's end the coordinator knows by itself.
        if let Some(signal) = interrupt::requested() {
            process.signal(signal);
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).stack_size(128 << 10).spawn(wait).map(drop)
}

/// Finds the coordinator, joins it, and says where this is. Gives the run's secret, too.
pub(super) fn arrive(
    external: &External,
    mut coordinator: Option<&mut Child>,
    limit: Duration,
) -> Result<(RankChannel, Secret), Departure> {
    let deadline = Instant::now() + limit;
    let host = host_name();
    let look = external.meeting_point.pause();
    loop {
        // That of rank 0 has passed it on, and waits for its coordinator.
        if let (Some(signal), None) = (interrupt::requested(), &coordinator) {
            return Err(Departure::Interrupted(signal));
        }
        if let (Some(title), None) = (interrupt::stopped(), &coordinator) {
            return Err(Departure::LauncherEnded(title));
        }
        let why = match external.meeting_point.find(external) {
            Err(NotFound::Yet(why)) => nobody(external, why),
            Err(NotFound::Ever(why)) => return Err(nobody(external, why)),
            // The process of rank 0 says why.
            Err(NotFound::Ended) => return Err(ChannelError::Lost.into()),
            Ok(places) => match knock(external, places, &host)? {
                Ok(arrived) => return Ok(arrived),
                Err(why) => why,
            },
        };
        // It has said itself what is wrong.
        let gone = coordinator.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None)));
        if gone || Instant::now() >= deadline {
            return Err(why);
        }
        std::thread::sleep(look);
    }
}

/// Waits until all processes know this one's coordinator, or until it is gone, which waits for them no longer than `arrival`.
fn tell_all(external: &External, coordinator: &mut Child) -> Result<(), Departure> {
    while !external.meeting_point.is_told().map_err(|why| nobody(external, why))? {
        if !matches!(coordinator.try_wait(), Ok(None)) {
            break;
        }
    }
    Ok(())
}

/// Tries these places, in turn. Gives why none of them had the coordinator, which may come yet.
///
/// # Errors
/// Why there is no use in trying again.
fn knock(
    external: &External,
    places: Vec<Invitation>,
    host: &str,
) -> Result<Result<(RankChannel, Secret), Departure>, Departure> {
    let mut last = nobody(external, "there is no place to look at".to_owned());
    for mut invitation in places {
        let said = invitation.spec.ranks;
        if said != external.size {
            let message = format!("its launcher started {said} ranks, and that of this one {}", external.size);
            return Err(ChannelError::Refused(message).into());
        }
        invitation.wait = ATTEMPT;
        last = match join(&invitation, external.rank, host) {
            Err(refused @ ChannelError::Refused(_)) => return Err(refused.into()),
            // With a rendezvous file both know the secret; given by hand, they may have different ones.
            Err(ChannelError::Impostor(address)) if matches!(external.meeting_point, MeetingPoint::Address { .. }) => {
                nobody(external, format!("the process that listens at {address} has another secret"))
            }
            Err(ChannelError::Unreachable { address, cause }) if external.several => {
                nobody(external, unreachable(host, address, &cause))
            }
            Err(other) if matches!(external.meeting_point, MeetingPoint::Address { .. }) => {
                nobody(external, other.to_string())
            }
            Err(other) => other.into(),
            Ok(mut channel) => {
                let here = here(&channel.stream()?, external)?;
                channel.send(&FromRank::Here(Box::new(here)))?;
                return Ok(Ok((channel, invitation.secret().map_err(Departure::System)?)));
            }
        };
    }
    Ok(Err(last))
}

/// From where the coordinator cannot be reached, where it listens, and by which interface this host looks for it.
fn unreachable(host: &str, address: SocketAddr, cause: &io::Error) -> String {
    let by = toward(address).map_or_else(
        || "no interface of it leads there".to_owned(),
        |interface| format!("its packets leave by {interface}"),
    );
    format!("{host} cannot reach the coordinator at {} port {} ({by}): {cause}", address.ip(), address.port())
}

fn nobody(external: &External, why: String) -> Departure {
    let hint = if external.several { format!("; {}", external.meeting_point.demands()) } else { String::new() };
    Departure::NoCoordinator { launcher: external.launcher(), rank: external.rank, cause: format!("{why}{hint}") }
}

/// What this process's host is, and by which of its interfaces the coordinator is reached.
fn here(coordinator: &TcpStream, external: &External) -> Result<Here, Departure> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map_err(Departure::System)?;
    let cores = allowed_cores().map_err(Departure::System)?;
    let (cores, machine) = (measure::machine::processors(&cores), measure::machine::detect());
    // A second address of an interface may have a label (`eth0:1`), which is no other interface.
    let interface = coordinator.local_addr().ok().and_then(|own| having(own.ip().to_canonical()));
    let interface = interface.map(|name| name.split(':').next().unwrap_or_default().to_owned());
    Ok(Here { boot: boot.trim().to_owned(), cores, interface, machine, command: external.command.clone() })
}

/// What an agent has between two orders of its coordinator.
struct AgentState {
    owned: Option<OwnedRank>,
    door: Door,
    /// The launcher's end was reported.
    reported: bool,
    silence: Silence,
    /// What the host counted when the agent joined.
    links: LinkCounts,
}

/// Starts ranks until the run is over. `run` is the run's secret. `silence`: when to give up a coordinator that stands still.
pub(super) fn obey(
    external: &External,
    channel: &mut RankChannel,
    run: &Secret,
    silence: Silence,
) -> Result<u8, Departure> {
    let stream = channel.stream()?;
    let links = LinkCounts::read();
    let mut state = AgentState { owned: None, door: Door::default(), reported: false, silence, links };
    loop {
        let message = next(channel, &stream, &mut state);
        let owned = &mut state.owned;
        match message {
            Ok(ToRank::Serve { world, argument, environment }) => {
                // That of the world before has left, or is killed now.
                drop(owned.take());
                *owned = Some(OwnedRank::start(world, &argument, &environment)?);
            }
            Ok(ToRank::ServeRemote(remote)) => {
                drop(owned.take());
                *owned = Some(OwnedRank::start_remote(external.adapter.seat, external.rank, run, *remote)?);
            }
            Ok(ToRank::End(world)) => {
                if let Some(rank) = owned.as_mut().filter(|rank| rank.is_of(&world)) {
                    rank.end();
                }
            }
            Ok(ToRank::Dismissed(code)) => return Ok(code),
            Ok(_) => return Err(ChannelError::Protocol("a message that is out of place".to_owned()).into()),
            Err(departure) => {
                // Its guardian has noticed, too, and gives its collective a moment to end.
                if let Some(rank) = owned {
                    rank.await_end(ATTEMPT);
                }
                return Err(departure);
            }
        }
    }
}

/// The coordinator's next order; what it asks of the clock, of links and of other hosts is answered at once.
fn next(channel: &mut RankChannel, stream: &TcpStream, state: &mut AgentState) -> Result<ToRank, Departure> {
    loop {
        match hear(channel, stream, state)? {
            ToRank::Alive => state.silence.expect_signs(),
            ToRank::Clock(number) => channel.send(&FromRank::Clock { number, at_ns: Clock::default().now_ns() })?,
            ToRank::Links(number) => {
                channel.send(&FromRank::Links { number, changed: state.links.changed(&LinkCounts::read()) })?;
            }
            ToRank::Listen(number) => channel.send(&FromRank::Listens { number, place: state.door.open(stream) })?,
            ToRank::Reach { number, places } => {
                channel.send(&FromRank::Reached { number, failures: unreached(&places) })?;
            }
            order => return Ok(order),
        }
    }
}

/// The coordinator's next message. Until then, reports on the rank, and once on the launcher's end.
fn hear(channel: &mut RankChannel, stream: &TcpStream, state: &mut AgentState) -> Result<ToRank, Departure> {
    let AgentState { owned, reported, silence, .. } = state;
    let mut polls = PollSet::default();
    loop {
        if let Some(message) = channel.arrived()? {
            return Ok(message);
        }
        if let Some(title) = interrupt::stopped().filter(|_| !*reported) {
            *reported = true;
            channel.send(&FromRank::LauncherEnded(title))?;
            // Reported first, so that the coordinator knows why the rank ends.
            if let Some(rank) = owned {
                rank.end();
            }
        }
        if let Some(rank) = owned {
            rank.tell(channel)?;
        }
        polls.clear();
        let coordinator = polls.add(stream.as_fd(), Interest::Read);
        if let Some(alarm) = interrupt::descriptor().filter(|_| interrupt::why().is_none()) {
            polls.add(alarm, Interest::Read);
        }
        let again = owned.as_ref().and_then(|rank| rank.register(&mut polls));
        let limit = [again, silence.step()].into_iter().flatten().min();
        let begun = Instant::now();
        polls.wait(limit).map_err(Departure::System)?;
        if polls.happened(coordinator) {
            silence.end();
            return Ok(channel.receive()?);
        }
        if silence.add(begun.elapsed()) {
            return Err(Departure::Standstill(channel.standstill()));
        }
    }
}

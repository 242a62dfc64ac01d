//! From evidence to a sentence: who is at fault, of what, in which operation, and who waited. A pure function.
//!
//! When a rank dies its peers may fail, leave or hang moments later, so that the strongest evidence names the culprit,
//! not the first: a signal, then a stop, an exit, a lost connection, a failed command, and silence last.

use measure::{Failure, Verdict, VerdictKind};
use process::signal_name;
use terms::{Bytes, Collective, Error, Seconds};
use trace::OperationState;

use crate::departure::PANICKED;

/// What is known of one rank at the moment of the verdict.
#[derive(Clone, Debug)]
pub(crate) struct RankState {
    /// Which rank.
    pub(crate) rank: u32,
    /// Process number of the rank.
    pub(crate) pid: u32,
    /// Host of the rank, where it is another one than the coordinator's.
    pub(crate) host: Option<String>,
    /// What became of it.
    pub(crate) outcome: Outcome,
    /// What the status page tells.
    pub(crate) operation: Option<OperationState>,
    /// The last lines that it wrote.
    pub(crate) last_words: Vec<String>,
}

/// What became of a rank.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// The rank died of this signal.
    Signalled(i32),
    /// The rank is stopped.
    Stopped,
    /// The rank exited with this code.
    Exited(i32),
    /// The rank ended, and only its launcher knows how.
    Ended {
        /// Later than another rank, and perhaps because of it.
        after: bool,
    },
    /// The rank's connection ended or carried nonsense, while its process lives.
    Lost(String),
    /// The rank answered that it could not.
    Failed(Failure),
    /// The rank has not answered.
    Pending {
        /// Seconds since its last heartbeat, where that is longer than it should be.
        silent: Option<u64>,
        /// The rank waits for the others in an exchange through the coordinator.
        exchanging: bool,
    },
    /// The rank has answered.
    Answered,
}

/// What the ranks were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// To start.
    Start,
    /// To do this ("prepare", "sample").
    Command(&'static str),
}

/// Why there is a verdict.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Occasion {
    /// Something happened to a rank.
    Evidence,
    /// The time is over.
    Deadline(Seconds),
    /// The user ended the run, by this signal.
    Interrupted(i32),
}

/// The verdict on these ranks, of whom at least one gave occasion to it.
pub(crate) fn verdict(phase: Phase, occasion: Occasion, bytes: Option<Bytes>, states: &[RankState]) -> Verdict {
    if let Occasion::Interrupted(signal) = occasion {
        let message = format!("interrupted by {}", signal_name(signal));
        return Verdict::new(VerdictKind::Interrupted, message);
    }
    if states.iter().all(|state| matches!(state.outcome, Outcome::Failed(_) | Outcome::Answered)) {
        return refusal(phase, states);
    }
    let class = states.iter().filter_map(|state| gravity(&state.outcome)).min();
    let (culprits, others): (Vec<_>, Vec<_>) = match class {
        Some(class) => states.iter().partition(|state| gravity(&state.outcome) == Some(class)),
        None => suspects(states),
    };
    let mut parts: Vec<String> = match (class, occasion) {
        (None, Occasion::Deadline(limit)) => vec![hung(limit, phase, bytes, &culprits, spans_hosts(states))],
        _ => culprits.iter().map(|state| fault(state, phase, bytes)).collect(),
    };
    let about = culprits.iter().filter_map(|state| state.operation).next();
    parts.extend(bystanders(&others, about));
    parts.extend(culprits.iter().filter_map(|state| last_words(state)));
    let kind = match (phase, class) {
        (Phase::Start, _) => VerdictKind::NotStarted,
        (_, None) => VerdictKind::Hung,
        (_, Some(Gravity::Stopped)) => VerdictKind::Hung,
        _ => VerdictKind::Died,
    };
    let error = Error { hint: hint(class, &culprits), ..Error::new(parts.join("; ")) };
    Verdict::new(kind, error).ranks(culprits.iter().map(|state| state.rank))
}

/// The verdict on a world that never came up, or could not be.
pub(crate) fn not_started(message: String, hint: Option<String>) -> Verdict {
    Verdict::new(VerdictKind::NotStarted, Error { hint, ..Error::new(message) })
}

/// The verdict on a world for which this machine or its launcher lacks something.
pub(crate) fn lacking(message: String) -> Verdict {
    Verdict::new(VerdictKind::Lacking, message)
}

/// Evidence, the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Gravity {
    Signalled,
    Stopped,
    Exited,
    Lost,
    Failed,
}

const fn gravity(outcome: &Outcome) -> Option<Gravity> {
    match outcome {
        Outcome::Signalled(_) => Some(Gravity::Signalled),
        Outcome::Stopped => Some(Gravity::Stopped),
        Outcome::Exited(_) | Outcome::Ended { after: false } => Some(Gravity::Exited),
        Outcome::Lost(_) => Some(Gravity::Lost),
        Outcome::Failed(_) => Some(Gravity::Failed),
        Outcome::Ended { after: true } | Outcome::Pending { .. } | Outcome::Answered => None,
    }
}

/// Every rank has answered, and some that they could not: the world lives, unless it never came up.
fn refusal(phase: Phase, states: &[RankState]) -> Verdict {
    let mut reasons: Vec<(&Failure, Vec<u32>)> = Vec::new();
    for state in states {
        if let Outcome::Failed(failure) = &state.outcome {
            match reasons.iter_mut().find(|(known, _)| known.error == failure.error) {
                Some((_, ranks)) => ranks.push(state.rank),
                None => reasons.push((failure, vec![state.rank])),
            }
        }
    }
    let lacking = reasons.iter().all(|(failure, _)| failure.lacking);
    let kind = match phase {
        _ if lacking => VerdictKind::Lacking,
        Phase::Start => VerdictKind::NotStarted,
        Phase::Command(_) => VerdictKind::Refused,
    };
    // One reason has one hint; of several each has its own.
    let hint = if let [(failure, _)] = &reasons[..] { failure.error.hint.clone() } else { None };
    let said = |error: &Error| if hint.is_some() { error.sentence() } else { error.on_one_line() };
    let of = |ranks: &[u32]| format!("{}{}", name_ranks(ranks), on_hosts(ranks, states));
    let parts = reasons.iter().map(|(failure, ranks)| format!("{}: {}", of(ranks), said(&failure.error)));
    let what = parts.collect::<Vec<_>>().join("; ");
    let ranks = reasons.iter().flat_map(|(_, ranks)| ranks.iter().copied());
    Verdict::new(kind, Error { hint: hint.clone(), ..Error::new(what) }).ranks(ranks)
}

fn spans_hosts(states: &[RankState]) -> bool {
    states.iter().any(|state| state.host.is_some())
}

/// Where a rank is, in words.
fn host_of(state: &RankState) -> &str {
    state.host.as_deref().unwrap_or("this host")
}

/// ` on n3`: the hosts of these ranks, where ranks are on several hosts. What holds of all ranks, or of many hosts, says nothing
/// of a host.
fn on_hosts(ranks: &[u32], states: &[RankState]) -> String {
    const LISTED: usize = 8;
    if !spans_hosts(states) || ranks.len() == states.len() {
        return String::new();
    }
    let mut hosts: Vec<&str> = Vec::new();
    for state in states.iter().filter(|state| ranks.contains(&state.rank)) {
        if !hosts.contains(&host_of(state)) {
            hosts.push(host_of(state));
        }
    }
    if hosts.len() > LISTED { String::new() } else { format!(" on {}", hosts.join(", ")) }
}

/// Without evidence: ranks that have fallen silent; else those that the others, being inside an operation, wait for;
/// else all that have not answered.
pub(crate) fn suspects(states: &[RankState]) -> (Vec<&RankState>, Vec<&RankState>) {
    let pending = |state: &RankState| matches!(state.outcome, Outcome::Pending { .. });
    let silent = |state: &RankState| matches!(state.outcome, Outcome::Pending { silent: Some(_), .. });
    let free = |state: &RankState| pending(state) && !waits(state);
    let last = states.iter().filter(|state| pending(state)).map(progress).min();
    let behind = |state: &RankState| pending(state) && Some(progress(state)) == last;
    let tests: [&dyn Fn(&RankState) -> bool; 3] = [&silent, &free, &behind];
    let telling = tests.into_iter().find(|test| {
        let hit = states.iter().filter(|state| test(state)).count();
        hit > 0 && hit < states.iter().filter(|state| pending(state)).count()
    });
    states.iter().partition(|state| telling.map_or(pending(state), |test| test(state)))
}

/// Whether a rank waits for others, as far as can be seen.
pub(crate) fn waits(state: &RankState) -> bool {
    let inside = state.operation.is_some_and(|operation| operation.inside);
    inside || matches!(state.outcome, Outcome::Pending { exchanging: true, .. })
}

/// How far a rank has come: operations entered and left.
fn progress(state: &RankState) -> u64 {
    state.operation.map_or(0, |operation| 2 * operation.number + 2 - u64::from(operation.inside))
}

/// "rank 3 (pid 4711, this host) died of signal 9 (SIGKILL) in all_reduce #17, 64MiB".
fn fault(state: &RankState, phase: Phase, bytes: Option<Bytes>) -> String {
    let (who, place) = (identity(state), place(state, phase, bytes));
    match &state.outcome {
        Outcome::Signalled(signal) => format!("{who} died of signal {signal} ({}) {place}", signal_name(*signal)),
        Outcome::Stopped => format!("{who} is stopped {place}"),
        Outcome::Exited(PANICKED) => format!("{who} panicked {place}"),
        Outcome::Exited(code) => format!("{who} exited with code {code} {place}"),
        Outcome::Ended { .. } => format!("{who} ended {place}"),
        Outcome::Lost(what) => format!("{who} is lost {place}: {what}"),
        Outcome::Failed(failure) => format!("{who} failed {place}: {}", failure.error.on_one_line()),
        Outcome::Pending { .. } | Outcome::Answered => format!("{who} has not answered {place}"),
    }
}

/// "no answer to `sample` within 10.0 s: rank 3 (pid 4711, this host) was after all_reduce #16 and had not entered #17".
fn hung(limit: Seconds, phase: Phase, bytes: Option<Bytes>, culprits: &[&RankState], spans_hosts: bool) -> String {
    let what = match phase {
        Phase::Start => "no world".to_owned(),
        Phase::Command(command) => format!("no answer to `{command}`"),
    };
    let who = grouped(culprits, |state| {
        let silent = match state.outcome {
            Outcome::Pending { silent: Some(seconds), .. } => format!(", its heartbeat {seconds} s ago"),
            _ => String::new(),
        };
        let verb = if waits(state) { "hung" } else { "was" };
        format!("{verb} {}{silent}", place(state, phase, bytes))
    });
    let known = culprits.iter().filter(|state| state.pid != 0);
    let pids: Vec<String> = match spans_hosts {
        true => known.map(|state| format!("{} on {}", state.pid, host_of(state))).collect(),
        false => known.map(|state| state.pid.to_string()).collect(),
    };
    let pids = if pids.is_empty() || pids.len() > 8 { String::new() } else { format!(" (pid {})", pids.join(", ")) };
    format!("{what} within {limit}: {}{pids}", who.join("; "))
}

pub(crate) fn identity(state: &RankState) -> String {
    let host = state.host.as_ref().map_or_else(|| "this host".to_owned(), |host| format!("on {host}"));
    match state.pid {
        // It has not said yet which process it is.
        0 => format!("rank {} ({host})", state.rank),
        pid => format!("rank {} (pid {pid}, {host})", state.rank),
    }
}

/// Where in its work a rank is.
pub(crate) fn place(state: &RankState, phase: Phase, bytes: Option<Bytes>) -> String {
    if matches!(state.outcome, Outcome::Pending { exchanging: true, .. }) {
        return "in an exchange with the other ranks".to_owned();
    }
    match (state.operation, phase) {
        (Some(operation), _) if operation.inside => {
            format!("in {} #{}{}", operation.operation, operation.number, size(operation, bytes))
        }
        (Some(operation), _) => {
            let (name, number) = (operation.operation, operation.number);
            format!("after {name} #{number}{}, before #{}", size(operation, bytes), number + 1)
        }
        (None, Phase::Start) => "while starting".to_owned(),
        (None, Phase::Command(command)) => format!("in `{command}`, before its first operation"),
    }
}

/// The case's bytes, with operations that move bytes.
fn size(operation: OperationState, bytes: Option<Bytes>) -> String {
    match bytes {
        Some(bytes) if operation.operation != Collective::Barrier => format!(", {bytes}"),
        _ => String::new(),
    }
}

/// What other ranks did, those alike together: "ranks 0-2 had entered #17 and were waiting".
fn bystanders(others: &[&RankState], about: Option<OperationState>) -> Vec<String> {
    let pending: Vec<&RankState> =
        others.iter().copied().filter(|state| gravity(&state.outcome).is_some() || waits_or_works(state)).collect();
    grouped(&pending, |state| match (&state.outcome, state.operation) {
        (Outcome::Signalled(signal), _) => format!("then died of {}", signal_name(*signal)),
        (Outcome::Stopped, _) => "stopped too".to_owned(),
        (Outcome::Exited(code), _) => format!("then exited with code {code}"),
        (Outcome::Ended { .. }, None) => "were then ended".to_owned(),
        (Outcome::Lost(what), _) => format!("then lost: {what}"),
        (Outcome::Failed(failure), _) => format!("then failed: {}", failure.error.on_one_line()),
        (Outcome::Pending { exchanging: true, .. }, _) => "waited in an exchange".to_owned(),
        (_, Some(operation)) if operation.inside => {
            let same = about.is_some_and(|about| about.operation == operation.operation);
            let name = if same { String::new() } else { format!("{} ", operation.operation) };
            format!("had entered {name}#{} and waited", operation.number)
        }
        (_, Some(operation)) => format!("had left {} #{}", operation.operation, operation.number),
        (_, None) => "had entered no operation".to_owned(),
    })
}

fn waits_or_works(state: &RankState) -> bool {
    matches!(state.outcome, Outcome::Pending { .. } | Outcome::Ended { .. })
}

/// One clause for all ranks in the same state, in order of their first rank.
pub(crate) fn grouped(states: &[&RankState], say: impl Fn(&RankState) -> String) -> Vec<String> {
    let mut groups: Vec<(String, Vec<u32>)> = Vec::new();
    for state in states {
        let text = say(state);
        match groups.iter_mut().find(|(known, _)| *known == text) {
            Some((_, ranks)) => ranks.push(state.rank),
            None => groups.push((text, vec![state.rank])),
        }
    }
    groups.iter().map(|(text, ranks)| format!("{} {text}", name_ranks(ranks))).collect()
}

/// "rank 3", "ranks 0-2, 5": ascending ranks, runs of three and more as a range.
fn name_ranks(ranks: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for rank in ranks {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *rank => *last = *rank,
            _ => runs.push((*rank, *rank)),
        }
    }
    let text = |(first, last): &(u32, u32)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}-{last}"),
    };
    let runs = runs.iter().map(text).collect::<Vec<_>>().join(", ");
    format!("{} {runs}", if ranks.len() == 1 { "rank" } else { "ranks" })
}

fn last_words(state: &RankState) -> Option<String> {
    if state.last_words.is_empty() || matches!(state.outcome, Outcome::Failed(_) | Outcome::Answered) {
        return None;
    }
    Some(format!("last words of rank {}: {}", state.rank, state.last_words.join(" | ")))
}

fn hint(class: Option<Gravity>, culprits: &[&RankState]) -> Option<String> {
    let killed = |state: &&RankState| state.outcome == Outcome::Signalled(libc::SIGKILL);
    let text = match class {
        Some(Gravity::Signalled) if culprits.iter().all(killed) => {
            "the kernel does this when memory runs out: see `dmesg`"
        }
        Some(Gravity::Stopped) => "SIGSTOP, SIGTSTP or a frozen container stop a process; SIGCONT lets it go on",
        None => "a larger `--timeout` gives cases more time",
        _ => return None,
    };
    Some(text.to_owned())
}

#[cfg(test)]
mod tests;

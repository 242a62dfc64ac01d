//! When a command stalls: no rank moves, while ranks wait for others or none of them works. Decides *when* to report;
//! `notice` words the report. A stall ends nothing: the command's deadline does.

mod notice;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use process::Activity;
use trace::OperationState;

pub(crate) use notice::{standing, tell};

/// Without movement for so long, a command has stalled.
const STILL: Duration = Duration::from_secs(10);

/// Between two looks, at most.
const LOOK: Duration = Duration::from_millis(500);

/// Less processor time than this, and than one part in a hundred, is that of heartbeats.
const BEATING: Duration = Duration::from_millis(20);

/// Fewer bytes than this are not a transfer.
const TRANSFER: u64 = 64 << 10;

/// What is known of a command that stalls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Which ranks wait in which operation, and which are not there.
    pub sentence: String,
    /// The stacks of those that are not there, and what becomes of the run; a line each.
    pub details: Vec<String>,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)?;
        self.details.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

/// Where stalls are reported: at most one for each command.
#[derive(Clone)]
pub struct OnStall {
    tell: Arc<dyn Fn(&Stall) + Send + Sync>,
    after: Duration,
    search: Arc<[PathBuf]>,
}

impl OnStall {
    /// Reports by `tell`. Programs that show Python's stack are looked for in these folders (the path).
    pub fn new(search: Vec<PathBuf>, tell: impl Fn(&Stall) + Send + Sync + 'static) -> Self {
        Self { tell: Arc::new(tell), after: STILL, search: search.into() }
    }

    /// After so long without movement, instead of 10 s.
    #[must_use]
    pub fn after(self, after: Duration) -> Self {
        Self { after, ..self }
    }
}

impl fmt::Debug for OnStall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OnStall").field("after", &self.after).finish_non_exhaustive()
    }
}

/// What one rank shows: any change counts as movement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RankProgress {
    pub(crate) operation: Option<OperationState>,
    /// The rank waits in an exchange through the coordinator.
    pub(crate) exchanging: bool,
    pub(crate) answered: bool,
}

impl RankProgress {
    /// Whether it waits for others, as far as can be seen.
    fn waits(&self) -> bool {
        !self.answered && (self.exchanging || self.operation.is_some_and(|operation| operation.inside))
    }

    /// Whether it has something to do by itself.
    fn is_free(&self) -> bool {
        !self.answered && !self.waits()
    }
}

/// What a rank does, as its host's kernel sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// The rank uses the processor.
    Computes,
    /// The rank reads or writes data.
    Transfers,
    /// The rank could run, and other processes have the cores.
    Queues,
    /// Nothing of these.
    Nothing,
    /// The rank is on another host.
    Unknown,
}

impl Doing {
    /// Between two readings, this long apart.
    fn between(before: Option<Activity>, after: Option<Activity>, time: Duration) -> Self {
        let (Some(before), Some(after)) = (before, after) else { return Self::Unknown };
        if after.computed.saturating_sub(before.computed) >= BEATING.max(time / 100) {
            Self::Computes
        } else if after.moved.saturating_sub(before.moved) >= TRANSFER {
            Self::Transfers
        } else if after.queued.saturating_sub(before.queued) >= time / 2 || before.runnable && after.runnable {
            Self::Queues
        } else {
            Self::Nothing
        }
    }
}

/// The watch over one command.
pub(crate) struct StallWatch {
    after: Duration,
    next_look: Instant,
    looked: Instant,
    /// For how long nothing has moved. Of the time between two looks no more counts than there should be: where this process
    /// was stopped, the ranks may have been, too.
    still: Duration,
    before: Vec<RankProgress>,
    /// What ranks had done at this time.
    activity: Option<(Instant, Vec<Option<Activity>>)>,
    reported: bool,
}

impl StallWatch {
    /// From now on. `patience`: ranks may do without movement for so long at least.
    pub(crate) fn new(now: Instant, on: &OnStall, patience: Duration) -> Self {
        let after = on.after.max(patience);
        let next_look = now + LOOK.min(after / 8);
        let (still, before) = (Duration::ZERO, Vec::new());
        Self { after, next_look, looked: now, still, before, activity: None, reported: false }
    }

    /// When to look again; None: never.
    pub(crate) fn next_look(&self) -> Option<Instant> {
        (!self.reported).then_some(self.next_look)
    }

    /// Looks at what the ranks show; `activity` reads what a rank has done. What each does, when the command has just been
    /// found to have stalled: once.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        seen: impl FnOnce() -> Vec<RankProgress>,
        activity: impl Fn(usize) -> Option<Activity>,
    ) -> Option<Vec<Doing>> {
        if self.reported || now < self.next_look {
            return None;
        }
        let period = LOOK.min(self.after / 8);
        let passed = now.saturating_duration_since(self.looked).min(2 * period);
        (self.looked, self.next_look) = (now, now + period);
        let seen = seen();
        if seen != self.before {
            (self.still, self.before, self.activity) = (Duration::ZERO, seen, None);
            return None;
        }
        self.still += passed;
        if self.still < self.after / 2 {
            return None;
        }
        let read = || (0..seen.len()).map(|rank| if seen[rank].answered { None } else { activity(rank) }).collect();
        let (since, before) = self.activity.get_or_insert_with(|| (now, read()));
        let time = now.saturating_duration_since(*since);
        if self.still < self.after || time < self.after / 4 {
            return None;
        }
        let activity: Vec<Option<Activity>> = read();
        let doing = |(before, after): (&Option<Activity>, &Option<Activity>)| Doing::between(*before, *after, time);
        let doing: Vec<Doing> = before.iter().zip(&activity).map(doing).collect();
        self.reported = is_stall(&seen, &doing);
        self.activity = Some((now, activity));
        self.reported.then_some(doing)
    }
}

/// Whether ranks that do not move have stalled: where some wait for others, they have; where none waits, those that have not
/// answered may have much to compute.
fn is_stall(seen: &[RankProgress], doing: &[Doing]) -> bool {
    let mut free = seen.iter().zip(doing).filter(|(seen, _)| seen.is_free()).map(|(_, doing)| *doing);
    seen.iter().any(RankProgress::waits) || free.all(|doing| doing == Doing::Nothing)
}

#[cfg(test)]
mod tests;

//! How long to wait for ranks: until all have answered, until the evidence against one is complete, or until the time
//! is over. Decides *when* to judge; `verdict` decides whom.

use std::time::{Duration, Instant};

use trace::OperationState;

use crate::member::{Answer, Member};
use crate::status::StatusPage;

/// Interval of heartbeat checks while nothing happens: the only wake-ups of the coordinator other than ranks' answers.
const LOOK: Duration = Duration::from_millis(500);

/// After a rank has ended: so long its peers have to show whether they died of the same cause, so that all are named.
const SETTLING: Duration = Duration::from_millis(50);

/// After a connection has ended: so long its process has to end too. Memory is freed before a process is reported dead,
/// which takes a while where there is much.
const LINGERING: Duration = Duration::from_secs(2);

/// After a rank has failed: its peers, seen waiting in an operation or exchange, wait for it in vain after this long.
const VAIN: Duration = Duration::from_secs(1);

/// As [`VAIN`], where its peers are not seen waiting: they may be filling a large buffer.
const VAIN_UNSEEN: Duration = Duration::from_secs(10);

/// What became of the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// The wait goes on.
    GoesOn,
    /// Every rank has answered.
    Over,
    /// A rank is lost; what there is to know about it is known.
    Evidence,
    /// The time is over.
    TimeOver,
}

/// One wait for the answers of all ranks.
pub(crate) struct AnswerWatch {
    deadline: Instant,
    next_look: Instant,
    /// When the first rank ended.
    ended: Option<Instant>,
    /// When the first connection ended while its process lived.
    lost: Option<Instant>,
    /// Since when nothing has moved after a rank failed, and what did not.
    still: Option<(Instant, Vec<Option<OperationState>>)>,
}

impl AnswerWatch {
    /// From now on, for at most `limit`.
    pub(crate) fn new(now: Instant, limit: Duration) -> Self {
        // A limit beyond what a clock can hold is none.
        let deadline = now.checked_add(limit).unwrap_or_else(|| now + Duration::from_secs(1 << 32));
        Self { deadline, next_look: now + LOOK, ended: None, lost: None, still: None }
    }

    /// When to look again even if nothing happens.
    pub(crate) fn next_look(&self) -> Instant {
        let settled = self.ended.map(|ended| ended + SETTLING);
        let lingered = self.lost.map(|lost| lost + LINGERING);
        let times = [Some(self.deadline), Some(self.next_look), settled, lingered];
        times.into_iter().flatten().min().unwrap_or(self.deadline)
    }

    /// Looks at the ranks.
    pub(crate) fn look(&mut self, members: &mut [Member], page: &StatusPage, now: Instant) -> Wait {
        if members.iter().any(|member| member.has_ended() || member.is_broken()) {
            let ended = *self.ended.get_or_insert(now);
            return if now >= ended + SETTLING { Wait::Evidence } else { Wait::GoesOn };
        }
        if members.iter().any(Member::is_lost) {
            let lost = *self.lost.get_or_insert(now);
            return if now >= lost + LINGERING { Wait::Evidence } else { Wait::GoesOn };
        }
        if members.iter().all(|member| member.answer().is_some()) {
            return Wait::Over;
        }
        if now >= self.deadline {
            return Wait::TimeOver;
        }
        if now >= self.next_look {
            self.next_look = now + LOOK;
            let stopped = members.iter_mut().zip(0..).any(|(member, rank)| member.has_stopped(page.slot(rank), now));
            if stopped {
                return Wait::Evidence;
            }
        }
        if self.waits_in_vain(members, page, now) { Wait::Evidence } else { Wait::GoesOn }
    }

    /// Whether a rank has failed and the others wait for it.
    fn waits_in_vain(&mut self, members: &mut [Member], page: &StatusPage, now: Instant) -> bool {
        if !members.iter().any(|member| matches!(member.answer(), Some(Answer::Failed(_)))) {
            return false;
        }
        let states: Vec<_> = (0..).take(members.len()).map(|rank| page.slot(rank).state()).collect();
        if self.still.as_ref().is_none_or(|(_, before)| *before != states) {
            self.still = Some((now, states));
        }
        let Some((since, states)) = &self.still else { return false };
        let waits = |(member, state): (&mut Member, &Option<OperationState>)| {
            member.answer().is_some() || member.exchange().is_some() || state.is_some_and(|state| state.inside)
        };
        let all_wait = members.iter_mut().zip(states).all(waits);
        let due = *since + if all_wait { VAIN } else { VAIN_UNSEEN };
        self.next_look = self.next_look.min(due.max(now));
        now >= due
    }
}

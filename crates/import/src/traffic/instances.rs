//! Which calls of different ranks are one call of the job, and how long it took without waiting.

use std::collections::HashMap;

use super::calls::{CallBytes, CallGroup, Place, RankCall, tells_waits};

/// Communicator, operation, and either the sequence, or the step and the place in it.
type CallKey<'t> = (CallGroup<'t>, &'t str, Option<Place>, u64);

/// One call of the job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instance {
    /// Ranks that it was found on.
    pub(super) members: u32,
    /// The shortest duration of a rank: moving bytes, without waiting. None where ranks do not leave together.
    pub(super) shortest_ns: Option<i64>,
    /// The most bytes of a rank, and whether a rank gives another number than it takes.
    pub(super) widest: Option<u64>,
    pub(super) is_uneven: bool,
}

/// All calls of the job, and which of them each call of a rank is of.
#[derive(Default)]
pub(super) struct Instances {
    pub(super) all: Vec<Instance>,
    /// By the place of the call.
    pub(super) of_call: Vec<usize>,
}

impl Instances {
    /// Matches calls by communicator, operation and sequence; without a sequence, by their order within a step.
    pub(super) fn of_calls(calls: &[RankCall<'_>]) -> Self {
        let mut found = Self::default();
        let mut known: HashMap<CallKey<'_>, usize> = HashMap::new();
        let mut orders: HashMap<(u32, CallGroup<'_>, &str, Place), u64> = HashMap::new();
        for call in calls {
            let key: CallKey<'_> = match call.sequence {
                Some(sequence) => (call.group, call.operation, None, sequence),
                None => {
                    let order = orders.entry((call.rank, call.group, call.operation, call.place)).or_default();
                    *order += 1;
                    (call.group, call.operation, Some(call.place), *order)
                }
            };
            let at = *known.entry(key).or_insert(found.all.len());
            if at == found.all.len() {
                found.all.push(Instance { members: 0, shortest_ns: None, widest: None, is_uneven: false });
            }
            found.all[at].add(call);
            found.of_call.push(at);
        }
        found
    }
}

impl Instance {
    fn add(&mut self, call: &RankCall<'_>) {
        self.members += 1;
        if let Some(duration) = call.duration_ns.filter(|_| tells_waits(call.operation)) {
            self.shortest_ns = Some(self.shortest_ns.map_or(duration, |shortest| shortest.min(duration)));
        }
        if let CallBytes::Whole(bytes) = call.size {
            self.widest = self.widest.max(Some(bytes));
        }
        self.is_uneven |= call.is_uneven;
    }

    /// Nanoseconds without waiting, where a second rank shows what waiting is.
    pub(super) fn transfer_ns(&self) -> Option<i64> {
        self.shortest_ns.filter(|_| self.members > 1)
    }
}

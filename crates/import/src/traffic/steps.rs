//! Which calls are of which step.

use std::collections::BTreeMap;

use trace::timeline::{Kind, RankTimeline, Span};

/// The steps of a rank: number, beginning and end, ascending in time. Of several spans of one number, the one on the lowest
/// queue counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Steps {
    windows: Vec<(u32, i64, i64)>,
    /// Whether kernels run behind the host, so that the last step's calls may begin after the host left it.
    has_device: bool,
}

impl Steps {
    pub(super) fn from_rank(rank: &RankTimeline) -> Self {
        let mut found: BTreeMap<u32, &Span> = BTreeMap::new();
        for span in rank.spans.iter().filter(|span| span.kind == Kind::Step && span.end_ns > span.begin_ns) {
            let kept = found.entry(span.number).or_insert(span);
            if span.queue < kept.queue {
                *kept = span;
            }
        }
        let mut windows: Vec<(u32, i64, i64)> =
            found.into_iter().map(|(number, span)| (number, span.begin_ns, span.end_ns)).collect();
        windows.sort_unstable_by_key(|(_, begin, _)| *begin);
        let has_device = rank.spans.iter().any(|span| matches!(span.kind, Kind::Kernel | Kind::Copy));
        Self { windows, has_device }
    }

    pub(super) fn count(&self) -> u64 {
        self.windows.len() as u64
    }

    /// The number of the step that a call which begins then is of. What runs between two steps is of the first of them.
    pub(super) fn step_at(&self, begin: i64) -> Option<u32> {
        let after = self.windows.partition_point(|(_, from, _)| *from <= begin);
        let (number, _, end) = self.windows.get(after.checked_sub(1)?)?;
        let is_last = after == self.windows.len();
        (!is_last || self.has_device || begin < *end).then_some(*number)
    }
}

#[cfg(test)]
mod tests {
    use trace::timeline::NameId;

    use super::*;

    fn rank(device: bool) -> RankTimeline {
        let mut rank = RankTimeline::default();
        rank.push(Kind::Step, NameId(0), 7, 100, 200);
        rank.push(Kind::Step, NameId(0), 8, 210, 300);
        // The same step as its device saw it.
        rank.spans.push(Span { queue: 3, ..rank.spans[0] });
        if device {
            rank.push(Kind::Kernel, NameId(0), 0, 150, 160);
        }
        rank.sort();
        rank
    }

    #[test]
    fn a_call_is_of_the_step_that_began_last() {
        let steps = Steps::from_rank(&rank(false));
        assert_eq!(steps.count(), 2);
        assert_eq!(
            [99, 100, 205, 210, 299, 300].map(|at| steps.step_at(at)),
            [None, Some(7), Some(7), Some(8), Some(8), None]
        );
        assert_eq!(Steps::from_rank(&rank(true)).step_at(350), Some(8), "a kernel runs behind the host");
    }
}

//! Steps that are made in addition to the samples, to record their spans: how many, and how they become a timeline.
//!
//! Batches with and without recording follow each other, so that what recording takes is measured, not assumed.

use trace::RankSteps;
use trace::timeline::{Recording, Timeline};

use crate::{ClockFit, StepTimes, apart_ns};

/// Steps of a batch.
const BATCH: u32 = 10;
/// Pairs of batches at least and at most: 40 and 1,000 recorded steps.
const FEWEST: f64 = 4.0;
const MOST: f64 = 100.0;
/// Batches where steps are slow: three of four steps are recorded.
const SLOW: [(u32, bool); 4] = [(2, false), (6, true), (6, true), (2, false)];
/// How often at least: fewer than 24 steps seldom carry a verdict on ranks.
const FEWEST_SLOW: f64 = 2.0;

/// Batches in their order: how many steps, and whether they are recorded. They take about so many seconds, and longer where
/// steps are so slow that too few would fit.
pub(crate) fn batches(step_s: f64, seconds: f64) -> Vec<(u32, bool)> {
    let step_s = step_s.max(1e-9);
    let pairs = seconds / (2.0 * f64::from(BATCH) * step_s);
    if pairs < FEWEST {
        let steps: u32 = SLOW.iter().map(|(steps, _)| steps).sum();
        let rounds = (seconds / (f64::from(steps) * step_s)).max(FEWEST_SLOW) as usize;
        return SLOW.repeat(rounds);
    }
    // A B B A: a slow change of the machine hits both alike.
    (0..2 * pairs.min(MOST) as usize).map(|batch| (BATCH, batch % 4 == 1 || batch % 4 == 2)).collect()
}

/// What batches gave so far.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    ranks: Vec<RankSteps>,
    recording: Recording,
    span_ns: f64,
}

impl Recorded {
    pub(crate) fn add(&mut self, batch: Vec<StepTimes>, is_recorded: bool) {
        let steps = batch.iter().map(|rank| rank.ns.len()).min().unwrap_or(0);
        let slowest = |step: usize| batch.iter().map(|rank| rank.ns[step]).max().unwrap_or(0) as f64 / 1e9;
        let times = if is_recorded { &mut self.recording.with_s } else { &mut self.recording.without_s };
        times.extend((0..steps).map(slowest));
        self.ranks.resize(batch.len(), RankSteps::default());
        for (all, more) in self.ranks.iter_mut().zip(batch) {
            self.span_ns = self.span_ns.max(more.span_ns);
            all.marks.extend(more.recorded.marks);
            all.lost += more.recorded.lost;
            all.descheduled.extend(more.recorded.descheduled);
            if is_recorded {
                all.exchanges = more.recorded.exchanges;
            }
        }
    }

    /// Everything by rank 0's clock. `one_host`: ranks have one clock.
    pub(crate) fn into_timeline(self, fits: Option<&[Option<ClockFit>]>, one_host: bool) -> Timeline {
        let error_ns = match fits {
            _ if one_host => Some(0),
            // By how it begins and ends: in between, clocks are known better.
            Some(fits) => {
                let marks = self.ranks.first().map_or(&[][..], |rank| &rank.marks);
                let ends = [marks.first().map(|mark| mark.begin_ns), marks.last().map(|mark| mark.end_ns)];
                let apart = ends.into_iter().flatten().map(|at| apart_ns(fits, at));
                Some(apart.fold(0.0, f64::max).ceil() as u64)
            }
            None => None,
        };
        let here = |rank: usize, ns: u64| match fits.and_then(|fits| fits.get(rank)) {
            Some(Some(fit)) => fit.here(ns),
            _ => ns,
        };
        let mut timeline = trace::timeline_of_steps(&self.ranks, error_ns, here);
        timeline.recording = Some(Recording { span_ns: Some(self.span_ns), ..self.recording });
        timeline
    }
}

#[cfg(test)]
mod tests {
    use trace::Mark;
    use trace::timeline::{Kind, NO_CALL};

    use super::*;

    #[test]
    fn as_many_steps_as_there_is_time_for_and_recorded_ones_between_others() {
        let recorded = |batches: &[(u32, bool)]| batches.iter().map(|batch| batch.1).collect::<Vec<_>>();
        assert_eq!(recorded(&batches(0.05, 5.0)), [false, true, true, false, false, true, true, false, false, true]);
        // Slow steps: as many as a verdict needs, and more where there is time.
        let steps = |batches: &[(u32, bool)], is_recorded: bool| -> u32 {
            batches.iter().filter(|batch| batch.1 == is_recorded).map(|batch| batch.0).sum()
        };
        let (slow, quicker) = (batches(2.0, 15.0), batches(0.1, 5.0));
        assert_eq!((steps(&slow, true), steps(&slow, false)), (24, 8));
        assert_eq!((steps(&quicker, true), steps(&quicker, false)), (36, 12));
        assert_eq!(batches(0.001, 2.0).len(), 200);
        assert_eq!(batches(0.0, 1.0).len(), 200);
        let in_time = batches(0.01, 3.0);
        assert_eq!(in_time.iter().filter(|batch| batch.1).count() * 2, in_time.len());
        assert_eq!(in_time.len(), 30);
    }

    #[test]
    fn batches_join_and_the_slowest_rank_counts() {
        let mark = |begin_ns| Mark { kind: Kind::Step, number: 1, begin_ns, end_ns: begin_ns + 5, exchange: NO_CALL };
        let rank = |ns: [u64; 2], begin_ns| StepTimes {
            ns: ns.to_vec(),
            recorded: RankSteps { marks: vec![mark(begin_ns)], lost: 1, ..RankSteps::default() },
            span_ns: 30.0,
        };
        let mut all = Recorded::default();
        all.add(vec![rank([1, 5], 0), rank([3, 2], 1)], true);
        all.add(vec![rank([7, 7], 20), rank([6, 6], 21)], true);
        all.add(vec![StepTimes { ns: vec![4], ..StepTimes::default() }; 2], false);
        let timeline = all.into_timeline(None, true);
        let recording = timeline.recording.unwrap();
        assert_eq!((recording.with_s, recording.without_s), (vec![3e-9, 5e-9, 7e-9, 7e-9], vec![4e-9]));
        assert_eq!((timeline.clock_error_ns, recording.span_ns), (Some(0), Some(30.0)));
        assert_eq!((timeline.ranks[1].spans.len(), timeline.ranks[1].lost), (2, 2));
    }
}

//! Where the time of each step goes, rank by rank.

use serde::Serialize;
use trace::timeline::RankTimeline;

use super::lanes::{CommonSteps, Lanes};
use super::series::Series;

/// The steps that all ranks have.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Steps {
    /// Numbers of the steps in the job, ascending. Every series has one value for each of them.
    pub numbers: Vec<u32>,
    /// The step that was left out as warm-up: the first, where there are at least four.
    pub warm_up: Option<u32>,
    /// Step time: the largest over ranks of each step.
    pub step: Series,
    /// Rank by rank.
    pub ranks: Vec<RankSteps>,
}

/// The steps of one rank. `input + forward + backward + optimizer + wait + other = total` in every step.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RankSteps {
    /// Which rank.
    pub rank: u32,
    /// Where it ran.
    pub host: Option<String>,
    /// From beginning to end.
    pub total: Series,
    /// Waiting for data.
    pub input: Series,
    /// Forward pass, without waits.
    pub forward: Series,
    /// Backward pass, without waits.
    pub backward: Series,
    /// Optimizer, without waits.
    pub optimizer: Series,
    /// The step's thread is blocked on communication.
    pub wait: Series,
    /// The rest of the step: launches, Python, descheduling.
    pub other: Series,
    /// Time lost to communication: equal to `wait` on a rank without kernels; with kernels, communication that no kernel
    /// overlaps.
    pub blocked: Series,
    /// Time with a kernel on the device; None without kernels.
    pub device: Option<Series>,
    /// Time that the device is idle while the step's thread waits for data, without `blocked`; None without kernels.
    pub device_input: Option<Series>,
    /// The part of `other` that comes before the step's first forward pass.
    pub before_forward: Series,
    /// Time that the step's thread waited for a processor outside of waits for communication; None where the trace does not say.
    pub descheduled: Option<Series>,
}

impl Steps {
    /// Seconds of a step: the time of all steps over their number, mean over ranks. The longest rank of each step would count a
    /// pause twice, for which the others wait in the next step.
    pub fn mean_s(&self) -> f64 {
        self.ranks.iter().map(|rank| rank.total.mean()).sum::<f64>() / self.ranks.len().max(1) as f64
    }

    /// The option that records four times as many steps as these, for our own ranks or for those of a job.
    pub(super) fn more(&self, source: &str) -> String {
        if source == trace::timeline::SOURCE {
            return "a `--duration` four times as long".to_owned();
        }
        let first = self.warm_up.or(self.numbers.first().copied()).unwrap_or(10);
        format!("`--steps {first}:{}`", first + (4 * self.numbers.len() as u32).max(200))
    }

    /// The share of the time of all steps that so many seconds a step are, from 0 to 1. Every share of an analysis is made here, so
    /// that sentences, findings and tables agree.
    pub fn share(&self, seconds_per_step: f64) -> f64 {
        let mean = self.mean_s();
        if mean > 0.0 { (seconds_per_step / mean).clamp(0.0, 1.0) } else { 0.0 }
    }
}

impl RankSteps {
    /// Time lost to waiting for data: `device_input` where the rank has kernels, since a device that computes meanwhile loses
    /// nothing, else `input`.
    pub fn lost_to_input(&self) -> &Series {
        self.device_input.as_ref().unwrap_or(&self.input)
    }

    /// Own work of each step: `total - blocked`. Works without aligned clocks.
    pub fn work(&self) -> Vec<f64> {
        self.total.values.iter().zip(&self.blocked.values).map(|(total, blocked)| total - blocked).collect()
    }

    /// Own work without the time that the step's thread waited for a processor, if the trace says it. Off its processor a rank does not work.
    pub(super) fn on_processor(&self) -> Vec<f64> {
        let work = self.work();
        match &self.descheduled {
            Some(waited) => work.iter().zip(&waited.values).map(|(work, waited)| (work - waited).max(0.0)).collect(),
            None => work,
        }
    }
}

/// Measures all steps.
pub(super) fn steps(prepared: &CommonSteps) -> Steps {
    let ranks: Vec<RankSteps> = prepared.ranks.iter().map(|lanes| of_rank(lanes, &prepared.numbers)).collect();
    let longest = |place: usize| ranks.iter().map(|rank| rank.total.values[place]).fold(0.0, f64::max);
    let step = Series::new((0..prepared.numbers.len()).map(longest).collect());
    Steps { numbers: prepared.numbers.clone(), warm_up: prepared.warm_up, step, ranks }
}

/// Waiting for a processor in each of these steps; None where one of them lacks it.
fn descheduled(timeline: &RankTimeline, numbers: &[u32]) -> Option<Series> {
    let known = &timeline.descheduled;
    let seconds = |number: &u32| {
        known.binary_search_by_key(number, |(number, _)| *number).ok().map(|at| known[at].1 as f64 * 1e-9)
    };
    (!known.is_empty()).then(|| numbers.iter().map(seconds).collect::<Option<Vec<f64>>>()).flatten().map(Series::new)
}

fn of_rank(lanes: &Lanes, numbers: &[u32]) -> RankSteps {
    let total = lanes.windows.iter().map(|[begin, end]| (end - begin) as f64 * 1e-9).collect();
    let parts = [&lanes.input, &lanes.forward, &lanes.backward, &lanes.optimizer, &lanes.waits];
    let [input, forward, backward, optimizer, wait] = parts.map(|part| lanes.per_step(part));
    // In whole nanoseconds: equal steps have an equal rest.
    let rest = |[begin, end]: &[i64; 2]| {
        let named: i64 = parts.iter().map(|part| part.within(*begin, *end)).sum();
        (end - begin - named) as f64 * 1e-9
    };
    let other = lanes.windows.iter().map(rest).collect();
    RankSteps {
        rank: lanes.timeline.rank,
        host: lanes.timeline.host.clone(),
        other: Series::new(other),
        total: Series::new(total),
        input: Series::new(input),
        forward: Series::new(forward),
        backward: Series::new(backward),
        optimizer: Series::new(optimizer),
        wait: Series::new(wait),
        blocked: Series::new(lanes.per_step(&lanes.blocked)),
        descheduled: descheduled(lanes.timeline, numbers),
        device: lanes.has_device().then(|| Series::new(lanes.per_step(&lanes.kernels))),
        device_input: lanes.has_device().then(|| {
            let taken = lanes.kernels.or(&lanes.blocked);
            Series::new(lanes.per_step(&lanes.input.minus(&taken)))
        }),
        before_forward: Series::new(lanes.before_forward()),
    }
}

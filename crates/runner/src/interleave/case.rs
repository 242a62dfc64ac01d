//! One case of both sides: its pairs, when one looks at them, and when it ends.

use benchmarks::{Sampling, is_simulated};
use measure::{CaseRun, Settings, Trial};
use record::{Case, CaseLine};
use stats::{FEWEST_PAIRS, Looks, MOST_PAIRS, PairedRatio};
use terms::Status;
use view::Compared;

use super::Matched;
use crate::lines::unmeasured;
use crate::of_side;

/// A slice takes this part of the case's time, and at most so long: more pairs tell more than longer slices.
const SLICE_SHARE: f64 = 1.0 / 240.0;
const SLICE_S: [f64; 2] = [0.005, 0.1];
/// Pairs after which it is known how long one takes. The first one, which looks at more, is left out of that.
const TIMED: usize = 3;

/// A case of both sides.
pub(super) struct PairCase {
    /// The cases as the record has them.
    pub(super) kept: [Case; 2],
    pub(super) runs: [CaseRun; 2],
    pub(super) lines: [Option<CaseLine>; 2],
    pub(super) logs: Vec<f64>,
    /// Pairs with their time booked.
    timed: usize,
    pub(super) open: bool,
    /// Whether the run was ended before anything decided it.
    pub(super) cut_short: bool,
    looks: Looks,
    family: usize,
    looked: Vec<u32>,
    ratio: Option<PairedRatio>,
    reason: Option<String>,
    /// Wrong elements of what was sampled before the first slice belong to the first trial.
    pilots: [Option<Trial>; 2],
    /// Seconds that it may take, that it has taken, and those of each pair.
    max_seconds: f64,
    spent_s: f64,
    laps: Vec<f64>,
    /// The most pairs that the plan asks for.
    asked: usize,
}

impl PairCase {
    pub(super) fn new(sides: &Matched, family: usize, max_seconds: f64) -> Self {
        let run =
            |side: usize| CaseRun::new(&sides[side], settings(&sides[side], max_seconds), is_simulated(&sides[side]));
        let asked = sides.iter().filter_map(|case| case.trials()).min();
        let asked = asked.map_or(MOST_PAIRS, |pairs| (pairs as usize).clamp(FEWEST_PAIRS, MOST_PAIRS));
        Self {
            kept: [of_side(&sides[0], 0), of_side(&sides[1], 1)],
            runs: [run(0), run(1)],
            lines: [None, None],
            logs: Vec::new(),
            timed: 0,
            open: true,
            cut_short: false,
            looks: Looks::new(asked, family),
            family,
            looked: Vec::new(),
            ratio: None,
            reason: None,
            pilots: [None, None],
            max_seconds,
            spent_s: 0.0,
            laps: Vec::new(),
            asked,
        }
    }

    /// Whether all times are computed and the same in every pair.
    fn is_exact(&self) -> bool {
        self.runs.iter().all(|run| run.settings.exact)
    }

    /// Whether a pair was made and its time is not booked yet.
    pub(super) fn has_new_pair(&self) -> bool {
        self.logs.len() > self.timed
    }

    pub(super) fn piloted(&mut self, side: usize, pilot: Trial) {
        self.pilots[side] = Some(pilot);
    }

    /// The first trial of a side with what its pilot found wrong.
    pub(super) fn with_pilot(&mut self, side: usize, mut trial: Trial) -> Trial {
        if let Some(pilot) = self.pilots[side].take() {
            trial.wrong.splice(0..0, pilot.wrong);
        }
        trial
    }

    /// A pair is made that took so long, its share of starting worlds included: looks where a look is due, and ends where the
    /// look decides or no further pair is possible.
    pub(super) fn after_pair(&mut self, seconds: f64, decides: &dyn Fn([f64; 2]) -> bool) {
        self.timed = self.logs.len();
        self.spent_s += seconds;
        self.laps.push(seconds);
        let pairs = self.logs.len();
        if self.is_exact() {
            let mid = self.logs[0].exp();
            self.ratio = Some(PairedRatio { mid, ends: [mid; 2], smallest: 0.0 });
            self.looked.push(pairs as u32);
            return self.close(None);
        }
        if pairs == TIMED {
            self.plan_looks();
        }
        let simulated = self.runs.iter().all(|run| run.simulated);
        let spent = !simulated && pairs >= FEWEST_PAIRS && self.spent_s >= self.max_seconds;
        if spent || self.looks.is_due(pairs) {
            self.look();
            let decided = self.ratio.is_some_and(|ratio| decides(ratio.ends));
            if decided || spent || pairs >= self.looks.most() {
                self.close(None);
            }
        }
    }

    /// Looks for as many pairs as the time holds. No ratio was looked at yet, so they may follow from the time of pairs.
    fn plan_looks(&mut self) {
        let later = &self.laps[1..];
        let each = later.iter().sum::<f64>() / later.len() as f64;
        let left = (self.max_seconds - self.spent_s).max(0.0);
        let simulated = self.runs.iter().all(|run| run.simulated);
        let possible = if simulated { MOST_PAIRS } else { self.logs.len() + (left / each.max(1e-9)) as usize };
        self.looks = Looks::new(possible.min(self.asked), self.family);
    }

    /// Looks at the ratio.
    pub(super) fn look(&mut self) {
        self.ratio = self.looks.ratio(&self.logs);
        self.looked.extend(self.ratio.map(|_| self.logs.len() as u32));
    }

    pub(super) fn close(&mut self, reason: Option<String>) {
        self.open = false;
        self.reason = reason;
    }

    pub(super) fn compared(&self) -> Compared {
        let line = |side: usize| {
            let none = || unmeasured(&self.kept[side], Status::NotRun, "not run yet".to_owned());
            self.lines[side].clone().unwrap_or_else(none)
        };
        Compared {
            lines: [line(0), line(1)],
            logs: self.logs.clone(),
            ratio: self.ratio,
            looks: self.looked.clone(),
            most: self.looks.most(),
            closed: !self.open,
            reason: self.reason.clone(),
        }
    }
}

/// Slices instead of trials: as many as the most pairs have.
fn settings(case: &Case, max_seconds: f64) -> Settings {
    let slice = (max_seconds * SLICE_SHARE).clamp(SLICE_S[0], SLICE_S[1]);
    let slices = 2 * MOST_PAIRS as u32;
    // The limit of the machine says nothing of the ratio, and takes time of the pairs. A gate may ask for it.
    let gates = Sampling::of(case).map(|sampling| sampling.expect).unwrap_or_default();
    let limits = gates.iter().any(|gate| gate.contains("limit"));
    let of_case = crate::settings_of(case, benchmarks::trial_cost(case));
    Settings {
        target: 0.0,
        max_seconds: slice * f64::from(slices),
        trials: Some(slices),
        quick: false,
        spacing: std::time::Duration::ZERO,
        limits: limits && of_case.limits,
        ..of_case
    }
}

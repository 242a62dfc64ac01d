//! The case line: what one case measured, one JSON object a line.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use terms::{Mode, Status};

use crate::schema::words::{HEX_12, Scalar, SchemaWords};
use crate::{Case, CaseState, Caveat, SharedMap};

/// Times of a case in seconds; percentiles are of samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimeSummary {
    /// Median of the medians of trials (of a sample, the maximum over ranks).
    pub median: f64,
    /// 95% interval of the median over this run's own span; absent below six trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<[f64; 2]>,
    /// 95% interval of what an equal run soon after shows; absent where the trials are too few or too correlated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95_again: Option<[f64; 2]>,
    /// 95% interval of what an equal run shows, from the scatter of earlier runs of the case on this machine; absent where
    /// the trials tell it, or fewer than three such runs were found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95_earlier: Option<[f64; 2]>,
    /// Earlier runs that this interval comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier_runs: Option<u32>,
    /// Mean of the means of trials; as the rest, absent where another program measured and does not give it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// Standard deviation, where another program measured and gives it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub std: Option<f64>,
    /// 5th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p05: Option<f64>,
    /// 50th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    /// 95th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95: Option<f64>,
    /// 99th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
    /// 99.9th percentile; absent below 1,000 samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p999: Option<f64>,
    /// Smallest sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Largest sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
}

/// An element that is not what it should be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WrongElement {
    /// On which rank.
    pub rank: u32,
    /// At which element of its output.
    pub index: u64,
    /// What it should be.
    pub expected: String,
    /// What it is.
    pub got: String,
}

/// What a printed interval rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IntervalSource {
    /// The trials of the run: it holds the median of an equal run.
    Trials,
    /// So many earlier runs: it holds the median of an equal run, too.
    EarlierRuns(u32),
    /// The trials of the run, which tell of its own span alone.
    OwnSpan,
}

impl TimeSummary {
    /// The interval that is printed, and what it rests on: where it is known, the one of an equal run.
    pub fn printed(&self) -> Option<([f64; 2], IntervalSource)> {
        let again = self.ci95_again.map(|ends| (ends, IntervalSource::Trials));
        let earlier = || Some((self.ci95_earlier?, IntervalSource::EarlierRuns(self.earlier_runs.unwrap_or(0))));
        again.or_else(earlier).or_else(|| Some((self.ci95?, IntervalSource::OwnSpan)))
    }

    /// Low and high end of the printed interval; the median itself where there is none.
    pub fn ends(&self) -> [f64; 2] {
        self.printed().map_or([self.median; 2], |(ends, _)| ends)
    }
}

/// The machine's limit for a case: the time of the memory traffic that a call cannot avoid.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Limit {
    /// The loop that was fastest.
    pub variant: String,
    /// Time of the ceiling, in seconds of one call: of the fastest probes, so that a neighbour does not move it.
    pub time_s: f64,
    /// Interval of the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci95: Option<[f64; 2]>,
    /// The time of the ceiling over the time of the case.
    pub share: f64,
    /// 95% interval of the share; absent below six trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_ci95: Option<[f64; 2]>,
    /// The median of time of the probe over time of the case, trial by trial. It compares runs on a machine that changes: what
    /// slows both does not move it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paired_share: Option<f64>,
    /// 95% interval of the paired share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paired_share_ci95: Option<[f64; 2]>,
    /// Why no share of it is shown, where nothing on this machine can be as fast; absent where the ceiling is possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<String>,
}

terms::named! {
    /// In which rank processes the trials of a case ran.
    pub enum WorldUse("use of worlds") {
        /// Started for each round.
        Fresh = "fresh",
        /// Started once for the whole run, because starting them is expensive.
        Kept = "kept",
        /// Some trials in those of the trial before, some in others.
        Mixed = "mixed",
    }
}

/// How the clock of a host ran against that of rank 0's host during a case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct HostClock {
    /// The host.
    pub host: String,
    /// By how much its clock was ahead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset_ns: Option<i64>,
    /// By how many millionths it ran faster; 0 where that was not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift_ppm: Option<f64>,
    /// The largest error of the offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub residual_ns: Option<f64>,
    /// Why it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// One line of `cases.jsonl`. Absent values are omitted; there is no NaN.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "case_line", deny_unknown_fields)]
pub struct CaseLine {
    /// Version of this form.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: u32,
    /// The case's identity: 12 hex digits of SHA-256 over the benchmark and its parameters.
    #[schemars(regex(pattern = HEX_12))]
    pub id: String,
    /// The benchmark's name.
    pub benchmark: String,
    /// What was measured: the case's identity.
    #[schemars(with = "BTreeMap<String, Scalar>")]
    pub parameters: SharedMap,
    /// How it ended.
    #[schemars(with = "SchemaWords<Status>")]
    pub status: Status,
    /// Why, for every status but ok.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Repeated from the parameters.
    #[schemars(range(min = 1))]
    pub ranks: u32,
    /// Hosts that the ranks were on; absent where it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2))]
    pub hosts: Option<u32>,
    /// Hosts of the two ranks between which a call goes (`ping_pong`), where `hosts` are several: 1, within a host, or 2.
    /// Absent where all ranks take part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 2))]
    pub pair_hosts: Option<u32>,
    /// Who executed the ranks.
    pub runtime: String,
    /// Repeated from the parameters.
    pub backend: String,
    /// Repeated from the parameters.
    pub device: String,
    /// Repeated from the parameters (`dtype`, or `precision` in training).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dtype: Option<String>,
    /// Repeated from the parameters.
    #[schemars(with = "SchemaWords<Mode>")]
    pub mode: Mode,
    /// The message size S, as used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The message size S, as asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_requested: Option<u64>,
    /// Samples kept, over all trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// Calls that one sample's time was divided by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls_per_sample: Option<u64>,
    /// Trials: visits to the case, each with one median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trials: Option<u32>,
    /// Seconds from the start of the first trial to the end of the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span_s: Option<f64>,
    /// In which rank processes the trials ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<SchemaWords<WorldUse>>")]
    pub worlds: Option<WorldUse>,
    /// Times of one call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_s: Option<TimeSummary>,
    /// Median of each rank's own samples, in rank order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_rank_median_s: Option<Vec<f64>>,
    /// Median of the samples of each trial, in their order; of those in `state`, where there are several states.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trial_median_s: Vec<f64>,
    /// The round of the run that each trial belongs to: cases of one run are compared round by round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trial_round: Vec<u32>,
    /// The state of the machine that these times are of, where the run saw several: that of most of its trials, or of most of
    /// the case's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Times in each state in which the case has trials, where the run saw several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub states: Vec<CaseState>,
    /// The machine's limit, where it was measured. Boxed: most lines of a large record have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<Box<Limit>>,
    /// Clocks of the other hosts; empty where ranks were on one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clocks: Vec<HostClock>,
    /// Isolated mode over several hosts: by how much the agreed instant may differ between two ranks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_apart_s: Option<f64>,
    /// The declared metrics of the benchmark, in their order.
    #[serde(flatten)]
    #[schemars(skip)]
    pub metrics: SharedMap,
    /// Wrong elements on all ranks; absent where nothing was checked because nothing ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrong: Option<u64>,
    /// The first of the wrong elements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wrong_elements: Vec<WrongElement>,
    /// Gates (`expect`) that were missed, each with the value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates_missed: Vec<String>,
    /// Reasons to read the figures with care.
    #[schemars(with = "Vec<SchemaWords<Caveat>>")]
    pub caveats: Vec<Caveat>,
    /// Whether the times were computed and never measured.
    pub simulated: bool,
}

/// The version of case lines and run files that this program writes.
pub const SCHEMA: u32 = 1;
/// Wrong elements that a line names: the first of each rank, then the second, ...
pub const MOST_WRONG_ELEMENTS: usize = 16;

impl CaseLine {
    /// A line of this case with nothing measured.
    pub fn unmeasured(case: &Case, status: Status, reason: impl Into<String>) -> Self {
        Self {
            schema: SCHEMA,
            id: case.id.clone(),
            benchmark: case.benchmark.clone(),
            parameters: case.parameters.clone(),
            status,
            // It may quote what a rank or another program wrote.
            reason: Some(crate::masked(&reason.into())),
            ranks: case.ranks(),
            hosts: None,
            pair_hosts: None,
            runtime: case.runtime().to_owned(),
            backend: case.backend().unwrap_or_default().to_owned(),
            device: case.device().unwrap_or_default().to_owned(),
            dtype: case.dtype().map(str::to_owned),
            mode: case.mode(),
            bytes: case.bytes(),
            bytes_requested: case.bytes_requested.or_else(|| case.bytes()),
            samples: None,
            calls_per_sample: None,
            trials: None,
            span_s: None,
            worlds: None,
            time_s: None,
            per_rank_median_s: None,
            trial_median_s: Vec::new(),
            trial_round: Vec::new(),
            state: None,
            states: Vec::new(),
            limit: None,
            clocks: Vec::new(),
            starts_apart_s: None,
            metrics: SharedMap::default(),
            wrong: None,
            wrong_elements: Vec::new(),
            gates_missed: Vec::new(),
            caveats: case.caveats.clone(),
            simulated: false,
        }
    }

    /// The medians of trials of this case and of another of the same run, of the rounds that both took part in.
    pub fn paired_trials(&self, other: &Self) -> (Vec<f64>, Vec<f64>) {
        let rounds = &self.trial_round;
        let has_all = |line: &Self| line.trial_round == *rounds && line.trial_median_s.len() == rounds.len();
        // Mostly both took part in all rounds.
        if rounds.is_sorted_by(|one, next| one < next) && has_all(self) && has_all(other) {
            return (self.trial_median_s.clone(), other.trial_median_s.clone());
        }
        let medians = |line: &Self| -> std::collections::BTreeMap<u32, f64> {
            line.trial_round.iter().copied().zip(line.trial_median_s.iter().copied()).collect()
        };
        let theirs = medians(other);
        medians(self).into_iter().filter_map(|(round, own)| Some((own, *theirs.get(&round)?))).unzip()
    }

    /// Whether this line stands for its case in place of one that was written earlier: the one with more trials, of two that
    /// have a result. A resumed run begins a case again, and may be killed before it has as many trials as it had.
    pub fn replaces(&self, earlier: &Self) -> bool {
        let is_result = |line: &Self| line.status == Status::Ok && line.time_s.is_some();
        let worth = |line: &Self| (!line.caveats.contains(&Caveat::Preliminary), line.trials);
        !(is_result(self) && is_result(earlier)) || worth(self) >= worth(earlier)
    }

    /// Whether it is the result of some of the trials that its case was to have: the run still goes on, or it ended early.
    pub fn lacks_trials(&self) -> bool {
        self.status == Status::Ok && self.caveats.contains(&Caveat::Preliminary)
    }

    /// A metric's value, if it is a number.
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.metrics.get(name)?.as_f64()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(rounds: &[u32], medians: &[f64]) -> CaseLine {
        let line = json!({
            "schema": 1, "id": "0", "benchmark": "x", "parameters": {}, "status": "ok", "ranks": 2, "runtime": "native",
            "backend": "shm", "device": "cpu", "mode": "streaming", "caveats": [], "simulated": false,
            "trial_round": rounds, "trial_median_s": medians,
        });
        serde_json::from_value(line).unwrap()
    }

    #[test]
    fn trials_are_paired_by_their_rounds() {
        let all = line(&[0, 1, 2], &[1.0, 2.0, 3.0]);
        let pairs = |other: &CaseLine| all.paired_trials(other);
        assert_eq!(pairs(&line(&[0, 1, 2], &[4.0, 5.0, 6.0])), (vec![1.0, 2.0, 3.0], vec![4.0, 5.0, 6.0]));
        assert_eq!(pairs(&line(&[1, 3], &[5.0, 7.0])), (vec![2.0], vec![5.0]));
        assert_eq!(pairs(&line(&[0, 1, 2], &[4.0])), (vec![1.0], vec![4.0]), "a line without all medians");
        // Of two trials of one round, the last.
        let twice = line(&[0, 0], &[1.0, 2.0]);
        assert_eq!(twice.paired_trials(&twice), (vec![2.0], vec![2.0]));
    }
}

//! A case that is measured interleaved: the lines of both sides, and the ratio as far as it is known.

use record::{Case, CaseLine, ComparedCase};
use serde_json::{Map, Value, json};
use stats::PairedRatio;
use terms::Status;

/// One case of both sides, and how it compares.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The last line of A, and of B.
    pub lines: [CaseLine; 2],
    /// Natural logarithm of time B over time A, one a pair.
    pub logs: Vec<f64>,
    /// The ratio; None below [`stats::FEWEST_PAIRS`].
    pub ratio: Option<PairedRatio>,
    /// Numbers of pairs after which the ratio was looked at.
    pub looks: Vec<u32>,
    /// The most pairs that it may take, as far as is known.
    pub most: usize,
    /// Whether no further pair is made.
    pub closed: bool,
    /// Why it ended otherwise than by a decision or by the most pairs.
    pub reason: Option<String>,
}

impl Compared {
    /// How the case ended: of two sides that ended otherwise, what says more.
    pub fn status(&self) -> Status {
        let of = |status: &Status| self.lines.iter().any(|line| line.status == *status);
        [Status::Failed, Status::Skipped, Status::NotRun].into_iter().find(of).unwrap_or(Status::Ok)
    }

    /// What the record keeps of it. A change within `threshold` is none; `verdict` is the word for an interval of the ratio.
    pub fn kept(
        &self,
        sides: &[Case; 2],
        threshold: f64,
        verdict: impl FnOnce(Option<[f64; 2]>) -> String,
    ) -> ComparedCase {
        let [a, b] = [&sides[0].parameters, &sides[1].parameters];
        let parameters = a.iter().filter(|(name, value)| b.get(name) == Some(*value));
        let parameters = parameters.map(|(name, value)| (name.to_owned(), value.clone())).collect();
        let names = a.keys().chain(b.keys().filter(|name| !a.contains_key(name)));
        let differs: Map<String, Value> = names
            .filter(|name| a.get(name) != b.get(name))
            .map(|name| (name.to_owned(), json!([a.get(name), b.get(name)])))
            .collect();
        let status = self.status();
        let times = self.lines[0].time_s.as_ref().zip(self.lines[1].time_s.as_ref());
        // Times of wrong results are not times, and those of a side that failed halfway may be the fault's work.
        let ratio = self.ratio.filter(|_| status == Status::Ok);
        let failed = self.lines.iter().find(|line| line.status == status).and_then(|line| line.reason.clone());
        ComparedCase {
            benchmark: sides[0].benchmark.clone(),
            parameters,
            differs,
            ids: [self.lines[0].id.clone(), self.lines[1].id.clone()],
            status,
            reason: self.reason.clone().or(failed),
            time_s: times.map(|(a, b)| [a.median, b.median]),
            log_ratios: self.logs.clone(),
            ratio: ratio.map(|ratio| ratio.mid),
            ratio_ci95: ratio.map(|ratio| ratio.ends),
            // A change within the threshold is none, however well it is known.
            smallest_change: ratio.map(|ratio| ratio.smallest.max(threshold)),
            looks: self.looks.clone(),
            verdict: verdict(ratio.map(|ratio| ratio.ends)),
        }
    }
}

//! What cases of start-up say of each other: the first call and a later one, cold and warm, many communicators and few.

use contract::Firsts;
use record::CaseLine;
use serde_json::{Map, Value};

use super::declared::{COLD_OVER_WARM, FIRST_OVER_LATER, GROWTH, LATER_S, Ratio};
use super::fields::{Stage, Start};

/// The lines of a run that others are compared with.
pub(super) struct StartupBaselines<'a> {
    later: Firsts<'a>,
    warm: Firsts<'a>,
    /// With the fewest communicators open.
    fewest: Firsts<'a>,
}

fn word<T: terms::Named>(line: &CaseLine, name: &str) -> Option<T> {
    T::from_name(line.parameters.get(name)?.as_str()?)
}

pub(super) fn stage(line: &CaseLine) -> Option<Stage> {
    word(line, "stage")
}

pub(super) fn start(line: &CaseLine) -> Option<Start> {
    word(line, "start")
}

/// Communicators that were open.
pub(super) fn open(line: &CaseLine) -> u64 {
    line.parameters.get("communicators").and_then(Value::as_u64).unwrap_or(0)
}

impl<'a> StartupBaselines<'a> {
    pub(super) fn from_lines(all: &[&'a CaseLine]) -> Self {
        let of = |wanted: Stage| all.iter().copied().filter(move |line| stage(line) == Some(wanted));
        let mut communicators: Vec<&CaseLine> = of(Stage::Communicator).collect();
        communicators.sort_by_key(|line| open(line));
        let warm = all.iter().copied().filter(|line| start(line) == Some(Start::Warm));
        Self {
            later: Firsts::new(&["stage", "start"], of(Stage::LaterCall)),
            warm: Firsts::new(&["start"], warm),
            fewest: Firsts::new(&["communicators"], communicators),
        }
    }

    /// What a line says in relation to the others.
    pub(super) fn of_line(&self, line: &CaseLine) -> Map<String, Value> {
        let mut found = Map::new();
        if let (Some(Stage::FirstCall), Some(later)) = (stage(line), self.later.like(line)) {
            if let Some(time) = &later.time_s {
                LATER_S.put(&mut found, time.median);
            }
            ratio(line, later).into_iter().for_each(|ratio| FIRST_OVER_LATER.put(&mut found, ratio));
        }
        if let (Some(Start::Cold), Some(warm)) = (start(line), self.warm.like(line)) {
            ratio(line, warm).into_iter().for_each(|ratio| COLD_OVER_WARM.put(&mut found, ratio));
        }
        if let (Some(Stage::Communicator), Some(fewest)) = (stage(line), self.fewest.like(line))
            && open(fewest) < open(line)
        {
            ratio(line, fewest).into_iter().for_each(|ratio| GROWTH.put(&mut found, ratio));
        }
        found
    }
}

/// The time of a line over that of another, by trials of the same rounds.
fn ratio(line: &CaseLine, other: &CaseLine) -> Option<Ratio> {
    let (own, others) = line.paired_trials(other);
    let ratio = stats::paired_ratio(&own, &others)?;
    Some(Ratio { value: ratio.mid, ci95: ratio.ends })
}

#[cfg(test)]
mod tests {
    use record::TimeSummary;
    use serde_json::json;
    use terms::Status;

    use super::*;

    fn line(parameters: Value, medians: &[f64]) -> CaseLine {
        let case = json!({"id": parameters.to_string(), "benchmark": "startup", "parameters": parameters, "settings": {},
            "world": {}, "caveats": [], "bytes_requested": null, "skip": null});
        CaseLine {
            trial_round: (0..medians.len() as u32).collect(),
            trial_median_s: medians.to_vec(),
            time_s: Some(TimeSummary { median: stats::median(medians), ..TimeSummary::default() }),
            ..CaseLine::unmeasured(&serde_json::from_value(case).unwrap(), Status::Ok, "")
        }
    }

    /// The machine was half as fast in the second round.
    const SLOWER: [f64; 6] = [1.0, 2.0, 1.0, 1.0, 1.0, 1.0];

    fn times(factor: f64) -> Vec<f64> {
        SLOWER.iter().map(|time| time * factor).collect()
    }

    #[test]
    fn a_first_call_is_compared_with_a_later_one_of_its_size_and_ranks() {
        let call = |stage: &str, start: &str, bytes: u64, factor: f64| {
            line(json!({"stage": stage, "start": start, "ranks": 2, "bytes": bytes}), &times(factor))
        };
        let lines = [
            call("first_call", "cold", 1024, 30.0),
            call("first_call", "warm", 1024, 6.0),
            call("later_call", "warm", 1024, 2.0),
            call("later_call", "warm", 4096, 7.0),
        ];
        let all: Vec<&CaseLine> = lines.iter().collect();
        let compared = StartupBaselines::from_lines(&all);
        let found = compared.of_line(&lines[0]);
        assert_eq!(found["first_over_later"], json!({"value": 15.0, "ci95": [15.0, 15.0]}));
        assert_eq!((&found["later_s"], &found["cold_over_warm"]["value"]), (&json!(2.0), &json!(5.0)));
        let found = compared.of_line(&lines[1]);
        assert_eq!((&found["first_over_later"]["value"], found.get("cold_over_warm")), (&json!(3.0), None));
        assert!(compared.of_line(&lines[2]).is_empty(), "a later call is compared with nothing");
    }

    #[test]
    fn communicators_are_compared_with_the_fewest_that_are_open() {
        let split = |open: u64, ranks: u32, factor: f64| {
            let parameters = json!({"stage": "communicator", "start": "warm", "ranks": ranks, "communicators": open});
            line(parameters, &times(factor))
        };
        let lines = [split(16, 2, 3.0), split(4, 2, 1.5), split(0, 2, 1.0), split(0, 4, 8.0)];
        let all: Vec<&CaseLine> = lines.iter().collect();
        let compared = StartupBaselines::from_lines(&all);
        let growth = |at: usize| compared.of_line(&lines[at]).get("growth").map(|growth| growth["value"].clone());
        assert_eq!([0, 1, 2, 3].map(growth), [Some(json!(3.0)), Some(json!(1.5)), None, None]);
    }
}

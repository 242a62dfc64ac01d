//! What a pair costs an activity: its time beside the other over its time alone, by trials of the same rounds.

use std::collections::HashMap;

use contract::Firsts;
use record::CaseLine;
use serde_json::{Map, Value};
use terms::Named;

use record::found::Slowdown;

use super::declared::{ALONE_S, SLOWDOWN};
use super::fields::{Activity, Beside, own};

/// The lines of activities that run alone.
pub(super) struct Alone<'a> {
    of: HashMap<&'static str, Firsts<'a>>,
}

fn word<T: Named>(line: &CaseLine, name: &str) -> Option<T> {
    T::from_name(line.parameters.get(name)?.as_str()?)
}

pub(super) fn activity(line: &CaseLine) -> Option<Activity> {
    word(line, "activity")
}

pub(super) fn beside(line: &CaseLine) -> Option<Beside> {
    word(line, "beside")
}

/// What a line of the activity may differ in from the one that runs alone: what is the other's.
fn apart(activity: Activity) -> Vec<&'static str> {
    let others = super::fields::all_own().filter(|name| !own(activity).contains(name));
    std::iter::once("beside").chain(others).collect()
}

impl<'a> Alone<'a> {
    pub(super) fn from_lines(all: &[&'a CaseLine]) -> Self {
        let alone = |of: Activity| {
            let lines = all
                .iter()
                .copied()
                .filter(move |line| activity(line) == Some(of) && beside(line) == Some(Beside::None));
            (of.name(), Firsts::new(&apart(of), lines))
        };
        Self { of: Activity::EACH.into_iter().map(alone).collect() }
    }

    /// What a line says in relation to the one of its activity alone.
    pub(super) fn of_line(&self, line: &CaseLine) -> Map<String, Value> {
        let mut found = Map::new();
        let alone = activity(line).filter(|_| beside(line) != Some(Beside::None));
        let alone = alone.and_then(|activity| self.of.get(activity.name())?.like(line));
        let Some(alone) = alone else { return found };
        if let Some(time) = &alone.time_s {
            ALONE_S.put(&mut found, time.median);
        }
        let (together, apart) = line.paired_trials(alone);
        if let Some(ratio) = stats::paired_ratio(&together, &apart) {
            SLOWDOWN.put(&mut found, Slowdown { value: ratio.mid, ci95: ratio.ends });
        }
        found
    }
}

#[cfg(test)]
pub(super) mod tests {
    use record::TimeSummary;
    use serde_json::json;
    use terms::Status;

    use super::*;

    /// A line of a pair whose trials took these times, with the fields of a case.
    pub(in super::super) fn line(activity: &str, beside: &str, more: &[(&str, &str)], medians: &[f64]) -> CaseLine {
        let fields = [&[("activity", activity), ("beside", beside)], more].concat();
        let case = record::plan::from_flags(&super::super::about::ABOUT, &fields, &[]).unwrap().cases.remove(0);
        CaseLine {
            trial_round: (0..medians.len() as u32).collect(),
            trial_median_s: medians.to_vec(),
            time_s: Some(TimeSummary { median: stats::median(medians), ..TimeSummary::default() }),
            wrong: Some(0),
            ..CaseLine::unmeasured(&case, Status::Ok, "")
        }
    }

    #[test]
    fn a_pair_is_compared_with_its_activity_alone_in_the_same_rounds() {
        // The machine was half as fast in the second round.
        let alone = line("product", "none", &[], &[1.0, 2.0, 1.0, 1.0, 1.0, 1.0]);
        let beside = line("product", "collective", &[], &[1.8, 3.6, 1.8, 1.8, 1.8, 1.8]);
        let reverse = line("collective", "product", &[], &[5.0; 6]);
        let all = [&alone, &beside, &reverse];
        let relations = Alone::from_lines(&all);
        let found = relations.of_line(&beside);
        assert_eq!(found["slowdown"], json!({"value": 1.8, "ci95": [1.8, 1.8]}));
        assert_eq!(found["alone_s"], json!(1.0));
        assert!(relations.of_line(&alone).is_empty(), "what runs alone is compared with nothing");
        assert!(relations.of_line(&reverse).is_empty(), "the collective did not run alone");
    }

    #[test]
    fn sizes_of_the_other_may_differ_and_its_own_may_not() {
        let alone = line("host_copy", "none", &[("copy_bytes", "32MiB")], &[1.0; 6]);
        let other = line("host_copy", "none", &[("copy_bytes", "64MiB")], &[4.0; 6]);
        let more = [("copy_bytes", "64MiB"), ("product_size", "256")];
        let beside = line("host_copy", "product", &more, &[8.0; 6]);
        let ranks = line("host_copy", "product", &[&more[..], &[("ranks", "4")]].concat(), &[8.0; 6]);
        let all = [&alone, &other, &beside, &ranks];
        let relations = Alone::from_lines(&all);
        assert_eq!(relations.of_line(&beside)["slowdown"]["value"], json!(2.0));
        assert!(relations.of_line(&ranks).is_empty(), "other ranks are others");
    }
}

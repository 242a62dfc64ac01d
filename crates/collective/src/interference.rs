//! What groups cost each other: the time of each group while all run at once, and its time alone in the same rounds.

use std::collections::HashMap;

use contract::{Firsts, Relations};
use measure::Trial;
use record::CaseLine;
use serde_json::{Map, Value};
use terms::{Bytes, Seconds};

use super::declared::{ALONE_GBS, AT_ONCE_GBS, BUSBW_GBS, BY_GROUP, GroupTimes, INTERFERENCE, Interference};
use super::groups::{ALONE, RankGroups};
use super::parameters::Parameters;

/// The metrics of a case in which all groups run at once.
pub(super) fn times(parameters: &Parameters, groups: &RankGroups, trials: &[Trial]) -> Map<String, Value> {
    let of_group = |members: &Vec<u32>| {
        let medians: Vec<f64> = trials.iter().filter_map(|trial| of_trial(trial, members)).collect();
        let time_s = (!medians.is_empty()).then(|| stats::median(&medians))?;
        let busbw_gbs = parameters.op.busbw_gbs(Bytes(parameters.bytes), parameters.ranks, Seconds(time_s));
        Some(GroupTimes { ranks: members.clone(), time_s, busbw_gbs, trial_median_s: medians, ..GroupTimes::default() })
    };
    let mut metrics = Map::new();
    if let Some(groups) = groups.members().iter().map(of_group).collect::<Option<Vec<GroupTimes>>>() {
        let rates: Option<Vec<f64>> = groups.iter().map(|group| group.busbw_gbs).collect();
        if let Some(rates) = rates {
            AT_ONCE_GBS.put(&mut metrics, rates);
        }
        BY_GROUP.put(&mut metrics, groups);
    }
    metrics
}

/// The median of a trial's samples in seconds of a call; of each sample the slowest rank of the group counts.
fn of_trial(trial: &Trial, members: &[u32]) -> Option<f64> {
    let rows: Vec<&Vec<u64>> = members.iter().filter_map(|rank| trial.samples.get(*rank as usize)).collect();
    let samples = rows.iter().map(|row| row.len()).min().filter(|samples| *samples > 0)?;
    let slowest = |sample: usize| rows.iter().map(|row| row[sample]).max().unwrap_or(0) as f64;
    let times: Vec<f64> = (0..samples).map(slowest).collect();
    Some(stats::median(&times) / 1e9 / f64::from(trial.calls.max(1)))
}

/// Compares cases with those in which their groups run alone.
pub(super) fn relations<'a>(all: &[&'a CaseLine]) -> Relations<'a> {
    let mut alone: HashMap<u64, Vec<&CaseLine>> = HashMap::new();
    for line in all {
        if let Some(group) = line.parameters.get(ALONE).and_then(Value::as_u64) {
            alone.entry(group).or_default().push(line);
        }
    }
    let alone: HashMap<u64, Firsts<'a>> =
        alone.into_iter().map(|(group, lines)| (group, Firsts::new(&[ALONE], lines))).collect();
    Box::new(move |line| of_line(line, &alone).unwrap_or_default())
}

fn of_line(line: &CaseLine, alone: &HashMap<u64, Firsts<'_>>) -> Option<Map<String, Value>> {
    let mut groups = BY_GROUP.of(line)?;
    let mut worst: Option<Interference> = None;
    for (number, group) in groups.iter_mut().enumerate() {
        let Some(other) = alone.get(&(number as u64)).and_then(|firsts| firsts.like(line)) else { continue };
        group.alone_s = other.time_s.as_ref().map(|time| time.median);
        group.alone_busbw_gbs = BUSBW_GBS.of(other).flatten();
        let own = CaseLine { trial_median_s: group.trial_median_s.clone(), ..line.clone() };
        let (at_once, alone) = own.paired_trials(other);
        let Some(ratio) = stats::paired_ratio(&at_once, &alone) else { continue };
        (group.slowdown, group.slowdown_ci95) = (Some(ratio.mid), ratio.ends);
        if worst.as_ref().is_none_or(|worst| ratio.mid > worst.value) {
            worst = Some(Interference { value: ratio.mid, ci95: ratio.ends, group: number });
        }
    }
    let mut found = Map::new();
    let rates: Option<Vec<f64>> = groups.iter().map(|group| group.alone_busbw_gbs).collect();
    if let Some(rates) = rates {
        ALONE_GBS.put(&mut found, rates);
    }
    INTERFERENCE.put(&mut found, worst?);
    BY_GROUP.put(&mut found, groups);
    Some(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use terms::Status;

    use super::*;

    fn trial(round: u32, samples: [u64; 4]) -> Trial {
        Trial { round, calls: 2, samples: samples.iter().map(|ns| vec![*ns; 3]).collect(), ..Trial::default() }
    }

    fn line(flags: &[(&str, &str)], medians: &[f64]) -> CaseLine {
        let plan = record::plan::from_flags(&super::super::about::ABOUT, flags, &[]).unwrap();
        let time = record::TimeSummary { median: stats::median(medians), ..record::TimeSummary::default() };
        CaseLine {
            trial_round: (0..medians.len() as u32).collect(),
            trial_median_s: medians.to_vec(),
            time_s: Some(time),
            ..CaseLine::unmeasured(&plan.cases[0], Status::Ok, "")
        }
    }

    #[test]
    fn a_group_takes_as_long_as_its_slowest_rank() {
        let line = line(&[("groups", "mod 2"), ("ranks", "4"), ("bytes", "1KiB")], &[1.0]);
        let case: record::Case = serde_json::from_value(json!({
            "id": "a", "benchmark": "collective", "parameters": line.parameters, "settings": {}, "world": {}, "caveats": [],
            "bytes_requested": null, "skip": null,
        }))
        .unwrap();
        let fields = super::super::fields::Fields::of(&case).unwrap();
        let parameters = Parameters::new(&case, &fields).unwrap();
        let groups = RankGroups::of_fields(&fields).unwrap().unwrap();
        let trials = [trial(0, [2000, 400, 1000, 600]), trial(1, [2000, 400, 1000, 800])];
        let metrics = times(&parameters, &groups, &trials);
        let found: Vec<GroupTimes> = serde_json::from_value(metrics["by_group"].clone()).unwrap();
        assert_eq!((found[0].ranks.clone(), found[0].trial_median_s.clone()), (vec![0, 2], vec![1e-6, 1e-6]));
        assert_eq!((found[1].ranks.clone(), found[1].trial_median_s.clone()), (vec![1, 3], vec![3e-7, 4e-7]));
        // Two ranks: the bus factor of all_reduce is 1.
        let rate = found[0].busbw_gbs.unwrap();
        assert!((rate - 1024.0 / 1e-6 / 1e9).abs() < 1e-9, "{rate}");
    }

    #[test]
    fn a_group_is_compared_with_itself_alone_in_the_same_rounds() {
        let flags = [("groups", "mod 2"), ("ranks", "4"), ("bytes", "1KiB")];
        let group = |medians: [f64; 3]| GroupTimes { trial_median_s: medians.to_vec(), ..GroupTimes::default() };
        let mut both = line(&flags, &[3.0, 6.0, 3.0]);
        BY_GROUP.put(&mut both.metrics, vec![group([2.0, 4.0, 2.0]), group([3.0, 6.0, 3.0])]);
        let alone = |number: &str, medians: &[f64]| line(&[&flags[..], &[("alone", number)]].concat(), medians);
        // The machine was half as fast in the second round.
        let (first, second) = (alone("0", &[2.0, 4.0, 2.0]), alone("1", &[2.0, 4.0, 2.0]));
        let all = [&both, &first, &second];
        let found = relations(&all)(&both);
        let worst: Interference = serde_json::from_value(found["interference"].clone()).unwrap();
        assert_eq!((worst.value, worst.group), (1.5, 1));
        let groups: Vec<GroupTimes> = serde_json::from_value(found["by_group"].clone()).unwrap();
        assert_eq!(groups.iter().map(|group| group.slowdown).collect::<Vec<_>>(), [Some(1.0), Some(1.5)]);
        assert!(relations(&all)(&first).is_empty(), "what runs alone is compared with nothing");
        assert!(relations(&[&both])(&both).is_empty());
    }
}

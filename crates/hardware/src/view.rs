//! What the measurements say together: memory against the caches, one core against all.

use ::view::number::{bytes, factor, seconds, three_digits};
use ::view::study::{Measured, Operation};
use ::view::{Finding, ResultBits, View};
use record::CaseLine;
use stats::PairTimes;

use contract::fields::CUDA;
use terms::Named as _;

use super::declared::{GBS, GFLOPS, NODE_GBS, PAIR_S, PAIR_TIMES, PAIRS, RESULTS};
use super::fields::{Area, Test};
use super::pairs_found::{Pairs, SlowPair, SlowRank};

/// See the module's documentation.
pub(super) struct HardwareView;

/// A test that names only ranks that take this many times as long finds nothing.
const FINDABLE: f64 = 3.0;

fn threads(point: &Measured) -> u64 {
    let number = |name: &str| point.case.parameters.get(name).and_then(serde_json::Value::as_u64);
    number("threads").unwrap_or(1) * u64::from(point.case.ranks)
}

fn rate(point: &Measured) -> Option<f64> {
    GBS.of(point.case)
}

/// `2 threads`; of GPUs, each rank has one: `2 GPUs`.
fn on(point: &Measured) -> String {
    let (one, several) = if point.case.device == CUDA { ("GPU", "GPUs") } else { ("thread", "threads") };
    ::view::number::count(threads(point) as usize, one, several)
}

impl View for HardwareView {
    fn findings(&self, section: &Operation) -> Option<Vec<Finding>> {
        let has = |metric: &str| section.points().any(|point| point.case.metrics.contains_key(metric));
        if has(PAIRS.name()) {
            return Some(section.points().filter_map(|point| links(&section.name, point.case)).flatten().collect());
        }
        if has(NODE_GBS.name()) {
            return Some(section.points().filter_map(|point| nodes(&section.name, point.case)).collect());
        }
        if has(GFLOPS.name()) {
            return Some(peaks(section));
        }
        bandwidths(section)
    }

    fn works_apart(&self, case: &CaseLine) -> bool {
        let test = case.parameters.get("test").and_then(serde_json::Value::as_str).and_then(Test::from_name);
        let area = test.map(Test::area);
        matches!(area, Some(Area::Memory | Area::Compute | Area::Storage | Area::Transfer))
    }

    fn result_bits(&self, case: &CaseLine) -> Option<Vec<ResultBits>> {
        let found = RESULTS.of(case)?;
        let rank = |(how, rounds)| ResultBits { how, operations: found.operations, rounds };
        Some(found.how.into_iter().zip(found.rounds).map(rank).collect())
    }

    fn pair_times(&self, case: &CaseLine) -> Option<PairTimes> {
        let Some(rows) = PAIR_S.of(case) else { return PAIR_TIMES.of(case)?.times() };
        let time = |row: usize, column: usize| rows.get(row)?.get(column)?.as_f64();
        // Directions of copies differ: the slower one counts, as where the case is judged.
        let cell = |row: usize, column: usize| {
            let there = time(row, column).unwrap_or(f64::NAN);
            time(column, row).map_or(there, |back| there.max(back))
        };
        let row = |row: usize| (0..rows.len()).map(|column| cell(row, column)).collect();
        Some(PairTimes::from_square(&(0..rows.len()).map(row).collect::<Vec<Vec<f64>>>()))
    }
}

/// The fastest of each element type.
fn peaks(section: &Operation) -> Vec<Finding> {
    let dtype = |point: &Measured| {
        let text = |name: &str| point.case.parameters.get(name).and_then(serde_json::Value::as_str);
        text("matmul").filter(|way| *way != "auto").or_else(|| text("dtype")).map(str::to_owned)
    };
    let rate = |point: &Measured| GFLOPS.of(point.case).unwrap_or(0.0);
    let mut types: Vec<String> = section.points().filter_map(dtype).collect();
    types.sort();
    types.dedup();
    let fastest = |of: &String| {
        let points = section.points().filter(|point| dtype(point).as_ref() == Some(of));
        points.max_by(|a, b| rate(a).total_cmp(&rate(b)))
    };
    let sentence = |of: &String| {
        let best = fastest(of)?;
        let range = best.estimate(GFLOPS.name(), "", section.declared).map(|found| found.range(three_digits));
        let (name, rate, threads) = (&section.name, three_digits(rate(best)), on(best));
        Some(Finding::new(format!("{name}: {rate} GFLOP/s{} of {of} on {threads}.", range.unwrap_or_default())))
    };
    types.iter().filter_map(sentence).collect()
}

/// Own memory against that of the farthest node.
fn nodes(name: &str, case: &CaseLine) -> Option<Finding> {
    let table = NODE_GBS.of(case)?;
    let own: Vec<f64> = table.iter().enumerate().filter_map(|(node, row)| row.get(node).copied()).collect();
    let others = table
        .iter()
        .enumerate()
        .flat_map(|(node, row)| row.iter().enumerate().filter(move |(other, _)| *other != node).map(|(_, rate)| *rate));
    let least = others.min_by(f64::total_cmp)?;
    let (own, least) = (three_digits(stats::median(&own)), three_digits(least));
    Some(Finding::new(format!(
        "{name}: cores reach {own} GB/s from their own node's memory, and at least {least} GB/s from another node's."
    )))
}

/// What the pairs of a case show.
fn links(name: &str, case: &CaseLine) -> Option<Vec<Finding>> {
    let Pairs { median, hosts, least_factor, slow, slow_ranks, slow_pairs, measured, .. } = PAIRS.of(case)?;
    let on = |rank: usize| hosts.get(rank).map_or_else(|| format!("{rank}"), |host| format!("{rank} on {host}"));
    let mut found = Vec::new();
    for SlowRank { rank, factor: times } in slow_ranks.into_iter().flatten() {
        let text = format!(
            "{name}: rank {} is slow: its messages take {} as long as messages between other ranks.",
            on(rank),
            factor(times)
        );
        found.push(Finding::new(text).before_others());
    }
    for SlowPair { ranks: [low, high], factor: times } in slow_pairs.into_iter().flatten() {
        let text = format!(
            "{name}: the pair of ranks {} and {} is slow: its messages take {} as long as those of the other pairs.",
            on(low),
            on(high),
            factor(times)
        );
        found.push(Finding::new(text).before_others());
    }
    let median = seconds(median);
    let about = match slow.as_str() {
        "cannot tell" => match least_factor {
            // A factor that no fault has says nothing to a reader.
            Some(least) if least > FINDABLE => {
                "; the times of pairs vary so much that a slow rank would not show: any rank may be slow".to_owned()
            }
            Some(least) => format!(
                "; pairs differ so much that only a rank that took {} as long would be named: any rank may be slow",
                factor(least)
            ),
            None => format!("; it takes at least {} ranks to find a slow one", stats::FEWEST_RANKS),
        },
        "none" => format!(
            "; none of the {} ranks is slow, and no pair is{}",
            case.ranks,
            least_factor.map_or_else(String::new, |least| format!(
                " (a rank that took {} as long would be named)",
                factor(least)
            ))
        ),
        _ => String::new(),
    };
    let part = measured.map_or_else(String::new, |pairs| {
        let all = u64::from(case.ranks) * u64::from(case.ranks.saturating_sub(1)) / 2;
        format!(" of the {pairs} of {all} that were measured")
    });
    found.push(Finding::new(format!("{name}: a message takes {median} between the median pair{part}{about}.")));
    Some(found)
}

/// The bandwidth of the largest working set, and what further threads gain.
fn bandwidths(section: &Operation) -> Option<Vec<Finding>> {
    let points: Vec<&Measured> = section.points().filter(|point| rate(point).is_some()).collect();
    let largest = points.iter().filter_map(|point| point.bytes).max()?;
    let at_largest = || points.iter().copied().filter(|point| point.bytes == Some(largest));
    let best = at_largest().max_by(|a, b| rate(a).unwrap_or(0.0).total_cmp(&rate(b).unwrap_or(0.0)))?;
    let range = |point: &Measured| {
        let estimate = point.estimate(GBS.name(), "", section.declared);
        estimate.map_or_else(String::new, |estimate| estimate.range(three_digits))
    };
    let (name, best_rate) = (&section.name, rate(best)?);
    let mut found = vec![Finding::new(format!(
        "{name}: {} GB/s{} at {}, on {}.",
        three_digits(best_rate),
        range(best),
        bytes(largest),
        on(best),
    ))];
    if let Some(single) = at_largest().find(|point| threads(point) == 1).filter(|_| threads(best) > 1) {
        let factor = best_rate / rate(single)?;
        let (all, factor) = (on(best), three_digits(factor));
        found.push(Finding::new(format!("{name}: {all} reach {factor} times the bandwidth of one.")));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use record::{Declared, TimeSummary};
    use serde_json::json;
    use terms::Status;

    use super::*;
    use crate::about::ABOUT;

    /// What is found where a case of so many threads and bytes has this bandwidth.
    fn findings(measured: &[(&str, &str, f64)]) -> Vec<String> {
        found("threads", "cpu", measured)
    }

    /// What is found where a case of so many threads or GPUs (`field`) and bytes has this bandwidth on a device.
    fn found(field: &str, device: &str, measured: &[(&str, &str, f64)]) -> Vec<String> {
        let line = |(number, bytes, gbs): &(&str, &str, f64)| {
            let fields = [("test", "triad"), ("device", device), (field, *number), ("bytes", *bytes)];
            let case = record::plan::from_flags(&ABOUT, &fields, &[]).unwrap().cases.remove(0);
            let mut line = CaseLine {
                time_s: Some(TimeSummary { median: 1e-3, ..TimeSummary::default() }),
                wrong: Some(0),
                ..CaseLine::unmeasured(&case, Status::Ok, "")
            };
            line.metrics.insert("gbs".to_owned(), json!(gbs));
            line
        };
        let lines: Vec<CaseLine> = measured.iter().map(line).collect();
        let declared = [Declared::of(&ABOUT)];
        let found = HardwareView.findings(&::view::study::operations(&lines, &declared)[0]);
        found.unwrap_or_default().into_iter().map(|finding| finding.text).collect()
    }

    /// What is found where the pairs of four ranks show this.
    fn of_pairs(pairs: serde_json::Value) -> Vec<String> {
        let fields = [("test", "latency"), ("ranks", "4")];
        let case = record::plan::from_flags(&ABOUT, &fields, &[]).unwrap().cases.remove(0);
        let mut line = CaseLine::unmeasured(&case, Status::Ok, "");
        line.metrics.insert("pairs".to_owned(), pairs);
        links("latency", &line).unwrap().into_iter().map(|finding| finding.text).collect()
    }

    #[test]
    fn sentences_about_pairs_say_what_they_can_and_no_more() {
        let median = "latency: a message takes 2.00 us between the median pair";
        let sentences = of_pairs(json!({"median": 2e-6, "slow": "none", "least_factor": 1.4}));
        let healthy = "none of the 4 ranks is slow, and no pair is (a rank that took 1.40x as long would be named)";
        assert_eq!(sentences, [format!("{median}; {healthy}.")]);
        let sentences = of_pairs(json!({"median": 2e-6, "slow": "cannot tell", "least_factor": 2.5}));
        let wide = "pairs differ so much that only a rank that took 2.50x as long would be named: any rank may be slow";
        assert_eq!(sentences, [format!("{median}; {wide}.")]);
        let sentences = of_pairs(json!({"median": 2e-6, "slow": "cannot tell", "least_factor": 85.6}));
        assert!(!sentences[0].contains("85.6") && sentences[0].contains("a slow rank would not show"), "{sentences:?}");
        let sentences = of_pairs(json!({"median": 2e-6, "slow": "cannot tell"}));
        assert_eq!(sentences, [format!("{median}; it takes at least 4 ranks to find a slow one.")]);
    }

    #[test]
    fn what_is_slow_is_named_with_its_host_where_there_are_several() {
        let slow = |hosts: serde_json::Value| {
            of_pairs(json!({
                "median": 2e-6, "slow": "rank 3, 0-2", "hosts": hosts,
                "slow_ranks": [{"rank": 3, "factor": 4.0}], "slow_pairs": [{"ranks": [0, 2], "factor": 2.5}],
            }))
        };
        let ranks = "is slow: its messages take 4.00x as long as messages between other ranks.";
        let pairs = "is slow: its messages take 2.50x as long as those of the other pairs.";
        let sentences = slow(json!(["a", "a", "b", "b"]));
        assert_eq!(sentences[0], format!("latency: rank 3 on b {ranks}"));
        assert_eq!(sentences[1], format!("latency: the pair of ranks 0 on a and 2 on b {pairs}"));
        let sentences = slow(json!([]));
        assert_eq!(sentences[0], format!("latency: rank 3 {ranks}"));
        assert_eq!(sentences[1], format!("latency: the pair of ranks 0 and 2 {pairs}"));
    }

    #[test]
    fn gpus_have_no_threads() {
        let sentences = found("ranks", "cuda", &[("1", "3GiB", 3000.0), ("2", "3GiB", 6000.0)]);
        assert_eq!(
            sentences,
            ["triad: 6,000 GB/s at 3 GiB, on 2 GPUs.", "triad: 2 GPUs reach 2.00 times the bandwidth of one."]
        );
    }

    #[test]
    fn the_largest_working_set_and_the_gain_of_threads_are_told() {
        let found =
            findings(&[("1", "24KiB", 200.0), ("2", "24KiB", 400.0), ("1", "192MiB", 10.0), ("2", "192MiB", 15.0)]);
        assert_eq!(
            found,
            ["triad: 15.0 GB/s at 192 MiB, on 2 threads.", "triad: 2 threads reach 1.50 times the bandwidth of one."]
        );
        let alone = findings(&[("1", "192MiB", 10.0), ("2", "192MiB", 9.0)]);
        assert_eq!(alone, ["triad: 10.0 GB/s at 192 MiB, on 1 thread."], "threads that gain nothing gain no sentence");
    }
}

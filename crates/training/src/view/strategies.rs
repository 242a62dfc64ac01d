//! Which strategy trains fastest, and whether the measurements can tell.

use std::collections::BTreeMap;

use view::number::factor;
use view::study::{Estimate, Measured, Operation, ranks, ratio};

use super::super::declared::SAMPLES_PER_S;
use super::super::scaling;
use super::findings::{communicates, word};

/// Samples of all ranks a second.
fn rate(point: &Measured) -> f64 {
    SAMPLES_PER_S.of(point.case).unwrap_or(0.0)
}

/// Samples of one step of all ranks.
fn global_batch(point: &Measured) -> f64 {
    (rate(point) * point.time.mid).round()
}

/// What else a case trains and on what: strategies are compared with each other where this is the same.
fn workload(point: &Measured) -> Vec<String> {
    let kept = |name: &str| name == "ranks" || !(name == "strategy" || scaling::SCALED.contains(&name));
    let parameters = point.case.parameters.iter().filter(|(name, _)| kept(name));
    let mut parts: Vec<String> = parameters.map(|(name, value)| format!("{name}={value}")).collect();
    parts.sort();
    parts
}

/// The fastest case of each strategy, the fastest first.
fn ranking<'m, 'a>(points: &[&'m Measured<'a>]) -> Vec<&'m Measured<'a>> {
    let mut best: Vec<&Measured> = Vec::new();
    for point in points {
        let same = |known: &&mut &Measured| word(known.case, "strategy") == word(point.case, "strategy");
        match best.iter_mut().find(same) {
            Some(known) if rate(point) > rate(known) => *known = point,
            Some(_) => {}
            None => best.push(point),
        }
    }
    best.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    best
}

/// The throughput of one over that of another, by their trials of the same rounds.
fn advantage(of: &Measured, over: &Measured) -> Estimate {
    let (times, work) = (ratio(over, of), global_batch(of) / global_batch(over));
    Estimate::new(times.mid * work, times.known.then_some([times.low * work, times.high * work]))
}

/// The fastest strategy against the next, with the most ranks that have several.
pub(super) fn fastest(operation: &Operation) -> Option<String> {
    let mut groups: BTreeMap<(u32, Vec<String>), Vec<&Measured>> = BTreeMap::new();
    for point in operation.points().filter(|point| communicates(point.case) && rate(point) > 0.0) {
        groups.entry((point.case.ranks, workload(point))).or_default().push(point);
    }
    let ranked = groups.values().rev().map(|points| ranking(points));
    let ranked = ranked.filter(|ranked| ranked.len() > 1).max_by_key(|ranked| ranked[0].case.ranks)?;
    let [best, next, ..] = ranked[..] else { return None };
    Some(sentence(best, next, ranked.len()))
}

fn sentence(best: &Measured, next: &Measured, strategies: usize) -> String {
    let ratio = advantage(best, next);
    let at = format!("{} with {}", word(best.case, "model"), ranks(best.case.ranks));
    let (first, second) = (word(best.case, "strategy"), word(next.case, "strategy"));
    let than = if strategies > 2 { format!("{second}, the next") } else { second.to_owned() };
    let (of_best, of_next) = (global_batch(best), global_batch(next));
    let batches =
        if of_best == of_next { String::new() } else { format!("; global batches are {of_best} and {of_next}") };
    let by = format!("{}{}", factor(ratio.mid), ratio.range(factor));
    if ratio.exceeds(1.0) {
        format!("Fastest strategy of {at}: {first}, {by} the throughput of {than}{batches}.")
    } else {
        format!("Cannot tell whether {first} or {second} is the fastest strategy of {at}: {by}{batches}.")
    }
}

#[cfg(test)]
mod tests {
    use record::{Case, CaseLine, Declared, TimeSummary};
    use terms::Status;

    use super::*;

    /// A line of eleven rounds, with medians that follow `round`.
    fn line(strategy: &str, ranks: u32, batch: f64, time: f64, round: impl Fn(u32) -> f64) -> CaseLine {
        let text = format!(r#"{{"model": "mlp", "strategy": "{strategy}", "ranks": {ranks}, "backend": "shm"}}"#);
        let case = Case::new("training", serde_json::from_str(&text).unwrap());
        let mut line = CaseLine::unmeasured(&case, Status::Ok, "");
        let ci95 = Some([time * 0.5, time * 2.0]);
        line.time_s = Some(TimeSummary { median: time, ci95, ..TimeSummary::default() });
        line.trial_round = (0..11).collect();
        line.trial_median_s = (0..11).map(|number| time * round(number)).collect();
        line.metrics.insert("samples_per_s".to_owned(), (batch / time).into());
        line
    }

    fn answer(lines: &[CaseLine]) -> Option<String> {
        let declared = [Declared::of(&crate::about::TRAINING)];
        fastest(&view::study::operations(lines, &declared)[0])
    }

    /// What the machine does in a round, to all cases alike.
    fn shared(round: u32) -> f64 {
        1.0 + 0.05 * f64::from(round * 7 % 11)
    }

    #[test]
    fn the_fastest_strategy_is_compared_with_the_next_by_their_rounds() {
        // 80/s, 50/s, 40/s on two ranks; what one rank does decides nothing. Each case's own interval holds the others'.
        let lines = [
            line("data", 1, 4.0, 0.01, shared),
            line("tensor", 2, 4.0, 0.08, shared),
            line("data", 2, 8.0, 0.1, shared),
            line("pipeline", 2, 4.0, 0.1, shared),
        ];
        let wanted = "Fastest strategy of mlp with 2 ranks: data, 1.60x (1.60x to 1.60x) the throughput of tensor, the \
                      next; global batches are 8 and 4.";
        assert_eq!(answer(&lines).as_deref(), Some(wanted));
    }

    #[test]
    fn what_cannot_be_told_is_not_claimed() {
        let own = |round: u32| 1.0 + 0.05 * f64::from(round * 3 % 11);
        let text = answer(&[line("data", 2, 8.0, 0.1, shared), line("tensor", 2, 8.0, 0.099, own)]).unwrap();
        assert!(text.starts_with("Cannot tell whether tensor or data is the fastest strategy of mlp with 2 ranks: "));
        assert!(!text.contains("global batches"), "{text}");
        // Without an interval nothing is known, however far apart they are.
        let mut lines = [line("data", 2, 8.0, 0.1, shared), line("tensor", 2, 8.0, 0.2, shared)];
        for line in &mut lines {
            (line.trial_round, line.trial_median_s) = (Vec::new(), Vec::new());
        }
        assert!(answer(&lines).unwrap().ends_with(": 2.00x."), "{:?}", answer(&lines));
    }

    #[test]
    fn one_strategy_is_compared_with_none() {
        assert_eq!(answer(&[line("data", 1, 4.0, 0.1, shared), line("data", 2, 8.0, 0.1, shared)]), None);
        let mut other = line("tensor", 2, 8.0, 0.1, shared);
        other.parameters.insert("model", "vgg16".into());
        assert_eq!(answer(&[line("data", 2, 8.0, 0.1, shared), other]), None, "another model");
    }
}

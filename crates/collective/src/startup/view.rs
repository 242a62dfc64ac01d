//! What start-up says in sentences: how long it takes, who was last, what grows.

use ::view::number::{bytes, factor, seconds};
use ::view::study::{Estimate, Measured, Operation, ratio};
use ::view::{Finding, View};
use record::CaseLine;
use terms::Named;

use super::call::OP;
use super::declared::{COLD_OVER_WARM, FIRST_OVER_LATER, GROWTH, LAST, OPEN_S, Ratio, WAIT_S};
use super::fields::{Stage, Start};
use super::relations::{open, stage, start};

/// See the module's documentation.
pub(super) struct StartupView;

impl View for StartupView {
    fn findings(&self, section: &Operation) -> Option<Vec<Finding>> {
        let points: Vec<&Measured> = section.points().collect();
        let stage = points.first().and_then(|point| stage(point.case))?;
        let texts = match stage {
            Stage::Join => joins(&points),
            Stage::FirstCall => firsts(&points),
            Stage::LaterCall => laters(&points),
            Stage::Communicator => communicators(&points),
            Stage::All => Vec::new(),
        };
        Some(texts.into_iter().map(|text| Finding::new(format!("{}: {text}", section.name))).collect())
    }
}

/// `2 ranks over shm`.
fn among(case: &CaseLine) -> String {
    let ranks = if case.ranks == 1 { "1 rank".to_owned() } else { format!("{} ranks", case.ranks) };
    format!("{ranks} over {}", case.backend)
}

fn of_start<'p>(points: &[&'p Measured<'p>], wanted: Start) -> Vec<&'p Measured<'p>> {
    points.iter().copied().filter(|point| start(point.case) == Some(wanted)).collect()
}

/// The points with the most ranks of each backend.
fn largest<'p>(points: &[&'p Measured<'p>]) -> Vec<&'p Measured<'p>> {
    let mut found: Vec<&Measured> = Vec::new();
    for point in points {
        match found.iter_mut().find(|other| other.case.backend == point.case.backend) {
            Some(known) if known.case.ranks < point.case.ranks => *known = point,
            Some(_) => {}
            None => found.push(point),
        }
    }
    found
}

/// How much longer it takes with the most ranks than with the fewest, of the same kind.
fn growth(points: &[&Measured], most: &Measured) -> Option<String> {
    let alike = |other: &&&Measured| {
        other.case.backend == most.case.backend && other.bytes == most.bytes && open(other.case) == open(most.case)
    };
    let fewest = points.iter().filter(alike).min_by_key(|point| point.case.ranks)?;
    let grown = (fewest.case.ranks < most.case.ranks).then(|| ratio(most, fewest))?;
    let word = verdict(&grown, "longer", "shorter");
    Some(format!(
        " From {} to {} ranks: {}{}, {word}.",
        fewest.case.ranks,
        most.case.ranks,
        factor(grown.mid),
        range(&grown)
    ))
}

/// What the interval of a ratio decides.
fn verdict(ratio: &Estimate, above: &'static str, below: &'static str) -> &'static str {
    match () {
        () if ratio.exceeds(1.0) => above,
        () if ratio.is_below(1.0) => below,
        () if ratio.known => "which may be due to chance",
        () => "without an interval",
    }
}

fn range(of: &Estimate) -> String {
    of.range(factor)
}

fn estimate(ratio: Ratio) -> Estimate {
    Estimate::new(ratio.value, ratio.ci95)
}

/// ` Rank 1 came last in 6 of 6 trials; the first rank waited 9.1 ms for it.`
fn last(case: &CaseLine) -> String {
    let (Some(last), Some(wait)) = (LAST.of(case), WAIT_S.of(case)) else { return String::new() };
    match last.rank {
        Some(rank) => format!(
            " Rank {rank} came last in {} of {} trials; the first rank waited {} for it.",
            last.trials,
            last.of,
            seconds(wait)
        ),
        None => String::new(),
    }
}

fn joins(points: &[&Measured]) -> Vec<String> {
    let cold = of_start(points, Start::Cold);
    let sentence = |point: &&Measured| {
        let own = OPEN_S.of(point.case).map_or_else(String::new, |own| {
            format!("; the backend takes {} of it, and the rest is waiting for the last process", seconds(own))
        });
        let time = format!("{}{}", seconds(point.time.mid), point.time.range(seconds));
        let again = COLD_OVER_WARM.of(point.case).map(estimate).filter(|again| again.exceeds(1.0));
        let again = again.map_or_else(String::new, |again| {
            format!(" That is {} as long as joining again in the same processes{}.", factor(again.mid), range(&again))
        });
        format!(
            "{} can communicate {time} after the first process began to join{own}.{again}{}{}",
            among(point.case),
            last(point.case),
            growth(&cold, point).unwrap_or_default()
        )
    };
    largest(&cold).iter().map(sentence).collect()
}

/// The first call against a later one; of each backend with the most ranks, the size and start where it costs most.
fn firsts(points: &[&Measured]) -> Vec<String> {
    let most = largest(points);
    let is_largest = |point: &&&Measured| {
        most.iter().any(|most| (&most.case.backend, most.case.ranks) == (&point.case.backend, point.case.ranks))
    };
    let mut worst: Vec<(&Measured, Estimate)> = Vec::new();
    for point in points.iter().filter(is_largest) {
        let Some(over) = FIRST_OVER_LATER.of(point.case).map(estimate) else { continue };
        match worst.iter_mut().find(|(other, _)| other.case.backend == point.case.backend) {
            Some(known) if known.1.mid < over.mid => *known = (point, over),
            Some(_) => {}
            None => worst.push((point, over)),
        }
    }
    let sentence = |(point, over): &(&Measured, Estimate)| {
        let place = match start(point.case) {
            Some(Start::Cold) => "in fresh processes",
            _ => "on a new communicator",
        };
        let size = point.bytes.map(bytes).unwrap_or_default();
        let subject = format!("the first {} of {size} {place}, {}", op(point.case), among(point.case));
        let (time, range) = (seconds(point.time.mid), range(over));
        match verdict(over, "longer", "shorter") {
            "longer" => format!(
                "{subject}, takes {time}: {} as long as a later one{range}. Make one untimed call at the start of a \
                 job to keep this out of its first step.{}",
                factor(over.mid),
                last(point.case)
            ),
            "without an interval" => {
                format!("{subject}, takes {time}: {} as long as a later one, without an interval.", factor(over.mid))
            }
            "shorter" => format!("{subject}, takes {time}: no longer than a later one ({}{range}).", factor(over.mid)),
            _ => format!(
                "{subject}, takes {time}. Whether that is longer than a later one cannot be told ({}{range}).",
                factor(over.mid)
            ),
        }
    };
    worst.iter().map(sentence).collect()
}

fn op(case: &CaseLine) -> String {
    case.parameters.get("op").and_then(|op| op.as_str()).unwrap_or(OP.name()).to_owned()
}

fn laters(points: &[&Measured]) -> Vec<String> {
    let sentence = |point: &&Measured| {
        let size = point.bytes.map(bytes).unwrap_or_default();
        let time = format!("{}{}", seconds(point.time.mid), point.time.range(seconds));
        format!("one {} of {size}, {}, takes {time} after earlier calls.", op(point.case), among(point.case))
    };
    largest(points).iter().map(sentence).collect()
}

fn communicators(points: &[&Measured]) -> Vec<String> {
    let warm = of_start(points, Start::Warm);
    let of = if warm.is_empty() { points.to_vec() } else { warm };
    let fewest = of.iter().map(|point| open(point.case)).min().unwrap_or(0);
    let few: Vec<&Measured> = of.iter().copied().filter(|point| open(point.case) == fewest).collect();
    let sentence = |point: &&Measured| {
        let time = format!("{}{}", seconds(point.time.mid), point.time.range(seconds));
        let alike = |other: &&&Measured| {
            other.case.backend == point.case.backend
                && other.case.ranks == point.case.ranks
                && open(other.case) > fewest
        };
        let many = of.iter().filter(alike).max_by_key(|other| open(other.case));
        let grown = many.and_then(|many| {
            let grown = GROWTH.of(many.case).map(estimate)?;
            let words = match verdict(&grown, "longer", "shorter") {
                "longer" => format!("it takes {} as long{}", factor(grown.mid), range(&grown)),
                "without an interval" => format!("it takes {} as long, without an interval", factor(grown.mid)),
                "shorter" => format!("it takes no longer ({}{})", factor(grown.mid), range(&grown)),
                _ => format!("it cannot be told whether that takes longer ({}{})", factor(grown.mid), range(&grown)),
            };
            Some(format!(" With {} open instead of {fewest} {words}.", open(many.case)))
        });
        format!(
            "one more communicator of {} takes {time}.{}{}",
            among(point.case),
            grown.unwrap_or_default(),
            growth(&few, point).unwrap_or_default()
        )
    };
    largest(&few).iter().map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use record::{Declared, TimeSummary};
    use serde_json::{Value, json};
    use terms::Status;

    use super::super::about::ABOUT;
    use super::*;

    /// A case of these fields with this median of six trials, and metrics.
    fn line(fields: &[(&str, &str)], median: f64, metrics: Value) -> CaseLine {
        let case = record::plan::from_flags(&ABOUT, fields, &[]).unwrap().cases.remove(0);
        let ci95 = Some([0.9 * median, 1.1 * median]);
        let mut line = CaseLine {
            trial_round: (0..6).collect(),
            trial_median_s: vec![median; 6],
            time_s: Some(TimeSummary { median, ci95, ..TimeSummary::default() }),
            wrong: Some(0),
            ..CaseLine::unmeasured(&case, Status::Ok, "")
        };
        line.metrics = serde_json::from_value(metrics).unwrap();
        line
    }

    fn findings(lines: &[CaseLine]) -> Vec<String> {
        let declared = [Declared::of(&ABOUT)];
        let sections = ::view::study::operations(lines, &declared);
        let found = sections.iter().flat_map(|section| StartupView.findings(section).unwrap_or_default());
        found.map(|finding| finding.text).collect()
    }

    #[test]
    fn joining_says_how_long_who_was_last_and_what_ranks_add() {
        let join = |ranks: &str, median: f64, last: Value| {
            let metrics = json!({"open_s": 0.002, "wait_s": 0.009, "last": last,
                "cold_over_warm": {"value": 4.0, "ci95": [3.0, 5.0]}});
            line(&[("stage", "join"), ("start", "cold"), ("ranks", ranks)], median, metrics)
        };
        let last = json!({"rank": 1, "trials": 6, "of": 6, "word": "1 (6 of 6)"});
        let found = findings(&[join("1", 0.01, json!({"word": "varies"})), join("4", 0.03, last)]);
        assert_eq!(
            found,
            [
                "join: 4 ranks over shm can communicate 30.0 ms (27.0 ms to 33.0 ms) after the first process began to join; the \
              backend takes 2.00 ms of it, and the rest is waiting for the last process. That is 4.00x as long as joining \
              again in the same processes (3.00x to 5.00x). Rank 1 came last in 6 of 6 trials; the first rank waited 9.00 ms \
              for it. From 1 to 4 ranks: 3.00x (3.00x to 3.00x), longer."
            ]
        );
    }

    #[test]
    fn a_first_call_costs_more_only_where_its_interval_says_so() {
        let first = |over: Value| {
            let fields = [("stage", "first_call"), ("start", "cold")];
            findings(&[line(&fields, 3e-5, json!({"first_over_later": over}))]).remove(0)
        };
        let slow = first(json!({"value": 12.0, "ci95": [10.0, 14.0]}));
        assert!(
            slow.contains("takes 30.0 us: 12.0x as long as a later one (10.0x to 14.0x). Make one untimed call"),
            "{slow}"
        );
        let same = first(json!({"value": 1.1, "ci95": [0.9, 1.3]}));
        assert!(same.contains("longer than a later one cannot be told (1.10x (0.900x to 1.30x))"), "{same}");
        let quick = first(json!({"value": 2.0}));
        assert!(quick.contains("2.00x as long as a later one, without an interval"), "{quick}");
    }

    #[test]
    fn communicators_say_whether_more_of_them_cost_more() {
        let split = |open: &str, growth: Value| {
            let fields = [("stage", "communicator"), ("start", "warm"), ("communicators", open)];
            line(&fields, 1e-4, growth)
        };
        let grown = json!({"growth": {"value": 1.5, "ci95": [1.3, 1.7]}});
        let found = findings(&[split("0", json!({})), split("4", json!({})), split("16", grown)]);
        let expected = "communicator: one more communicator of 2 ranks over shm takes 100 us (90.0 us to 110 us). With 16 open \
                        instead of 0 it takes 1.50x as long (1.30x to 1.70x).";
        assert_eq!(found, [expected]);
    }
}

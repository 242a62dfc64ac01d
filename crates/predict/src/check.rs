//! What predictions of measured cases are to reach, and whether they do.

use serde_json::{Value, json};
use terms::number::{count, percent};
use view::terminal::{Column, Row, Style, Table};

use crate::calibrate::Drift;
use crate::json::{row, sizes};
use crate::{Judged, Predictor};

/// What predictions are to reach: docs/how-to/predict.md lists it.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// What is reached.
    pub what: &'static str,
    /// The figure.
    pub value: f64,
    /// What it is to be, at most or at least.
    pub limit: f64,
    /// Whether it is.
    pub holds: bool,
}

const WIDTH: &str = "width of intervals over that of a constant rate's";

/// The gates for which this check has figures.
pub fn gates(judged: &Judged, regrets: &Regrets) -> Vec<Gate> {
    let [mean, median, p90] = Judged::sizes(&judged.errors);
    let [rate, ..] = Judged::sizes(&judged.constant_rate);
    let most = |what, value: f64, limit: f64| Gate { what, value, limit, holds: value <= limit };
    let mut gates = vec![most("median error", median, 0.04), most("90th percentile of errors", p90, 0.12)];
    if rate > 0.0 {
        gates.push(most("mean error over that of a constant rate", mean / rate, 0.6));
    }
    gates.extend(judged.coverage().map(|share| Gate {
        what: "share of 90% intervals that hold",
        value: share,
        limit: 0.85,
        holds: share >= 0.85,
    }));
    gates.extend(judged.relative_width().map(|width| most(WIDTH, width, 0.5)));
    if regrets.choices > 0 {
        gates.push(most("lost by the first choice", regrets.first, 0.03));
        gates.push(most("lost by the best of three", regrets.best_of_three, 0.01));
    }
    gates
}

/// The gates as a table.
fn gates_text(gates: &[Gate], width: usize) -> String {
    let mut table =
        Table::new([Column::left("gate"), Column::right("reached"), Column::right("limit"), Column::left("")]);
    for gate in gates {
        let word = if gate.holds { "ok" } else { "missed" };
        let cells = [gate.what.to_owned(), percent(gate.value), percent(gate.limit), word.to_owned()];
        let row = Row::new(cells);
        table.push(if gate.holds { row } else { row.style(Style::Red) });
    }
    format!("\n{}", table.text(width))
}

/// What a choice by prediction loses over the best, and what a random choice loses.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Regrets {
    /// Lost by the first choice.
    pub first: f64,
    /// Lost by the best of the first three.
    pub best_of_three: f64,
    /// Lost by a random choice.
    pub random: f64,
    /// Groups in which something could be chosen.
    pub choices: usize,
}

impl Regrets {
    /// Regrets over groups of cases among which a choice is made, each with its predicted and its measured time.
    pub fn of(groups: impl Iterator<Item = Vec<(f64, f64)>>) -> Self {
        let mut regrets = Regrets::default();
        for mut group in groups.filter(|group| group.len() > 1) {
            group.sort_by(|a, b| a.0.total_cmp(&b.0));
            let best = group.iter().map(|case| case.1).fold(f64::INFINITY, f64::min);
            let three = group.iter().take(3).map(|case| case.1).fold(f64::INFINITY, f64::min);
            let mean = group.iter().map(|case| case.1).sum::<f64>() / group.len() as f64;
            regrets.first += group[0].1 / best - 1.0;
            regrets.best_of_three += three / best - 1.0;
            regrets.random += mean / best - 1.0;
            regrets.choices += 1;
        }
        let count = regrets.choices.max(1) as f64;
        Regrets {
            first: regrets.first / count,
            best_of_three: regrets.best_of_three / count,
            random: regrets.random / count,
            ..regrets
        }
    }
}

/// What a choice loses, in a sentence.
fn regret_text(regrets: &Regrets) -> String {
    if regrets.choices == 0 {
        return "\nno two cases train one model on as many ranks and samples over one link: nothing could be chosen\n"
            .to_owned();
    }
    format!(
        "\nlost by choice over the best, mean of {} choices: the first {:.1}%, the best of three {:.1}%, a random one {:.1}%\n",
        regrets.choices,
        100.0 * regrets.first,
        100.0 * regrets.best_of_three,
        100.0 * regrets.random
    )
}

/// How fast the machine was, and the errors without that.
fn pace_text(drift: &Drift, pace: f64, without: &Judged) -> String {
    let [mean, median, _] = Judged::sizes(&without.errors);
    let percent = |value: f64| format!("{:.1}%", 100.0 * value);
    let text = format!(
        "\nInterleaved with them, {} of the profile took {:.2}x as long as in the profile ({:.2}x to {:.2}x).\n",
        count(drift.count, "operation or exchange", "operations and exchanges"),
        drift.ratio,
        drift.range.0,
        drift.range.1,
    );
    if pace == 1.0 {
        return text + "That is within the spread between launches: measured times are left as they are.\n";
    }
    text + &format!(
        "Measured times are divided by {pace:.2}. Without that: mean {}, median {}, bias {:+.1}%.\n",
        percent(mean),
        percent(median),
        100.0 * without.bias(),
    )
}

/// What a check found.
pub struct Found {
    /// Errors of predictions for the machine as fast as it was.
    pub judged: Judged,
    /// Errors of predictions as they were sealed.
    pub sealed: Judged,
    /// How fast the machine was; None where nothing tells.
    pub drift: Option<Drift>,
    /// What measured times were divided by.
    pub pace: f64,
    /// What choices lose.
    pub regrets: Regrets,
}

impl Found {
    /// The whole check for people.
    pub fn text(&self, gates: &[Gate], width: usize) -> String {
        let pace = self.drift.map_or_else(String::new, |drift| pace_text(&drift, self.pace, &self.sealed));
        crate::text::errors(&self.judged, width) + &pace + &regret_text(&self.regrets) + &gates_text(gates, width)
    }

    /// The whole check for programs.
    pub fn json(&self, predictor: &Predictor, digest: &str, gates: &[Gate]) -> Value {
        let Self { judged, sealed, drift, pace: divided_by, regrets } = self;
        let gate =
            |gate: &Gate| json!({"what": gate.what, "value": gate.value, "limit": gate.limit, "holds": gate.holds});
        let pace = |drift: &Drift| json!({"ratio": drift.ratio, "range": [drift.range.0, drift.range.1], "count": drift.count});
        json!({
            "predicted": true,
            "machine": predictor.profile.name,
            "sha256": digest,
            "cases": judged.errors.len(),
            "errors": sizes(&judged.errors),
            "errors_as_sealed": sizes(&sealed.errors),
            "drift": drift.as_ref().map(pace),
            "divided_by": divided_by,
            "constant_rate": sizes(&judged.constant_rate),
            "bias": judged.bias(),
            "coverage90": judged.coverage(),
            "rows": judged.lines.iter().map(row).collect::<Vec<_>>(),
            "gates": gates.iter().map(gate).collect::<Vec<_>>(),
            "regret": {
                "choices": regrets.choices,
                "first": regrets.first,
                "best_of_three": regrets.best_of_three,
                "random": regrets.random,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_hold_what_was_reached() {
        let judged = |errors: &[f64]| Judged {
            errors: errors.to_vec(),
            constant_rate: vec![0.2; errors.len()],
            holds: errors.iter().map(|error| Some(error.abs() < 0.1)).collect(),
            ..Judged::default()
        };
        let missed = |judged: &Judged, regrets: &Regrets| -> Vec<&'static str> {
            gates(judged, regrets).iter().filter(|gate| !gate.holds).map(|gate| gate.what).collect()
        };
        let none = Regrets::default();
        assert_eq!(missed(&judged(&[0.02, -0.03, 0.01, 0.05]), &none), Vec::<&str>::new());
        assert_eq!(
            missed(&judged(&[0.2, -0.3, 0.15, 0.25]), &none),
            [
                "median error",
                "90th percentile of errors",
                "mean error over that of a constant rate",
                "share of 90% intervals that hold"
            ]
        );
        let lost = Regrets { first: 0.05, best_of_three: 0.02, random: 0.3, choices: 4 };
        assert_eq!(missed(&judged(&[0.0; 4]), &lost), ["lost by the first choice", "lost by the best of three"]);
    }
}

//! What predictions are to reach, and whether they do.

use terminal::{Column, Row, Style, Table};
use view::number::percent;

use super::regrets::Regrets;
use crate::commands::predict::rows::Judged;
use crate::screen;

/// What predictions are to reach: docs/how-to/predict.md lists it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Gate {
    pub(super) what: &'static str,
    pub(super) value: f64,
    pub(super) limit: f64,
    pub(super) holds: bool,
}

/// The gates for which this check has figures.
pub(super) fn gates(judged: &Judged, regrets: &Regrets) -> Vec<Gate> {
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
    gates.extend(
        judged.relative_width().map(|width| most("width of intervals over that of a constant rate's", width, 0.5)),
    );
    if regrets.choices > 0 {
        gates.push(most("lost by the first choice", regrets.first, 0.03));
        gates.push(most("lost by the best of three", regrets.best_of_three, 0.01));
    }
    gates
}

pub(super) fn text(gates: &[Gate]) -> String {
    let mut table =
        Table::new([Column::left("gate"), Column::right("reached"), Column::right("limit"), Column::left("")]);
    for gate in gates {
        let word = if gate.holds { "ok" } else { "missed" };
        let cells = [gate.what.to_owned(), percent(gate.value), percent(gate.limit), word.to_owned()];
        let row = Row::new(cells);
        table.push(if gate.holds { row } else { row.style(Style::Red) });
    }
    format!("\n{}", table.text(screen::width()))
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

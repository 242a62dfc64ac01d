//! Cases that differ in one parameter alone, side by side in a row.

use std::collections::HashMap;

use record::CaseLine;
use serde_json::Value;

/// Case lines in rows, a place for each value of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Pivot<'c> {
    /// The values, a switch that is off first, others as they appear.
    pub values: Vec<&'c Value>,
    /// The rows, in the order of their first case. A place is empty where no such case ran.
    pub rows: Vec<Vec<Option<&'c CaseLine>>>,
}

impl<'c> Pivot<'c> {
    /// The rows of these cases. None where fewer than two values were measured, or where no two cases share a row: then a row
    /// for each case says the same in less room.
    pub fn new(parameter: &str, lines: &[&'c CaseLine]) -> Option<Self> {
        let mut values: Vec<&Value> = Vec::new();
        for value in lines.iter().filter_map(|line| line.parameters.get(parameter)) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        values.sort_by_key(|value| value.as_bool());
        let measured = |value: &&Value| {
            lines.iter().any(|line| line.time_s.is_some() && line.parameters.get(parameter) == Some(*value))
        };
        if values.len() < 2 || !values.iter().all(measured) {
            return None;
        }
        let mut rows: Vec<Vec<Option<&CaseLine>>> = Vec::new();
        let mut alike: HashMap<String, Vec<usize>> = HashMap::new();
        for line in lines {
            let value = line.parameters.get(parameter)?;
            let place = values.iter().position(|other| *other == value)?;
            let known = alike.entry(others(line, parameter)).or_default();
            let row = known.iter().copied().find(|row| rows[*row][place].is_none()).unwrap_or_else(|| {
                rows.push(vec![None; values.len()]);
                known.push(rows.len() - 1);
                rows.len() - 1
            });
            rows[row][place] = Some(*line);
        }
        let shared = rows.iter().any(|row| row.iter().flatten().count() > 1);
        shared.then_some(Self { values, rows })
    }
}

/// What cases of one row have in common: all but the parameter.
fn others(line: &CaseLine, parameter: &str) -> String {
    let mut text = format!("{} {:?} {:?} {}", line.benchmark, line.hosts, line.pair_hosts, line.simulated);
    for (name, value) in line.parameters.iter().filter(|(name, _)| *name != parameter) {
        text.push_str(&format!(" {name}={value}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use record::TimeSummary;
    use serde_json::json;
    use terms::Status;

    use super::*;

    fn line(bytes: u64, way: &str) -> CaseLine {
        let line = json!({
            "schema": 1, "id": "0", "benchmark": "x", "parameters": {"way": way, "bytes": bytes}, "status": "ok", "ranks": 4,
            "runtime": "native", "backend": "shm", "device": "cpu", "mode": "streaming", "caveats": [], "simulated": false,
        });
        let time_s = Some(TimeSummary { median: 1e-6, ..TimeSummary::default() });
        CaseLine { time_s, ..serde_json::from_value(line).unwrap() }
    }

    fn rows(lines: &[CaseLine]) -> Option<Vec<Vec<Option<usize>>>> {
        let all: Vec<&CaseLine> = lines.iter().collect();
        let index = |line: &CaseLine| lines.iter().position(|other| std::ptr::eq(other, line));
        let pivot = Pivot::new("way", &all)?;
        Some(pivot.rows.iter().map(|row| row.iter().map(|case| index((*case)?)).collect()).collect())
    }

    #[test]
    fn cases_that_differ_in_one_parameter_share_a_row() {
        let [a, b, c] = [line(1, "a"), line(2, "a"), line(2, "b")];
        assert_eq!(rows(&[a.clone(), b.clone(), c.clone()]), Some(vec![vec![Some(0), None], vec![Some(1), Some(2)]]));
        // Of two that are alike, each has a row.
        let twice = [b.clone(), b.clone(), c.clone(), c.clone()];
        assert_eq!(rows(&twice), Some(vec![vec![Some(0), Some(2)], vec![Some(1), Some(3)]]));
        // A case that also differs in something else does not share the row.
        let mut other = c.clone();
        other.parameters.insert("op", json!("x"));
        assert_eq!(rows(&[b.clone(), other]), None);
        let elsewhere = CaseLine { hosts: Some(2), ..c.clone() };
        assert_eq!(rows(&[b.clone(), elsewhere]), None);
        assert_eq!(rows(&[a, c]), None, "no row has both");
    }

    #[test]
    fn a_value_that_was_not_measured_has_no_columns() {
        let [b, c] = [line(2, "a"), line(2, "b")];
        let skipped = CaseLine { status: Status::Skipped, time_s: None, ..c };
        assert_eq!(rows(&[b.clone(), skipped]), None);
        assert_eq!(rows(std::slice::from_ref(&b)), None);
        let mut absent = b.clone();
        absent.parameters.shift_remove("way");
        assert_eq!(rows(&[b.clone(), absent, line(2, "b")]), None, "which column it belongs to is not known");
    }

    #[test]
    fn a_switch_that_is_off_comes_first() {
        let switch = |on: bool| {
            let mut line = line(1, "");
            line.parameters.insert("way", on.into());
            line
        };
        assert_eq!(rows(&[switch(true), switch(false)]), Some(vec![vec![Some(1), Some(0)]]));
    }
}

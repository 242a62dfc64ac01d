//! Gates: `busbw_gbs>=12` on a case's metrics. A missed gate makes the run exit 1.

use record::{About, CaseLine};
use terms::{FieldError, Seconds, number};

/// Values that a gate may name in addition to the declared metrics.
const TIMES: [&str; 6] = ["time_s", "p95_s", "p99_s", "p999_s", "min_s", "max_s"];

/// One gate.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    name: String,
    relation: Relation,
    bound: f64,
    is_time: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Relation {
    AtLeast,
    AtMost,
    Above,
    Below,
}

impl Relation {
    // The longer ones first: `>=` begins with `>`.
    const ALL: [(Self, &'static str); 4] =
        [(Self::AtLeast, ">="), (Self::AtMost, "<="), (Self::Above, ">"), (Self::Below, "<")];

    fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Self::AtLeast => value >= bound,
            Self::AtMost => value <= bound,
            Self::Above => value > bound,
            Self::Below => value < bound,
        }
    }
}

impl Gate {
    /// Reads a gate; the name must be a metric of the benchmark or a time.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str, about: &About) -> Result<Self, FieldError> {
        let problem = |message: String, hint: String| FieldError::new("expect", message).hint(hint);
        let known: Vec<&str> = about.metrics.iter().map(|metric| metric.name).chain(TIMES).collect();
        let found = Relation::ALL.iter().find_map(|(relation, sign)| Some((*relation, text.split_once(sign)?)));
        let Some((relation, (name, bound))) = found else {
            return Err(problem(format!("`{text}` compares nothing"), "for example 'busbw_gbs>=12'".to_owned()));
        };
        let name = terms::normalize(name);
        if !known.contains(&name.as_str()) {
            let hint = terms::suggestion(&name, known.iter().copied());
            return Err(problem(format!("`{name}` is not a metric of {}", about.name), hint));
        }
        let bound = bound.trim();
        let is_time =
            TIMES.contains(&name.as_str()) || about.metrics.iter().any(|one| one.name == name && one.unit == "s");
        // Times may have a unit, as everywhere.
        let number = match is_time {
            true => bound.parse::<Seconds>().ok().map(|Seconds(seconds)| seconds).or_else(|| bound.parse().ok()),
            false => bound.parse::<f64>().ok(),
        };
        match number.filter(|number: &f64| number.is_finite()) {
            Some(bound) => Ok(Self { name, relation, bound, is_time }),
            None if is_time => Err(problem(format!("`{bound}` is not a time"), "for example 'p99_s<=20us'".to_owned())),
            None => Err(problem(format!("`{bound}` is not a number"), "for example 'busbw_gbs>=12'".to_owned())),
        }
    }

    /// Why the line misses the gate, with the value; a gate on a value that is absent is missed.
    pub fn miss(&self, line: &CaseLine) -> Option<String> {
        match self.value(line) {
            Some(value) if self.relation.holds(value, self.bound) => None,
            Some(value) if self.is_time => Some(format!("it is {}", number::seconds(value))),
            Some(value) => Some(format!("it is {value:.4}")),
            None => Some("it was not measured".to_owned()),
        }
    }

    fn value(&self, line: &CaseLine) -> Option<f64> {
        let times = line.time_s.as_ref();
        match self.name.as_str() {
            "time_s" => times.map(|times| times.median),
            "p95_s" => times.and_then(|times| times.p95),
            "p99_s" => times.and_then(|times| times.p99),
            "p999_s" => times.and_then(|times| times.p999),
            "min_s" => times.and_then(|times| times.min),
            "max_s" => times.and_then(|times| times.max),
            // One with an interval is an object.
            name => line.metric(name).or_else(|| line.metrics.get(name)?.get("value")?.as_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use record::{About, Better, Case, CaseLine, Metric, Shape, TimeSummary};
    use serde_json::{Map, json};
    use terms::Status;

    use super::*;

    const ABOUT: About = About {
        name: "collective",
        doc: "",
        fields: &[],
        metrics: &[
            Metric::new("slowdown", "", Better::Lower, "").shape(Shape::Interval),
            Metric::new("busbw_gbs", "GB/s", Better::Higher, ""),
        ],
        check: |_| Ok(()),
        command: None,
        show: record::show::Show::default,
    };

    #[test]
    fn what_misses_a_gate_is_said_in_its_unit() {
        let mut line = CaseLine::unmeasured(&Case::new("collective", Map::new().into()), Status::Ok, "");
        line.time_s = Some(TimeSummary { median: 31.5e-6, ..TimeSummary::default() });
        let metrics = json!({ "slowdown": { "value": 1.4, "ci95": [1.3, 1.5] }, "busbw_gbs": 11.0 });
        line.metrics = metrics.as_object().unwrap().clone().into();
        let miss = |text: &str| Gate::parse(text, &ABOUT).unwrap().miss(&line);
        assert_eq!(miss("time_s<=20us").as_deref(), Some("it is 31.5 us"));
        assert_eq!(miss("busbw_gbs>=12").as_deref(), Some("it is 11.0000"));
        // A value with an interval is measured, too.
        assert_eq!((miss("slowdown<=1.2").as_deref(), miss("slowdown<=1.5")), (Some("it is 1.4000"), None));
        assert_eq!(miss("p99_s<=1").as_deref(), Some("it was not measured"));
    }
}

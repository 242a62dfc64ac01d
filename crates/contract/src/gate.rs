//! Gates: `busbw_gbs>=12` on a case's metrics. A missed gate makes the run exit 1.

use record::{About, CaseLine};
use terms::{FieldError, Seconds};

/// Values that a gate may name in addition to the declared metrics.
const TIMES: [&str; 6] = ["time_s", "p95_s", "p99_s", "p999_s", "min_s", "max_s"];

/// One gate.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    name: String,
    relation: Relation,
    bound: f64,
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
            Some(bound) => Ok(Self { name, relation, bound }),
            None if is_time => Err(problem(format!("`{bound}` is not a time"), "for example 'p99_s<=20us'".to_owned())),
            None => Err(problem(format!("`{bound}` is not a number"), "for example 'busbw_gbs>=12'".to_owned())),
        }
    }

    /// Why the line misses the gate, with the value; a gate on a value that is absent is missed.
    pub fn miss(&self, line: &CaseLine) -> Option<String> {
        match self.value(line) {
            Some(value) if self.relation.holds(value, self.bound) => None,
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
            name => line.metric(name),
        }
    }
}

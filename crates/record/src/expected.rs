//! Figures that a plan expects of its hardware, and the case lines that they are compared with.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use terms::Status;

use crate::schema::words::SchemaWords;
use crate::{Better, CaseLine};

terms::named! {
    /// What an expected figure rests on.
    pub enum Basis("basis of an expected figure") {
        /// The vendor's data sheet, or what follows from it.
        Specification = "specification",
        /// Somebody's published measurement.
        Measured = "measured",
    }
}

/// A figure that the hardware is expected to reach: `expected` of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Expected {
    /// The benchmark's name.
    pub benchmark: String,
    /// Parameters that a case line must have, in canonical values.
    #[serde(rename = "where", default, skip_serializing_if = "Map::is_empty")]
    pub parameters: Map<String, Value>,
    /// The metric's name.
    pub metric: String,
    /// In the metric's unit; above 0.
    pub value: f64,
    /// What it rests on.
    #[schemars(with = "SchemaWords<Basis>")]
    pub basis: Basis,
    /// Where it was read.
    pub source: String,
    /// The algorithm that it is a figure of, where the hardware gives another one by another: `NVLS`, `ring`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<String>,
}

impl Expected {
    /// The best value of the metric over all cases that the figure is about, and its case. Cases with failed checks are
    /// left out. None: no such case was measured.
    pub fn best<'c>(&self, cases: &'c [CaseLine], better: Better) -> Option<(&'c CaseLine, f64)> {
        let value = |case: &'c CaseLine| {
            let value = self.metric_of(case)?;
            (value.is_finite() && value > 0.0).then_some((case, value))
        };
        let found = cases.iter().filter(|case| self.matches(case)).filter_map(value);
        match better {
            Better::Higher => found.reduce(|best, next| if next.1 > best.1 { next } else { best }),
            Better::Lower => found.reduce(|best, next| if next.1 < best.1 { next } else { best }),
        }
    }

    /// Whether a case is right and has these parameters.
    fn matches(&self, case: &CaseLine) -> bool {
        self.is_of(case) && case.status == Status::Ok && case.wrong.unwrap_or(0) == 0
    }

    /// Whether a case has these parameters.
    pub(crate) fn is_of(&self, case: &CaseLine) -> bool {
        case.benchmark == self.benchmark
            && self.parameters.iter().all(|(name, value)| case.parameters.get(name) == Some(value))
    }

    /// The metric's value: a number, or a number with an interval.
    fn metric_of(&self, case: &CaseLine) -> Option<f64> {
        let value = case.metrics.get(&self.metric)?;
        value.as_f64().or_else(|| value.get("value")?.as_f64())
    }
}

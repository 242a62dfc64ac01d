//! Two sides that were measured interleaved: what `rankmark compare --interleave` adds to `run.json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use terms::{Field, Kind, Label, Role, Status};

use crate::schema::words::SchemaWords;
use crate::{Case, DeclaredField, Roles, RunFile};

/// The parameter that tells the cases of both sides apart in such a record. No benchmark declares it, and no rank sees it.
const SIDE: &str = "side";

/// Two sides and how they compare.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interleaved {
    /// Side A, then side B.
    pub sides: [Side; 2],
    /// Changes within this are none: 0.03 is 3%.
    pub threshold: f64,
    /// The order of the slices in each pair of worlds: `ABBA` or `BAAB`. A pair is a round of the record.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orders: Vec<String>,
    /// Each case of both sides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cases: Vec<ComparedCase>,
}

/// One of two sides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    /// The plan, as it was named.
    pub plan: String,
    /// What this side alone sets, each as FIELD=VALUE.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<String>,
    /// The program that its ranks are, where they are not this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// What that program says of its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// One case of both sides, compared pair by pair.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedCase {
    /// The benchmark's name.
    pub benchmark: String,
    /// The parameters that both sides share.
    pub parameters: Map<String, Value>,
    /// The parameters in which they differ, with both values; null where a side has none.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub differs: Map<String, Value>,
    /// Identities of the two case lines, A and B.
    pub ids: [String; 2],
    /// How it ended: `ok` only where both sides are.
    #[schemars(with = "SchemaWords<Status>")]
    pub status: Status,
    /// Why, for every status but ok, and where a comparison ended early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Median time of A and of B, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_s: Option<[f64; 2]>,
    /// Natural logarithm of time B over time A, one a pair.
    pub log_ratios: Vec<f64>,
    /// Time B over time A: the middle of the pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// Interval of the ratio, corrected for all cases and all looks; absent below six pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio_ci95: Option<[f64; 2]>,
    /// The smallest relative change that such a comparison finds in 80% of tries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smallest_change: Option<f64>,
    /// Numbers of pairs after which the interval was looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub looks: Vec<u32>,
    /// better, worse, same, cannot tell.
    pub verdict: String,
}

/// The case as it is kept for side 0 (A) or 1 (B): equal cases of both sides have different identities.
#[must_use]
pub fn of_side(case: &Case, side: usize, roles: &impl Roles) -> Case {
    let mut case = case.clone();
    case.parameters.insert(SIDE.to_owned(), ["A", "B"][side].into());
    case.identify(roles);
    case
}

/// Declares the side in the record's copies of benchmarks: sides are implementations of one workload, so reports compare them.
pub fn declare_sides(file: &mut RunFile) {
    let side = Field::new(Kind::Text, None, "side of an interleaved comparison").named(SIDE);
    let side = DeclaredField::of(&side.role(Role::Implementation).label(Label::Around("side {}")));
    file.benchmarks.iter_mut().for_each(|benchmark| benchmark.fields.push(side.clone()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_cases_of_both_sides_are_two_cases_of_one_workload() {
        let parameters: Map<String, Value> = serde_json::from_str(r#"{"op": "all_reduce", "ranks": 2}"#).unwrap();
        let nobody = None::<&crate::About>;
        let mut case = Case::new("collective", parameters.into());
        case.identify(&nobody);
        let [a, b] = [of_side(&case, 0, &nobody), of_side(&case, 1, &nobody)];
        assert!(a.id != b.id && a.id != case.id && a.world == case.world);
        assert_eq!((a.text(SIDE), b.text(SIDE)), (Some("A"), Some("B")));
        assert_eq!(of_side(&case, 1, &nobody), b, "the same in every comparison");
    }
}

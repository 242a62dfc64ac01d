//! Whether results are the same bits: what was compared with what, and the first difference of each comparison.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a case says of the bits of its results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Reproducible {
    /// What a result consists of: `element`, or `step` of a training.
    pub unit: String,
    /// Results that each rank compared, over all trials.
    pub results: u64,
    /// Trials that these are of.
    pub trials: u64,
    /// Ranks that must hold the same result; 1: each rank holds its own part.
    pub ranks: u32,
    /// Whether results are computed; false: the operation moves its inputs, or chooses among them.
    pub computed: bool,
    /// What was compared within the case: `ranks`, `calls`, `trials`.
    pub within: Vec<Comparison>,
    /// The comparisons with other cases of the run that compute the same and differ in one parameter.
    pub across: Vec<Comparison>,
    /// The first result, by which other cases are compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bits: Option<Bits>,
}

impl Reproducible {
    /// All comparisons, those within the case first.
    pub fn comparisons(&self) -> impl Iterator<Item = &Comparison> {
        self.within.iter().chain(&self.across)
    }

    /// The share of the comparisons without a difference; None where nothing was compared.
    pub fn share(&self) -> Option<f64> {
        let all = self.comparisons().count();
        let same = self.comparisons().filter(|one| one.difference.is_none()).count();
        (all > 0).then(|| same as f64 / all as f64)
    }
}

/// Two results, or several with a first one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Comparison {
    /// What differs between the two: `ranks`, `calls`, `trials`, or a parameter.
    pub varied: String,
    /// Value of what differs in the first result.
    pub from: String,
    /// Value of what differs in the other result.
    pub to: String,
    /// None where all bits are the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<Difference>,
}

/// How two results differ. Elements count from 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Difference {
    /// The first element that differs, or the first of the block that it is in.
    pub first: u64,
    /// The end of that block, which is not part of it: `first + 1` where the element is known.
    pub end: u64,
    /// The first element that differs, in both results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<[String; 2]>,
    /// The largest difference of the elements that were looked at one by one, in units in the last place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ulps: Option<u64>,
    /// The largest difference of these elements, relative to the larger of both values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relative: Option<f64>,
    /// How many elements differ, where all were looked at one by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub different: Option<u64>,
}

/// A result in short: its first elements, and digests of blocks of the others. The blocks begin at the same elements in results of
/// every length, so that a short result can be compared with the beginning of a long one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Bits {
    /// The type of its elements.
    pub dtype: String,
    /// How many there are.
    pub elements: u64,
    /// The bits of the first elements in hexadecimal digits, two for each byte.
    pub values: String,
    /// A digest of 16 hexadecimal digits for each block of the others.
    pub blocks: String,
}

//! What a fleet learned, read from its fleet.json.

use serde::Deserialize;

use super::json::VERSION;
use super::{Criterion, Fleet, Inventory};

/// The oldest version that can be read: the members that are read here have not changed since.
const OLDEST_VERSION: u32 = 2;

#[derive(Deserialize)]
struct LearnedFile {
    version: u32,
    kinds: Vec<Inventory>,
    criteria: Vec<LearnedCriterion>,
}

#[derive(Deserialize)]
struct LearnedCriterion {
    key: String,
    label: String,
    kind: usize,
    nodes: usize,
    healthy: Option<HealthyLevel>,
}

#[derive(Deserialize)]
struct HealthyLevel {
    log_s: f64,
    log_scatter: f64,
    log_own_variance: f64,
    nodes: usize,
}

/// Reads what a fleet learned from the text of its fleet.json. New nodes are judged by it.
///
/// # Errors
/// If the text is not a fleet.json of a version that can be read, or its fleet was too small to learn anything.
pub fn read_learned(text: &[u8]) -> Result<Fleet, String> {
    let file: LearnedFile = record::from_json(text).map_err(|error| error.to_string())?;
    if !(OLDEST_VERSION..=VERSION).contains(&file.version) {
        return Err(format!(
            "it has version {}; this program reads versions {OLDEST_VERSION} to {VERSION}",
            file.version
        ));
    }
    let level = |healthy: HealthyLevel| {
        let own_variance = healthy.log_own_variance;
        let is_finite = healthy.log_s.is_finite() && healthy.log_scatter.is_finite() && own_variance.is_finite();
        let is_usable = is_finite && healthy.log_scatter > 0.0 && own_variance >= 0.0;
        (is_usable && healthy.nodes > 1).then_some(stats::Level {
            centre: healthy.log_s,
            scatter: healthy.log_scatter,
            own_variance,
            members: healthy.nodes,
        })
    };
    let criteria: Vec<Criterion> = file
        .criteria
        .into_iter()
        .map(|known| Criterion {
            key: known.key,
            label: known.label,
            kind: known.kind,
            nodes: known.nodes,
            level: known.healthy.and_then(level),
            smallest: None,
        })
        .collect();
    if criteria.iter().all(|criterion| criterion.level.is_none()) {
        return Err("its fleet was too small to learn what is healthy".to_owned());
    }
    Ok(Fleet { kinds: file.kinds, criteria, ..Fleet::default() })
}

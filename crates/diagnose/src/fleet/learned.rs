//! What a fleet learned, read from its fleet.json.

use serde::Deserialize;

use super::json::VERSION;
use super::{Criterion, Fleet, Inventory};

/// What is read of a file is the same since this version.
const OLDEST: u32 = 2;

#[derive(Deserialize)]
struct LearnedFile {
    version: u32,
    kinds: Vec<Inventory>,
    criteria: Vec<Known>,
}

#[derive(Deserialize)]
struct Known {
    key: String,
    label: String,
    kind: usize,
    nodes: usize,
    healthy: Option<Healthy>,
}

#[derive(Deserialize)]
struct Healthy {
    log_s: f64,
    log_scatter: f64,
    log_own_variance: f64,
    nodes: usize,
}

/// Reads what nodes are judged by.
///
/// # Errors
/// When the text is not that of a fleet.json, or its fleet learned nothing.
pub fn learned(text: &[u8]) -> Result<Fleet, String> {
    let read: LearnedFile = record::from_json(text).map_err(|error| error.to_string())?;
    if !(OLDEST..=VERSION).contains(&read.version) {
        return Err(format!("it has version {}, and this program reads {OLDEST} to {VERSION}", read.version));
    }
    let level = |healthy: Healthy| {
        let own = healthy.log_own_variance;
        let is_finite = healthy.log_s.is_finite() && healthy.log_scatter.is_finite() && own.is_finite();
        let is_usable = is_finite && healthy.log_scatter > 0.0 && own >= 0.0;
        (is_usable && healthy.nodes > 1).then_some(stats::Level {
            centre: healthy.log_s,
            scatter: healthy.log_scatter,
            own_variance: own,
            members: healthy.nodes,
        })
    };
    let criteria: Vec<Criterion> = read
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
    Ok(Fleet { kinds: read.kinds, criteria, ..Fleet::default() })
}

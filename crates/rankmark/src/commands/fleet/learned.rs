//! What a fleet learned, read from its fleet.json.

use std::io::Read as _;
use std::path::Path;

use diagnose::fleet::{Criterion, Fleet, Inventory};
use serde::Deserialize;

use super::json::VERSION;
use crate::Failure;

/// What is read of a file is the same since this version.
const OLDEST: u32 = 2;

/// A fleet of ten thousand nodes has less.
const LARGEST: u64 = 256 << 20;

#[derive(Deserialize)]
struct File {
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
/// When it is not the fleet.json of a fleet, or learned nothing.
pub(super) fn read(path: &Path) -> Result<Fleet, Failure> {
    let name = path.display();
    let hint = "`rankmark fleet` writes it next to its lists of hosts";
    let unread = |cause: String| Failure::new(format!("{name} is not what a fleet learned")).cause(cause).hint(hint);
    let file = record::file::open_named(path)
        .map_err(|error| Failure::new(format!("cannot read {name}")).cause(error).hint(hint))?;
    if file.metadata().is_ok_and(|about| about.len() > LARGEST) {
        return Err(unread(format!("it is larger than {} MiB", LARGEST >> 20)));
    }
    let mut text = Vec::new();
    file.take(LARGEST).read_to_end(&mut text).map_err(|error| unread(error.to_string()))?;
    let read: File = record::from_json(&text).map_err(|error| unread(error.to_string()))?;
    if !(OLDEST..=VERSION).contains(&read.version) {
        return Err(unread(format!("it has version {}, and this program reads {OLDEST} to {VERSION}", read.version)));
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
        return Err(unread("its fleet was too small to learn what is healthy".to_owned()));
    }
    Ok(Fleet { kinds: read.kinds, criteria, ..Fleet::default() })
}

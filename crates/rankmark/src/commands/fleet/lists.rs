//! The files for schedulers and for later: lists of hosts, and what the fleet learned.

use std::path::{Path, PathBuf};

use diagnose::fleet::{Fleet, NodeVerdict, compressed};
use record::file::FileName;

use super::json;
use crate::Failure;

/// Writes all of them into this folder; gives those that are not empty, each with what it is for.
pub(super) fn write(folder: &Path, fleet: &Fleet) -> Result<Vec<(PathBuf, &'static str)>, Failure> {
    let good = fleet.hosts(&[NodeVerdict::Good]);
    let bad = fleet.hosts(&[NodeVerdict::Failed, NodeVerdict::Slow]);
    let unknown = fleet.hosts(&[NodeVerdict::CannotTell]);
    let lines = |hosts: &[&str]| hosts.iter().map(|host| format!("{host}\n")).collect::<String>();
    let exclude = if bad.is_empty() { String::new() } else { format!("{}\n", compressed(&bad)) };
    let files = [
        ("hosts.good", lines(&good), "a host file of the good nodes"),
        ("hosts.bad", lines(&bad), "failed and slow nodes"),
        ("hosts.unknown", lines(&unknown), "nodes that cannot be told"),
        ("slurm.exclude", exclude, "the bad nodes for sbatch --exclude"),
        ("fleet.json", format!("{}\n", json::fleet(fleet)), "verdicts, and criteria for --criteria"),
    ];
    let mut written = Vec::new();
    for (name, text, what) in files {
        let path = folder.join(name);
        let name = FileName::literal(name);
        record::file::replace(folder, &name.clone().into(), &name.temporary(), text.as_bytes())
            .map_err(|error| Failure::new(format!("cannot write {}", path.display())).cause(error))?;
        if !text.is_empty() {
            written.push((path, what));
        }
    }
    Ok(written)
}

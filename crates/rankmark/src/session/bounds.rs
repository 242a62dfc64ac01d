//! What this machine can do at most, as far as its files and earlier records tell.

use std::path::{Path, PathBuf};

use record::store::seen_states;
use record::{Profile, RunFile};
use runner::Bounds;

use super::states::{is_here, newest};

/// The profile that the plan names, else the newest next to the record; and the network interfaces of its hosts.
pub(super) fn of_run(file: &RunFile, record: &Path) -> Bounds {
    let named = file.profiles.iter().find(|profile| profile.is_of(&file.machine)).cloned();
    let machines = if file.hosts.is_empty() { std::slice::from_ref(&file.machine) } else { &file.hosts };
    Bounds::new(named.or_else(|| newest_profile(file, record)), machines)
}

fn newest_profile(file: &RunFile, record: &Path) -> Option<Profile> {
    let has_ceilings = |path: &PathBuf| {
        seen_states(path).is_some_and(|seen| is_here(&seen, (&file.machine, &[])) && seen.may_have_ceilings())
    };
    let others = newest(record.parent()).into_iter().filter(|path| path.file_name() != record.file_name());
    others.filter(has_ceilings).find_map(|path| Profile::read(&path.display().to_string()).ok())
}

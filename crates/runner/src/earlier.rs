//! What earlier runs in the same folder tell of this machine: its states, of which `--state` asks for one, and its profile.

use std::path::{Path, PathBuf};

use measure::StatesAsked;
use record::store::{RUN_FILE, SeenStates, seen_states};
use record::{CanaryKind, Machine, MachineState, Plan, Profile, RunFile, known_states};
use terms::Error;

use crate::Bounds;

/// The newest records that are read, at most.
const MOST: usize = 20;

/// The states of the same machine in the records next to this one, with the state that is wanted.
pub fn asked(wanted: Option<String>, file: &RunFile, record: &Path) -> StatesAsked {
    let known = earlier(record.parent(), (&file.machine, &file.hosts), &file.states);
    StatesAsked { known, wanted, hosts: file.hosts.iter().map(|machine| machine.host.clone()).collect() }
}

/// The state that `--state` asks for, by its name with spaces.
///
/// # Errors
/// When no state has this name, or the plan has cases that are not measured.
pub fn wanted(given: Option<&str>, plan: Option<&Plan>) -> Result<Option<String>, Error> {
    let Some(given) = given else { return Ok(None) };
    let wanted = given.to_lowercase().replace(['-', '_'], " ");
    let words: Vec<&str> = CanaryKind::ALL.iter().flat_map(|kind| kind.state_names()).collect();
    // Of several hosts a state names the host, too: `far cores on node-b`.
    let host = words.iter().find_map(|word| Some((word, given.get(word.len()..)?, wanted.strip_prefix(word)?)));
    let name = match host {
        Some((word, _, "")) => (*word).to_owned(),
        Some((word, own, rest)) if rest.starts_with(" on ") && rest.len() > 4 => format!("{word} on {}", &own[4..]),
        _ => {
            let error = Error::new(format!("there is no machine state `{given}`"));
            return Err(error.cause(format!("valid values: {}", words.join(", "))).hint(
                "the report of a run names its states; `rankmark validate` looks at the machine and at earlier runs",
            ));
        }
    };
    plan.map_or(Ok(()), refuse_computed)?;
    Ok(Some(name))
}

/// Refuses a plan with computed times: no machine is in any state while they are computed.
pub fn refuse_computed(plan: &Plan) -> Result<(), Error> {
    if plan.cases.iter().any(benchmarks::is_simulated) {
        let error = Error::new("`--state` needs cases that are measured");
        return Err(error.cause("the plan has cases with computed times").hint("leave out --state, or those cases"));
    }
    Ok(())
}

/// The profile that the plan names, else the newest next to the record; and the network interfaces of its hosts.
pub fn bounds(file: &RunFile, record: &Path) -> Bounds {
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

/// States that the newest records in a folder saw of these machines (the coordinator's, and all of several), and `own`.
pub fn earlier(
    folder: Option<&Path>,
    (machine, hosts): (&Machine, &[Machine]),
    own: &[MachineState],
) -> Vec<MachineState> {
    let records = newest(folder);
    let seen = records.iter().filter_map(|path| seen_states(path));
    let of_these = |seen: &SeenStates| is_here(seen, (machine, hosts));
    let mut runs: Vec<Vec<MachineState>> = vec![own.to_vec()];
    runs.extend(seen.filter(of_these).map(|seen| seen.states));
    known_states(runs.iter().map(Vec::as_slice))
}

/// The newest records in a folder, the newest first.
pub fn newest(folder: Option<&Path>) -> Vec<PathBuf> {
    let folder = folder.map(|folder| if folder == Path::new("") { Path::new(".") } else { folder });
    let entries = folder.and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    let mut records: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| path.join(RUN_FILE).is_file()).collect();
    // Their names begin with their times.
    records.sort_by(|a, b| b.cmp(a));
    records.truncate(MOST);
    records
}

/// Whether a record was measured on these machines.
pub fn is_here(seen: &SeenStates, (machine, hosts): (&Machine, &[Machine])) -> bool {
    let alike = seen.hosts.len() == hosts.len() && seen.hosts.iter().zip(hosts).all(|(a, b)| same(a, b));
    !seen.simulated && same(&seen.machine, machine) && alike
}

fn same(a: &Machine, b: &Machine) -> bool {
    let of = |machine: &Machine| (machine.cores, machine.allowed_cpus.len());
    (&a.host, &a.cpu_model, of(a)) == (&b.host, &b.cpu_model, of(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_named_with_spaces_or_hyphens_and_on_a_host() {
        let of = |given: &str| wanted(Some(given), None).ok().flatten();
        assert_eq!(of("near-cores").as_deref(), Some("near cores"));
        assert_eq!(of("Far Cores on Node-b").as_deref(), Some("far cores on Node-b"));
        for wrong in ["nearest", "near cores at x", "near cores on ", ""] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}

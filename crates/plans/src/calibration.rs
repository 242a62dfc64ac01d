//! A calibration of this machine: what it measures unless somebody says otherwise, and the profile that its record gives.

use std::path::Path;

use measure::machine;
use predict::calibrate::{Caches, Given, machine_profile};
use record::{MachineProfile, ProfileBasis, Record, read_machine_profile};
use terms::Error;

/// Backends that move data.
pub fn moving_backends() -> impl Iterator<Item = &'static comm::About> {
    comm::backends().map(|backend| backend.about()).filter(|about| !about.simulated)
}

/// The first backend that needs no launcher and no library.
pub fn usual_backend() -> String {
    let mut moving = moving_backends();
    moving.find(|about| !about.launched && !about.in_process).map_or_else(String::new, |about| about.name.to_owned())
}

/// The caches of this machine: a core's own are those up to the second level.
pub fn caches() -> Caches {
    let all = machine::detect().caches;
    let most = |level: std::ops::RangeInclusive<u32>| {
        let of = all.iter().filter(|cache| cache.kind != "instruction" && level.contains(&cache.level));
        of.map(|cache| cache.bytes).max().unwrap_or(0)
    };
    Caches { own: most(1..=2), shared: most(3..=4) }
}

/// Ranks of this machine, unless somebody says how many: one a core.
pub fn usual_ranks() -> u32 {
    machine::allowed_cpus().len().clamp(1, 1024) as u32
}

/// The profile that the record of a calibration gives: with this name or the host's, of so many ranks or the most of a case.
///
/// # Errors
/// Where no operation was measured, or the size of the machine's memory is not known.
pub fn profile(record: &Record, name: Option<String>, ranks: Option<u32>) -> Result<MachineProfile, Error> {
    let Record { file, cases, .. } = record;
    let most = cases.iter().map(|line| line.ranks).max().unwrap_or(1);
    let given = Given {
        name: name.unwrap_or_else(|| file.machine.host.clone()),
        source: file.command_line.join(" "),
        created: file.started.to_string(),
        version: file.tool.version.clone(),
        ranks: ranks.unwrap_or(most),
    };
    machine_profile(cases, &file.machine, given)
}

/// Whether the profile that is there stays: one that lacks what `failed` cases measure would take the place of a whole one.
pub fn keeps(target: &Path, failed: bool) -> bool {
    failed && read_machine_profile(target).is_ok()
}

/// What a reader should know of a profile by which something is predicted here: nothing is refused.
pub fn notes(profile: &MachineProfile) -> Vec<String> {
    let here = machine::detect();
    let other = profile.machine.as_ref().filter(|other| other.processor() != here.processor());
    let other = other.map(|other| {
        let name = view::one_line(other.processor());
        format!("note: the profile is of another machine ({name}): times are of that one\n")
    });
    let lacks_exchanges = profile.basis == ProfileBasis::Measured && profile.transfers.is_empty();
    let assumed = "note: the profile has no measured exchanges: assumed rates of links are used instead\n";
    other.into_iter().chain(lacks_exchanges.then(|| assumed.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_cases_do_not_cost_a_whole_profile() {
        let folder = tempfile::tempdir().unwrap();
        let [whole, damaged, absent] = ["whole", "damaged", "absent"].map(|name| folder.path().join(name));
        let profile = predict::machines::machine("a100-nvlink").unwrap().profile();
        record::write_machine_profile(&whole, &profile).unwrap();
        std::fs::write(&damaged, "{").unwrap();
        assert!(keeps(&whole, true));
        assert!(!keeps(&whole, false), "a calibration without failed cases takes its place");
        assert!(!keeps(&damaged, true) && !keeps(&absent, true), "nothing is lost");
    }
}

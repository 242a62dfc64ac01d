//! Reads and writes profiles of machines. A profile from outside is hostile until it is parsed and checked.

use std::io::Read;
use std::path::Path;

use terms::{Error, Named};

use super::{ConstantName, MACHINE_PROFILE_VERSION, MachineProfile};
use crate::file::{open_named, replace_named};
use crate::json::StatedSchema;
use crate::to_json;

/// Most bytes of the file. One of a thousand operations and as many exchanges takes a hundredth of it.
const LARGEST: u64 = 32 << 20;
/// Most entries of a list, and sizes of an entry.
const MOST: usize = 100_000;
const MOST_DIMS: usize = 16;
const HINT: &str = "`rankmark calibrate` writes a profile; `--machine NAME` predicts with public numbers";

/// Reads a profile.
///
/// # Errors
/// When the file cannot be read, is too large, has another version, or holds a number that no machine has.
pub fn read_machine_profile(path: &Path) -> Result<MachineProfile, Error> {
    let refused = |cause: String| {
        Error::new(format!("the machine profile {} cannot be read", path.display())).cause(cause).hint(HINT)
    };
    let mut text = Vec::new();
    let read = open_named(path).and_then(|file| file.take(LARGEST + 1).read_to_end(&mut text));
    read.map_err(|error| refused(error.to_string()))?;
    if text.len() as u64 > LARGEST {
        return Err(refused(format!("it is larger than {} MiB", LARGEST >> 20)));
    }
    parsed(&text).map_err(refused)
}

/// Writes a profile, whole or not at all.
///
/// # Errors
/// When it cannot be written, or would not read back.
pub fn write_machine_profile(path: &Path, profile: &MachineProfile) -> Result<(), Error> {
    let refused =
        |cause: String| Error::new(format!("cannot write the machine profile {}", path.display())).cause(cause);
    let mut text = to_json(profile).map_err(|error| refused(error.to_string()))?.into_bytes();
    text.push(b'\n');
    parsed(&text).map_err(&refused)?;
    replace_named(path, &text).map_err(|error| refused(error.to_string()))
}

/// The text's profile, or why it is none.
fn parsed(text: &[u8]) -> Result<MachineProfile, String> {
    // The version first: another version's form may differ in everything else.
    let StatedSchema { schema } = crate::from_json(text).map_err(|error| error.to_string())?;
    if schema != MACHINE_PROFILE_VERSION {
        return Err(format!("schema {schema}; this program reads schema {MACHINE_PROFILE_VERSION}"));
    }
    let profile: MachineProfile = crate::from_json(text).map_err(|error| error.to_string())?;
    check(&profile)?;
    Ok(profile)
}

fn positive(what: &str, value: f64) -> Result<(), String> {
    match value.is_finite() && value > 0.0 {
        true => Ok(()),
        false => Err(format!("{what} is {value}; it must be finite and above zero")),
    }
}

fn spread(what: &str, value: f64) -> Result<(), String> {
    match (0.0..=10.0).contains(&value) {
        true => Ok(()),
        false => Err(format!("{what} is {value}; it must be between 0 and 10")),
    }
}

fn few(what: &str, count: usize, most: usize) -> Result<(), String> {
    if count <= most { Ok(()) } else { Err(format!("{count} {what}; at most {most} are read")) }
}

fn check(profile: &MachineProfile) -> Result<(), String> {
    few("operations", profile.kernels.len(), MOST)?;
    few("exchanges", profile.transfers.len(), MOST)?;
    few("constants", profile.constants.len(), ConstantName::ALL.len())?;
    if profile.ranks_per_node == 0 || profile.memory_bytes == 0 {
        return Err("ranks_per_node and memory_bytes must be above zero".to_owned());
    }
    spread("launch_spread", profile.launch_spread)?;
    for kernel in &profile.kernels {
        let name = format!("the operation `{}`", kernel.kernel);
        few(&format!("sizes of {name}"), kernel.dims.len(), MOST_DIMS)?;
        positive(&format!("the time of {name}"), kernel.seconds)?;
        spread(&format!("the spread of {name}"), kernel.spread)?;
        positive(&format!("the ranks of {name}"), f64::from(kernel.ranks))?;
    }
    for transfer in &profile.transfers {
        let name = format!("{} of {} bytes", transfer.operation, transfer.bytes);
        positive(&format!("the time of {name}"), transfer.seconds)?;
        spread(&format!("the spread of {name}"), transfer.spread)?;
        for (what, count) in
            [("ranks", transfer.ranks), ("ranks a node", transfer.ranks_per_node), ("groups", transfer.groups)]
        {
            positive(&format!("the {what} of {name}"), f64::from(count))?;
        }
    }
    if let Some(slowdowns) = &profile.slowdowns {
        positive("the slowdown of computation", slowdowns.computation)?;
        positive("the slowdown of collectives", slowdowns.collective)?;
    }
    for (at, constant) in profile.constants.iter().enumerate() {
        positive(&format!("the constant `{}`", constant.name), constant.value)?;
        spread(&format!("the spread of `{}`", constant.name), constant.spread)?;
        if constant.unit != constant.name.unit() {
            return Err(format!("`{}` is in {}, not in {:?}", constant.name, constant.name.unit(), constant.unit));
        }
        if profile.constants[..at].iter().any(|other| other.name == constant.name) {
            return Err(format!("the constant `{}` is given twice", constant.name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;

    fn profile() -> MachineProfile {
        let name = ConstantName::ProductRate;
        MachineProfile {
            schema: MACHINE_PROFILE_VERSION,
            name: "here".to_owned(),
            basis: ProfileBasis::Measured,
            source: "rankmark calibrate".to_owned(),
            machine: None,
            created: "2026-11-30T00:00:00Z".to_owned(),
            version: "0.1.0".to_owned(),
            ranks_per_node: 2,
            memory_bytes: 1 << 30,
            kernels: vec![KernelTime {
                kernel: "add".to_owned(),
                dtype: Dtype::F32,
                dims: vec![1024],
                ranks: 1,
                seconds: 1e-6,
                spread: 0.02,
            }],
            transfers: vec![TransferTime {
                operation: Collective::AllReduce,
                backend: "shm".to_owned(),
                ranks: 2,
                ranks_per_node: 2,
                groups: 1,
                bytes: 4096,
                seconds: 1e-5,
                spread: 0.1,
            }],
            slowdowns: Some(Slowdowns { computation: 1.1, collective: 1.2 }),
            launch_spread: 0.03,
            multiprocessors: 0,
            constants: vec![Constant { name, value: 1e11, unit: name.unit().to_owned(), spread: 0.1 }],
        }
    }

    #[test]
    fn a_profile_reads_back_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json");
        write_machine_profile(&path, &profile()).unwrap();
        assert_eq!(read_machine_profile(&path).unwrap(), profile());
        let absent = read_machine_profile(&folder.path().join("none.json")).unwrap_err();
        assert!(absent.cause.is_some() && absent.hint.unwrap().contains("rankmark calibrate"));
    }

    #[test]
    fn numbers_that_no_machine_has_are_refused() {
        let text = to_json(&profile()).unwrap();
        let refused = |from: &str, to: &str| {
            assert!(text.contains(from), "{from} is not in {text}");
            parsed(text.replacen(from, to, 1).as_bytes()).unwrap_err()
        };
        for (from, to, says) in [
            ("\"schema\":1", "\"schema\":2", "schema 2"),
            ("\"seconds\":1e-6", "\"seconds\":-1e-6", "the time of the operation `add`"),
            ("\"seconds\":1e-6", "\"seconds\":null", "invalid type"),
            ("\"seconds\":1e-5", "\"seconds\":0.0", "the time of all_reduce of 4096 bytes"),
            ("\"groups\":1", "\"groups\":0", "the groups of all_reduce"),
            ("\"ranks_per_node\":2", "\"ranks_per_node\":0", "above zero"),
            ("\"value\":100000000000.0", "\"value\":1e999", "number"),
            ("FLOP/s", "TFLOP/s", "is in FLOP/s"),
            ("\"launch_spread\":0.03", "\"launch_spread\":-1.0", "launch_spread"),
            ("product_rate", "warp_rate", "warp_rate"),
            ("\"name\":\"here\"", "\"name\":\"here\",\"extra\":1", "unknown field"),
        ] {
            let why = refused(from, to);
            assert!(why.contains(says), "{from} -> {to}: {why}");
        }
        let mut twice = profile();
        twice.constants.push(twice.constants[0].clone());
        assert!(parsed(to_json(&twice).unwrap().as_bytes()).unwrap_err().contains("given twice"));
    }
}

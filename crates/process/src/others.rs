//! Processes that others started: which there are, and what /proc says of them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;

/// Bytes of an environment or a command line that are read.
const LONGEST: u64 = 2 << 20;

/// The numbers of all processes of this host, or of this container, ascending.
pub fn all_processes() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut all: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    all.sort_unstable();
    all
}

/// These variables of the environment that a process began with, and no others: an environment holds secrets. None where it
/// cannot be read, such as that of another user's process.
pub fn variables(pid: u32, names: &[&str]) -> Option<BTreeMap<String, String>> {
    let bytes = contents(pid, "environ").ok()?;
    let pair = |entry: &[u8]| {
        let text = std::str::from_utf8(entry).ok()?;
        let (name, value) = text.split_once('=')?;
        names.contains(&name).then(|| (name.to_owned(), value.to_owned()))
    };
    // Of a name that is set twice, a C library takes the first.
    let mut found = BTreeMap::new();
    for (name, value) in bytes.split(|byte| *byte == 0).filter_map(pair) {
        found.entry(name).or_insert(value);
    }
    Some(found)
}

/// The command line of a process, a word each; empty where it has none.
pub fn command_line(pid: u32) -> Vec<String> {
    let bytes = contents(pid, "cmdline").unwrap_or_default();
    let words = bytes.strip_suffix(&[0]).unwrap_or(&bytes).split(|byte| *byte == 0);
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// The control groups of a process, a line each.
pub fn control_groups(pid: u32) -> Vec<String> {
    let bytes = contents(pid, "cgroup").unwrap_or_default();
    String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect()
}

fn contents(pid: u32, name: &str) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(format!("/proc/{pid}/{name}"))?.take(LONGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_variables_that_are_asked_for_are_read() {
        let mut child = std::process::Command::new("/bin/sleep")
            .arg("60")
            .env_clear()
            .envs([("RANK", "3"), ("SECRET", "x"), ("WORLD_SIZE", "4=5")])
            .spawn()
            .unwrap();
        // Until it has become the other program, the environment is ours.
        while command_line(child.id()).first().is_none_or(|word| word != "/bin/sleep") {
            std::thread::yield_now();
        }
        let found = variables(child.id(), &["RANK", "WORLD_SIZE", "LOCAL_RANK"]);
        let (line, is_listed) = (command_line(child.id()), all_processes().contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        let expected = [("RANK", "3"), ("WORLD_SIZE", "4=5")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(found, Some(BTreeMap::from(expected)));
        assert_eq!((line, is_listed), (vec!["/bin/sleep".to_owned(), "60".to_owned()], true));
        assert_eq!(variables(u32::MAX, &["RANK"]), None);
    }
}

//! The files that a fleet leaves for schedulers and for the next fleet, and those that it is judged by.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use diagnose::fleet::{self, Fleet, FleetFile, Topology};
use record::file::FileName;
use terms::Error;

/// Most bytes of what a fleet learned. One of ten thousand nodes has less.
const LARGEST: u64 = 256 << 20;
/// Most bytes of a file with the switches of nodes.
const LARGEST_TOPOLOGY: u64 = 16 << 20;

/// Writes the lists of hosts and what the fleet learned; gives a line for each that is not empty: the file, and what it is for.
///
/// # Errors
/// When one cannot be written.
pub fn write(folder: &Path, judged: &Fleet) -> Result<String, Error> {
    let mut written: Vec<(PathBuf, &str)> = Vec::new();
    for FleetFile { name, text, what } in fleet::files(judged) {
        let path = folder.join(name);
        let name = FileName::literal(name);
        record::file::replace(folder, &name.clone().into(), &name.temporary(), text.as_bytes())
            .map_err(|error| Error::new(format!("cannot write {}", path.display())).cause(error))?;
        if !text.is_empty() {
            written.push((path, what));
        }
    }
    let longest = written.iter().map(|(path, _)| path.display().to_string().chars().count()).max().unwrap_or(0);
    let line =
        |(path, what): &(PathBuf, &str)| format!("{:<9}{:<longest$}   {what}\n", "list", path.display().to_string());
    Ok(written.iter().map(line).collect())
}

/// Reads what nodes are judged by from the fleet.json of a fleet.
///
/// # Errors
/// When the file cannot be read, or is none of a fleet.
pub fn read_learned(path: &Path) -> Result<Fleet, Error> {
    let name = path.display();
    let hint = "`rankmark fleet` writes it next to its lists of hosts";
    let unread = |cause: String| Error::new(format!("{name} is not what a fleet learned")).cause(cause).hint(hint);
    let file = record::file::open_named(path)
        .map_err(|error| Error::new(format!("cannot read {name}")).cause(error).hint(hint))?;
    if file.metadata().is_ok_and(|about| about.len() > LARGEST) {
        return Err(unread(format!("it is larger than {} MiB", LARGEST >> 20)));
    }
    let mut text = Vec::new();
    file.take(LARGEST).read_to_end(&mut text).map_err(|error| unread(error.to_string()))?;
    fleet::read_learned(&text).map_err(unread)
}

/// Reads which nodes share a switch, as Slurm's topology.conf says it.
///
/// # Errors
/// When the file cannot be read, or names no nodes.
pub fn read_topology(path: &Path) -> Result<Topology, Error> {
    let mut text = String::new();
    let read = record::file::open_named(path).and_then(|file| file.take(LARGEST_TOPOLOGY).read_to_string(&mut text));
    read.map_err(|error| Error::new(format!("cannot read {}", path.display())).cause(error))?;
    Topology::parse(&text).map_err(|error| Error { what: format!("{}: {}", path.display(), error.what), ..error })
}

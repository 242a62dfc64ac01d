//! How ranks start that are not children of the coordinator, as data: a backend says it, the program that starts processes does it.

use std::path::{Path, PathBuf};

/// A command that starts ranks. It is completed by the program of a rank and its argument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// The launcher.
    pub program: PathBuf,
    /// Arguments of the launcher.
    pub arguments: Vec<String>,
    /// Variables for the launcher, and so for the ranks.
    pub environment: Vec<(String, String)>,
    /// The variable in which a rank finds its number.
    pub rank_variable: &'static str,
}

/// What is asked of a launcher.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Ranks.
    pub ranks: u32,
    /// Variables that the user sets for the ranks.
    pub environment: &'a [(String, String)],
}

/// Who started ranks that are there already.
#[derive(Clone, Copy, Debug)]
pub struct StartedBy<'a> {
    /// Name of the launcher, for people.
    pub launcher: &'a str,
    /// The variable in which its ranks find their number.
    pub rank_variable: &'a str,
    /// Whether it is a process manager: its processes find each other through it, by PMIx or PMI.
    pub process_manager: bool,
}

/// What a backend needs to know of this host to find its launcher. Backends start no process themselves.
pub trait Tools {
    /// Folders of programs, as PATH names them.
    fn search(&self) -> &[PathBuf];

    /// Whether this is a program.
    fn is_program(&self, path: &Path) -> bool;

    /// What the program says of its version.
    fn version_of(&self, program: &Path) -> Option<String>;

    /// Whether ranks run as root.
    fn is_root(&self) -> bool;
}

//! What a survey is asked for.

use std::path::PathBuf;

/// What is to be looked at, and where.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Folders of programs, as PATH names them.
    pub path: Vec<PathBuf>,
    /// The Python that the user named; None: the first `python3` of the path.
    pub python: Option<PathBuf>,
    /// Leaves out what takes long.
    pub quick: bool,
    /// This is a job of Slurm: its programs must work.
    pub in_slurm: bool,
}

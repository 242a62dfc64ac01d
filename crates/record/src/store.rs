//! The record on disk, one directory a run: `run.json`, `cases.jsonl`, `samples.jsonl`.
//!
//! Every case is on disk before the next begins, so that a crash loses at most the case in flight. What is there is
//! never overwritten: a directory that holds a run is refused unless that run is resumed, and a record that cannot be
//! read is refused rather than repaired, except for a last line that a crash cut short. Lines that their checksum shows
//! to be damaged are left out and named.

mod append;
mod checksum;
mod damage;
mod directory;
mod error;
mod folders;
mod follow;
mod latest;
mod lines;
mod lock;
mod read;
mod results;
mod salvage;
mod samples;
mod sequence;
mod states;

use crate::file::FileName;

pub use append::{Store, line_text};
pub(crate) use checksum::{reseal, reseal_run};
pub use damage::DamagedLine;
pub use directory::{RESULTS, directory_for, directory_name, fresh_directory};
pub use error::StoreError;
pub use folders::{RecordFolders, is_absence, why as why_unreadable};
pub use follow::{Follower, Liveness, goes_on, liveness, newest, run_end};
pub use latest::LatestLines;
pub use lines::{CaseLines, read_case_lines};
pub use read::{Record, Resumed, read_results, read_run, read_run_file};
pub use samples::{CaseSamples, SampleLines, Seen, read_samples, read_samples_of};
pub use states::{SeenStates, seen_states};

/// The run file's name.
pub const RUN_FILE: &str = "run.json";
/// The case lines' file.
pub const CASES_FILE: &str = "cases.jsonl";
/// The samples' file.
pub const SAMPLES_FILE: &str = "samples.jsonl";
/// The folder of traces: Chrome-trace JSON, gzipped, one a case and launch.
pub const TRACE_FOLDER: &str = "trace";
/// The lock of a live run.
pub const LOCK_FILE: &str = "run.json.lock";

const RUN: FileName = FileName::literal(RUN_FILE);
const RUN_NEW: FileName = FileName::literal("run.json.new");
const CASES: FileName = FileName::literal(CASES_FILE);
const SAMPLES: FileName = FileName::literal(SAMPLES_FILE);
const LOCK: FileName = FileName::literal(LOCK_FILE);
const TRACE: FileName = FileName::literal(TRACE_FOLDER);

/// Bounds on what is read back, far above what is written: a hostile record must not exhaust memory.
mod limits {
    /// Bytes of `run.json`.
    pub(super) const RUN: u64 = 256 << 20;
    /// Bytes of a case line.
    pub(super) const CASE_LINE: u64 = 16 << 20;
    /// Bytes of a sample line: 10,000 samples of 4,096 ranks.
    pub(super) const SAMPLE_LINE: u64 = 1 << 30;
    /// Bytes of all case lines.
    pub(super) const CASES: u64 = 2 << 30;
    /// Case lines.
    pub(super) const CASE_LINES: usize = 1_000_000;
}

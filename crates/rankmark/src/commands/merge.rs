//! `rankmark merge A B...`: several records as one.

use std::path::{Path, PathBuf};

use clap::ValueHint;
use record::PREDICTIONS_FILE;

use super::{Ended, Typed};
use crate::session::Entry;
use crate::{environment, incomplete, not_a_record, packed, screen};
use record::store::{RESULTS, TRACE_FOLDER};

/// Makes one record of several: parts of a study that ran at different times or on different devices
#[derive(clap::Args)]
#[command(
    after_help = "Records fit if no case is in two of them, and if cases of one device are of one machine. Times of \
                  different records are never paired: ratios between them use the intervals of whole runs. Expected \
                  figures that contradict each other are left out, and the report names them."
)]
pub(crate) struct Merge {
    /// records' directories, two or more
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath, required = true, num_args = 2..)]
    record: Vec<PathBuf>,
    /// where the record goes (default: results/TIME-merged)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output_dir: Option<PathBuf>,
}

impl Typed for Merge {
    const NAME: &'static str = "merge";

    fn run(self, _: Entry<'_>) -> Ended {
        merge(&packed::all_opened(&self.record)?, self.output_dir)
    }
}

fn merge(directories: &[PathBuf], output_dir: Option<PathBuf>) -> Ended {
    let mut parts = Vec::new();
    for directory in directories {
        not_a_record::refuse_file(directory)?;
        let part = record::read_run(directory)?;
        incomplete::warn(directory, part.banner().as_deref());
        parts.push((directory.display().to_string(), part));
    }
    let ids: Vec<String> = parts.iter().map(|(_, part)| part.file.id.clone()).collect();
    let mut merged = record::merge(parts)?;
    merged.file.command_line = environment::command_line();
    let target = match output_dir {
        Some(directory) => directory,
        None => record::fresh_directory(Path::new(RESULTS), jiff::Timestamp::now(), "merged")?,
    };
    record::write_merged(&mut merged, (directories, &ids), &target)?;
    let lost: Vec<String> = merged.damaged.iter().map(|line| format!("warning: {}\n", line.sentence())).collect();
    screen::remark(&(lost.concat() + &left_out(directories)));
    record::merge_explained(directories, &target)?;
    incomplete::warn(&target, merged.banner().as_deref());
    let run = report::Run::read(&target, benchmarks::VIEWS)?;
    let written = report::write(&run, &target)?;
    let cases = merged.cases.len();
    let mut text = format!("{cases} cases of {} records\nrecord   {}\n", directories.len(), target.display());
    if let Some(report) = written.first() {
        text += &format!("report   {}\n", report.display());
    }
    screen::print(&text)
}

/// Names what of the records is not in the merged one.
fn left_out(directories: &[PathBuf]) -> String {
    let files = |directory: &PathBuf| [TRACE_FOLDER, PREDICTIONS_FILE].map(|name| directory.join(name));
    let found = directories.iter().flat_map(files).filter(|path| path.symlink_metadata().is_ok());
    let line = |path: PathBuf| view::one_line(&path.display().to_string());
    found.map(|path| format!("note: {} is not part of the merged record\n", line(path))).collect()
}

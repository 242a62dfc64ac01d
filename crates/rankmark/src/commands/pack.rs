//! `rankmark pack DIR`: a record as one file to send, on request without names of hosts and users.

use std::path::{Path, PathBuf};

use clap::ValueHint;
use measure::machine;
use record::pack::{Names, Redaction, words};

use super::{Ended, Typed};
use crate::session::Entry;
use crate::{Failure, incomplete, not_a_record, screen};

/// Packs a record into one file to send: run, cases, samples, traces and report
#[derive(clap::Args)]
#[command(
    after_help = "--redact replaces host names by host-1, user names by user-1 and home folders by a folder user-1, the \
                  same name by the same number in every file, and says what it replaced. It masks passwords and tokens. It leaves out what is not text \
                  (PNG); `rankmark report` draws it again. It does not replace addresses, other paths, or names that \
                  neither the record nor this machine knows: look at the file before you publish it."
)]
pub(crate) struct Pack {
    /// a record's directory
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    directory: PathBuf,
    /// the archive to make (default: DIR's own name, .tar.gz, in this folder)
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::AnyPath)]
    output: Option<PathBuf>,
    /// replace host names, user names and home folders
    #[arg(long)]
    redact: bool,
}

impl Typed for Pack {
    const NAME: &'static str = "pack";

    fn run(self, _: Entry<'_>) -> Ended {
        not_a_record::refuse_file(&self.directory)?;
        if self.output.as_deref() == Some(Path::new("-")) {
            return Err(Failure::new("an archive is a file: `-` is none").hint("`-o FILE`"));
        }
        let to = self.output.unwrap_or_else(|| default_output(&self.directory));
        let mut redaction = match self.redact {
            true => Some(Redaction::new(names(&self.directory)?)),
            false => None,
        };
        let packed = record::pack::pack(&self.directory, &to, redaction.as_mut())?;
        match record::read_results(&self.directory) {
            Ok(record) => incomplete::warn(&self.directory, record.banner().as_deref()),
            // What cannot be read is packed as it is: it may be sent because of that.
            Err(error) => screen::remark(&format!("warning: {}\n", view::one_line(&error.error.sentence()))),
        }
        screen::print(&packed.text(&to, redaction.as_ref()))
    }
}

/// The record's own name, here.
fn default_output(directory: &Path) -> PathBuf {
    let whole = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let name = whole.file_name().map_or("record".into(), |name| name.to_string_lossy().into_owned());
    PathBuf::from(format!("{name}.tar.gz"))
}

/// The names in a record, and those of this host and its user.
pub(super) fn names(directory: &Path) -> Result<Names, Failure> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    Ok(Names::new(record::read_results(directory)?, machine::detect().host, words(&benchmarks::abouts()), variable))
}

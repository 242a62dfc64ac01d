//! `rankmark pack DIR`: a record as one file to send, on request without names of hosts and users.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use clap::ValueHint;
use measure::machine;
use record::pack::{Names, Packed, Redaction, words};
use terms::Bytes;

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
        screen::print(&text(&to, &packed, redaction.as_ref()))
    }
}

/// The record's own name, here.
fn default_output(directory: &Path) -> PathBuf {
    let whole = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let name = whole.file_name().map_or("record".into(), |name| name.to_string_lossy().into_owned());
    PathBuf::from(format!("{name}.tar.gz"))
}

/// The hosts of the record, and this one; of the user who packs it.
pub(super) fn names(directory: &Path) -> Result<Names, Failure> {
    let run = record::read_results(directory)?;
    let words = words(&benchmarks::abouts());
    let mut hosts = vec![run.file.machine.host];
    hosts.extend(run.file.hosts.into_iter().map(|machine| machine.host));
    hosts.extend(run.file.placement.into_iter().flat_map(|placement| placement.hosts));
    hosts.extend(run.cases.into_iter().flat_map(|line| line.clocks).map(|clock| clock.host));
    // The record need not be of this host; where it is not, its name is no reason to refuse anything.
    hosts.extend(Some(machine::detect().host).filter(|host| !words.contains(host)));
    let mut seen = HashSet::new();
    hosts.retain(|host| !host.is_empty() && seen.insert(host.clone()));
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    // `/` is nobody's, and a slash at the end is not part of a home folder's name.
    let home = variable("HOME").map(|home| home.trim_end_matches('/').to_owned()).filter(|home| !home.is_empty());
    let users = ["USER", "LOGNAME", "SUDO_USER"].into_iter().filter_map(variable);
    let mut users: Vec<(String, Option<String>)> = users.map(|user| (user, None)).collect();
    if let Some(home) = home {
        let own = home.rsplit('/').next().unwrap_or_default().to_owned();
        match users.first_mut() {
            Some(user) => user.1 = Some(home),
            None => users.push((own, Some(home))),
        }
    }
    Ok(Names { hosts, users, words })
}

fn text(to: &Path, packed: &Packed, redaction: Option<&Redaction>) -> String {
    let count = |number: usize, one: &str| if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") };
    let files = count(packed.files.len(), "file");
    let mut text = format!("packed    {}  ({files}, {})\n", to.display(), Bytes(packed.bytes).about());
    for (name, why) in &packed.left_out {
        text.push_str(&format!("left out  {}: {why}\n", name.escape_debug()));
    }
    let Some(redaction) = redaction else { return text };
    let replaced = redaction.replaced();
    for found in replaced.iter().filter(|found| found.times > 0) {
        let times = count(found.times, "time");
        text.push_str(&format!(
            "replaced  {} `{}` by `{}`: {times}\n",
            found.kind,
            found.name.escape_debug(),
            found.by
        ));
    }
    if replaced.iter().all(|found| found.times == 0) {
        text.push_str("replaced  nothing: no name was found\n");
    }
    if redaction.secrets > 0 {
        text.push_str(&format!("replaced  passwords and tokens by `***`: {}\n", count(redaction.secrets, "time")));
    }
    for found in replaced.iter().filter(|found| found.within_words > 0) {
        let times = count(found.within_words, "time");
        text.push_str(&format!("note      `{}` stays within longer words: {times}\n", found.name.escape_debug()));
    }
    for user in &redaction.only_homes {
        let why = "is replaced in home folders only: it is too short, or also a word of records";
        text.push_str(&format!("note      the user name `{}` {why}\n", user.escape_debug()));
    }
    text
}

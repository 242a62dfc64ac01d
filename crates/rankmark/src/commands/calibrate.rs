//! `rankmark calibrate`: what operations and exchanges take on this machine, as the profile that `rankmark predict` reads.

mod text;

use std::path::{Path, PathBuf};

use clap::ValueHint;
use clap::builder::PossibleValuesParser;
use measure::machine;
use predict::calibrate::{Caches, Given, Wish, machine_profile, plan};
use record::{MachineProfile, read_run, write_machine_profile};
use terms::Dtype;

use super::{Ended, Typed};
use crate::options::{Output, RunOptions};
use crate::session::{self, Entry, SessionRequest};
use crate::{Failure, screen};

/// The profile within its record. Where it goes, too, follows from `--output`.
const FILE: &str = "machine-profile.json";
/// Where `predict` looks for the profile of this machine.
pub(super) const USUAL: &str = "results/machine-profile.json";

const EXAMPLES: &str = "\
Examples:
  rankmark calibrate --quick               a profile within a minute, in results/machine-profile.json
  rankmark calibrate --precision f32,bf16  more sizes, in two types
  rankmark calibrate results/DIR           the profile of a calibration that was measured before
  rankmark calibrate --quick --dry-run     what would be measured, as a plan

docs/how-to/calibrate.md says what is measured, and what `rankmark predict` does with it.";

/// Measures what operations and exchanges of training take on this machine, for `rankmark predict`
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Calibrate {
    /// the record of a calibration: makes its profile again, and measures nothing
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["quick", "ranks", "backend", "precision", "dry_run", "output_dir"])]
    dir: Option<PathBuf>,
    /// fewer sizes and three trials each: at most a minute on two cores
    #[arg(long)]
    quick: bool,
    /// ranks that run at once (default: one a core)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    ranks: Option<u32>,
    /// what moves data between ranks (default: memory that they share)
    #[arg(long, value_name = "BACKEND", value_parser = comm_backends())]
    backend: Option<String>,
    /// types of activations [f32, f64, bf16, f16]
    #[arg(long, value_name = "TYPE", default_value = "f32", value_delimiter = ',')]
    precision: Vec<Dtype>,
    /// what the machine is called in the profile (default: its host name)
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// the profile's file (default: results/machine-profile.json)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// directory of the record (default: results/TIME-calibration)
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output_dir: Option<PathBuf>,
    /// prints what would be measured as a plan, which `rankmark run` takes, and measures nothing
    #[arg(long)]
    dry_run: bool,
    /// prints the profile as one JSON object
    #[arg(long)]
    json: bool,
    /// prints errors only
    #[arg(long, short)]
    quiet: bool,
}

/// Backends that move data.
fn moving() -> impl Iterator<Item = &'static comm::About> {
    comm::backends().map(|backend| backend.about()).filter(|about| !about.simulated)
}

fn comm_backends() -> PossibleValuesParser {
    PossibleValuesParser::new(moving().map(|about| about.name).collect::<Vec<_>>())
}

/// The first that needs no launcher and no library.
fn usual_backend() -> String {
    moving().find(|about| !about.launched && !about.in_process).map_or_else(String::new, |about| about.name.to_owned())
}

impl Typed for Calibrate {
    const NAME: &'static str = "calibrate";

    fn run(self, entry: Entry<'_>) -> Ended {
        let text = plan(&self.wish())?;
        if self.dry_run {
            return screen::print(&text);
        }
        let (directory, code) = match &self.dir {
            Some(directory) => (directory.clone(), 0),
            None => self.measured(&text, entry)?,
        };
        // A profile of some operations would take the place of a whole one.
        if session::signal_code() == Some(code) {
            let record = directory.display().to_string();
            let record = report::shell(&record);
            let hint = format!("rankmark run --resume {record}\nmeasures the rest; then rankmark calibrate {record}");
            return Err(Failure::new("the calibration was interrupted: no profile was written")
                .hint(hint)
                .with_code(code));
        }
        let profile = self.profile(&directory)?;
        let target = self.output.clone().unwrap_or_else(|| self.usual(&directory));
        write_machine_profile(&target, &profile)?;
        if self.json {
            screen::print_json(&format!(
                "{}\n",
                record::to_json(&profile).map_err(|error| Failure::new("the profile cannot be written").cause(error))?
            ))?;
        } else if !self.quiet {
            screen::print(&text::summary(&profile, &target, &directory))?;
        }
        Ok(code)
    }
}

impl Calibrate {
    fn wish(&self) -> Wish {
        Wish {
            ranks: self.ranks.unwrap_or_else(cores),
            backend: self.backend.clone().unwrap_or_else(usual_backend),
            precisions: self.precision.clone(),
            quick: self.quick,
            caches: caches(),
        }
    }

    /// Runs the plan. Gives its record, and the exit status that its cases give.
    fn measured(&self, text: &str, entry: Entry<'_>) -> Result<(PathBuf, u8), Failure> {
        let plan = record::plan::read(text, "the plan of a calibration", &benchmarks::abouts(), &[])?;
        if !self.quiet {
            let begins = text::begins(&plan, self.wish().ranks, self.quick);
            screen::remark(&begins);
        }
        let options = RunOptions {
            output: Output { output_dir: self.output_dir.clone(), quiet: true, ..Output::default() },
            has_plan: true,
            ..RunOptions::default()
        };
        let request = SessionRequest::new(&options, entry);
        let ended = session::measure(&request, Some(plan))?;
        let directory = ended.directory.ok_or_else(|| Failure::new("nothing was measured"))?;
        Ok((directory, ended.code))
    }

    /// The profile that a record's results give.
    fn profile(&self, directory: &Path) -> Result<MachineProfile, Failure> {
        let record = read_run(directory)?;
        if let Some(banner) = record.banner() {
            screen::remark(&format!("warning: {}: {banner}\n", directory.display()));
        }
        let machine = &record.file.machine;
        let most = record.cases.iter().map(|line| line.ranks).max().unwrap_or(1);
        let name = self.name.clone().unwrap_or_else(|| machine.host.clone());
        let given = Given {
            name,
            source: record.file.command_line.join(" "),
            created: record.file.started.to_string(),
            version: record.file.tool.version.clone(),
            ranks: self.ranks.unwrap_or(most),
        };
        Ok(machine_profile(&record.cases, machine, given)?)
    }

    /// Where the profile goes unless somebody says so: that of a record into the record's folder, and that of now to where it is
    /// looked for.
    fn usual(&self, directory: &Path) -> PathBuf {
        if self.dir.is_some() { directory.join(FILE) } else { PathBuf::from(USUAL) }
    }
}

/// The caches of this machine: a core's own are those up to the second level.
pub(super) fn caches() -> Caches {
    let all = machine::detect().caches;
    let most = |level: std::ops::RangeInclusive<u32>| {
        let of = all.iter().filter(|cache| cache.kind != "instruction" && level.contains(&cache.level));
        of.map(|cache| cache.bytes).max().unwrap_or(0)
    };
    Caches { own: most(1..=2), shared: most(3..=4) }
}

/// Ranks of this machine, unless somebody says how many: one a core.
fn cores() -> u32 {
    machine::allowed_cpus().len().clamp(1, 1024) as u32
}

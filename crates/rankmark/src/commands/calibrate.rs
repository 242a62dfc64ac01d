//! `rankmark calibrate`: what operations and exchanges take on this machine, as the profile that `rankmark predict` reads.

use std::path::{Path, PathBuf};

use clap::ValueHint;
use clap::builder::PossibleValuesParser;
use plans::calibration;
use predict::calibrate::{Wish, begins, plan, summary};
use record::{read_run, write_machine_profile};
use terms::Dtype;

use super::{Ended, Typed};
use crate::options::{Output, RunOptions};
use crate::session::{self, Entry, SessionRequest};
use crate::{Failure, incomplete, screen};

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

fn comm_backends() -> PossibleValuesParser {
    PossibleValuesParser::new(calibration::moving_backends().map(|about| about.name).collect::<Vec<_>>())
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
        let record = read_run(&directory)?;
        incomplete::warn(&directory, record.banner().as_deref());
        let profile = calibration::profile(&record, self.name.clone(), self.ranks)?;
        let target = self.output.clone().unwrap_or_else(|| self.usual(&directory));
        if calibration::keeps(&target, code != 0) {
            let own = directory.join(FILE);
            write_machine_profile(&own, &profile)?;
            let (record, own) = (directory.display().to_string(), own.display().to_string());
            let hint = format!(
                "rankmark report {}\nsays which cases failed; `rankmark predict --profile {}` takes the new profile",
                report::shell(&record),
                report::shell(&own)
            );
            return Err(Failure::new(format!("cases failed: {} was kept as it was", target.display()))
                .cause(format!("the new profile lacks what they measure, and is {own}"))
                .hint(hint)
                .with_code(code));
        }
        write_machine_profile(&target, &profile)?;
        if self.json {
            screen::print_json(&format!(
                "{}\n",
                record::to_json(&profile).map_err(|error| Failure::new("the profile cannot be written").cause(error))?
            ))?;
        } else if !self.quiet {
            screen::print(&summary(&profile, &target, &directory))?;
        }
        Ok(code)
    }
}

impl Calibrate {
    fn wish(&self) -> Wish {
        Wish {
            ranks: self.ranks.unwrap_or_else(calibration::usual_ranks),
            backend: self.backend.clone().unwrap_or_else(calibration::usual_backend),
            precisions: self.precision.clone(),
            quick: self.quick,
            caches: calibration::caches(),
        }
    }

    /// Runs the plan. Gives its record, and the exit status that its cases give.
    fn measured(&self, text: &str, entry: Entry<'_>) -> Result<(PathBuf, u8), Failure> {
        let plan = record::plan::read(text, "the plan of a calibration", &benchmarks::abouts(), &[])?;
        if !self.quiet {
            screen::remark(&begins(&plan, self.wish().ranks, self.quick));
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

    /// Where the profile goes unless somebody says so: that of a record into the record's folder, and that of now to where it is
    /// looked for.
    fn usual(&self, directory: &Path) -> PathBuf {
        if self.dir.is_some() { directory.join(FILE) } else { PathBuf::from(USUAL) }
    }
}

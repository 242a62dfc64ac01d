//! `rankmark compare A B [C...]`: what became better, worse, stayed the same, or is undecided.

mod interleave;
mod options;

use std::path::{Path, PathBuf};

use clap::ValueHint;
use diagnose::compare::Settings;
use record::Record;
use report::{Comparisons, Gate, SideSource};

use super::{CommandRow, Ended, profile};
use crate::options::{GateOptions, parts, refuse_given};
use crate::session::Entry;
use crate::{Failure, not_a_record, packed, screen};
use options::Interleave;
pub(super) use options::Outputs;

/// Rows that are printed unless all are asked for.
const MOST_ROWS: usize = 40;

const EXAMPLES: &str = "Examples:
  rankmark compare results/monday results/today             what changed
  rankmark compare A B --history results                    noise of equal runs
  rankmark compare A B C                                    each against A
  rankmark compare results/old results/new                  folders of equal runs
  rankmark compare old-* --new new-*                        the same of single records
  rankmark compare before.json after.json                   two traces: steps, phases, collectives, kernels
  rankmark compare A B --fail-on worse --junit compare.xml  in CI: only a regression fails";

/// Compares records, or plans that it measures interleaved: better, worse, same, or cannot tell
#[derive(clap::Args)]
#[command(
    after_help = "Exit status: 0 same or better, 1 worse, 3 cannot tell (--fail-on decides), 2 it could not compare.\n\
                  docs/how-to/compare.md says what the verdicts mean, and how many trials and runs they need."
)]
struct Compare {
    /// records, or folders of equal runs: the base, and one or more to compare with it; with --interleave, one or two plans
    #[arg(value_name = "DIR|PLAN", value_hint = ValueHint::AnyPath, required = true, num_args = 1..)]
    sides: Vec<String>,
    /// the new side, of several equal runs; all records before it are the base
    #[arg(long, value_name = "DIR", value_hint = ValueHint::AnyPath, num_args = 1.., conflicts_with = "interleave")]
    new: Vec<String>,
    #[command(flatten)]
    gate: GateOptions,
    #[command(flatten)]
    outputs: Outputs,
    #[command(flatten)]
    interleave: Interleave,
}

const NAME: &str = "compare";

pub(crate) const ROW: CommandRow = CommandRow {
    declare: || vec![command()],
    run: |name, matches, entry| (name == NAME).then(|| parts::read::<Compare>(matches)?.run(entry)),
};

fn command() -> clap::Command {
    <Compare as clap::Args>::augment_args(parts::named(NAME))
        .before_help(format!("{EXAMPLES}\n{}", interleave::EXAMPLES))
        .mut_args(|arg| {
            let of_records = ["history", "all"].contains(&arg.get_id().as_str());
            if of_records { arg.conflicts_with("interleave") } else { arg }
        })
}

impl Compare {
    fn run(self, entry: Entry<'_>) -> Ended {
        let gate = self.gate.gate();
        if self.interleave.interleave {
            return interleave::run((&self.sides, &self.interleave, &self.outputs), gate, entry);
        }
        refuse_given(&self.interleave.given(), "is for sides that `--interleave` measures")?;
        self.sides.iter().chain(&self.new).try_for_each(|side| not_a_record::refuse_prediction(Path::new(side)))?;
        let (sides, new) = (packed::names_opened(&self.sides)?, packed::names_opened(&self.new)?);
        records(&Self { sides, new, ..self }, &gate)
    }
}

fn records(given: &Compare, gate: &Gate) -> Ended {
    let named: Vec<String> = given.sides.iter().chain(&given.new).cloned().collect();
    let of_records = [
        ("history", given.outputs.history.is_some()),
        ("junit", given.outputs.junit.is_some()),
        ("all", given.outputs.all),
        ("output-dir", given.interleave.output_dir.is_some()),
        ("quiet", given.interleave.quiet),
    ];
    let of_records: Vec<_> = given.gate.given().into_iter().chain(of_records).collect();
    if let Some(code) = traces_compared(&named, &of_records, given.outputs.json)? {
        return Ok(code);
    }
    not_a_record::refuse_missing(&named)?;
    if let Some(folder) = &given.interleave.output_dir {
        let records: Vec<String> = named.iter().map(|name| report::shell(name)).collect();
        let line = format!(
            "rankmark report {} --output-dir {}",
            records.join(" "),
            report::shell(&folder.display().to_string())
        );
        return Err(Failure::new("`rankmark compare` writes no page of records").hint(format!("`{line}` does")));
    }
    not_a_record::refuse_files(&named)?;
    let [base, others @ ..] = given.sides.as_slice() else { return Ok(2) };
    if others.is_empty() && given.new.is_empty() {
        return Err(Failure::new("`rankmark compare` needs two records").hint(format!(
            "rankmark compare {base} OTHER; `rankmark compare --interleave PLAN_A PLAN_B` measures both sides now",
            base = report::shell(base)
        )));
    }
    let paths = |names: &[String]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
    let (base, others) = match given.new.is_empty() {
        true => {
            let others = others.iter().map(|other| record_side(Path::new(other))).collect::<Result<Vec<_>, _>>()?;
            (record_side(Path::new(base))?, others)
        }
        false => (
            SideSource::runs(&paths(&given.sides), &mut screen::warn)?,
            vec![SideSource::runs(&paths(&given.new), &mut screen::warn)?],
        ),
    };
    let is_single = base.records.len() == 1 && others.iter().all(|other| other.records.len() == 1);
    let code = sides((&given.outputs, gate, given.interleave.quiet), base, others)?;
    // The page of a report knows no history and no threshold of its own: it would give other verdicts.
    let is_plain = given.outputs.history.is_none() && gate.threshold == Gate::default().threshold;
    if !given.outputs.json && !given.interleave.quiet && is_plain {
        let directories: Vec<&Path> = named.iter().map(Path::new).collect();
        let next = match is_single {
            true => screen::next_report(&directories, "one page about these records"),
            false => {
                let words: Vec<&str> = named.iter().map(String::as_str).collect();
                screen::next(&[&["rankmark", "history"], &words[..]].concat(), "each run in order of time")
            }
        };
        screen::print(&format!("\n{next}"))?;
    }
    Ok(code)
}

/// Compares the sides if all of them are traces; None where they are something else. `of_records` are options that only
/// records have, and whether they were given.
///
/// # Errors
/// More or fewer than two traces, such an option, and what of them cannot be read or explained.
fn traces_compared(sides: &[String], of_records: &[(&str, bool)], json: bool) -> Result<Option<u8>, Failure> {
    if sides.is_empty() || !sides.iter().all(|side| is_trace(Path::new(side))) {
        return Ok(None);
    }
    let [before, after] = sides else {
        let failure = Failure::new(format!("{} traces are named, and two are compared", sides.len()));
        return Err(failure.hint("rankmark compare BEFORE AFTER; a folder of traces of all ranks is one side"));
    };
    // A gate that nobody looks at would always hold.
    refuse_given(of_records, &format!("is for records, and {before} is a trace"))?;
    profile::compare_traces([Path::new(before), Path::new(after)], json).map(Some)
}

/// Whether it is a trace, and no part of a record: a folder of traces, or a file.
fn is_trace(path: &Path) -> bool {
    let is_record =
        path.is_dir() && path.join(record::store::RUN_FILE).is_file() || not_a_record::record_of(path).is_some();
    path.exists() && !is_record && !not_a_record::is_plan(path) && import::traces::recognise(path).is_some()
}

/// Compares each record with the base, and says it as the options ask.
pub(super) fn sides(
    (outputs, gate, quiet): (&Outputs, &Gate, bool),
    mut base: SideSource,
    mut others: Vec<SideSource>,
) -> Ended {
    base.meet(&mut others);
    let (base, others) = (&base, others.as_slice());
    let compared: Vec<&Record> = base.records.iter().chain(others.iter().flat_map(|other| &other.records)).collect();
    let history = match &outputs.history {
        Some(folder) => report::equal_runs(folder, &compared, &mut screen::warn)?,
        None => Vec::new(),
    };
    let settings = Settings { threshold: gate.threshold, history: history.iter().collect() };
    let found = Comparisons::new(base, others, &settings);
    report::nothing_compared(&found)?;
    if let Some(file) = &outputs.junit {
        write_junit(file, &report::comparison_junit(&found, &base.records))?;
    }
    let code = gate.code(&found);
    if outputs.json {
        let compared: Vec<_> = found.others.iter().map(|side| (side.name.as_str(), &side.comparison)).collect();
        screen::print_json(&report::comparison_lines((&base.name, base.latest()), &compared))?;
        return Ok(code);
    }
    let limit = if outputs.all { usize::MAX } else { MOST_ROWS };
    if quiet {
        return Ok(code);
    }
    screen::print(&report::comparison(&found, limit).text(screen::width()))?;
    Ok(code)
}

/// Writes verdicts as JUnit XML, whole or not at all.
fn write_junit(file: &Path, text: &str) -> Result<(), Failure> {
    record::file::replace_named(file, text.as_bytes())
        .map_err(|error| Failure::new(format!("cannot write {}", file.display())).cause(error))
}

/// A record, or a folder of equal runs, as one side.
pub(super) fn record_side(directory: &Path) -> Result<SideSource, Failure> {
    Ok(SideSource::record(directory, &mut screen::warn)?)
}

/// The comparison at the end of a run: its text and its exit code.
pub(super) fn at_end(base: &mut SideSource, mut new: SideSource, gate: &Gate) -> Result<(String, u8), Failure> {
    base.meet(std::slice::from_mut(&mut new));
    let settings = Settings { threshold: gate.threshold, history: Vec::new() };
    let found = Comparisons::new(base, std::slice::from_ref(&new), &settings);
    report::nothing_compared(&found)?;
    Ok((report::comparison(&found, MOST_ROWS).text(screen::width()), gate.code(&found)))
}

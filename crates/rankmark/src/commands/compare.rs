//! `rankmark compare A B [C...]`: what became better, worse, stayed the same, or is undecided. One module each for what is
//! read, how it is said, and what becomes of the exit code.

mod interleave;
mod junit;
mod options;
mod plans;
pub(super) mod sources;
mod traces;

use std::path::{Path, PathBuf};

use clap::ValueHint;
use diagnose::compare::{Settings, compare_sides};
use record::Record;
use report::{Against, Comparisons, JunitCase};

use super::{CommandRow, Ended};
use crate::options::{Gate, GateOptions, parts, refuse_given};
use crate::session::Entry;
use crate::{Failure, not_a_record, packed, screen};
use junit::write_cases;
use options::Interleave;
pub(super) use options::Outputs;
use sources::SideSource;

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
        let gate = Gate::from_options(&self.gate);
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
    if let Some(code) = traces::compared(&named, &of_records, given.outputs.json)? {
        return Ok(code);
    }
    refuse_missing(&named)?;
    if let Some(folder) = &given.interleave.output_dir {
        let records: Vec<String> = named.iter().map(|name| report::shell(name).to_string()).collect();
        let line = format!(
            "rankmark report {} --output-dir {}",
            records.join(" "),
            report::shell(&folder.display().to_string())
        );
        return Err(Failure::new("`rankmark compare` writes no page of records").hint(format!("`{line}` does")));
    }
    plans::refuse(&named)?;
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
            let others =
                others.iter().map(|other| SideSource::record(Path::new(other))).collect::<Result<Vec<_>, _>>()?;
            (SideSource::record(Path::new(base))?, others)
        }
        false => (SideSource::runs(&paths(&given.sides))?, vec![SideSource::runs(&paths(&given.new))?]),
    };
    let is_single = base.records.len() == 1 && others.iter().all(|other| other.records.len() == 1);
    let code = sides((&given.outputs, gate, given.interleave.quiet), base, others)?;
    // The page of a report knows no history and no threshold of its own: it would give other verdicts.
    let is_plain =
        given.outputs.history.is_none() && gate.threshold == Gate::from_options(&GateOptions::default()).threshold;
    if !given.outputs.json && !given.interleave.quiet && is_plain {
        let directories: Vec<&Path> = named.iter().map(Path::new).collect();
        let next = match is_single {
            true => screen::next_report(&directories, "one page about these records"),
            false => {
                screen::next(&[&["rankmark", "history"], &words(&named)[..]].concat(), "each run in order of time")
            }
        };
        screen::print(&format!("\n{next}"))?;
    }
    Ok(code)
}

/// Names all that is not there, at once.
fn refuse_missing(named: &[String]) -> Result<(), Failure> {
    let missing: Vec<String> = named.iter().filter(|name| !Path::new(name).exists()).cloned().collect();
    match missing.as_slice() {
        [] => Ok(()),
        [one] => Err(Failure::new(format!("there is no folder {one}"))),
        all => Err(Failure::new(format!("there are no folders {}", view::number::list(all)))),
    }
}

fn words(named: &[String]) -> Vec<&str> {
    named.iter().map(String::as_str).collect()
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
        Some(folder) => sources::history(folder, &compared)?,
        None => Vec::new(),
    };
    let settings = Settings { threshold: gate.threshold, history: history.iter().collect() };
    let found = against(base, others, &settings);
    refuse_nothing(&found)?;
    if let Some(file) = &outputs.junit {
        write_junit(file, base, &found)?;
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

/// Each of the others, compared with the base.
fn against<'r>(base: &'r SideSource, others: &'r [SideSource], settings: &Settings<'r>) -> Comparisons<'r> {
    let records: Vec<&Record> = base.records.iter().collect();
    let one = |other: &'r SideSource| {
        let news: Vec<&Record> = other.records.iter().collect();
        let comparison = compare_sides(&records, &news, settings);
        Against { name: other.name.clone(), latest: other.latest(), comparison }
    };
    Comparisons { name: base.name.clone(), base: base.latest(), others: others.iter().map(one).collect() }
}

/// Records without a case in common are not a comparison.
fn refuse_nothing(found: &Comparisons<'_>) -> Result<(), Failure> {
    let refused = |side: &Against<'_>| report::nothing_compared((&found.name, &side.name), &side.comparison);
    found.others.iter().find_map(refused).map_or(Ok(()), |error| Err(error.into()))
}

fn write_junit(file: &Path, base: &SideSource, found: &Comparisons<'_>) -> Result<(), Failure> {
    let sides = found.others.as_slice();
    let several = |side: &Against<'_>| if sides.len() > 1 { format!("{}: ", side.name) } else { String::new() };
    let cases: Vec<JunitCase> =
        sides.iter().flat_map(|side| report::compared_tests(base.latest(), &several(side), &side.comparison)).collect();
    let of_base = base.records.iter().filter_map(Record::banner).map(|banner| ("base", &base.name, banner));
    let of_sides = sides
        .iter()
        .flat_map(|side| side.comparison.incomplete[1].iter().map(|banner| ("new", &side.name, banner.clone())));
    let incomplete: Vec<(&str, String)> =
        of_base.chain(of_sides).map(|(side, name, banner)| (side, format!("{name}: {banner}"))).collect();
    write_cases(file, &incomplete, &cases)
}

/// The comparison at the end of a run: its text and its exit code.
pub(super) fn at_end(base: &mut SideSource, mut new: SideSource, gate: &Gate) -> Result<(String, u8), Failure> {
    base.meet(std::slice::from_mut(&mut new));
    let settings = Settings { threshold: gate.threshold, history: Vec::new() };
    let found = against(base, std::slice::from_ref(&new), &settings);
    refuse_nothing(&found)?;
    Ok((report::comparison(&found, MOST_ROWS).text(screen::width()), gate.code(&found)))
}

/// Writes the page about several records, each compared with the first, below a folder.
///
/// # Errors
/// Where a record cannot be read, or the page cannot be written.
pub(super) fn write_together(
    runs: &[report::Run],
    directories: &[PathBuf],
    gate: &Gate,
    folder: &Path,
) -> Result<Vec<PathBuf>, Failure> {
    // What is damaged was said when the report of each was read.
    let mut sources = directories.iter().map(|directory| {
        Ok::<_, Failure>(SideSource {
            name: directory.display().to_string(),
            records: vec![record::read_run(directory)?],
        })
    });
    let Some(base) = sources.next() else { return Ok(report::write_together(runs, None, folder)?) };
    let (mut base, mut others) = (base?, sources.collect::<Result<Vec<_>, _>>()?);
    base.meet(&mut others);
    let settings = Settings { threshold: gate.threshold, history: Vec::new() };
    Ok(report::write_together(runs, Some(&against(&base, &others, &settings)), folder)?)
}

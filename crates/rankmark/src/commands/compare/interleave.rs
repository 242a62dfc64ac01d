//! `rankmark compare --interleave`: two sides measured now, in A B B A slices, until each case is decided.

mod outcome;
mod program;
mod sides;

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, ValueHint, value_parser};
use diagnose::Verdict;
use launch::external::External;
use measure::machine;
use record::{Interleaved, Plan, of_side};
use runner::{PairSetup, interleave};

use super::gate::Gate;
use crate::cli::measured::directory;
use crate::session::{self, Entry, Request};
use crate::terminal::PairScreen;
use crate::{Failure, labels};
use sides::Sides;

/// The lines to begin with.
pub(super) const EXAMPLES: &str = "  rankmark compare --interleave a.yaml b.yaml                                           two plans
  rankmark compare --interleave plan.yaml --env-a NCCL_ALGO=Ring --env-b NCCL_ALGO=Tree  one plan, two environments
  rankmark compare --interleave plan.yaml --set-b buffers=private                       one field
  rankmark compare --interleave plan.yaml --binary-b ../old/rankmark                    another build of Rankmark
  rankmark compare --interleave plan.yaml                                               equal sides: what this machine can tell";

/// Time that a case may take.
const SECONDS: &str = "60s";

/// The options of an interleaved comparison.
pub(crate) fn arguments() -> Vec<Arg> {
    let many = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).action(ArgAction::Append).requires("interleave").help(help)
    };
    let flag = |name: &'static str, help: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue).help(help);
    let time = |name: &'static str| {
        let arg = Arg::new(name).long(name).value_name("TIME").value_parser(value_parser!(terms::Seconds));
        arg.requires("interleave")
    };
    let mut arguments = vec![
        flag(
            "interleave",
            "measures both sides now, in A B B A slices of two living worlds, until each case is decided",
        ),
        many("env-a", "NAME=VALUE", "a variable in the environment of A's ranks; repeats"),
        many("env-b", "NAME=VALUE", "a variable in the environment of B's ranks; repeats"),
        many("set-a", "FIELD=VALUE", "sets a field of every case of A; repeats"),
        many("set-b", "FIELD=VALUE", "sets a field of every case of B; repeats"),
        many("set", "FIELD=VALUE", "sets a field of every case of both sides; repeats"),
        Arg::new("binary-b")
            .long("binary-b")
            .value_name("PATH")
            .value_hint(ValueHint::FilePath)
            .value_parser(value_parser!(PathBuf))
            .requires("interleave")
            .help("B's ranks are this build of Rankmark; its control protocol must be the same"),
        time("max-seconds")
            .default_value(SECONDS)
            .help("most time of a case, both sides and the start of ranks included"),
        time("budget").help("ends the whole comparison after this time, with the pairs made by then"),
        directory("output-dir", "directory of the record (default: results/TIME-EXPERIMENT)").requires("interleave"),
        flag("quiet", "prints errors only").conflicts_with("verbose").short('q'),
        flag("verbose", "prints more: caveats in full").short('v'),
    ];
    arguments.extend(labels::options_of_new().map(|arg| arg.requires("interleave")));
    arguments
}

pub(crate) fn run(matches: &ArgMatches, entry: Entry<'_>) -> Result<u8, Failure> {
    refuse_launcher(entry)?;
    let (gate, threshold) = (gate(matches)?, threshold(matches)?);
    let (budget, max_seconds) = (session::budget(matches)?, max_seconds(matches)?);
    let mut sides = Sides::read(matches)?;
    let mut starters = [session::starter(), session::starter()];
    if let Some(path) = matches.get_one::<PathBuf>("binary-b") {
        let program = program::look_at(path, &sides.matched)?;
        sides.sides[1].program = Some(program.path.display().to_string());
        sides.sides[1].version = Some(program.version);
        starters[1] = session::starter().program(program.path);
    }
    process::interrupt::install().map_err(|error| Failure::new("signals could not be set up").cause(error))?;
    let request = Request { matches, machine: machine::detect(), entry, into_folder: false, is_profile: false };
    let mut record = session::create(&request, plan(&sides))?;
    record::declare_sides(&mut record.file);
    let own = Interleaved { sides: sides.sides.clone(), threshold, ..Interleaved::default() };
    record.file.interleaved = Some(own);
    record.store.write_run(&record.file)?;
    let mut screen = PairScreen::new(request.verbosity(), matches.get_flag("json"), threshold, &sides.matched);
    screen.header(&record.file, record.store.directory(), max_seconds, &sides.notes);
    let host = session::host(None, &record.file.machine);
    let [starter_a, starter_b] = &mut starters;
    let compared = interleave(PairSetup {
        cases: &sides.matched,
        starters: [starter_a, starter_b],
        store: &mut record.store,
        file: &mut record.file,
        host,
        observer: &mut screen,
        seed: session::order_seed(),
        max_seconds,
        deadline: budget.map(|budget| entry.begun + budget),
        decides: &|ends| Verdict::from_interval(Some(ends), threshold) != Verdict::CannotTell,
        interrupted: session::interrupted,
    })?;
    let told: Vec<_> =
        sides.matched.iter().zip(&compared).map(|(sides, one)| outcome::told(sides, one, threshold)).collect();
    if let Some(interleaved) = &mut record.file.interleaved {
        interleaved.cases.clone_from(&told);
    }
    record.store.finish(&mut record.file)?;
    let directory = record.store.directory().to_owned();
    drop(record);
    let run = report::Run::read(&directory, benchmarks::VIEWS)?;
    let written = report::write(&run, &directory);
    screen.end(&told, &compared, written.as_deref().unwrap_or_default());
    written?;
    if let Some(error) = screen.lost() {
        let hint = format!("the record in {} is whole: run.json has the same objects", directory.display());
        return Err(crate::terminal::unwritten(error).hint(hint));
    }
    if let Some(file) = matches.get_one::<PathBuf>("junit") {
        super::write_cases(file, &outcome::junit(&told, screen.labels(), threshold))?;
    }
    Ok(outcome::exit_code(&told, &compared, &gate))
}

/// What sets the exit code.
fn gate(matches: &ArgMatches) -> Result<Gate, Failure> {
    let gate = Gate::read(matches);
    if gate.fails("unmatched") {
        return Err(Failure::new(
            "`--fail-on unmatched` is for records: sides that are measured now are matched before",
        )
        .hint("--fail-on worse,cannot-tell,better or none"));
    }
    Ok(gate)
}

/// Two worlds at once need ranks that this program starts.
fn refuse_launcher(entry: Entry<'_>) -> Result<(), Failure> {
    let launched = External::from_environment(&|name| std::env::var_os(name));
    if entry.coordinator.is_none() && matches!(launched, Ok(None)) {
        return Ok(());
    }
    Err(Failure::new("`compare --interleave` cannot use the ranks of an external launcher")
        .cause("both sides need a world of their own at once, and a launcher's ranks can be in one world at a time")
        .hint("start it without mpirun, srun or torchrun; backend `mpi` starts its own mpirun for each side"))
}

fn threshold(matches: &ArgMatches) -> Result<f64, Failure> {
    let threshold = Gate::read(matches).threshold;
    if threshold < 1.0 {
        return Ok(threshold);
    }
    Err(Failure::new("`--threshold` of an interleaved comparison must be below 100%")
        .hint("for example --threshold 3%"))
}

fn max_seconds(matches: &ArgMatches) -> Result<f64, Failure> {
    let seconds = matches.get_one::<terms::Seconds>("max-seconds").map_or(0.0, |seconds| seconds.0);
    if seconds > 0.0 && seconds <= 86_400.0 {
        return Ok(seconds);
    }
    Err(Failure::new("`--max-seconds` must be above 0 and at most a day").hint("for example --max-seconds 60s"))
}

/// The plan of the record: each case once for each side.
fn plan(sides: &Sides) -> Plan {
    let cases = sides.matched.iter().flat_map(|both| [of_side(&both[0], 0), of_side(&both[1], 1)]).collect();
    Plan {
        experiment: sides.experiment.clone(),
        profiling: false,
        cases,
        notes: Vec::new(),
        read_as: None,
        expected: Vec::new(),
        source_text: sides.source_text.clone(),
    }
}

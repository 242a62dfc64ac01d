//! `rankmark compare --interleave`: two sides measured now, in A B B A slices, until each case is decided.

use std::path::Path;

use diagnose::Verdict;
use launch::external::External;
use plans::program;
use record::Interleaved;
use report::Gate;
use runner::{PairSetup, SideSettings, Sides, interleave};

use super::options::{Interleave, Outputs};
use super::write_junit;
use crate::commands::Ended;
use crate::incomplete;
use crate::options::budget;
use crate::screen::PairScreen;
use crate::session::{self, Entry, SessionRequest};
use crate::{Failure, habits, plan_files};

/// The lines to begin with.
pub(super) const EXAMPLES: &str = "  rankmark compare --interleave a.yaml b.yaml                      two plans
  rankmark compare --interleave plan.yaml --env-b NCCL_ALGO=Tree   one variable
  rankmark compare --interleave plan.yaml --set-b buffers=private  one field
  rankmark compare --interleave plan.yaml --binary-b old/rankmark  two builds
  rankmark compare --interleave plan.yaml                          equal sides";

pub(super) fn run((files, own, outputs): (&[String], &Interleave, &Outputs), gate: Gate, entry: Entry<'_>) -> Ended {
    refuse_launcher(entry)?;
    let threshold = threshold(&gate)?;
    let (budget, max_seconds) = (budget(own.budget)?, max_seconds(own.max_seconds)?);
    let settings =
        SideSettings { both: &own.set, sides: [&own.set_a, &own.set_b], environments: [&own.env_a, &own.env_b] };
    let load = |file: &str, fields: &[(String, String)]| Ok(plan_files::load(Path::new(file), fields, None)?.plan);
    let mut sides = Sides::read(files, &settings, (&load, &habits::no_plan))?;
    let mut starters = [session::starter(), session::starter()];
    if let Some(path) = &own.binary_b {
        let program = program::look_at(path, &sides.matched)?;
        sides.sides[1].program = Some(program.path.display().to_string());
        sides.sides[1].version = Some(program.version);
        starters[1] = session::starter().program(program.path);
    }
    process::interrupt::install().map_err(|error| Failure::new("signals could not be set up").cause(error))?;
    let options = own.run_options(outputs.json);
    let request = SessionRequest::new(&options, entry);
    let mut record = session::create(&request, sides.plan())?;
    record::declare_sides(&mut record.file);
    let interleaved = Interleaved { sides: sides.sides.clone(), threshold, ..Interleaved::default() };
    record.file.interleaved = Some(interleaved);
    record.store.write_run(&record.file)?;
    let mut screen = PairScreen::new(options.output.verbosity(), outputs.json, threshold, &sides.matched);
    screen.header(&record.file, record.store.directory(), max_seconds, &sides.notes);
    let [starter_a, starter_b] = &mut starters;
    let pairs = PairSetup {
        cases: &sides.matched,
        starters: [starter_a, starter_b],
        observer: &mut screen,
        max_seconds,
        decides: &|ends| Verdict::from_interval(Some(ends), threshold) != Verdict::CannotTell,
    };
    let compared = interleave(session::setup(entry, (&mut record.store, &mut record.file), budget), pairs)?;
    let kept = |(sides, one)| report::rows::compared_case(sides, one, threshold);
    let cases: Vec<_> = sides.matched.iter().zip(&compared).map(kept).collect();
    if let Some(interleaved) = &mut record.file.interleaved {
        interleaved.cases.clone_from(&cases);
    }
    let interrupted_by = runner::cut_short(compared.iter().flat_map(|one| &one.lines), session::ended_by);
    record.store.finish_as(&mut record.file, interrupted_by)?;
    let directory = record.store.directory().to_owned();
    drop(record);
    let run = report::Run::read(&directory, benchmarks::VIEWS)?;
    let written = report::write(&run, &directory);
    screen.end(&cases, &compared, written.as_deref().unwrap_or_default());
    written?;
    let banner = report::end_banner(&run);
    incomplete::warn(&directory, banner.as_deref());
    if let Some(error) = screen.output.lost() {
        let hint = format!("the record in {} is whole: run.json has the same objects", directory.display());
        return Err(crate::screen::unwritten(error).hint(hint));
    }
    if let Some(file) = &outputs.junit {
        write_junit(file, &report::interleaved_junit((&cases, screen.labels()), threshold, banner))?;
    }
    Ok(gate.interleaved_code(&cases, &compared, session::signal_code()))
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

/// The threshold of sides that are measured now.
fn threshold(gate: &Gate) -> Result<f64, Failure> {
    let (what, hint) = if gate.fails("unmatched") {
        let what = "`--fail-on unmatched` is for records: sides that are measured now are matched before";
        (what, "--fail-on worse,cannot-tell,better or none")
    } else if gate.threshold >= 1.0 {
        ("`--threshold` of an interleaved comparison must be below 100%", "for example --threshold 3%")
    } else {
        return Ok(gate.threshold);
    };
    Err(Failure::new(what).hint(hint))
}

fn max_seconds(given: terms::Seconds) -> Result<f64, Failure> {
    let seconds = given.0;
    if seconds > 0.0 && seconds <= 86_400.0 {
        return Ok(seconds);
    }
    Err(Failure::new("`--max-seconds` must be above 0 and at most a day").hint("for example --max-seconds 60s"))
}

//! One measuring command from plan to report: where the record goes, who starts ranks, what the exit code is.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use launch::external::Coordinator;
use measure::{DeviceSensors, Starter};
use plans::next::{self, Proposal};
use plans::{backends, dry_run, equal_runs, estimate, placement};
use record::{Case, CaseLine, Interruption, Machine, Plan, RunFile, Store};
use runner::{OpenRecord, PlanSetup, Setup, earlier, load, restart};
use survey::NvidiaSmi;
use terms::{Named as _, Status};

use crate::options::{Exports, RunOptions};
use crate::screen::Screen;
use crate::{Failure, environment, screen};

mod children;
mod outputs;

pub(crate) use children::{probe, rank};
pub(crate) use process::interrupt::{exit_code as signal_code, why as interrupted};

/// Explains the steps that a run recorded with its results, before its report is written.
pub(crate) type Explain = fn(&Path, &[CaseLine]) -> Result<Vec<String>, Failure>;

/// How a measuring command was given.
pub(crate) struct SessionRequest<'a> {
    pub(crate) options: &'a RunOptions,
    pub(crate) machine: Machine,
    pub(crate) entry: Entry<'a>,
    /// Whether `--output-dir` names a folder of records whatever it holds: the plan is that of a tool which has it so.
    pub(crate) into_folder: bool,
    /// Whether cases that cannot make their fewest trials within the budget are left out.
    pub(crate) leaves_out: bool,
    /// Whether the run ends once a node is lost that the others can go on without.
    pub(crate) ends_on_loss: bool,
    /// Explains what a run recorded, with a sentence for each case. None for a profile, which explains it itself.
    pub(crate) explain: Option<Explain>,
    /// What was predicted of the cases: it is in the record before the first of them runs.
    pub(crate) predictions: Option<&'a str>,
}

impl<'a> SessionRequest<'a> {
    /// A run of its own on this machine, whose cases all count, and which nobody explains.
    pub(crate) fn new(options: &'a RunOptions, entry: Entry<'a>) -> Self {
        Self {
            options,
            machine: measure::machine::detect(),
            entry,
            into_folder: false,
            leaves_out: false,
            ends_on_loss: false,
            explain: None,
            predictions: None,
        }
    }
}

/// How the run came to be.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a> {
    /// When the process began.
    pub(crate) begun: Instant,
    /// The ranks of a launcher, where one started this program.
    pub(crate) coordinator: Option<&'a Coordinator>,
    /// The whole command line, for commands that are about it.
    pub(crate) command_line: fn() -> clap::Command,
}

/// How a run ended.
pub(crate) struct Ended {
    /// The exit code that its cases give.
    pub(crate) code: u8,
    /// The record; None where nothing ran.
    pub(crate) directory: Option<PathBuf>,
}

/// Runs a plan, or goes on with a record (then `plan` is None, or must be the record's own).
pub(crate) fn measure(request: &SessionRequest<'_>, mut plan: Option<Plan>) -> Result<Ended, Failure> {
    if let Some(plan) = &mut plan {
        benchmarks::complete(plan);
    }
    if request.options.output.dry_run {
        return Ok(Ended { code: dry_run(request, plan)?, directory: None });
    }
    let exports = request.options.whole.exports.exports()?;
    let wanted = earlier::wanted(request.options.whole.state.as_deref(), plan.as_ref())?;
    process::interrupt::install().map_err(|error| Failure::new("signals could not be set up").cause(error))?;
    let mut record = match resumed(request) {
        Some(directory) => {
            if wanted.is_some() {
                earlier::refuse_computed(&record::read_run(directory)?.file.plan)?;
            }
            OpenRecord::resume(directory, plan.as_ref())?
        }
        None => {
            let plan = plan.ok_or_else(|| Failure::new("there is no plan"))?;
            match again(request, &plan)? {
                Some(record) => record,
                None => create(request, plan)?,
            }
        }
    };
    let mut plan = record.file.plan.clone();
    let whole = plan.cases.len();
    if let Some(ranks) = only_ranks(request, &mut plan, &record.done)? {
        placement::note_step(&mut record.file, ranks, &request.machine, request.entry.coordinator);
    }
    let budget = request.options.budget()?;
    if record.goes_on() {
        // From here on nothing is refused: the record keeps its end until it really goes on.
        record.store.write_run(&record.file)?;
    }
    let host_of_run = placement::host(request.entry.coordinator, &record.file.machine);
    let is_computed =
        |case: &Case| benchmarks::parse(case).is_ok_and(|parsed| benchmarks::is_computed(&*parsed, &host_of_run));
    let estimate =
        estimate::of_plan(&plan, is_alone(request), is_computed).within(budget.map(|budget| budget.as_secs_f64()));
    let output = &request.options.output;
    let mut screen = Screen::new(output.verbosity(), output.json, request.entry.begun, (&plan, estimate));
    let notes = [&plan.notes, &record.store.notes, &record.notes].into_iter().flatten().cloned();
    // The processes of a launcher start side by side with this one, so they would count as other programs.
    let load = is_alone(request).then(|| load::note(&plan, &record.file.machine, is_computed)).flatten();
    let bound = is_alone(request).then(|| load::one_core(&plan)).flatten();
    let slower = record::slower_interfaces(&record.file.hosts, &record.file.placement);
    let notes: Vec<String> = notes.chain(load).chain(bound).chain(slower).collect();
    screen.header(&record.file, record.store.directory(), record.done.len(), &notes);
    let show_known = |record: &OpenRecord, screen: &mut Screen| {
        record.before.iter().filter(|line| record.done.contains(&line.id)).for_each(|line| screen.known(line));
    };
    // The table at the end is of the record. A row of each of 100,000 cases takes room that only a terminal needs before.
    if screen.output.is_live() {
        show_known(&record, &mut screen);
    }
    let (mut own, mut external) = (starter(), request.entry.coordinator);
    let starter: &mut dyn Starter = match &mut external {
        Some(coordinator) => coordinator,
        None => &mut own,
    };
    let can_go_on_without =
        |ranks: &[u32]| request.entry.coordinator.is_some_and(|coordinator| coordinator.can_leave_out(ranks));
    let states = earlier::asked(wanted, &record.file, record.store.directory());
    let directory = record.store.directory().to_owned();
    let equal_runs = |file: &RunFile, lines: &[&CaseLine]| equal_runs::medians(&directory, file, lines);
    let nvidia_smi = process::first_program(&environment::search_path(), "nvidia-smi");
    let mut sensors = nvidia_smi.as_deref().map(NvidiaSmi::new);
    let planned = PlanSetup {
        plan: &plan,
        done: &record.done,
        before: &record.before,
        starter,
        device_sensors: sensors.as_mut().map(|sensors| sensors as &mut dyn DeviceSensors),
        leaves_out: request.leaves_out,
        ends_without: request.ends_on_loss.then_some(&can_go_on_without),
        states,
        equal_runs: &equal_runs,
        observer: &mut screen,
    };
    let lines = runner::run(setup(request.entry, (&mut record.store, &mut record.file), budget), planned);
    let finished = lines.and_then(|lines| {
        let interrupted_by = record.cut_short(&lines, ended_by);
        record.store.finish_as(&mut record.file, interrupted_by).map(|()| lines)
    });
    // What was measured is shown although it could not be kept.
    let lines = finished.inspect_err(|_| {
        show_known(&record, &mut screen);
        screen.table();
    })?;
    conclude(request, record, (plan, whole), screen, lines, &exports)
}

/// The record that goes on. With a plan, `--resume` begins one that is not there yet: a job that is started again needs no other
/// line.
fn resumed<'a>(request: &SessionRequest<'a>) -> Option<&'a Path> {
    let named = request.options.whole.resume.as_deref()?;
    let is_new = request.options.has_plan && named.join(record::store::RUN_FILE).symlink_metadata().is_err();
    (!is_new).then_some(named)
}

/// Into this record, until Ctrl-C or the end of the budget.
pub(crate) fn setup<'a>(
    entry: Entry<'_>,
    (store, file): (&'a mut Store, &'a mut RunFile),
    budget: Option<Duration>,
) -> Setup<'a> {
    let host = placement::host(entry.coordinator, &file.machine);
    let seed = runner::order_seed(&file.plan);
    let bounds = earlier::bounds(file, store.directory());
    Setup { store, file, host, bounds, seed, deadline: budget.map(|budget| entry.begun + budget), interrupted }
}

/// Whether no launcher started the ranks.
fn is_alone(request: &SessionRequest<'_>) -> bool {
    request.entry.coordinator.is_none()
}

/// Explains, reports and shows what was measured. `plan` is what this run had of a plan of so many cases.
fn conclude(
    request: &SessionRequest<'_>,
    record: OpenRecord,
    (mut plan, whole): (Plan, usize),
    mut screen: Screen,
    lines: Vec<CaseLine>,
    exports: &Exports,
) -> Result<Ended, Failure> {
    if let Some(explain) = request.explain {
        // It adds to the results and is none of them: a run does without it.
        match explain(record.store.directory(), &lines) {
            Ok(verdicts) => screen.notes(verdicts.iter()),
            Err(error) => screen.notes([format!("steps were not explained: {}", error.on_one_line())].iter()),
        }
    }
    // The rest reads the record, of which it needs no second copy.
    let OpenRecord { store, mut file, before, done, .. } = record;
    drop((lines, before, done));
    file.plan.cases = Vec::new();
    let own: Option<HashSet<String>> =
        (plan.cases.len() < whole).then(|| plan.cases.iter().map(|case| case.id.clone()).collect());
    // A profile explains its record, and then says itself what is next.
    let says_next = request.explain.is_some();
    if !says_next {
        plan.cases = Vec::new();
    }
    screen.forget_rows();
    let directory = store.directory().to_owned();
    drop(store);
    process::release_memory();
    // The record is whole, and its report can be made again: Ctrl-C need not wait for it. Processes of a launcher wait for
    // the exit code, and a run that was interrupted already has no more than a report to write.
    if request.entry.coordinator.is_none() && process::interrupt::requested().is_none() {
        process::interrupt::release().map_err(|error| Failure::new("signals could not be set up").cause(error))?;
    }
    let fields_of = |about| request.options.fields_of(about);
    let given = next::Given { fields_of: &fields_of, has_plan: request.options.has_plan };
    let after = |run: &report::Run| says_next.then(|| next::after(&given, &plan, &file, run)).flatten();
    // What other steps of a launcher run does not concern this one.
    let is_of_other_step =
        |line: &CaseLine| line.status == Status::NotRun && own.as_ref().is_some_and(|own| !own.contains(&line.id));
    let code = finish(&directory, &mut screen, &after, &is_of_other_step, exports)?;
    outputs::after(request.options, &plan, &directory)?;
    Ok(Ended { code, directory: Some(directory) })
}

/// Leaves what `--only-ranks` asks for.
fn only_ranks(request: &SessionRequest<'_>, plan: &mut Plan, done: &HashSet<String>) -> Result<Option<u32>, Failure> {
    request.options.only_ranks.map_or(Ok(()), |ranks| runner::keep_ranks(plan, ranks, done))?;
    Ok(request.options.only_ranks)
}

/// Shows what would run. A record that would be resumed is read, and not locked.
fn dry_run(request: &SessionRequest<'_>, plan: Option<Plan>) -> Result<u8, Failure> {
    let record = resumed(request).map(record::read_run).transpose()?;
    request.options.whole.labels.labels()?;
    let done = record.as_ref().map(|record| dry_run::done_in(&record.cases)).unwrap_or_default();
    let mut plan = plan.or(record.map(|record| record.file.plan)).ok_or_else(|| Failure::new("there is no plan"))?;
    only_ranks(request, &mut plan, &done)?;
    let bounds = dry_run::Bounds {
        host: &placement::host(request.entry.coordinator, &request.machine),
        budget: request.options.budget()?,
        several: request.entry.coordinator.is_none(),
        is_done: &|id| done.contains(id),
    };
    let as_json = request.options.output.json;
    let shown = dry_run::dry_run(&plan, &bounds, as_json);
    if as_json { screen::print_json(&shown.said) } else { screen::print(&shown.said) }?;
    // As of a run that skips all.
    Ok(if shown.runs { 0 } else { 2 })
}

/// Report, last words, exit code: all from the record, as anybody else would read it.
fn finish(
    directory: &Path,
    screen: &mut Screen,
    after: &dyn Fn(&report::Run) -> Option<Proposal>,
    is_of_other_step: &dyn Fn(&CaseLine) -> bool,
    exports: &Exports,
) -> Result<u8, Failure> {
    let mut run = report::Run::read(directory, benchmarks::VIEWS)?;
    let written = report::write(&run, directory);
    run.cases.retain(|line| !is_of_other_step(line));
    // Results are shown whether or not the report can be written.
    screen.end(&run, written.as_deref().unwrap_or_default(), after(&run).as_ref());
    screen.notes(run.damaged.iter().map(record::DamagedLine::sentence).collect::<Vec<_>>().iter());
    written?;
    exports.write(&run)?;
    let incomplete = run.cases.iter().any(CaseLine::lacks_trials);
    if let Some(command) = run.again(&[]).filter(|_| incomplete) {
        screen.notes([format!("the run ended between trials: `{command}`")].iter());
    }
    if let Some(error) = screen.output.lost() {
        let hint = format!("the record in {} is whole; `rankmark report {0}` reads it", directory.display());
        return Err(crate::screen::unwritten(error).hint(hint));
    }
    let cut_short = incomplete || run.cases.iter().any(|line| line.status == Status::NotRun);
    Ok(signal_code().filter(|_| cut_short).unwrap_or_else(|| exit_code(&run.cases, incomplete)))
}

/// 2: every case skipped. 1: any failed, not run or not run often enough, or a gate missed. 0 otherwise.
pub(crate) fn exit_code(cases: &[CaseLine], incomplete: bool) -> u8 {
    let any = |status: Status| cases.iter().any(|line| line.status == status);
    if incomplete
        || any(Status::Failed)
        || any(Status::NotRun)
        || cases.iter().any(|line| !line.gates_missed.is_empty())
    {
        1
    } else if cases.iter().all(|line| line.status == Status::Skipped) {
        2
    } else {
        0
    }
}

/// A new record of this plan.
pub(crate) fn create(request: &SessionRequest<'_>, plan: Plan) -> Result<OpenRecord, Failure> {
    let started = jiff::Timestamp::now();
    let labels = request.options.whole.labels.labels()?;
    let name = labels.name.as_ref().unwrap_or(&plan.experiment);
    let directory = match &request.options.whole.resume {
        Some(new) => new.clone(),
        None => record::store::directory_for(
            request.options.output.output_dir.as_deref(),
            (started, name),
            request.into_folder,
        )?,
    };
    let mut file = RunFile::new(environment::tool(), started, request.machine.clone(), plan, &benchmarks::abouts());
    file.labels = labels;
    (file.launcher, file.command_line) = command_line(request);
    file.environment = record::environment(environment::variables());
    file.backends = backends::backends(&file.plan, request.entry.coordinator, &environment::search_path());
    file.started_by = request.entry.coordinator.map(|coordinator| coordinator.launcher().to_owned());
    file.placement = placement::for_plan(&file.plan, &file.machine, request.entry.coordinator);
    placement::note_hosts(&mut file, request.entry.coordinator);
    file.simulated = file.plan.cases.iter().any(benchmarks::is_simulated);
    file.profiles = runner::profiles(&file.plan)?;
    let store = Store::create(&directory, &file)?;
    request.predictions.map_or(Ok(()), |text| record::write_predictions(&directory, text))?;
    Ok(OpenRecord::new(store, file))
}

/// How often torchrun has started these ranks again.
fn restarts() -> u32 {
    std::env::var("TORCHELASTIC_RESTART_COUNT").ok().and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// The record of the attempt before, where a launcher has started its ranks again.
fn again(request: &SessionRequest<'_>, plan: &Plan) -> Result<Option<OpenRecord>, Failure> {
    let count = if request.entry.coordinator.is_some() { restarts() } else { 0 };
    let line = command_line(request).1;
    Ok(restart::again(request.options.output.output_dir.as_deref(), plan, &line, count)?)
}

/// The launcher's words, where one started this program, and the user's.
fn command_line(request: &SessionRequest<'_>) -> (Vec<String>, Vec<String>) {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    let mut launcher = Vec::new();
    if let Some(coordinator) = request.entry.coordinator {
        arguments = launch::external::coordinator_arguments(&arguments);
        launcher = coordinator.command(&arguments);
    }
    let arguments = arguments.iter().map(|argument| argument.to_string_lossy().into_owned());
    (launcher, record::command_line(arguments))
}

/// Who starts worlds: launchers are looked for on the path, too.
pub(crate) fn starter() -> launch::HostStarter {
    launch::HostStarter::new(environment::search_path()).on_stall(on_stall()).on_note(crate::screen::noted)
}

/// What asked this process to end.
pub(crate) fn ended_by() -> Option<Interruption> {
    match process::interrupt::requested() {
        Some(signal) => Interruption::from_name(&process::signal_name(signal)),
        None => process::interrupt::stopped().map(|_| Interruption::Launcher),
    }
}

/// Reports ranks that stall, and the commands to inspect them, on standard error.
pub(crate) fn on_stall() -> launch::OnStall {
    launch::OnStall::new(environment::search_path(), crate::screen::stalled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_that_are_promised() {
        let case: record::Case = record::plan::from_defaults(benchmarks::abouts()[0]).unwrap().cases.remove(0);
        let line = |status| CaseLine::unmeasured(&case, status, "");
        let missed = CaseLine { gates_missed: vec!["busbw_gbs>=12".into()], ..line(Status::Ok) };
        let code = |lines: &[CaseLine]| exit_code(lines, false);
        assert_eq!(code(&[line(Status::Ok), line(Status::Skipped)]), 0);
        assert_eq!(code(&[line(Status::Ok), line(Status::Failed)]), 1);
        assert_eq!(code(&[line(Status::Ok), line(Status::NotRun)]), 1);
        assert_eq!(code(&[line(Status::Skipped), line(Status::Skipped)]), 2);
        assert_eq!(code(&[missed]), 1);
        assert_eq!(exit_code(&[line(Status::Ok)], true), 1);
    }
}

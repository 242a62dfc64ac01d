//! From a plan to a record: rounds over all open cases, each visit a trial, every trial on disk before the next begins.
//!
//! A world that dies ends with its case; the next case gets a new one. One that dies while others are visited costs no
//! case: it is started again, and the line says so.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use benchmarks::{ParsedCase, is_simulated};
use measure::{
    CaseRun, DeviceSensors, MachineStates, Round, Settings, Starter, StatesAsked, Verdict, VerdictKind, World, align,
};
use record::{Case, CaseLine, CaseSamples, Caveat, Plan, RunFile, SharedMap, StoreError};
use terms::Status;

use crate::admission::Admission;
use crate::driver::{Driver, START, Setup, Visits, make_rounds, spec_of};
use crate::lines::{samples_of, skipped, unmeasured};
use crate::order::Meeting;
use crate::worlds::{CaseWorld, Starts, Worlds, can_renew};
use crate::{lines, order};

mod closed;
mod closer;
mod earlier;
mod fitting;
mod losses;
mod spans;
mod wanted;

/// How often a wait between trials looks whether the user has ended the run.
const LOOK: Duration = Duration::from_millis(20);

/// Who watches a run: the terminal.
pub trait Observer {
    /// A case is visited, `number` of `total` in this round (from 1); rounds count from 0.
    fn begins(&mut self, case: &Case, number: usize, total: usize, round: u32);
    /// Sampling goes on: seconds of the case so far, seconds at most.
    fn progress(&mut self, elapsed_s: f64, max_s: f64);
    /// A trial is on disk, or the case ended without one: its line so far.
    fn updates(&mut self, line: &CaseLine);
    /// All trials are made; steps of a case are recorded to explain it, `number` of `total` such cases (from 1).
    fn looks_closer(&mut self, _case: &Case, _number: usize, _total: usize) {}
    /// What the user should know.
    fn remarks(&mut self, _text: &str) {}
    /// A round is over.
    fn rounds(&mut self, made: u32, open: usize);
    /// The case's last line is on disk. Once for each case, when the whole run has been judged.
    fn ends(&mut self, line: &CaseLine);
}

/// Whether other ranks can go on without these.
pub type GoesOnWithout<'a> = &'a dyn Fn(&[u32]) -> bool;

/// What a run of a plan is made of.
pub struct PlanSetup<'a> {
    /// What to run.
    pub plan: &'a Plan,
    /// Cases that a run before this one has done.
    pub done: &'a HashSet<String>,
    /// The lines of that run.
    pub before: &'a [CaseLine],
    /// Starts rank processes.
    pub starter: &'a mut dyn Starter,
    /// Who looks at devices while trials run on them, where there are any.
    pub device_sensors: Option<&'a mut dyn DeviceSensors>,
    /// Whether cases that cannot make their fewest trials within the budget are left out, and the first round visits cases in the
    /// order of the plan: the most telling first.
    pub leaves_out: bool,
    /// Whether other ranks can go on without these in a run of their own: this one then ends once they are lost.
    pub ends_without: Option<GoesOnWithout<'a>>,
    /// What is known of the machine's states, and which is wanted.
    pub states: StatesAsked,
    /// The medians of equal runs before this one, of a line whose own trials do not tell what an equal run shows.
    pub equal_runs: &'a EqualRuns<'a>,
    /// Who watches.
    pub observer: &'a mut dyn Observer,
}

/// Medians of equal runs of each of these lines, oldest first, for the run with this file.
pub type EqualRuns<'a> = dyn Fn(&RunFile, &[&CaseLine]) -> Vec<Vec<f64>> + 'a;

/// Runs all cases. Gives their lines, in the order of the plan.
///
/// # Errors
/// When the record cannot be written.
pub fn run<'a>(whole: Setup<'a>, setup: PlanSetup<'a>) -> Result<Vec<CaseLine>, StoreError> {
    let cases: Vec<&Case> = setup.plan.cases.iter().filter(|case| !setup.done.contains(&case.id)).collect();
    // Rounds of a run that this one goes on with are not its own: no trial of then is paired with one of now.
    let earlier = setup.before.iter().flat_map(|line| &line.trial_round).max();
    let round = earlier.map_or(0, |last| last + 1);
    let driver = Driver::new(whole, round, "the time budget of the run ended before it");
    let machine = MachineStates::new(setup.states.clone());
    let host_of = driver.setup.host.spread.as_ref();
    let host_of = host_of.map_or_else(Arc::default, |spread| spread.of.clone().into());
    let mut run = RunState {
        driver,
        setup,
        host_of,
        cases: HashMap::new(),
        open: HashMap::new(),
        lines: Vec::new(),
        places: HashMap::new(),
        restarted: HashMap::new(),
        worlds: Worlds::default(),
        lacking: Vec::new(),
        machine,
        closed: HashMap::new(),
        last_visit: HashMap::new(),
        costs: HashMap::new(),
        part_ends: None,
        gave_way: BTreeMap::new(),
    };
    if let Err(error) = run.all(&cases) {
        // What is on disk was measured: it is reported, although nobody judges it any more.
        run.lines.iter().for_each(|line| run.setup.observer.ends(line));
        return Err(error);
    }
    let looked = run.look_closer();
    run.judge()?;
    looked.map(|()| run.lines)
}

struct RunState<'a> {
    driver: Driver<'a>,
    setup: PlanSetup<'a>,
    /// The host of each rank; empty where all are on one.
    host_of: Arc<[u32]>,
    /// All cases so far, those of searches too, by identity.
    cases: HashMap<String, Case>,
    /// Cases that need further trials, by identity.
    open: HashMap<String, CaseRun>,
    /// The latest line of each case, and its place by identity.
    lines: Vec<CaseLine>,
    places: HashMap<String, usize>,
    /// Why the worlds of these cases had to be started again.
    restarted: HashMap<String, String>,
    worlds: Worlds,
    /// What worlds of these fields lacked when they were to start: to find it out again takes seconds.
    lacking: Vec<(SharedMap, Verdict)>,
    machine: MachineStates,
    closed: HashMap<String, CaseRun>,
    /// When each case was visited last.
    last_visit: HashMap<String, Instant>,
    /// What that took.
    costs: HashMap<String, fitting::Cost>,
    /// When the cases of the current world must have had their part of the budget.
    part_ends: Option<Instant>,
    /// Trials that a budget left fewer samples than were asked for: how many, and of how many, by case.
    gave_way: BTreeMap<String, [u32; 2]>,
}

/// Rounds over cases of a run.
struct RunRounds<'r, 'a, 'c> {
    run: &'r mut RunState<'a>,
    due: Vec<&'c Case>,
    /// The first of these rounds.
    first: u32,
}

impl<'a, 'c> Visits<'a> for RunRounds<'_, 'a, 'c> {
    type Case = &'c Case;

    fn driver(&mut self) -> &mut Driver<'a> {
        &mut self.run.driver
    }

    fn groups(&mut self) -> Vec<Meeting<'c>> {
        let (driver, several) = (&self.run.driver, self.run.setup.starter.several());
        if self.run.setup.leaves_out && driver.round == self.first {
            return order::grouped(self.due.clone(), |case| order::world(case));
        }
        order::of_round(self.due.clone(), driver.setup.seed, driver.round, several)
    }

    fn visit(&mut self, case: &&'c Case, number: usize, total: usize) -> Result<(), StoreError> {
        if !self.run.wait_for_turn(case) {
            return self.run.close(case);
        }
        self.run.setup.observer.begins(case, number, total, self.run.driver.round);
        self.run.visit(case)
    }

    fn group_ends(&mut self) {
        self.run.worlds.end_fresh();
    }

    fn round_ends(&mut self) -> Result<(), StoreError> {
        let made = self.run.driver.round;
        if made == self.first + 1 {
            self.run.align(&self.due);
        }
        self.run.retire();
        self.run.leave_out()?;
        self.due.retain(|case| self.run.open.contains_key(&case.id));
        self.run.setup.observer.rounds(made, self.due.len());
        Ok(())
    }
}

impl RunState<'_> {
    fn all(&mut self, cases: &[&Case]) -> Result<(), StoreError> {
        if self.setup.starter.several() {
            self.rounds(cases)?;
        } else {
            // Ranks of an external launcher can be in one world at a time, and of MPI only once: each world makes all of
            // its rounds before the next begins.
            let mut left = cases.len();
            for world in order::worlds(cases) {
                self.part_ends = self.part_of_budget(world.len(), left);
                left -= world.len();
                self.rounds(&world)?;
            }
            self.part_ends = None;
        }
        self.studies()
    }

    /// What the plan asks to search for, each search on its own.
    fn studies(&mut self) -> Result<(), StoreError> {
        for benchmark in benchmarks::all() {
            let is_its = |case: &&Case| case.benchmark == benchmark.about().name;
            let cases: Vec<&Case> = self.setup.plan.cases.iter().filter(is_its).collect();
            let Some(mut study) = benchmark.study(&cases, &self.driver.setup.host) else { continue };
            while !self.driver.was_over() {
                let known: Vec<CaseLine> = self.setup.before.iter().chain(&self.lines).cloned().collect();
                let next = study.next(&known);
                if next.is_empty() {
                    break;
                }
                self.rounds(&next.iter().collect::<Vec<_>>())?;
            }
        }
        Ok(())
    }

    /// Rounds over these cases until none is open.
    fn rounds(&mut self, cases: &[&Case]) -> Result<(), StoreError> {
        for case in cases {
            let settings = crate::settings_of(case, benchmarks::trial_cost(case));
            let settings = Settings { traced: self.setup.plan.profiling, ..settings };
            let mut run = CaseRun::new(case, settings, is_simulated(case));
            run.host_of = self.host_of.clone();
            self.open.insert(case.id.clone(), run);
            self.cases.insert(case.id.clone(), (*case).clone());
        }
        make_rounds(&mut RunRounds { first: self.driver.round, due: cases.to_vec(), run: self })?;
        if let Some(note) = gave_way(&std::mem::take(&mut self.gave_way)) {
            self.setup.observer.remarks(&note);
        }
        self.worlds.end();
        Ok(())
    }

    /// Trials of implementations of one workload are alike from the second round on.
    fn align(&mut self, cases: &[&Case]) {
        for group in order::workloads(cases) {
            let mut members: Vec<(String, CaseRun)> =
                group.iter().filter_map(|case| self.open.remove_entry(&case.id)).collect();
            let mut measured: Vec<&mut CaseRun> =
                members.iter_mut().map(|(_, run)| run).filter(|run| !run.trials.is_empty()).collect();
            align(&mut measured);
            self.open.extend(members);
        }
    }

    /// Waits until the case's last trial is long enough ago. False when the run ends first.
    fn wait_for_turn(&mut self, case: &Case) -> bool {
        let Some(run) = self.open.get(&case.id) else { return false };
        let last = self.last_visit.get(&case.id).filter(|_| !run.simulated);
        let due = last.map_or_else(Instant::now, |last| *last + run.settings.spacing);
        while !self.driver.is_over() && self.fits(case) {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(LOOK.min(left));
        }
        false
    }

    /// Notes a trial with fewer samples than the user asked for.
    fn note_samples(&mut self, run: &CaseRun) {
        let Some((trial, asked)) = run.trials.last().zip(run.settings.iters) else { return };
        let taken = trial.samples.rows().first().map_or(0, Vec::len) as u32;
        if taken < asked && self.driver.setup.deadline.is_some() {
            self.gave_way.insert(run.case.id.clone(), [taken, asked]);
        }
    }

    /// No further trial: a case that has some keeps the line of those.
    fn close(&mut self, case: &Case) -> Result<(), StoreError> {
        let Some(run) = self.open.remove(&case.id) else { return Ok(()) };
        if !run.trials.is_empty() {
            return self.measured(&run, false, Vec::new()).map(drop);
        }
        self.keep_unmeasured(unmeasured(case, Status::NotRun, self.driver.why_over()))
    }

    fn visit(&mut self, case: &Case) -> Result<(), StoreError> {
        let parsed = match benchmarks::parse(case) {
            Ok(parsed) => parsed,
            Err(refused) => {
                self.open.remove(&case.id);
                return self.keep_unmeasured(unmeasured(case, Status::Skipped, refused.error.on_one_line()));
            }
        };
        let parsed = &*parsed;
        if let Some(line) = lines::planned(parsed, &self.driver.setup.host) {
            self.open.remove(&case.id);
            return self.keep(line, &[]);
        }
        if let Err(reason) = self.admit(parsed) {
            let Some(run) = self.open.remove(&case.id) else { return Ok(()) };
            // Trials that it has stay: the machine has changed since, the measurement has not.
            return match run.trials.is_empty() {
                true => self.keep_unmeasured(skipped(parsed, reason)),
                false => self.measured(&run, false, Vec::new()).map(drop),
            };
        }
        let Some(mut run) = self.open.remove(&case.id) else { return Ok(()) };
        let begun = Instant::now();
        self.last_visit.insert(case.id.clone(), begun);
        run.settings.timeout = self.patience(Settings::from_case(case).timeout, run.settings.max_seconds);
        let result = self.in_world(parsed, &mut run);
        self.note_cost(case, begun.elapsed(), run.trials.last().map_or(0.0, |trial| trial.sampling_s));
        let after = self.driver.after.replace(case.id.clone());
        match result {
            Ok(()) => {
                self.machine.note(&mut run);
                self.note_samples(&run);
                let open = run.stop().is_none();
                let samples = samples_of(&run, after);
                if run.settings.traced {
                    self.trace(parsed, &run)?;
                }
                let right = self.measured(&run, open, vec![samples])?;
                if !open || !right {
                    self.worlds.release(&case.id, START);
                }
                if right {
                    self.open.insert(case.id.clone(), run);
                }
                Ok(())
            }
            Err(verdict) => self.failed(parsed, run, verdict),
        }
    }

    /// Makes room for a case that can run. One that cannot takes no world from others: some can be had once only.
    fn admit(&mut self, parsed: &dyn ParsedCase) -> Result<(), String> {
        let several = self.setup.starter.several();
        can_renew(parsed, several)?;
        if let Some(reason) = &parsed.case().skip {
            return Err(reason.clone());
        }
        self.worlds.make_room(parsed, &self.driver.setup.host, several, START);
        if self.worlds.hold(parsed.case()) { Ok(()) } else { Admission::new(&self.driver.setup.host).check(parsed) }
    }

    fn in_world(&mut self, parsed: &dyn ParsedCase, run: &mut CaseRun) -> Result<(), Verdict> {
        let (case, starter) = (parsed.case(), &self.setup.starter);
        let quickly = starter.starts_quickly(&spec_of(case, self.driver.round));
        let starts = Starts { several: starter.several(), quickly };
        let mut worlds = std::mem::take(&mut self.worlds);
        let place = worlds.place(parsed, starts, START);
        if let Some(why) = place.died.clone() {
            self.restarted.insert(case.id.clone(), why);
        }
        let result = self.in_place(case, run, place);
        let lives = result.as_ref().err().is_none_or(|verdict| verdict.kind.world_lives());
        worlds.left(parsed, lives, result.is_ok(), START);
        self.worlds = worlds;
        result
    }

    /// When this trial has to end, so that every case without one gets as much of the budget.
    fn share_of_budget(&self, run: &CaseRun) -> Option<Instant> {
        let deadline = self.deadline()?;
        let (now, own) = (Instant::now(), usize::from(run.trials.is_empty()));
        let waiting = self.open.values().filter(|run| run.trials.is_empty()).count() + own;
        Some(now + deadline.saturating_duration_since(now) / waiting.max(1) as u32)
    }

    fn in_place(&mut self, case: &Case, run: &mut CaseRun, place: CaseWorld<'_>) -> Result<(), Verdict> {
        let fresh = place.world.is_none() || place.fresh;
        let world = match place.world {
            Some(world) => world,
            none => none.insert(self.start(case).map_err(|verdict| after_death(place.died, verdict))?),
        };
        let until = self.share_of_budget(run);
        let round = Round { number: self.driver.round, fresh, prepared: place.prepared, keep: place.keep, until };
        self.wait_for_state(&mut **world, run)?;
        let observer = &mut self.setup.observer;
        let mut sensors = self.setup.device_sensors.as_mut().filter(|_| on_a_device(case));
        if let Some(sensors) = &mut sensors {
            sensors.begin();
        }
        let trials = run.trials.len();
        let result = run.visit(&mut **world, round, &mut |elapsed, most| observer.progress(elapsed, most));
        if let (Some(sensors), Some(trial)) = (sensors, run.trials.get_mut(trials)) {
            trial.devices = sensors.end();
        }
        result
    }

    fn start(&mut self, case: &Case) -> Result<Box<dyn World>, Verdict> {
        if let Some((_, verdict)) = self.lacking.iter().find(|(fields, _)| *fields == case.world) {
            return Err(verdict.clone());
        }
        let started = self.driver.start(case, self.driver.round, self.setup.starter);
        if let Err(verdict) = &started
            && verdict.kind == VerdictKind::Lacking
        {
            self.lacking.push((case.world.clone(), verdict.clone()));
        }
        started
    }

    /// The case's line after its last trial. `open`: further ones may follow. False where its results are wrong.
    fn measured(&mut self, run: &CaseRun, open: bool, samples: Vec<CaseSamples>) -> Result<bool, StoreError> {
        let case = &run.case;
        let open = open || self.driver.interrupted.is_some();
        let setup = &self.driver.setup;
        let mut line = lines::measured(run, &setup.host, (&setup.file.profiles, &setup.bounds), open);
        if let Some(why) = self.restarted.get(&case.id) {
            line.caveats.push(Caveat::Restarted);
            line.reason = line.reason.or_else(|| Some(format!("while other cases ran, {why}; started again")));
        }
        // One that waits for a state of the machine is not wrong.
        let right = line.status == Status::Ok || line.status == Status::NotRun;
        self.keep(line, &samples)?;
        Ok(right)
    }

    /// A trial could not be made. What the case has of earlier trials does not stand: it may be the fault's work, too.
    fn failed(&mut self, parsed: &dyn ParsedCase, run: CaseRun, verdict: Verdict) -> Result<(), StoreError> {
        let case = parsed.case();
        if verdict.kind == VerdictKind::Interrupted {
            self.driver.interrupted = Some(verdict.error.what);
            self.open.insert(case.id.clone(), run);
            return self.close(case);
        }
        // Ranks that had less time than was asked for did not fail.
        let is_cut = verdict.kind == VerdictKind::Hung && run.settings.timeout < Settings::from_case(case).timeout;
        if is_cut && (self.driver.is_over() || self.is_late_for_all(&verdict, case.ranks())) {
            self.open.insert(case.id.clone(), run);
            return self.close(case);
        }
        self.note_loss(&verdict);
        let needs_relaunch = verdict.kind == VerdictKind::NeedsRelaunch;
        if (needs_relaunch || verdict.kind == VerdictKind::Lacking) && !run.trials.is_empty() {
            // As where admission refuses: the machine has changed since, the measurement has not.
            return self.measured(&run, needs_relaunch, Vec::new()).map(drop);
        }
        let trial = match run.trials.len() {
            0 => String::new(),
            made => format!("trial {}: ", made + 1),
        };
        let reason = format!("{trial}{}", verdict.error.on_one_line());
        self.keep_unmeasured(match verdict.kind {
            VerdictKind::Lacking => skipped(parsed, reason),
            VerdictKind::NeedsRelaunch => unmeasured(case, Status::NotRun, reason),
            _ => unmeasured(case, Status::Failed, reason),
        })
    }

    /// The line of a case without a trial in this run. Trials that an earlier run made stand, unless this one failed.
    fn keep_unmeasured(&mut self, line: CaseLine) -> Result<(), StoreError> {
        let before = self.setup.before.iter().rfind(|before| before.id == line.id);
        let Some(before) = before.filter(|before| before.status == Status::Ok && line.status != Status::Failed) else {
            return self.keep(line, &[]);
        };
        let why = line.reason.unwrap_or_default();
        self.setup.observer.remarks(&format!("a case keeps the trials of an earlier run: {why}"));
        self.setup.observer.ends(before);
        Ok(())
    }

    /// On disk first, then on the screen.
    fn keep(&mut self, line: CaseLine, samples: &[CaseSamples]) -> Result<(), StoreError> {
        self.driver.setup.store.append(&line, samples)?;
        self.setup.observer.updates(&line);
        match self.places.get(&line.id) {
            Some(place) => self.lines[*place] = line,
            None => {
                self.places.insert(line.id.clone(), self.lines.len());
                self.lines.push(line);
            }
        }
        Ok(())
    }

    /// What only the whole run tells: correlation, relations between cases, gates. Once, at the end.
    fn judge(&mut self) -> Result<(), StoreError> {
        self.tell_states()?;
        self.note_states();
        let plan = &self.setup.plan.cases;
        let order: HashMap<&str, usize> =
            plan.iter().enumerate().map(|(place, case)| (case.id.as_str(), place)).collect();
        let mut lines = std::mem::take(&mut self.lines);
        lines.sort_by_key(|line| order.get(line.id.as_str()).copied().unwrap_or(usize::MAX));
        let all: Vec<&CaseLine> = self.setup.before.iter().filter(|line| self.setup.done.contains(&line.id)).collect();
        let unjudged = lines.clone();
        self.driver.judge(&mut lines, &all, |id| self.cases.get(id));
        lines.iter_mut().for_each(|line| self.machine.conclude(line));
        self.learn(&mut lines);
        for (line, unjudged) in lines.iter_mut().zip(unjudged) {
            if *line != unjudged {
                self.driver.setup.store.append(line, &[])?;
            }
            self.setup.observer.ends(line);
        }
        self.lines = lines;
        self.judge_those_before()
    }

    /// Gates of cases that an earlier run of this record completed, and was killed before it judged them.
    fn judge_those_before(&mut self) -> Result<(), StoreError> {
        let (plan, done) = (&self.setup.plan.cases, &self.setup.done);
        let unjudged = |line: &&CaseLine| done.contains(&line.id) && line.gates_missed.is_empty();
        for line in self.setup.before.iter().filter(unjudged) {
            let Some(case) = plan.iter().find(|case| case.id == line.id) else { continue };
            let gates_missed = lines::missed(case, line);
            if !gates_missed.is_empty() {
                let judged = CaseLine { gates_missed, ..CaseLine::clone(line) };
                self.driver.setup.store.append(&judged, &[])?;
            }
        }
        Ok(())
    }
}

/// Why a case cannot go on after its world died during visits of other cases and cannot be started again. The death is
/// the cause; the failed start is only a consequence.
fn after_death(died: Option<String>, verdict: Verdict) -> Verdict {
    let Some(died) = died.filter(|_| verdict.kind != VerdictKind::Interrupted) else { return verdict };
    let what = format!("{died}; its world cannot be started again: {}", verdict.error.what);
    Verdict { kind: VerdictKind::Died, error: terms::Error { what, ..verdict.error }, ..verdict }
}

/// Whether the ranks of a case work on devices other than the processor.
fn on_a_device(case: &Case) -> bool {
    case.device().is_some_and(|device| device != "cpu")
}

/// What a budget took from the samples that were asked for.
fn gave_way(cases: &BTreeMap<String, [u32; 2]>) -> Option<String> {
    let fewest = cases.values().min_by_key(|[taken, _]| *taken)?;
    let cases = match cases.len() {
        1 => "1 case has".to_owned(),
        several => format!("{several} cases have"),
    };
    let [taken, asked] = fewest;
    Some(format!(
        "--budget: {cases} fewer samples per trial than --iters asked for, at least {taken} of {asked}; see `samples` \
         of each case"
    ))
}

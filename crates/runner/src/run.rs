//! From a plan to a record: rounds over all open cases, each visit a trial, every trial on disk before the next begins.
//!
//! A world that dies ends with its case; the next case gets a new one. One that dies while others are visited costs no
//! case: it is started again, and the line says so.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use benchmarks::{Host, is_in_process, is_simulated};
use measure::{
    CaseRun, DeviceSensors, MachineStates, Probe, Round, Settings, Starter, StatesAsked, Verdict, VerdictKind, World,
    WorldSpec, align, conclude,
};
use record::{Case, CaseLine, CaseSamples, Caveat, Overhead, Plan, Rounds, RunFile, SharedMap, Store, StoreError};
use terms::Status;

use crate::lines::{missed, relations, samples_of, skipped, unmeasured};
use crate::order::Meeting;
use crate::threads::ThreadWorld;
use crate::worlds::{CaseWorld, Starts, Worlds};
use crate::{admission, lines, order};

mod closed;
mod closer;
mod spans;
mod wanted;

/// How long a world may take to come up: libraries load, many ranks share few cores.
pub(crate) const START: Duration = Duration::from_secs(60);

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

/// What a run is made of.
pub struct Setup<'a> {
    /// What to run.
    pub plan: &'a Plan,
    /// Cases that a run before this one has done.
    pub done: &'a HashSet<String>,
    /// The lines of that run.
    pub before: &'a [CaseLine],
    /// Starts rank processes.
    pub starter: &'a mut dyn Starter,
    /// Where lines go.
    pub store: &'a mut Store,
    /// `run.json`, completed with what is learned while running.
    pub file: &'a mut RunFile,
    /// The machine.
    pub host: Host,
    /// Who looks at devices while trials run on them, where there are any.
    pub device_sensors: Option<&'a mut dyn DeviceSensors>,
    /// What is known of the machine's states, and which is wanted.
    pub states: StatesAsked,
    /// Who watches.
    pub observer: &'a mut dyn Observer,
    /// Seed of the order of cases within rounds.
    pub seed: u64,
    /// When the run ends whatever is left to measure.
    pub deadline: Option<Instant>,
    /// Why the run is to end, once the user has asked for it. Worlds of processes notice by themselves; this is for what
    /// runs in this process, and for the time between cases.
    pub interrupted: fn() -> Option<String>,
}

/// Runs all cases. Gives their lines, in the order of the plan.
///
/// # Errors
/// When the record cannot be written.
pub fn run(setup: Setup<'_>) -> Result<Vec<CaseLine>, StoreError> {
    let cases: Vec<&Case> = setup.plan.cases.iter().filter(|case| !setup.done.contains(&case.id)).collect();
    // Rounds of a run that this one goes on with are not its own: no trial of then is paired with one of now.
    let earlier = setup.before.iter().flat_map(|line| &line.trial_round).max();
    let round = earlier.map_or(0, |last| last + 1);
    let machine = MachineStates::new(setup.states.clone());
    let host_of = setup.host.spread.as_ref().map_or_else(Arc::default, |spread| spread.of.clone().into());
    let mut run = RunState {
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
        after: None,
        round,
        ended: None,
        interrupted: None,
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
    setup: Setup<'a>,
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
    /// The case that was visited last.
    after: Option<String>,
    round: u32,
    /// Why no further trial is made, once the time of the run is over.
    ended: Option<String>,
    interrupted: Option<String>,
}

impl RunState<'_> {
    fn all(&mut self, cases: &[&Case]) -> Result<(), StoreError> {
        if self.setup.starter.several() {
            self.rounds(cases)?;
        } else {
            // Ranks of an external launcher can be in one world at a time, and of MPI only once: each world makes all of
            // its rounds before the next begins.
            for world in order::worlds(cases) {
                self.rounds(&world)?;
            }
        }
        self.studies()
    }

    /// What the plan asks to search for, each search on its own.
    fn studies(&mut self) -> Result<(), StoreError> {
        for benchmark in benchmarks::all() {
            let is_its = |case: &&Case| case.benchmark == benchmark.about().name;
            let cases: Vec<&Case> = self.setup.plan.cases.iter().filter(is_its).collect();
            let Some(mut study) = benchmark.study(&cases, &self.setup.host) else { continue };
            while self.interrupted.is_none() && self.ended.is_none() {
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
            let settings = Settings { traced: self.setup.plan.profiling, ..Settings::from_case(case) };
            let mut run = CaseRun::new(case, settings, is_simulated(case));
            run.host_of = self.host_of.clone();
            self.open.insert(case.id.clone(), run);
            self.cases.insert(case.id.clone(), (*case).clone());
        }
        let mut due = cases.to_vec();
        let first = self.round;
        while !due.is_empty() {
            let several = self.setup.starter.several();
            let meetings = order::of_round(due.clone(), self.setup.seed, self.round, several);
            self.round(&meetings)?;
            if self.round == first {
                self.align(&due);
            }
            self.retire();
            due.retain(|case| self.open.contains_key(&case.id));
            self.round += 1;
            self.setup.observer.rounds(self.round, due.len());
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

    fn round(&mut self, meetings: &[Meeting<'_>]) -> Result<(), StoreError> {
        let total: usize = meetings.iter().map(Vec::len).sum();
        let mut number = 0;
        for cases in meetings {
            for case in cases {
                number += 1;
                if self.wait_for_turn(case) {
                    self.setup.observer.begins(case, number, total, self.round);
                    self.visit(case)?;
                } else {
                    self.close(case)?;
                }
            }
            self.worlds.end_fresh();
        }
        Ok(())
    }

    /// Waits until the case's last trial is long enough ago. False when the run ends first.
    fn wait_for_turn(&mut self, case: &Case) -> bool {
        let Some(run) = self.open.get(&case.id) else { return false };
        let last = self.last_visit.get(&case.id).filter(|_| !run.simulated);
        let due = last.map_or_else(Instant::now, |last| *last + run.settings.spacing);
        loop {
            self.interrupted = self.interrupted.take().or_else(self.setup.interrupted);
            let now = Instant::now();
            if self.setup.deadline.is_some_and(|deadline| now >= deadline) {
                self.ended.get_or_insert_with(|| "the time budget of the run ended before it".to_owned());
            }
            if self.interrupted.is_some() || self.ended.is_some() {
                return false;
            }
            if now >= due {
                return true;
            }
            std::thread::sleep(LOOK.min(due - now));
        }
    }

    /// No further trial: a case that has some keeps the line of those.
    fn close(&mut self, case: &Case) -> Result<(), StoreError> {
        let Some(run) = self.open.remove(&case.id) else { return Ok(()) };
        if !run.trials.is_empty() {
            return self.measured(&run, false, Vec::new()).map(drop);
        }
        let why = self.interrupted.clone().or_else(|| self.ended.clone()).unwrap_or_default();
        self.keep(unmeasured(case, Status::NotRun, why), &[])
    }

    fn visit(&mut self, case: &Case) -> Result<(), StoreError> {
        let several = self.setup.starter.several();
        self.worlds.make_room(case, &self.setup.host, several, START);
        let admitted = if self.worlds.hold(case) { Ok(()) } else { admission::admit(case, &self.setup.host) };
        if let Err(reason) = admitted {
            let Some(run) = self.open.remove(&case.id) else { return Ok(()) };
            // Trials that it has stay: the machine has changed since, the measurement has not.
            return match run.trials.is_empty() {
                true => self.keep(skipped(case, reason), &[]),
                false => self.measured(&run, false, Vec::new()).map(drop),
            };
        }
        let Some(mut run) = self.open.remove(&case.id) else { return Ok(()) };
        self.last_visit.insert(case.id.clone(), Instant::now());
        let result = self.in_world(case, &mut run);
        let after = self.after.replace(case.id.clone());
        match result {
            Ok(()) => {
                self.machine.note(&mut run);
                let open = run.stop().is_none();
                let samples = samples_of(&run, after);
                if run.settings.traced {
                    self.trace(&run)?;
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
            Err(verdict) => self.failed(case, run, verdict),
        }
    }

    fn in_world(&mut self, case: &Case, run: &mut CaseRun) -> Result<(), Verdict> {
        let starter = &self.setup.starter;
        let quickly = starter.starts_quickly(&spec_of(case, self.round));
        let starts = Starts { several: starter.several(), quickly };
        let mut worlds = std::mem::take(&mut self.worlds);
        let place = worlds.place(case, starts, START);
        if let Some(why) = place.died.clone() {
            self.restarted.insert(case.id.clone(), why);
        }
        let result = self.in_place(case, run, place);
        let lives = result.as_ref().err().is_none_or(|verdict| verdict.kind.world_lives());
        worlds.left(case, lives, result.is_ok(), START);
        self.worlds = worlds;
        result
    }

    fn in_place(&mut self, case: &Case, run: &mut CaseRun, place: CaseWorld<'_>) -> Result<(), Verdict> {
        let fresh = place.world.is_none() || place.fresh;
        let world = match place.world {
            Some(world) => world,
            none => none.insert(self.start(case).map_err(|verdict| after_death(place.died, verdict))?),
        };
        let round = Round { number: self.round, fresh, prepared: place.prepared, keep: place.keep };
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
        let spec = spec_of(case, self.round);
        if is_in_process(case) {
            return Ok(Box::new(ThreadWorld::start(&spec, START, self.setup.interrupted)?));
        }
        if let Some((_, verdict)) = self.lacking.iter().find(|(fields, _)| *fields == case.world) {
            return Err(verdict.clone());
        }
        let started = self.setup.starter.start(&spec);
        if let Err(verdict) = &started
            && verdict.kind == VerdictKind::Lacking
        {
            self.lacking.push((case.world.clone(), verdict.clone()));
        }
        let mut world = started?;
        if self.setup.file.overhead.is_none() {
            self.setup.file.overhead = Some(overhead_of(&mut *world)?);
        }
        Ok(world)
    }

    /// The case's line after its last trial. `open`: further ones may follow. False where its results are wrong.
    fn measured(&mut self, run: &CaseRun, open: bool, samples: Vec<CaseSamples>) -> Result<bool, StoreError> {
        let case = &run.case;
        let open = open || self.interrupted.is_some();
        let mut line = lines::measured(run, &self.setup.host, &self.setup.file.profiles, open);
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
    fn failed(&mut self, case: &Case, run: CaseRun, verdict: Verdict) -> Result<(), StoreError> {
        if verdict.kind == VerdictKind::Interrupted {
            self.interrupted = Some(verdict.error.what);
            self.open.insert(case.id.clone(), run);
            return self.close(case);
        }
        let lacking = verdict.kind == VerdictKind::Lacking;
        if lacking && !run.trials.is_empty() {
            // As where admission refuses: the machine has changed since, the measurement has not.
            return self.measured(&run, false, Vec::new()).map(drop);
        }
        let trial = match run.trials.len() {
            0 => String::new(),
            made => format!("trial {}: ", made + 1),
        };
        let reason = format!("{trial}{}", verdict.error.on_one_line());
        let line = if lacking { skipped(case, reason) } else { unmeasured(case, Status::Failed, reason) };
        self.keep(line, &[])
    }

    /// On disk first, then on the screen.
    fn keep(&mut self, line: CaseLine, samples: &[CaseSamples]) -> Result<(), StoreError> {
        self.setup.store.append(&line, samples)?;
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
        let trials = self.lines.iter().filter(|line| line.time_s.is_some()).map(|line| line.trial_median_s.as_slice());
        let correlation = stats::pooled_correlation(trials);
        self.setup.file.rounds = Some(Rounds { seed: self.setup.seed, made: self.round, correlation });
        self.note_states();
        let plan = &self.setup.plan.cases;
        let order: HashMap<&str, usize> =
            plan.iter().enumerate().map(|(place, case)| (case.id.as_str(), place)).collect();
        let mut lines = std::mem::take(&mut self.lines);
        lines.sort_by_key(|line| order.get(line.id.as_str()).copied().unwrap_or(usize::MAX));
        let all: Vec<&CaseLine> = self.setup.before.iter().filter(|line| self.setup.done.contains(&line.id)).collect();
        let related = relations(&lines, &all);
        for (line, related) in lines.iter_mut().zip(related) {
            let before = line.clone();
            self.machine.conclude(line);
            conclude(line, correlation);
            line.metrics.extend(related);
            line.gates_missed = self.cases.get(&line.id).map(|case| missed(case, line)).unwrap_or_default();
            if *line != before {
                self.setup.store.append(line, &[])?;
            }
            self.setup.observer.ends(line);
        }
        self.lines = lines;
        Ok(())
    }
}

/// The world of a case in this round.
pub(crate) fn spec_of(case: &Case, round: u32) -> WorldSpec {
    let mut spec = WorldSpec { ranks: case.ranks(), fields: case.world.to_map() };
    if let Some(backend) = benchmarks::backend_of(case) {
        let mut own = comm::own_of(backend, |name| spec.fields.get(name));
        backend.for_round(&mut own, round);
        spec.fields.extend(own);
    }
    spec
}

/// What measuring costs in this world.
pub(crate) fn overhead_of(world: &mut dyn World) -> Result<Overhead, Verdict> {
    let ranks = world.probe(Probe::Overhead, START)?;
    let slowest = |i: usize| ranks.iter().filter_map(|rank| rank.get(i).copied()).fold(0.0, f64::max);
    Ok(Overhead { sample_ns: slowest(0), call_ns: slowest(1) })
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

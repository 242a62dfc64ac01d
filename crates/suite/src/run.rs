//! From a plan to a record: worlds are started, cases run in them, every line is on disk before the next case begins.
//!
//! A world that dies ends with its case; the next case gets a new one. One that dies while others have their turns costs no
//! case: it is started again, and the line says so.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use measure::{
    Circumstances, Launch, Probe, Settings, Starter, Verdict, VerdictKind, World, WorldSpec, case_line, launch_case,
    limit_s,
};
use record::{Case, CaseLine, CaseSamples, Caveat, HarnessCost, Plan, RunFile, Store, StoreError};
use serde_json::Value;
use terms::{Collective, Rank, Status};

use crate::admission::{self, Host};
use crate::order::Meeting;
use crate::parked::Worlds;
use crate::threads::ThreadWorld;
use crate::{Done, Measured, benchmark, gate, order};

/// How long a world may take to come up: libraries load, many ranks share few cores.
const START: Duration = Duration::from_secs(60);

/// Who watches a run: the terminal.
pub trait Observer {
    /// A case begins, `number` of `total` (from 1), in launch `launch` (from 0).
    fn begins(&mut self, case: &Case, number: usize, total: usize, launch: u32);
    /// Sampling goes on: seconds so far, seconds at most.
    fn progress(&mut self, elapsed_s: f64, max_s: f64);
    /// A case's line is on disk.
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
    /// Who watches.
    pub observer: &'a mut dyn Observer,
    /// Why the run is to end, once the user has asked for it. Worlds of processes notice by themselves; this is for what
    /// runs in this process, and for the time between cases.
    pub interrupted: fn() -> Option<String>,
}

/// Runs all cases. Gives their lines, in the order in which they ended.
///
/// # Errors
/// When the record cannot be written.
pub fn run(setup: Setup<'_>) -> Result<Vec<CaseLine>, StoreError> {
    let cases: Vec<&Case> = setup.plan.cases.iter().filter(|case| !setup.done.contains(&case.id)).collect();
    let mut run = Running {
        setup,
        launches: HashMap::new(),
        lines: Vec::new(),
        ended: HashSet::new(),
        restarted: HashMap::new(),
        interrupted: None,
    };
    let most = cases.iter().map(|case| launches_of(case)).max().unwrap_or(0);
    for launch in 0..most {
        let due = cases.iter().copied().filter(|case| launches_of(case) > launch && !run.ended.contains(&case.id));
        let due: Vec<&Case> = due.collect();
        let several = run.setup.starter.several();
        let order = if most > 1 { order::of_launch(due, launch, several) } else { order::of_plan(due) };
        run.launch(&order, launch)?;
    }
    run.studies()?;
    Ok(run.lines)
}

fn launches_of(case: &Case) -> u32 {
    case.whole("launches").and_then(|launches| u32::try_from(launches).ok()).unwrap_or(1).max(1)
}

struct Running<'a> {
    setup: Setup<'a>,
    /// What each case's launches gave so far.
    launches: HashMap<String, Vec<Launch>>,
    lines: Vec<CaseLine>,
    /// Cases that need no further launch: failed, skipped.
    ended: HashSet<String>,
    /// Why the worlds of these cases had to be started again.
    restarted: HashMap<String, String>,
    interrupted: Option<String>,
}

impl Running<'_> {
    /// What the plan asks to search for, each search on its own.
    fn studies(&mut self) -> Result<(), StoreError> {
        for benchmark in crate::BENCHMARKS {
            let of = |case: &&Case| case.benchmark == benchmark.about().name;
            let cases: Vec<&Case> = self.setup.plan.cases.iter().filter(of).collect();
            let Some(mut study) = benchmark.study(&cases, &self.setup.host) else { continue };
            while self.interrupted.is_none() {
                let known: Vec<CaseLine> = self.setup.before.iter().chain(&self.lines).cloned().collect();
                let next = study.next(&known);
                if next.is_empty() {
                    break;
                }
                for launch in 0..next.iter().map(launches_of).max().unwrap_or(0) {
                    let due: Vec<&Case> = next.iter().filter(|case| launches_of(case) > launch).collect();
                    self.launch(&order::of_plan(due), launch)?;
                }
            }
        }
        Ok(())
    }

    fn launch(&mut self, meetings: &[Meeting<'_>], launch: u32) -> Result<(), StoreError> {
        let total: usize = meetings.iter().map(Vec::len).sum();
        let mut number = 0;
        for cases in meetings {
            let mut worlds = Worlds::default();
            for case in cases {
                number += 1;
                if self.ended.contains(&case.id) {
                    continue;
                }
                self.interrupted = self.interrupted.take().or_else(self.setup.interrupted);
                if let Some(why) = self.interrupted.clone() {
                    worlds.end();
                    self.not_run(case, why)?;
                    continue;
                }
                self.setup.observer.begins(case, number, total, launch);
                let (world, died) = worlds.of(case, &self.setup.host, START);
                if let Some(why) = died {
                    self.restarted.insert(case.id.clone(), why);
                }
                self.case(case, launch, world)?;
            }
        }
        Ok(())
    }

    /// Cases that already have launches keep the line of those.
    fn not_run(&mut self, case: &Case, why: String) -> Result<(), StoreError> {
        self.ended.insert(case.id.clone());
        if self.launches.contains_key(&case.id) {
            return Ok(());
        }
        self.end(unmeasured(case, Status::NotRun, why), Vec::new())
    }

    fn case(&mut self, case: &Case, launch: u32, world: &mut Option<Box<dyn World>>) -> Result<(), StoreError> {
        if let Err(reason) = admission::admit(case, &self.setup.host) {
            self.ended.insert(case.id.clone());
            // Launches that it has stay: the machine has changed since, the measurement has not.
            if self.launches.contains_key(&case.id) {
                return Ok(());
            }
            return self.end(unmeasured(case, Status::Skipped, reason), Vec::new());
        }
        let settings = Settings { traced: self.setup.plan.profiling, ..Settings::of(case) };
        let simulated = admission::is_simulated(case);
        let result = self.in_world(case, &settings, simulated, world);
        match result {
            Ok(measured) => self.measured(case, &settings, simulated, launch, measured),
            Err(verdict) => {
                // What the case holds is given back before others have their turns.
                let lives =
                    verdict.kind.world_lives() && world.as_mut().is_some_and(|world| world.finish(START).is_ok());
                if !lives {
                    *world = None;
                }
                self.failed(case, verdict)
            }
        }
    }

    fn in_world(
        &mut self,
        case: &Case,
        settings: &Settings,
        simulated: bool,
        world: &mut Option<Box<dyn World>>,
    ) -> Result<Launch, Verdict> {
        let world = match world {
            Some(world) => world,
            None => world.insert(self.start(case)?),
        };
        let observer = &mut self.setup.observer;
        launch_case(&mut **world, case, settings, simulated, &mut |elapsed, most| observer.progress(elapsed, most))
    }

    fn start(&mut self, case: &Case) -> Result<Box<dyn World>, Verdict> {
        let spec = WorldSpec { ranks: case.ranks(), fields: case.world.clone() };
        if admission::is_in_process(case) {
            return Ok(Box::new(ThreadWorld::start(&spec, START, self.setup.interrupted)?));
        }
        let mut world = self.setup.starter.start(&spec)?;
        if self.setup.file.harness.is_none() {
            let ranks = world.probe(Probe::Overhead, START)?;
            let slowest = |i: usize| ranks.iter().filter_map(|rank| rank.get(i).copied()).fold(0.0, f64::max);
            self.setup.file.harness = Some(HarnessCost { sample_ns: slowest(0), call_ns: slowest(1) });
        }
        Ok(world)
    }

    fn measured(
        &mut self,
        case: &Case,
        settings: &Settings,
        simulated: bool,
        launch: u32,
        measured: Launch,
    ) -> Result<(), StoreError> {
        let samples =
            CaseSamples { id: case.id.clone(), launch, calls: u64::from(measured.calls), ns: measured.samples.clone() };
        if settings.traced {
            self.trace(case, launch, &measured)?;
        }
        let launches = self.launches.entry(case.id.clone()).or_default();
        launches.push(measured);
        let wanted = admission::cores_wanted(case.ranks(), &case.world);
        let oversubscribed = !simulated && wanted > self.setup.host.cores;
        let virtualised = !simulated && self.setup.host.virtualised;
        let spread = self.setup.host.spread.as_ref().filter(|_| !admission::is_in_process(case));
        let about = Circumstances { oversubscribed, simulated, virtualised, seed: case.whole("seed").unwrap_or(1) };
        let mut line = case_line(case, settings, launches, about);
        line.hosts = spread.map(|spread| spread.hosts);
        line.pair_hosts = spread.and_then(|spread| spread.of_pair(case));
        complete(case, &mut line, launches);
        if let Some(why) = self.restarted.get(&case.id) {
            line.caveats.push(Caveat::Restarted);
            line.reason = line.reason.or_else(|| Some(format!("while other cases ran, {why}; started again")));
        }
        let launches = &self.launches;
        let before = self.setup.before.iter().chain(&self.lines).filter(|done| done.id != line.id);
        let before: Vec<Done<'_>> = before
            .filter(|done| done.benchmark == line.benchmark && done.status == Status::Ok)
            .map(|done| Done { line: done, launches: launches.get(&done.id).map_or(&[], Vec::as_slice) })
            .collect();
        relate(&mut line, launches.get(&case.id).map_or(&[], Vec::as_slice), &before);
        line.gates_missed = missed(case, &line);
        if line.status == Status::Failed {
            self.ended.insert(case.id.clone());
        }
        self.end(line, vec![samples])
    }

    /// Entry and exit of consecutive operations on every rank, as a Chrome trace.
    fn trace(&self, case: &Case, launch: u32, measured: &Launch) -> Result<(), StoreError> {
        let operation = case.word("op").unwrap_or(Collective::Barrier);
        let bytes = case.whole("bytes").unwrap_or(0);
        let span = |(number, times): (usize, &[f64])| trace::Span {
            operation,
            number: number as u64,
            bytes,
            begin_ns: times[0] as u64,
            end_ns: times[1] as u64,
        };
        let ranks = measured.arrivals.iter().enumerate().map(|(rank, times)| {
            let spans = times.chunks_exact(2).enumerate().map(span).collect::<Vec<_>>();
            (Rank(rank as u32), spans)
        });
        let ranks: Vec<_> = ranks.collect();
        let name = format!("{}-{launch}.json.gz", case.id);
        self.setup.store.write_trace(&name, |to| trace::chrome::write(to, &ranks))
    }

    fn failed(&mut self, case: &Case, verdict: Verdict) -> Result<(), StoreError> {
        if verdict.kind == VerdictKind::Interrupted {
            self.interrupted = Some(verdict.message.clone());
            return self.not_run(case, verdict.message);
        }
        self.ended.insert(case.id.clone());
        let status = if verdict.kind == VerdictKind::Lacking { Status::Skipped } else { Status::Failed };
        let reason = match &verdict.hint {
            Some(hint) => format!("{} (hint: {hint})", verdict.message),
            None => verdict.message,
        };
        self.end(unmeasured(case, status, reason), Vec::new())
    }

    /// On disk first, then on the screen.
    fn end(&mut self, line: CaseLine, samples: Vec<CaseSamples>) -> Result<(), StoreError> {
        self.setup.store.append(&line, &samples)?;
        self.setup.observer.ends(&line);
        self.lines.retain(|known| known.id != line.id);
        self.lines.push(line);
        Ok(())
    }
}

/// The line of a case that gave no number. What would have been computed is marked here, too.
fn unmeasured(case: &Case, status: Status, reason: String) -> CaseLine {
    CaseLine { simulated: admission::is_simulated(case), ..CaseLine::unmeasured(case, status, reason) }
}

/// Adds the benchmark's metrics, before what `measure` knew, and what it finds wrong.
fn complete(case: &Case, line: &mut CaseLine, launches: &[Launch]) {
    let (Some(benchmark), Some(times)) = (benchmark(&case.benchmark), &line.time_s) else { return };
    let measured = Measured { times, limit_s: limit_s(launches), launches };
    let mut metrics = benchmark.metrics(case, &measured);
    if let Some(reason) = benchmark.fault(case, launches).filter(|_| line.status == Status::Ok) {
        line.status = Status::Failed;
        line.reason = Some(reason);
    }
    // A bandwidth of wrong data is no bandwidth.
    if line.wrong != Some(0) {
        metrics.retain(|_, value: &mut Value| !value.is_number() && !value.is_object());
    }
    metrics.extend(std::mem::take(&mut line.metrics));
    line.metrics = metrics;
}

/// Adds what only comparing with earlier cases tells.
fn relate(line: &mut CaseLine, launches: &[Launch], before: &[Done<'_>]) {
    let Some(benchmark) = benchmark(&line.benchmark).filter(|_| line.status == Status::Ok) else { return };
    let relations = benchmark.relations(&Done { line, launches }, before);
    line.metrics.extend(relations);
}

fn missed(case: &Case, line: &CaseLine) -> Vec<String> {
    let benchmark = benchmark(&case.benchmark).filter(|_| line.time_s.is_some());
    benchmark.map(|benchmark| gate::missed(case, benchmark.about(), line)).unwrap_or_default()
}

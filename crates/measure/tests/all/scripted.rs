//! A world without ranks: every answer is invented, every command is kept.

use std::time::Duration;

use measure::{
    CaseRun, Circumstances, Clocks, Command, Observations, Probe, Ready, Reply, Round, SampleRequest, Settings, Trial,
    Verdict, World, WrongReport,
};
use record::{Case, CaseLine, WrongElement};
use serde_json::{Map, Value, json};

/// Nanoseconds of one sample, from its rank, its number in the case, and its number of calls.
type Times = Box<dyn FnMut(usize, u64, u32) -> u64>;

/// Says how a command fails, if it does.
type Fails = Box<dyn FnMut(&Command) -> Option<Verdict>>;

/// A case after one trial.
#[derive(Debug)]
pub(crate) struct One(pub(crate) CaseRun);

impl std::ops::Deref for One {
    type Target = Trial;

    fn deref(&self) -> &Trial {
        &self.0.trials[0]
    }
}

pub(crate) struct Scripted {
    pub(crate) ranks: usize,
    pub(crate) times: Times,
    /// What each rank says when it is ready.
    pub(crate) ready: Ready,
    /// What the checks after sampling find, by rank.
    pub(crate) wrong: Vec<WrongReport>,
    /// Answers to the first canary and to all further ones, of every rank.
    pub(crate) canaries: [Vec<f64>; 2],
    /// Answer to the limit probes, by rank.
    pub(crate) limits: Vec<Vec<f64>>,
    /// Answer to the arrival probe, by rank.
    pub(crate) arrivals: Vec<Vec<f64>>,
    pub(crate) missed_starts: Vec<u64>,
    pub(crate) fails: Fails,
    /// What comparing clocks gives, one after the other, then the last one again and again; none: ranks have one clock.
    pub(crate) clocks: Vec<Clocks>,
    /// Every command with its time limit.
    pub(crate) commands: Vec<(Command, Duration)>,
    sample: u64,
    canaries_asked: usize,
}

impl Scripted {
    pub(crate) fn new(ranks: usize, times: impl FnMut(usize, u64, u32) -> u64 + 'static) -> Self {
        Self {
            ranks,
            times: Box::new(times),
            ready: Ready { limits: vec!["plain".to_owned()], ..Ready::default() },
            wrong: vec![WrongReport { compared: 10, ..WrongReport::default() }; ranks],
            canaries: [vec![200.0, 0.0, 0.0], vec![210.0, 0.0, 0.0]],
            limits: vec![Vec::new(); ranks],
            arrivals: vec![Vec::new(); ranks],
            missed_starts: vec![0; ranks],
            fails: Box::new(|_| None),
            clocks: Vec::new(),
            commands: Vec::new(),
            sample: 0,
            canaries_asked: 0,
        }
    }

    /// Sample commands in the order in which they came.
    pub(crate) fn requests(&self) -> Vec<SampleRequest> {
        let request = |(command, _): &(Command, Duration)| match command {
            Command::Sample(request) => Some(*request),
            _ => None,
        };
        self.commands.iter().filter_map(request).collect()
    }

    /// One trial of the case, with every progress that was reported.
    pub(crate) fn trial_with_progress(
        &mut self,
        case: &Case,
        simulated: bool,
    ) -> (Result<One, Verdict>, Vec<(f64, f64)>) {
        let mut progress = Vec::new();
        let mut run = CaseRun::new(case, Settings { trials: Some(1), ..Settings::from_case(case) }, simulated);
        let made =
            run.visit(self, Round { fresh: true, ..Round::default() }, &mut |at, most| progress.push((at, most)));
        (made.map(|()| One(run)), progress)
    }

    /// One trial of the case in simulated time.
    pub(crate) fn trial(&mut self, case: &Case) -> One {
        self.trial_with_progress(case, true).0.expect("no verdict")
    }

    /// One trial of the case as if times were real: canaries and limits are asked for.
    pub(crate) fn trial_real(&mut self, case: &Case) -> One {
        self.trial_with_progress(case, false).0.expect("no verdict")
    }

    /// All trials that the case wants, in simulated time.
    pub(crate) fn trials(&mut self, case: &Case) -> CaseRun {
        let mut run = CaseRun::new(case, Settings::from_case(case), true);
        run.settings.exact = false;
        for number in 0.. {
            run.visit(self, Round { number, fresh: true, ..Round::default() }, &mut |_, _| ()).expect("no verdict");
            if run.stop().is_some() {
                break;
            }
        }
        run
    }

    fn answer(&mut self, rank: usize, command: &Command) -> Reply {
        match command {
            Command::Prepare { .. } => Reply::Ready(self.ready.clone()),
            Command::Sample(request) => {
                let first = self.sample;
                let sample = |i| (self.times)(rank, first + u64::from(i), request.calls);
                Reply::Samples((0..request.samples).map(sample).collect())
            }
            Command::Check => Reply::Checked(self.wrong[rank].clone()),
            Command::Probe(Probe::Canary) => Reply::Numbers(self.canaries[self.canaries_asked.min(1)].clone()),
            Command::Probe(Probe::Limit { .. }) => Reply::Numbers(self.limits[rank].clone()),
            Command::Probe(Probe::Steps { .. }) => Reply::Steps(measure::StepTimes::default()),
            Command::Probe(Probe::Arrivals { .. }) => Reply::Numbers(self.arrivals[rank].clone()),
            Command::Probe(Probe::Overhead) => Reply::Numbers(vec![20.0, 1.0]),
            Command::Probe(Probe::Begin) | Command::Clocks(_) => Reply::Numbers(Vec::new()),
            Command::Observe | Command::Finish => {
                Reply::Finished(Observations { missed_starts: self.missed_starts[rank], ..Observations::default() })
            }
        }
    }
}

impl World for Scripted {
    fn command(&mut self, command: &Command, limit: Duration) -> Result<Vec<Reply>, Verdict> {
        self.commands.push((command.clone(), limit));
        if let Some(verdict) = (self.fails)(command) {
            return Err(verdict);
        }
        let replies = (0..self.ranks).map(|rank| self.answer(rank, command)).collect();
        match command {
            Command::Sample(request) => self.sample += u64::from(request.samples),
            Command::Probe(Probe::Canary) => self.canaries_asked += 1,
            _ => {}
        }
        Ok(replies)
    }

    fn clocks(&mut self) -> Option<Clocks> {
        if self.clocks.len() > 1 { Some(self.clocks.remove(0)) } else { self.clocks.first().cloned() }
    }
}

/// An all_reduce of `ranks` ranks with these settings.
pub(crate) fn case(ranks: usize, settings: Value) -> Case {
    let map = |value: Value| -> Map<String, Value> { serde_json::from_value(value).expect("an object") };
    Case {
        settings: map(settings).into(),
        ..Case::new(
            "collective",
            map(json!({"op": "all_reduce", "ranks": ranks, "backend": "shm", "device": "cpu"})).into(),
        )
    }
}

/// Circumstances of a quiet, real machine.
pub(crate) const REAL: Circumstances =
    Circumstances { oversubscribed: false, simulated: false, virtualised: false, open: false };

pub(crate) fn line(one: &One) -> CaseLine {
    measure::case_line(&one.0, REAL)
}

pub(crate) fn element(rank: u32, index: u64) -> WrongElement {
    WrongElement { rank, index, expected: "3".to_owned(), got: "4".to_owned() }
}

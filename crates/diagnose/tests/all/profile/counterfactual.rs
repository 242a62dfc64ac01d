//! Jobs with a planted fault whose step time without the fault is known, because the same job is simulated again without it.
//!
//! A job is a list of operations that all ranks run in each step. It is simulated forward from its program, so it shares nothing
//! with the replay of a recorded timeline. `examples/without_rates` prints the table of docs/appendix/diagnosis.md.

use diagnose::profile::{Analysis, FindingKind, Settings, Typical, Without, analyse};
use trace::timeline::{CollectiveCall, Kind, NameId, RankTimeline, Timeline};

use super::simulation::{Law, STEP_NS, Scenario};

/// An operation of a step, in parts of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Op {
    /// Own work.
    Work(Kind, f64),
    /// All ranks of a communicator wait in an `all_reduce`: ranks of a communicator, and the time in which bytes move.
    Exchange(usize, f64),
    /// Starts an `all_reduce` of all ranks on another queue.
    Start(f64),
    /// Waits for the first one that was started and not waited for.
    Wait,
}

/// A planted fault.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    /// A rank takes longer in the operation of this place, by so much of a step, in every so many steps.
    Rank(usize, usize, f64, usize),
    /// The last communicator of the exchange at this place moves its bytes longer.
    Link(usize, f64),
}

/// One simulated job.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Job {
    pub(crate) ranks: usize,
    pub(crate) steps: usize,
    pub(crate) jitter: f64,
    pub(crate) law: Law,
    pub(crate) program: Vec<Op>,
    pub(crate) faults: Vec<Fault>,
    /// Whether clocks are aligned.
    pub(crate) aligned: bool,
}

/// One exchange of all ranks between backward pass and optimizer.
pub(crate) fn blocking() -> Vec<Op> {
    vec![
        Op::Work(Kind::Input, 0.05),
        Op::Work(Kind::Forward, 0.28),
        Op::Work(Kind::Backward, 0.47),
        Op::Exchange(0, 0.05),
        Op::Work(Kind::Optimizer, 0.10),
        Op::Work(Kind::Host, 0.05),
    ]
}

/// Two buckets. The first one moves for 30% of a step, during the second half of the backward pass, which takes 25%.
pub(crate) fn overlapped() -> Vec<Op> {
    vec![
        Op::Work(Kind::Forward, 0.25),
        Op::Work(Kind::Backward, 0.20),
        Op::Start(0.30),
        Op::Work(Kind::Backward, 0.25),
        Op::Start(0.05),
        Op::Wait,
        Op::Wait,
        Op::Work(Kind::Optimizer, 0.10),
    ]
}

/// Communicators of two ranks, and then one of all.
pub(crate) fn pairs() -> Vec<Op> {
    vec![
        Op::Work(Kind::Forward, 0.30),
        Op::Exchange(2, 0.10),
        Op::Work(Kind::Backward, 0.40),
        Op::Exchange(0, 0.10),
        Op::Work(Kind::Optimizer, 0.10),
    ]
}

/// Noise of a transfer, as a part of it.
const TRANSFER_JITTER: f64 = 0.02;
/// Noise of transfers is numbered like that of ranks.
const LINKS: usize = 1_000;

/// What is left of work and transfers under noise, as a part of them.
const SHORTEST: f64 = 0.1;

impl Job {
    pub(crate) fn new(program: Vec<Op>, jitter: f64, faults: Vec<Fault>) -> Self {
        Self { ranks: 4, steps: 200, jitter, law: Law::Normal, program, faults, aligned: true }
    }

    /// This job without some of its faults.
    pub(crate) fn without(&self, left_out: impl Fn(&Fault) -> bool) -> Self {
        Self { faults: self.faults.iter().filter(|fault| !left_out(fault)).copied().collect(), ..self.clone() }
    }

    /// Equal for equal seeds.
    pub(crate) fn timeline(&self, seed: u64) -> Timeline {
        let mut timeline = Timeline {
            source: "simulation".to_owned(),
            world: Some(self.ranks as u32),
            clock_error_ns: self.aligned.then_some(1_000),
            ..Timeline::default()
        };
        let rank = |rank: usize| RankTimeline { rank: rank as u32, ..RankTimeline::default() };
        timeline.ranks = (0..self.ranks).map(rank).collect();
        let noise = Noise::new(self, seed);
        let mut state = State { now: vec![0; self.ranks], free: vec![0; self.ranks], sequence: 0, started: Vec::new() };
        let step_name = timeline.names.intern("step");
        for step in 0..=self.steps {
            let began = state.now.clone();
            for (place, op) in self.program.iter().enumerate() {
                self.run((step, place, *op), &noise, &mut state, &mut timeline);
            }
            for (rank, of_rank) in timeline.ranks.iter_mut().enumerate() {
                of_rank.push(Kind::Step, step_name, step as u32, began[rank], state.now[rank]);
            }
        }
        for (rank, of_rank) in timeline.ranks.iter_mut().enumerate().filter(|_| !self.aligned) {
            of_rank.spans.iter_mut().for_each(|span| {
                (span.begin_ns, span.end_ns) =
                    (span.begin_ns + 900_000_000 * rank as i64, span.end_ns + 900_000_000 * rank as i64);
            });
        }
        timeline.ranks.iter_mut().for_each(RankTimeline::sort);
        timeline
    }

    fn run(&self, (step, place, op): (usize, usize, Op), noise: &Noise, state: &mut State, timeline: &mut Timeline) {
        match op {
            Op::Work(kind, part) => {
                let name = timeline.names.intern(kind.name());
                for rank in 0..self.ranks {
                    let (from, length) = (state.now[rank], self.work(rank, (step, place), part, noise));
                    state.now[rank] = from + length;
                    timeline.ranks[rank].push(kind, name, 0, from, state.now[rank]);
                }
            }
            Op::Exchange(size, part) => {
                let size = if size == 0 { self.ranks } else { size };
                for first in (0..self.ranks).step_by(size) {
                    let members = first..first + size;
                    let entered = members.clone().map(|rank| state.now[rank]).max().unwrap_or(0);
                    let is_last = first + size == self.ranks;
                    let end = entered + self.transfer((step, place), (first / size, is_last), part, noise);
                    let group = timeline.names.intern(&format!("group {place}.{}", first / size));
                    let call = call(timeline, (group, size), (step, part));
                    for rank in members {
                        timeline.ranks[rank].push_call(0, state.now[rank], end, call);
                        state.now[rank] = end;
                    }
                }
            }
            Op::Start(part) => {
                let transfer = self.transfer((step, place), (0, false), part, noise);
                state.started.push((state.now.clone(), transfer, part));
            }
            Op::Wait => {
                let (issued, transfer, part) = state.started.remove(0);
                let began: Vec<i64> = issued.iter().zip(&state.free).map(|(issued, free)| *issued.max(free)).collect();
                let end = began.iter().max().unwrap_or(&0) + transfer;
                let (group, wait) = (timeline.names.intern("world"), timeline.names.intern("wait"));
                let call = call(timeline, (group, self.ranks), (state.sequence, part));
                state.sequence += 1;
                for (rank, began) in began.into_iter().enumerate() {
                    timeline.ranks[rank].push_call(1, began, end, call);
                    timeline.ranks[rank].push(Kind::Wait, wait, 0, state.now[rank], end.max(state.now[rank]));
                    state.now[rank] = end.max(state.now[rank]);
                    state.free[rank] = end;
                }
            }
        }
    }

    fn work(&self, rank: usize, (step, place): (usize, usize), part: f64, noise: &Noise) -> i64 {
        let deviation = self.jitter * part.sqrt() * noise.ranks[rank][place][step];
        let delay: f64 = self
            .faults
            .iter()
            .map(|fault| match *fault {
                Fault::Rank(of, at, delay, every) if (of, at) == (rank, place) && step % every == 0 => delay,
                _ => 0.0,
            })
            .sum();
        (((part + deviation).max(SHORTEST * part) + delay) * STEP_NS) as i64
    }

    fn transfer(&self, (step, place): (usize, usize), (link, is_last): (usize, bool), part: f64, noise: &Noise) -> i64 {
        let own = part * (1.0 + TRANSFER_JITTER * noise.links[link][place][step]).max(SHORTEST);
        let delay: f64 = self
            .faults
            .iter()
            .map(|fault| match *fault {
                Fault::Link(at, delay) if at == place && is_last => delay,
                _ => 0.0,
            })
            .sum();
        ((own + delay) * STEP_NS) as i64
    }
}

struct State {
    now: Vec<i64>,
    /// When the queue of each rank is free.
    free: Vec<i64>,
    sequence: usize,
    /// When each rank started an exchange, its transfer, and its part of a step.
    started: Vec<(Vec<i64>, i64, f64)>,
}

/// Noise of each operation of ranks and of links: `[rank][place][step]`.
struct Noise {
    ranks: Vec<Vec<Vec<f64>>>,
    links: Vec<Vec<Vec<f64>>>,
}

impl Noise {
    fn new(job: &Job, seed: u64) -> Self {
        let of = |law: Law, from: usize, count: usize| {
            let source = Scenario { law, ..Scenario::equal(job.ranks, job.steps, 0.0) };
            let of_one =
                |one: usize| (0..job.program.len()).map(|place| source.noise(from + one, place, seed)).collect();
            (0..count).map(of_one).collect()
        };
        Self { ranks: of(job.law, 0, job.ranks), links: of(Law::Normal, LINKS, job.ranks) }
    }
}

fn call(timeline: &mut Timeline, (group, ranks): (NameId, usize), (sequence, part): (usize, f64)) -> CollectiveCall {
    CollectiveCall {
        operation: timeline.names.intern("all_reduce"),
        group,
        sequence: Some(sequence as u64),
        ranks: Some(ranks as u32),
        bytes: Some((part * 1e9) as u64),
        input_bytes: None,
        dtype: None,
        synchronises: true,
        first_byte_ns: None,
    }
}

/// What an analysis claims, and the truth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Claim {
    pub(crate) claimed: Without,
    pub(crate) truth_s: f64,
}

impl Claim {
    pub(crate) fn is_covered(&self) -> bool {
        (self.claimed.ci95[0]..=self.claimed.ci95[1]).contains(&self.truth_s)
    }
}

/// What is said of the faults of a job: of all slow ranks together, or of the slow communicator. None where nothing is.
pub(crate) fn claim(job: &Job, seed: u64) -> Option<Claim> {
    let analysis = analysed(job, seed);
    let is_of_link = job.faults.iter().any(|fault| matches!(fault, Fault::Link(..)));
    let of_kind = |kind: FindingKind| analysis.findings.iter().find(|finding| finding.kind == kind)?.without;
    let planted: Vec<u32> = job
        .faults
        .iter()
        .filter_map(|fault| if let Fault::Rank(rank, ..) = fault { Some(*rank as u32) } else { None })
        .collect();
    let named = || {
        let mut named: Vec<u32> = analysis.stragglers.iter().map(|one| one.rank).collect();
        named.sort_unstable();
        named == planted
    };
    let claimed = match (is_of_link, planted.is_empty()) {
        (true, _) => of_kind(FindingKind::SlowExchange)?,
        (_, true) => of_kind(FindingKind::Straggler).or_else(|| of_kind(FindingKind::SlowExchange))?,
        _ => analysis.without_slow_ranks.filter(|_| named())?,
    };
    let steps = analysed(&job.without(|_| true), seed).steps.step;
    let truth_s = if claimed.of == Typical::Mean { steps.mean() } else { steps.median? };
    Some(Claim { claimed, truth_s })
}

pub(crate) fn analysed(job: &Job, seed: u64) -> Analysis {
    analyse(&job.timeline(seed), &Settings::default())
}

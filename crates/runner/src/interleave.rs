//! Two sides measured interleaved: A B B A slices in two worlds that are alive at once, pair of worlds after pair of worlds,
//! until each case is decided or its time is spent.
//!
//! Both worlds are new in every pair: where processes and their pages land moves times more than repetitions do. So the pair
//! is the unit and gives one log ratio ([`stats::Looks`] judges them). Within a pair, a steady change of the machine cancels.
//! In every two pairs one is A B B A and the other B A A B, in an order that is drawn: what the first slice meets (cold caches,
//! a clock that rises) then meets both sides. While one side samples, the other waits for its next command and uses no
//! processor. On the record a pair is a round, and both slices of a side are one trial.

mod case;

use std::collections::HashMap;
use std::time::Instant;

use benchmarks::is_in_process;
use measure::{CaseRun, Round, Starter, Trial, Verdict, VerdictKind, World, align};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use record::{Case, CaseLine, CaseSamples, StoreError};
use terms::Status;
use view::Compared;

use crate::driver::{Driver, START, Setup, Visits, make_rounds};
use crate::lines::{self, samples_of, unmeasured};
use crate::worlds::MOST_RANKS;
use crate::{admission, order};
use case::PairCase;

/// A case of both sides, A and B, as their ranks see it.
pub type Matched = [Case; 2];

/// Who watches.
pub trait PairObserver {
    /// Case `index` is visited, `number` of `total` in this pair (from 1); pairs count from 0.
    fn begins(&mut self, index: usize, number: usize, total: usize, pair: u32);
    /// What is known of case `index` now.
    fn updates(&mut self, index: usize, compared: &Compared);
    /// A pair is over.
    fn pairs(&mut self, made: u32, open: usize);
}

/// What an interleaved comparison is made of. The plan in `run.json` holds each case for each side ([`record::of_side`]).
pub struct PairSetup<'a> {
    /// What to compare.
    pub cases: &'a [Matched],
    /// Starts the ranks of A, and of B.
    pub starters: [&'a mut dyn Starter; 2],
    /// Who watches.
    pub observer: &'a mut dyn PairObserver,
    /// Seconds that a case may take, both sides together.
    pub max_seconds: f64,
    /// Whether an interval of the ratio B over A decides.
    pub decides: &'a dyn Fn([f64; 2]) -> bool,
}

/// Measures all cases. Gives how they compare, in the order of `cases`.
///
/// # Errors
/// When the record cannot be written.
pub fn interleave<'a>(whole: Setup<'a>, setup: PairSetup<'a>) -> Result<Vec<Compared>, StoreError> {
    let family = setup.cases.len();
    let cases = setup.cases.iter().map(|sides| PairCase::new(sides, family, setup.max_seconds)).collect();
    let random = StdRng::seed_from_u64(whole.seed);
    let driver = Driver::new(whole, 0, "the time budget ended before it was decided");
    let mut state =
        RoundState { driver, setup, cases, random, b_first: false, block: None, group: PairedCases::default() };
    state.admit()?;
    make_rounds(&mut state)?;
    state.close_rest()?;
    state.judge()
}

/// Worlds of A and B, where they are alive.
type Worlds = [Option<Box<dyn World>>; 2];

/// Cases that are visited in the same pair of worlds.
#[derive(Default)]
struct PairedCases {
    worlds: Worlds,
    begun: Option<Instant>,
    visited: Vec<usize>,
}

/// A round is a pair.
struct RoundState<'a> {
    driver: Driver<'a>,
    setup: PairSetup<'a>,
    cases: Vec<PairCase>,
    random: StdRng,
    /// Whether B comes first in this pair.
    b_first: bool,
    /// Whether B came first in the pair before, in a block of two.
    block: Option<bool>,
    group: PairedCases,
}

/// A side could not go on.
struct SideFault {
    side: usize,
    verdict: Verdict,
}

impl<'a> Visits<'a> for RoundState<'a> {
    /// The case's place in the setup.
    type Case = usize;

    fn driver(&mut self) -> &mut Driver<'a> {
        &mut self.driver
    }

    fn groups(&mut self) -> Vec<Vec<usize>> {
        let open: Vec<usize> = (0..self.cases.len()).filter(|at| self.cases[*at].open).collect();
        if open.is_empty() || self.driver.is_over() {
            return Vec::new();
        }
        self.b_first = self.drawn_order();
        let orders = self.driver.setup.file.interleaved.get_or_insert_default();
        orders.orders.push(if self.b_first { "BAAB" } else { "ABBA" }.to_owned());
        let mut groups = order::grouped(open, |at| self.setup.cases[*at].each_ref().map(order::world));
        groups.shuffle(&mut self.random);
        groups.iter_mut().for_each(|group| group.shuffle(&mut self.random));
        groups
    }

    fn visit(&mut self, at: &usize, number: usize, total: usize) -> Result<(), StoreError> {
        if self.driver.is_over() {
            return Ok(());
        }
        self.group.begun.get_or_insert_with(Instant::now);
        self.group.visited.push(*at);
        self.setup.observer.begins(*at, number, total, self.driver.round);
        self.visit_pair(*at)
    }

    fn group_ends(&mut self) {
        let PairedCases { worlds, begun, visited } = std::mem::take(&mut self.group);
        drop(worlds);
        let share = begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64()) / visited.len().max(1) as f64;
        for at in visited {
            if self.cases[at].has_new_pair() {
                self.cases[at].after_pair(share, self.setup.decides);
                self.tell(at);
            }
        }
    }

    fn round_ends(&mut self) -> Result<(), StoreError> {
        let open = self.cases.iter().filter(|case| case.open).count();
        self.setup.observer.pairs(self.driver.round, open);
        Ok(())
    }
}

impl RoundState<'_> {
    /// What cannot run here is skipped, on both sides.
    fn admit(&mut self) -> Result<(), StoreError> {
        for at in 0..self.cases.len() {
            let sides = &self.setup.cases[at];
            let one = |side: usize| {
                let admitted = admission::admit(&sides[side], &self.driver.setup.host);
                admitted.map_err(|why| format!("side {}: {why}", ["A", "B"][side]))
            };
            let ranks = sides.iter().map(Case::ranks).sum::<u32>();
            let crowded = match ranks > MOST_RANKS && !sides.iter().any(is_in_process) {
                true => Err(format!("both sides at once are {ranks} ranks; at most {MOST_RANKS} may be alive at once")),
                false => Ok(()),
            };
            let both = || {
                let sides = [one(0)?, one(1)?];
                crowded.and_then(|()| admission::admit_both(&sides, &self.driver.setup.host))
            };
            if let Err(why) = both() {
                for side in 0..2 {
                    let line = unmeasured(&self.cases[at].kept[side], Status::Skipped, why.clone());
                    self.keep(at, side, line, &[])?;
                }
                self.cases[at].close(Some(why));
                self.tell(at);
            }
        }
        Ok(())
    }

    /// Whether B comes first in the next pair: in two pairs one of each, in an order that is drawn.
    fn drawn_order(&mut self) -> bool {
        match self.block.take() {
            Some(before) => !before,
            None => *self.block.insert(self.random.random()),
        }
    }

    fn visit_pair(&mut self, at: usize) -> Result<(), StoreError> {
        match self.slices(at) {
            Ok(slices) => self.keep_pair(at, slices),
            Err(fault) => {
                // What is still prepared is given back before others are visited.
                for (side, world) in self.group.worlds.iter_mut().enumerate() {
                    let lives = side != fault.side || fault.verdict.kind.world_lives();
                    if !lives || world.as_mut().is_some_and(|world| world.finish(START).is_err()) {
                        *world = None;
                    }
                }
                self.failed(at, fault)
            }
        }
    }

    /// The four slices: two of each side, in their order.
    fn slices(&mut self, at: usize) -> Result<[[Trial; 2]; 2], SideFault> {
        let (number, first) = (self.driver.round, usize::from(self.b_first));
        let worlds = &mut self.group.worlds;
        for side in [first, 1 - first] {
            if worlds[side].is_none() {
                // A computed noise is another one on each side.
                let round = 2 * number + side as u32;
                let world = self.driver.start(&self.setup.cases[at][side], round, self.setup.starters[side]);
                worlds[side] = Some(world.map_err(|verdict| SideFault { side, verdict })?);
            }
        }
        let case = &mut self.cases[at];
        let mut slice = |case: &mut PairCase, side: usize, prepared: bool, keep: bool| {
            let missing = || Verdict::new(VerdictKind::NotStarted, "its world is not alive");
            let fault = |verdict| SideFault { side, verdict };
            let world = worlds[side].as_mut().ok_or_else(|| fault(missing()))?;
            let round = Round { number, fresh: true, prepared, keep, until: self.driver.setup.deadline };
            case.runs[side].visit(&mut **world, round, &mut |_, _| ()).map_err(fault)?;
            case.runs[side].trials.pop().ok_or_else(|| fault(missing()))
        };
        if case.runs.iter().any(|run| run.sampling.is_none()) {
            // What is sampled to find out how many calls and samples a slice has is not a slice itself.
            for side in [first, 1 - first] {
                let pilot = slice(case, side, false, false)?;
                case.piloted(side, pilot);
            }
            alike(&mut case.runs);
        }
        let one = slice(case, first, false, true)?;
        let other = [slice(case, 1 - first, false, true)?, slice(case, 1 - first, true, false)?];
        let own = [one, slice(case, first, true, false)?];
        Ok(if self.b_first { [other, own] } else { [own, other] })
    }

    /// Adds a pair to its case and to the record.
    fn keep_pair(&mut self, at: usize, slices: [[Trial; 2]; 2]) -> Result<(), StoreError> {
        let log = log_ratio(&slices);
        let mut right = true;
        for (side, [one, other]) in slices.into_iter().enumerate() {
            let counts = [&one, &other].map(|slice| slice.samples.first().map_or(0, Vec::len) as u32);
            let case = &mut self.cases[at];
            let trial = case.with_pilot(side, one.joined(other));
            case.runs[side].trials.push(trial);
            let after = self.driver.after.replace(case.kept[side].id.clone());
            let samples = samples_of(&case.runs[side], after);
            let samples = CaseSamples { id: case.kept[side].id.clone(), slices: counts.to_vec(), ..samples };
            let line = self.line(at, side, true);
            right &= line.status == Status::Ok;
            self.keep(at, side, line, &[samples])?;
        }
        let case = &mut self.cases[at];
        match log {
            _ if !right => case.close(None),
            Some(log) => case.logs.push(log),
            None => case.close(Some("a time of zero has no ratio".to_owned())),
        }
        if !self.cases[at].open {
            self.tell(at);
        }
        Ok(())
    }

    fn line(&self, at: usize, side: usize, open: bool) -> CaseLine {
        let (case, Setup { host, file, bounds, .. }) = (&self.cases[at], &self.driver.setup);
        let line = lines::measured(&case.runs[side], host, (&file.profiles, bounds), open);
        CaseLine { id: case.kept[side].id.clone(), parameters: case.kept[side].parameters.clone(), ..line }
    }

    /// A side failed: its case ends, and so does the other side's.
    fn failed(&mut self, at: usize, SideFault { side, verdict }: SideFault) -> Result<(), StoreError> {
        if verdict.kind == VerdictKind::Interrupted {
            self.driver.interrupted = Some(verdict.error.what);
            return Ok(());
        }
        let lacking = verdict.kind == VerdictKind::Lacking;
        let pair = self.driver.round + 1;
        let why = format!("side {}, pair {pair}: {}", ["A", "B"][side], verdict.error.on_one_line());
        let measured = !self.cases[at].runs[side].trials.is_empty();
        // As in a run: the machine has changed since, the measurement has not.
        if !(lacking && measured) {
            let status = if lacking { Status::Skipped } else { Status::Failed };
            let line = unmeasured(&self.cases[at].kept[side], status, why.clone());
            self.keep(at, side, line, &[])?;
        }
        if self.cases[at].runs[1 - side].trials.is_empty() {
            let line =
                unmeasured(&self.cases[at].kept[1 - side], Status::NotRun, format!("the other side ended: {why}"));
            self.keep(at, 1 - side, line, &[])?;
        }
        self.cases[at].close(Some(why));
        self.tell(at);
        Ok(())
    }

    /// Cases that nothing has decided when the time is over.
    fn close_rest(&mut self) -> Result<(), StoreError> {
        let why = self.driver.why_over();
        for at in 0..self.cases.len() {
            if !self.cases[at].open {
                continue;
            }
            for side in 0..2 {
                if self.cases[at].runs[side].trials.is_empty() {
                    let line = unmeasured(&self.cases[at].kept[side], Status::NotRun, why.clone());
                    self.keep(at, side, line, &[])?;
                }
            }
            self.cases[at].cut_short = self.driver.interrupted.is_some();
            self.cases[at].look();
            self.cases[at].close(Some(why.clone()));
        }
        Ok(())
    }

    /// What only the whole comparison tells of each line: correlation, relations between cases, gates.
    fn judge(&mut self) -> Result<Vec<Compared>, StoreError> {
        for (at, side) in (0..self.cases.len()).flat_map(|at| [(at, 0), (at, 1)]) {
            // The line that failed or was skipped stays as it is.
            let ok = self.cases[at].lines[side].as_ref().is_some_and(|line| line.status == Status::Ok);
            if ok {
                let line = self.line(at, side, self.cases[at].cut_short);
                self.cases[at].lines[side] = Some(line);
            }
        }
        let mut all: Vec<CaseLine> = self.cases.iter().flat_map(|case| case.lines.iter().flatten().cloned()).collect();
        let sides = (0..self.cases.len()).flat_map(|at| [(at, 0), (at, 1)]);
        let places: HashMap<String, (usize, usize)> =
            sides.map(|(at, side)| (self.cases[at].kept[side].id.clone(), (at, side))).collect();
        let case_of = |id: &str| places.get(id).map(|(at, side)| &self.cases[*at].kept[*side]);
        self.driver.judge(&mut all, &[], case_of);
        for line in all {
            let Some((at, side)) = places.get(&line.id).copied() else { continue };
            self.keep(at, side, line, &[])?;
        }
        Ok(self.cases.iter().map(PairCase::compared).collect())
    }

    /// On disk first, then on the screen.
    fn keep(&mut self, at: usize, side: usize, line: CaseLine, samples: &[CaseSamples]) -> Result<(), StoreError> {
        self.driver.setup.store.append(&line, samples)?;
        self.cases[at].lines[side] = Some(line);
        Ok(())
    }

    fn tell(&mut self, at: usize) {
        let compared = self.cases[at].compared();
        self.setup.observer.updates(at, &compared);
    }
}

/// Gives both sides as many calls a sample and samples a slice.
fn alike(runs: &mut [CaseRun; 2]) {
    let [a, b] = runs;
    align(&mut [a, b]);
    let sampled = |run: &&CaseRun| !run.is_constant();
    let fewest = runs.iter().filter(sampled).filter_map(|run| run.sampling).map(|sampling| sampling.samples).min();
    for run in runs.iter_mut().filter(|run| !run.is_constant()) {
        if let (Some(sampling), Some(fewest)) = (run.sampling.as_mut(), fewest) {
            sampling.samples = fewest;
        }
    }
}

/// Mean of the logarithms of B's slices minus that of A's; None where a slice took no time.
fn log_ratio(slices: &[[Trial; 2]; 2]) -> Option<f64> {
    let log = |slice: &Trial| slice.median().filter(|median| *median > 0.0).map(f64::ln);
    let mean = |[one, other]: &[Trial; 2]| Some(0.5 * (log(one)? + log(other)?));
    Some(mean(&slices[1])? - mean(&slices[0])?)
}

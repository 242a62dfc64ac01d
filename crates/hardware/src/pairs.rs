//! Latency and bandwidth of pairs of ranks: a call is a tournament in which every pair exchanges messages, or of many ranks a part
//! of all pairs.

use std::sync::Arc;

use comm::{Call, Communicator};
use contract::{Prepared, RankContext, Work, failure};
use device::cuda::{CudaError, Repeated};
use device::{Region, Slice};
use measure::{Failure, WrongReport};
use record::WrongElement;
use serde_json::{Map, Value};
use terms::{Collective, Direction, Dtype, Reduce, Space};
use trace::Clock;

use super::fields::Test;
use super::resolve::Task;
use super::tournament::{MOST_ROUNDS, Round, one_at_a_time, rounds};

/// Messages of a pair in a call, one after the other: enough to hide the clock, and few where each is long.
const MESSAGES: u64 = 16;
const FEWEST: u64 = 2;
/// Bytes of a pair in a call, at most, beyond the fewest messages.
const CALL_BYTES: u64 = 1 << 20;
/// What a buffer holds before a message arrives: no message has it.
const UNWRITTEN: u8 = 0xff;

/// A communicator of two ranks, and what it exchanges.
struct Duo {
    partner: u32,
    comm: Box<dyn Communicator>,
    call: Call,
    /// One period of what messages hold, on the device where buffers lie there.
    table: Option<Slice>,
    /// Seconds of one message, of each call since they were last asked for.
    times: Vec<f64>,
}

/// A case on one rank.
struct PairsOnRank {
    rank: u32,
    host: String,
    test: Test,
    bytes: u64,
    messages: u64,
    barrier: Call,
    clock: Clock,
    duos: Vec<Duo>,
    schedule: Vec<Round>,
    at_once: bool,
    seed: u64,
    /// Why a buffer could not be filled.
    failed: Option<CudaError>,
}

/// Splits the world into pairs, round by round: as many communicators as a rank has partners, which are bounded. Collective.
pub(super) fn prepare(task: &Task, space: Space, context: &mut RankContext) -> Result<Box<dyn Prepared>, Failure> {
    let all = rounds(task.ranks);
    let region = context.comm.alloc(64, Space::Host).map_err(failure)?;
    let empty = cut(&region, 0)?;
    let barrier = call(Collective::Barrier, &empty, &empty);
    let mut duos = Vec::new();
    for round in &all {
        let own = round.iter().find(|pair| pair.contains(&context.rank));
        let color = own.map(|pair| pair[0]);
        let split = context.comm.split(color, context.rank).map_err(failure)?;
        let (Some(mut comm), Some(pair)) = (split, own) else { continue };
        let partner = if pair[0] == context.rank { pair[1] } else { pair[0] };
        let mut buffer = || -> Result<Slice, Failure> {
            let bytes = task.bytes as usize;
            cut(&comm.alloc(bytes.max(64), space).map_err(failure)?, bytes)
        };
        let (input, output) = (buffer()?, buffer()?);
        let table = pattern(&mut *comm, space)?;
        let op = operation(task.test);
        duos.push(Duo { partner, comm, call: call(op, &input, &output), table, times: Vec::new() });
    }
    let at_once = has_core_each(context)?;
    let mut pairs = PairsOnRank {
        rank: context.rank,
        host: context.host.clone(),
        test: task.test,
        bytes: task.bytes,
        messages: messages(task.bytes),
        barrier,
        clock: context.clock.clone(),
        duos,
        schedule: if at_once { all } else { one_at_a_time(all) },
        at_once,
        seed: task.seed,
        failed: None,
    };
    pairs.refill();
    Ok(Box::new(pairs))
}

/// Whether each rank of the world has a core of its own, whatever threads it has in other cases: these wait while messages are
/// exchanged. Collective, because the order of pairs must be the same on all ranks, and hosts differ in their cores.
pub(super) fn has_core_each(context: &mut RankContext) -> Result<bool, Failure> {
    let of_rank = 1 + usize::from(context.options.progress_thread);
    // The last rank of a host knows.
    let is_crowded = (context.index as usize + 1) * of_rank > context.cores.len();
    // Ranks that answer otherwise are in another part.
    let part = context.comm.split(Some(u32::from(is_crowded)), context.rank).map_err(failure)?;
    Ok(!is_crowded && part.is_some_and(|part| part.shape().size == context.ranks))
}

/// Messages of a pair in a call.
pub(super) fn messages(bytes: u64) -> u64 {
    (CALL_BYTES / bytes.max(1)).clamp(FEWEST, MESSAGES)
}

/// What a pair does.
pub(super) fn operation(test: Test) -> Collective {
    if test == Test::BothWays { Collective::SendRecv } else { Collective::PingPong }
}

/// Bytes that the buffers of a rank take: two for each partner.
pub(super) fn held(task: &Task) -> u64 {
    task.bytes.max(64).saturating_mul(2 * u64::from((task.ranks - 1).min(MOST_ROUNDS)))
}

pub(super) fn cut(region: &Arc<Region>, bytes: usize) -> Result<Slice, Failure> {
    region.slice(0, bytes).ok_or_else(|| Failure::new("a buffer is smaller than its layout"))
}

pub(super) fn call(op: Collective, input: &Slice, output: &Slice) -> Call {
    Call {
        op,
        input: input.clone(),
        output: output.clone(),
        dtype: Dtype::U8,
        reduce: Reduce::Sum,
        peer: 1,
        direction: Direction::OneWay,
        counts: None,
    }
}

/// Bytes of messages repeat after so many, a prime.
pub(super) const PERIOD: u64 = 251;

/// A byte of the message from one rank to another; never [`UNWRITTEN`].
fn byte(from: u32, to: u32, index: usize, seed: u64) -> u8 {
    ((index as u64 + displacement(from, to, seed)) % PERIOD) as u8
}

/// Where in its period a message begins.
pub(super) fn displacement(from: u32, to: u32, seed: u64) -> u64 {
    (31 * u64::from(from) + 17 * u64::from(to) + seed) % PERIOD
}

/// The period of messages on the device of the buffers; None where they are the host's.
pub(super) fn pattern(comm: &mut dyn Communicator, space: Space) -> Result<Option<Slice>, Failure> {
    if space == Space::Host {
        return Ok(None);
    }
    let bytes: Vec<u8> = (0..PERIOD).map(|place| place as u8).collect();
    let table = comm.alloc_private(bytes.len(), space).map_err(failure)?.whole();
    table.write(&bytes).map_err(|error| Failure::new(error.to_string()))?;
    Ok(Some(table))
}

impl Duo {
    /// Messages of a call of the communicator that pass one after the other.
    fn passes(&self) -> f64 {
        if self.call.op == Collective::PingPong { 2.0 } else { 1.0 }
    }

    fn fill(&self, rank: u32, seed: u64) -> Result<(), CudaError> {
        if let Some(table) = &self.table {
            let phase = displacement(rank, self.partner, seed) as usize;
            self.call.output.set(UNWRITTEN)?;
            return self.call.input.fill(Repeated { table, element: 1, phase });
        }
        // SAFETY: this rank's own buffers, and no operation is in flight.
        unsafe {
            std::ptr::write_bytes(self.call.output.ptr(), UNWRITTEN, self.call.output.len());
            for index in 0..self.call.input.len() {
                *self.call.input.ptr().add(index) = byte(rank, self.partner, index, seed);
            }
        }
        Ok(())
    }

    /// Compares the output with the partner's message on the device. What has not arrived is not looked at there: a call before
    /// its time shows in the next.
    fn compare_there(&self, table: &Slice, rank: u32, seed: u64, report: &mut WrongReport) -> Result<(), CudaError> {
        let phase = displacement(self.partner, rank, seed) as usize;
        let found = self.call.output.compare(Repeated { table, element: 1, phase })?;
        report.count += found.wrong;
        report.compared += self.call.output.len() as u64;
        if let Some(index) = found.first.first().filter(|_| report.first.is_empty()) {
            let mut got = [0];
            self.call.output.slice(*index as usize, 1).map_or(Ok(()), |one| one.read(&mut got))?;
            let expected = byte(self.partner, rank, *index as usize, seed).to_string();
            report.first.push(WrongElement { rank, index: *index, expected, got: got[0].to_string() });
        }
        Ok(())
    }

    fn compare(&self, rank: u32, seed: u64, arrived: bool, report: &mut WrongReport) {
        for index in 0..self.call.output.len() {
            // SAFETY: as above.
            let got = unsafe { *self.call.output.ptr().add(index) };
            let expected = if arrived { byte(self.partner, rank, index, seed) } else { UNWRITTEN };
            if got != expected {
                report.count += 1;
                if report.first.is_empty() {
                    let (expected, got) = (expected.to_string(), got.to_string());
                    report.first.push(WrongElement { rank, index: index as u64, expected, got });
                }
            }
        }
        report.compared += self.call.output.len() as u64;
    }
}

impl Prepared for PairsOnRank {
    /// All rounds. A barrier begins each, so that pairs of a round run at the same time, and nothing else does.
    fn run(&mut self, comm: &mut dyn Communicator) -> Result<(), Failure> {
        for round in &self.schedule {
            comm.run(&self.barrier).map_err(failure)?;
            let Some(pair) = round.iter().find(|pair| pair.contains(&self.rank)) else { continue };
            let partner = if pair[0] == self.rank { pair[1] } else { pair[0] };
            let Some(duo) = self.duos.iter_mut().find(|duo| duo.partner == partner) else { continue };
            // The first shows both that the other is there.
            duo.comm.run(&duo.call).map_err(failure)?;
            let begin = self.clock.now_ns();
            for _ in 0..self.messages {
                duo.comm.enqueue(&duo.call).map_err(failure)?;
            }
            duo.comm.drain().map_err(failure)?;
            let ns = self.clock.now_ns() - begin;
            duo.times.push(ns as f64 * 1e-9 / (self.messages as f64 * duo.passes()));
        }
        Ok(())
    }

    /// Each round ends with a wait.
    fn launches(&self) -> bool {
        false
    }

    fn refill(&mut self) {
        self.seed += 1;
        for duo in &self.duos {
            let filled = duo.fill(self.rank, self.seed);
            self.failed = self.failed.take().or(filled.err());
        }
    }

    fn check(&mut self, _comm: &mut dyn Communicator, calls: u64) -> Result<WrongReport, Failure> {
        let said = |error: CudaError| Failure::new(error.to_string());
        self.failed.take().map_or(Ok(()), |error| Err(said(error)))?;
        let mut report = WrongReport::default();
        for duo in &self.duos {
            match &duo.table {
                None => duo.compare(self.rank, self.seed, calls > 0, &mut report),
                Some(table) if calls > 0 => {
                    duo.compare_there(table, self.rank, self.seed, &mut report).map_err(said)?;
                }
                Some(_) => {}
            }
        }
        Ok(report)
    }

    fn work(&self) -> Work {
        Work { max_calls: u64::MAX, checks: 1, ..Work::default() }
    }

    fn path(&self, _comm: &dyn Communicator) -> String {
        let path = self.duos.first().map_or("", |duo| duo.comm.path(&duo.call));
        let how = if self.at_once { "pairs at once" } else { "one pair at a time" };
        if path.is_empty() { how.to_owned() } else { format!("{path}, {how}") }
    }

    /// The median time of a message to each rank, in seconds, since it was last asked.
    fn details(&mut self) -> Map<String, Value> {
        let mut medians = Map::new();
        for duo in &mut self.duos {
            let times = std::mem::take(&mut duo.times);
            if !times.is_empty() {
                medians.insert(duo.partner.to_string(), stats::median(&times).into());
            }
        }
        let both = if self.test == Test::BothWays { "both" } else { "one" };
        Map::from_iter([
            ("pairs".to_owned(), Value::Object(medians)),
            ("ways".to_owned(), both.into()),
            ("bytes".to_owned(), self.bytes.into()),
            ("host".to_owned(), self.host.clone().into()),
            ("at_once".to_owned(), self.at_once.into()),
        ])
    }
}

#[cfg(test)]
mod tests {
    use comm::{Abort, Options};
    use contract::Joining;
    use trace::{Hook, OwnSlot};

    use super::*;

    /// Whether the ranks of two hosts exchange at once: each rank's index on its host, and that host's cores.
    fn answers(ranks: &[(u32, usize)]) -> Vec<bool> {
        let world = comm::threads(ranks.len() as u32, &Abort::default());
        std::thread::scope(|scope| {
            let rank = |(rank, (mut bootstrap, (index, cores)))| {
                scope.spawn(move || {
                    // Threads of other cases need all cores.
                    let options = Options { oversubscribed: true, ..Options::default() };
                    let (comm, abort) = comm::open("reference", &mut bootstrap, &options).unwrap();
                    let clock = comm.clock();
                    let hook = Arc::new(Hook::new(rank as u32, clock.clone(), Arc::new(OwnSlot::default())));
                    let mut context = RankContext {
                        rank: rank as u32,
                        ranks: ranks.len() as u32,
                        host: String::new(),
                        index,
                        comm,
                        hook,
                        clock,
                        abort,
                        options,
                        cores: (0..cores as u32).collect(),
                        joining: Joining::default(),
                    };
                    has_core_each(&mut context).unwrap()
                })
            };
            let started: Vec<_> = world.into_iter().zip(ranks.iter().copied()).enumerate().map(rank).collect();
            started.into_iter().map(|rank| rank.join().unwrap()).collect()
        })
    }

    #[test]
    fn pairs_exchange_at_once_where_each_rank_of_a_host_has_a_core() {
        assert_eq!(answers(&[(0, 1), (0, 1), (0, 1)]), [true; 3], "a rank a host");
        assert_eq!(answers(&[(0, 2), (1, 2), (0, 1)]), [true; 3], "two ranks on two cores");
        // All ranks agree, whatever their hosts.
        assert_eq!(answers(&[(0, 1), (1, 1), (0, 4)]), [false; 3], "two ranks on one core");
    }
}

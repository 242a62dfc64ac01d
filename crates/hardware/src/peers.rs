//! Copies from the memory of each other GPU of the host, by the copy engine: no library is between the two.

use std::collections::BTreeMap;

use comm::{Call, Communicator};
use contract::{Prepared, RankContext, Work, failure};
use device::Slice;
use device::cuda::{CudaError, Repeated};
use measure::{Failure, WrongReport};
use serde_json::{Map, Value};
use terms::{Collective, Space};
use trace::Clock;

use super::pairs::{PERIOD, call, cut, displacement, messages, pattern};
use super::resolve::Task;
use super::tournament::{Round, one_at_a_time, rounds};

/// What memory holds before a copy reaches it: no value of a pattern.
const UNTOUCHED: u8 = 0xff;

fn refused(error: CudaError) -> Failure {
    if error.is_out_of_memory() { Failure::lacking(error.to_string()) } else { Failure::new(error.to_string()) }
}

/// A case on one rank.
struct Peers {
    /// What others read; they end before it goes, because all ranks meet in between.
    theirs: BTreeMap<u32, Slice>,
    own: Slice,
    to: Slice,
    table: Slice,
    rank: u32,
    host: String,
    bytes: u64,
    copies: u64,
    barrier: Call,
    clock: Clock,
    schedule: Vec<Round>,
    at_once: bool,
    seed: u64,
    times: BTreeMap<u32, Vec<f64>>,
    /// From whom the last copy was.
    last: Option<u32>,
    failed: Option<CudaError>,
}

/// Makes the memory of each rank known to the others. Collective.
pub(super) fn prepare(task: &Task, context: &mut RankContext) -> Result<Box<dyn Prepared>, Failure> {
    let bytes = task.bytes as usize;
    let mut device = || context.comm.alloc_private(bytes, Space::Cuda).map_err(failure);
    let (own, to) = (device()?, device()?);
    let table = pattern(&mut *context.comm, Space::Cuda)?;
    let table = table.ok_or_else(|| Failure::new("the backend gave host memory"))?;
    let theirs = contract::peers::memory(&own, context)?;
    let region = context.comm.alloc(64, Space::Host).map_err(failure)?;
    let empty = cut(&region, 0)?;
    let at_once = super::pairs::has_core_each(context)?;
    let all = rounds(task.ranks);
    let mut peers = Peers {
        theirs,
        own: own.whole(),
        to: to.whole(),
        table,
        rank: context.rank,
        host: context.host.clone(),
        bytes: task.bytes,
        copies: messages(task.bytes),
        barrier: call(Collective::Barrier, &empty, &empty),
        clock: context.clock.clone(),
        schedule: if at_once { all } else { one_at_a_time(all) },
        at_once,
        seed: task.seed,
        times: BTreeMap::new(),
        last: None,
        failed: None,
    };
    peers.refill();
    peers.failed.take().map_or(Ok(()), |error| Err(refused(error)))?;
    Ok(Box::new(peers))
}

impl Peers {
    /// What a rank's memory holds.
    fn held(&self, rank: u32) -> Repeated<'_> {
        Repeated { table: &self.table, element: 1, phase: displacement(rank, rank, self.seed) as usize }
    }

    fn read(&mut self, from: u32, comm: &mut dyn Communicator) -> Result<(), Failure> {
        let theirs = self.theirs.get(&from).ok_or_else(|| Failure::new(format!("rank {from} is not in reach")))?;
        let begin = self.clock.now_ns();
        for _ in 0..self.copies {
            self.to.copy_from(theirs, None).map_err(refused)?;
        }
        comm.drain().map_err(failure)?;
        let ns = self.clock.now_ns() - begin;
        self.times.entry(from).or_default().push(ns as f64 * 1e-9 / self.copies as f64);
        self.last = Some(from);
        Ok(())
    }
}

impl Prepared for Peers {
    /// In each round one of a pair reads from the other, and then the other from it.
    fn run(&mut self, comm: &mut dyn Communicator) -> Result<(), Failure> {
        for at in 0..self.schedule.len() {
            let own = self.schedule[at].iter().find(|pair| pair.contains(&self.rank)).copied();
            for turn in 0..2 {
                comm.run(&self.barrier).map_err(failure)?;
                if let Some(pair) = own.filter(|pair| pair[turn] == self.rank) {
                    self.read(pair[1 - turn], comm)?;
                }
            }
        }
        Ok(())
    }

    /// Each turn ends with a wait.
    fn launches(&self) -> bool {
        false
    }

    fn refill(&mut self) {
        self.seed += 1;
        self.last = None;
        let filled = self.to.set(UNTOUCHED).and_then(|()| self.own.fill(self.held(self.rank)));
        let there = filled.and_then(|()| self.own.gpu().map_or(Ok(()), |gpu| gpu.synchronise()));
        self.failed = self.failed.take().or(there.err());
    }

    /// What the last copy left; then a copy from each other rank, which must find what its owner wrote. Ranks meet at the end:
    /// none may change what another still reads.
    fn check(&mut self, comm: &mut dyn Communicator, calls: u64) -> Result<WrongReport, Failure> {
        self.failed.take().map_or(Ok(()), |error| Err(refused(error)))?;
        let mut report = WrongReport::default();
        let mut compare = |held: Repeated<'_>| -> Result<(), Failure> {
            report.count += self.to.compare(held).map_err(refused)?.wrong;
            report.compared += self.to.len() as u64;
            Ok(())
        };
        if let Some(from) = self.last.filter(|_| calls > 0) {
            compare(self.held(from))?;
            for (rank, theirs) in &self.theirs {
                self.to.set(UNTOUCHED).and_then(|()| self.to.copy_from(theirs, None)).map_err(refused)?;
                compare(self.held(*rank))?;
            }
        }
        comm.run(&self.barrier).map_err(failure)?;
        Ok(report)
    }

    fn work(&self) -> Work {
        Work { max_calls: u64::MAX, checks: 1, ..Work::default() }
    }

    fn path(&self, _comm: &dyn Communicator) -> String {
        let how = if self.at_once { "pairs at once" } else { "one pair at a time" };
        format!("copy engine, {how}")
    }

    fn details(&mut self) -> Map<String, Value> {
        let times = std::mem::take(&mut self.times);
        let medians = times.into_iter().map(|(rank, times)| (rank.to_string(), stats::median(&times).into()));
        Map::from_iter([
            ("pairs".to_owned(), Value::Object(medians.collect())),
            ("bytes".to_owned(), self.bytes.into()),
            ("host".to_owned(), self.host.clone().into()),
            ("at_once".to_owned(), self.at_once.into()),
        ])
    }
}

/// The pattern has no byte that untouched memory has.
const _: () = assert!(PERIOD < UNTOUCHED as u64);

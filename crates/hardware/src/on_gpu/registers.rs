//! Multiplications and additions in registers of a GPU, on one rank.

use std::sync::Arc;

use comm::Communicator;
use contract::{Prepared, RankContext, Work, failure};
use device::Slice;
use device::cuda::{CHAINS, Loops, REPEATED, Repeated, chains_f32, chains_f64};
use measure::{Failure, WrongReport};
use serde_json::{Map, Value};
use terms::{Dtype, Space};

use super::{Failed, UNTOUCHED, gpu_of, refused};
use crate::resolve::Task;

/// Threads of each multiprocessor: with the chains of each, more than its pipelines are deep.
const THREADS: u64 = 1024;
/// Rounds of a call: about 0.2 ms on the fastest devices.
const ROUNDS: u32 = 1 << 12;
/// Rounds of a call on a stand-in, whose operations are software.
const EMULATED: u32 = 1 << 5;

/// Chains of operations, whose ends are known.
pub(super) struct Registers {
    loops: Loops,
    sums: Slice,
    /// What threads leave, once, on the device.
    table: Slice,
    element: usize,
    rounds: u32,
    failed: Failed,
}

impl Registers {
    /// For this rank's GPU.
    pub(super) fn new(task: &Task, context: &mut RankContext) -> Result<Self, Failure> {
        let element = task.dtype.bytes() as usize;
        let mut device =
            |bytes: usize| context.comm.alloc_private(bytes, Space::Cuda).map(|region| region.whole()).map_err(failure);
        let table = device(REPEATED * element)?;
        let gpu = gpu_of(&table)?.clone();
        let rounds = if gpu.is_emulated() { EMULATED } else { ROUNDS };
        let threads = u64::from(gpu.multiprocessors().map_err(refused)?.max(1)) * THREADS;
        let sums = device(threads as usize * element)?;
        let ends: Vec<u8> = (0..REPEATED)
            .flat_map(|number| match task.dtype {
                Dtype::F64 => chains_f64(number, rounds).to_ne_bytes().to_vec(),
                _ => chains_f32(number, rounds).to_ne_bytes().to_vec(),
            })
            .collect();
        table.write(&ends).map_err(refused)?;
        let loops = Loops::load(&Arc::clone(&gpu)).map_err(refused)?;
        let mut own = Self { loops, sums, table, element, rounds, failed: Failed::default() };
        own.refill();
        own.failed.check()?;
        Ok(own)
    }

    /// Operations of a call.
    fn operations(&self) -> f64 {
        2.0 * ((self.sums.len() / self.element) as u64 * CHAINS) as f64 * f64::from(self.rounds)
    }
}

impl Prepared for Registers {
    fn run(&mut self, _comm: &mut dyn Communicator) -> Result<(), Failure> {
        self.loops.multiply_add(self.element, &self.sums, self.rounds).map_err(refused)
    }

    fn drain(&mut self, comm: &mut dyn Communicator) -> Result<(), Failure> {
        comm.drain().map_err(failure)
    }

    fn refill(&mut self) {
        self.failed.note(self.sums.set(UNTOUCHED).map_err(refused));
    }

    /// Every thread's sum, to the bit.
    fn check(&mut self, _comm: &mut dyn Communicator, calls: u64) -> Result<WrongReport, Failure> {
        self.failed.check()?;
        let mut report = WrongReport::default();
        if calls > 0 {
            let held = Repeated { table: &self.table, element: self.element, phase: 0 };
            report.count = self.sums.compare(held).map_err(refused)?.wrong;
            report.compared = (self.sums.len() / self.element) as u64;
        }
        Ok(report)
    }

    fn work(&self) -> Work {
        Work { flops: self.operations(), max_calls: u64::MAX, checks: 1, ..Work::default() }
    }

    fn path(&self, _comm: &dyn Communicator) -> String {
        "kernels".to_owned()
    }

    fn details(&mut self) -> Map<String, Value> {
        Map::from_iter([
            ("loop".to_owned(), "kernel, 8 chains a thread".into()),
            ("operations".to_owned(), self.operations().into()),
        ])
    }
}

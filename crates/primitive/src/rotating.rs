//! Calls whose load differs from one to the next: each load is prepared by itself, and calls go round.
//!
//! One routing that changes between calls would have to be laid out between them, which serving does and this benchmark does
//! not measure.

use comm::Communicator;
use contract::{Prepared, Work};
use measure::{Failure, WrongReport};
use serde_json::{Map, Value};

/// Loads that calls go through in turn.
pub(super) struct Rotating {
    turns: Vec<Box<dyn Prepared>>,
    /// Calls since the last refill.
    calls: u64,
}

impl Rotating {
    /// Goes through these, which are at least one.
    pub(super) fn new(turns: Vec<Box<dyn Prepared>>) -> Self {
        Self { turns, calls: 0 }
    }
}

impl Prepared for Rotating {
    fn run(&mut self, comm: &mut dyn Communicator) -> Result<(), Failure> {
        let turn = (self.calls % self.turns.len() as u64) as usize;
        self.calls += 1;
        self.turns[turn].run(comm)
    }

    fn drain(&mut self, comm: &mut dyn Communicator) -> Result<(), Failure> {
        self.turns.iter_mut().try_for_each(|turn| turn.drain(comm))
    }

    fn compute_ns(&self) -> u64 {
        self.turns[0].compute_ns()
    }

    fn refill(&mut self) {
        self.calls = 0;
        self.turns.iter_mut().for_each(|turn| turn.refill());
    }

    /// Checks the turns that had a call, as all ranks' had.
    fn check(&mut self, comm: &mut dyn Communicator, calls: u64) -> Result<WrongReport, Failure> {
        let (mut report, count) = (WrongReport::default(), self.turns.len() as u64);
        for (turn, prepared) in self.turns.iter_mut().enumerate().filter(|(turn, _)| (*turn as u64) < calls) {
            let of_turn = (calls - turn as u64).div_ceil(count);
            let found = prepared.check(comm, of_turn)?;
            report.count += found.count;
            report.compared += found.compared;
            report.first.extend(found.first);
        }
        Ok(report)
    }

    /// Work of a call in the mean: which rank has most to do goes round.
    fn work(&self) -> Work {
        let works: Vec<Work> = self.turns.iter().map(|turn| turn.work()).collect();
        let count = works.len() as u64;
        let flops = works.iter().map(|work| work.flops).sum::<f64>() / count as f64;
        let traffic_bytes = works.iter().map(|work| work.traffic_bytes).sum::<u64>() / count;
        Work { flops, traffic_bytes, copies: count, ..works[0] }
    }

    fn path(&self, comm: &dyn Communicator) -> String {
        self.turns[0].path(comm)
    }

    fn details(&mut self) -> Map<String, Value> {
        self.turns[0].details()
    }
}

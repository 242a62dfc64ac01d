//! One stage while it plays: its clock, its place in the list of its events, and its exchanges among replicas.

use parallel::{Event, Pass};

use super::data::DataTimes;
use super::{SharedStages, Times};
use crate::passes::{BlockTimes, Parts};
use crate::workload::Step;

/// A stage that plays its events.
pub(super) struct Stage<'a> {
    at: usize,
    step: &'a Step,
    data: &'a DataTimes,
    blocks: &'a [BlockTimes],
    slowdown: f64,
    micros: usize,
    pub(super) clock: f64,
    pub(super) parts: Parts,
    next: usize,
    /// The transfer that each direction of each link sent last.
    sending: [Option<usize>; 4],
    /// When the stream of exchanges among replicas is free.
    free: f64,
    /// Backward passes that each unit still waits for.
    left: Vec<usize>,
    reduced: Vec<bool>,
    /// Passes of each chunk without any exchange among replicas: forward and backward.
    whole: Vec<[Parts; 2]>,
    /// Backward passes that each chunk still has.
    backward_left: Vec<usize>,
}

impl<'a> Stage<'a> {
    pub(super) fn new(step: &'a Step, times: &'a Times, at: usize, micros: usize) -> Self {
        let own = &step.stages[at];
        let whole = own.chunks.iter().map(|chunk| {
            let mut sums = [Parts::default(); 2];
            for block in chunk.clone() {
                let times = &times.blocks[step.pieces.places[block]];
                sums[0].add(&times.forward, 1.0);
                sums[1].add(&times.backward, 1.0);
            }
            sums
        });
        Self {
            at,
            step,
            data: &times.data[at],
            blocks: &times.blocks,
            slowdown: times.slowdown,
            micros,
            clock: 0.0,
            parts: Parts::default(),
            next: 0,
            sending: [None; 4],
            free: 0.0,
            left: own.units.iter().map(|unit| unit.writers.len() * micros).collect(),
            reduced: vec![false; own.units.len()],
            whole: whole.collect(),
            backward_left: vec![micros; own.chunks.len()],
        }
    }

    pub(super) fn is_done(&self, events: &[Event]) -> bool {
        self.next == events.len()
    }

    /// Plays events until one waits for what another stage has not done yet. Gives whether any was played.
    pub(super) fn advance(&mut self, events: &[Event], shared: &mut SharedStages, times: &Times) -> bool {
        let before = self.next;
        while let Some(event) = events.get(self.next) {
            match *event {
                Event::Pass(pass) => {
                    if let Some(place) = shared.needs(self.at, pass) {
                        let end = shared.crossings[place].end;
                        if end.is_nan() {
                            break;
                        }
                        let sent = shared.crossings[place].sent;
                        self.wait_for_transfer(sent, end);
                    }
                    self.pass(pass, shared);
                }
                Event::Send(transfer) => {
                    let slot = 2 * usize::from(transfer.link == self.at) + usize::from(transfer.up);
                    if let Some(place) = self.sending[slot] {
                        let end = shared.crossings[place].end;
                        if end.is_nan() {
                            break;
                        }
                        let sent = shared.crossings[place].sent;
                        self.wait_for_transfer(sent, end);
                    }
                    self.sending[slot] = Some(shared.place_of(transfer));
                    shared.come(transfer, true, self.clock, times.links[transfer.link]);
                }
                Event::Receive(transfer) => shared.come(transfer, false, self.clock, times.links[transfer.link]),
            }
            self.next += 1;
        }
        self.next > before
    }

    /// Waits for another stage.
    pub(super) fn wait(&mut self, until: f64) {
        if until > self.clock {
            self.parts.bubble += until - self.clock;
            self.clock = until;
        }
    }

    /// Waits for a transfer: before it is sent the other stage is late, afterwards the link is.
    fn wait_for_transfer(&mut self, sent: f64, end: f64) {
        self.wait(sent.min(end));
        if end > self.clock {
            self.parts.pipeline += end - self.clock;
            self.clock = end;
        }
    }

    /// Spends time on a part.
    pub(super) fn pass_time(&mut self, seconds: f64, part: impl FnOnce(&mut Parts) -> &mut f64) {
        *part(&mut self.parts) += seconds;
        self.clock += seconds;
    }

    fn pass(&mut self, pass: Pass, shared: &mut SharedStages) {
        let last = pass.backward && self.backward_left[pass.chunk] == 1;
        if pass.backward {
            self.backward_left[pass.chunk] -= 1;
        }
        let is_plain = match self.data.level {
            0 | 1 => !last && self.free <= self.clock,
            2 => !pass.backward,
            _ => false,
        };
        if is_plain {
            let whole = self.whole[pass.chunk][usize::from(pass.backward)];
            self.parts.add(&whole, 1.0);
            self.clock += whole.total();
            if pass.backward {
                self.count_down(pass.chunk);
            }
            return;
        }
        self.pass_by_blocks(pass, shared);
    }

    /// A backward pass that completes no unit.
    fn count_down(&mut self, chunk: usize) {
        for block in self.step.stages[self.at].chunks[chunk].clone() {
            for unit in &self.data.of_block[block - self.data.first] {
                self.left[*unit] -= 1;
            }
        }
    }

    fn pass_by_blocks(&mut self, pass: Pass, shared: &mut SharedStages) {
        let range = self.step.stages[self.at].chunks[pass.chunk].clone();
        let blocks: Vec<usize> = if pass.backward { range.rev().collect() } else { range.collect() };
        // When the values of each block are there, if replicas hold shards of them.
        let mut gathered: Vec<f64> = Vec::with_capacity(blocks.len());
        let mut reductions: Vec<f64> = Vec::new();
        for (at, block) in blocks.iter().enumerate() {
            if self.data.level == 3 && self.data.exchanges {
                let ahead = if self.data.overlap { 2 } else { 1 };
                while gathered.len() < (at + ahead).min(blocks.len()) {
                    let wanted = blocks[gathered.len()];
                    let seconds: f64 = self.units(wanted).iter().map(|unit| self.data.gather[*unit]).sum();
                    gathered.push(self.exchange(seconds, shared));
                }
                self.wait_for_data(gathered[at]);
            }
            let times = self.blocks[self.step.pieces.places[*block]];
            self.compute(if pass.backward { &times.backward } else { &times.forward });
            if pass.backward {
                self.wrote(*block, &mut reductions, shared);
            }
        }
        // Shards are added up at the end of each pass.
        if let Some(end) = reductions.last().copied().filter(|_| self.data.level >= 2) {
            self.wait_for_data(end);
        }
    }

    fn units(&self, block: usize) -> &'a [usize] {
        let data = self.data;
        &data.of_block[block - data.first]
    }

    /// Computes while exchanges among replicas may run beside it, and slow it down.
    fn compute(&mut self, parts: &Parts) {
        let seconds = parts.total();
        let beside = (self.free - self.clock).max(0.0);
        let slowed = seconds.min(beside / self.slowdown);
        let factor = if seconds > 0.0 { 1.0 + slowed * (self.slowdown - 1.0) / seconds } else { 1.0 };
        self.parts.add(parts, factor);
        self.clock += seconds * factor;
    }

    /// A backward pass wrote to a block's units: those that are complete are exchanged.
    fn wrote(&mut self, block: usize, reductions: &mut Vec<f64>, shared: &mut SharedStages) {
        for unit in self.units(block) {
            self.left[*unit] -= 1;
            let complete = self.left[*unit] == 0 || self.data.level >= 2;
            if !complete {
                continue;
            }
            self.pass_time(self.data.partial[*unit], |parts| &mut parts.tensor);
            let is_tied = self.step.stages[self.at].units[*unit].tied && self.step.workload.recipe.mesh.pipeline > 1;
            if self.data.level < 2 && (!self.data.overlap || is_tied) {
                continue;
            }
            self.reduced[*unit] = true;
            reductions.push(self.exchange(self.data.reduce[*unit], shared));
            if self.data.level >= 2 {
                // One at a time is under way, or none.
                let waits_for = reductions.len().checked_sub(1 + usize::from(self.data.overlap));
                if let Some(end) = waits_for.map(|at| reductions[at]) {
                    self.wait_for_data(end);
                }
            }
        }
    }

    /// Begins an exchange behind those under way, and gives its end.
    fn exchange(&mut self, seconds: f64, shared: &mut SharedStages) -> f64 {
        let link = shared.links.get(self.at).copied().unwrap_or(0.0);
        self.free = self.free.max(self.clock).max(if seconds > 0.0 { link } else { 0.0 }) + seconds;
        if seconds > 0.0 {
            shared.occupy(self.at, self.free);
        }
        self.free
    }

    fn wait_for_data(&mut self, end: f64) {
        if end > self.clock {
            self.parts.data += end - self.clock;
            self.clock = end;
        }
    }

    /// Exchanges what both stages of a tied parameter have summed.
    pub(super) fn reduce_tied(&mut self, shared: &mut SharedStages) {
        for unit in 0..self.reduced.len() {
            if self.step.stages[self.at].units[unit].tied && !self.reduced[unit] && self.data.overlap {
                self.reduced[unit] = true;
                self.exchange(self.data.reduce[unit], shared);
            }
        }
    }

    /// Exchanges what does not overlap, and waits for all.
    pub(super) fn reduce_the_rest(&mut self, shared: &mut SharedStages) {
        for unit in 0..self.reduced.len() {
            if !self.reduced[unit] {
                self.exchange(self.data.reduce[unit], shared);
            }
        }
        self.wait_for_data(self.free);
        debug_assert!(self.micros == 0 || self.left.iter().all(|left| *left == 0), "a unit is incomplete");
    }
}

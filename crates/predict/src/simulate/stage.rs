//! One stage while it plays: its clock, its place in the list of its events, and its exchanges among replicas.

use std::collections::VecDeque;

use parallel::{Event, Pass, Transfer};

use super::data::DataTimes;
use super::{Crossing, SharedStages, Times};
use crate::passes::{BlockTimes, Parts};
use crate::workload::Step;

/// A pass that is played block by block.
struct OpenPass {
    backward: bool,
    /// Blocks in their order, and the next.
    blocks: Vec<usize>,
    next: usize,
    /// Exchanges of its tensor group that this block has made over a shared link, and how long they waited for it.
    exchanged: u32,
    late: f64,
    /// When the values of each block are there, if replicas hold shards of them.
    gathered: Vec<f64>,
    /// When each exchange of its gradients is over.
    reductions: Vec<f64>,
}

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
    /// Whether it came to the transfer that is next, and waits there.
    has_come: bool,
    /// The transfer that each direction of each link sent last.
    sending: [Option<usize>; 4],
    /// When the stream of exchanges among replicas is free.
    free: f64,
    /// Exchanges of gradients that wait for a link which others use, too: since when, and for how long.
    queued: VecDeque<(f64, f64)>,
    /// The pass that is played block by block.
    open: Option<OpenPass>,
    /// Backward passes that each unit still waits for.
    left: Vec<usize>,
    /// Backward passes that wrote to each unit since its gradients were exchanged.
    since: Vec<usize>,
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
            has_come: false,
            sending: [None; 4],
            free: 0.0,
            queued: VecDeque::new(),
            open: None,
            left: own.units.iter().map(|unit| unit.writers.len() * micros).collect(),
            since: vec![0; own.units.len()],
            reduced: vec![false; own.units.len()],
            whole: whole.collect(),
            backward_left: vec![micros; own.chunks.len()],
        }
    }

    pub(super) fn is_done(&self, events: &[Event]) -> bool {
        self.next == events.len()
    }

    /// Plays events until one waits for what another stage has not done yet, or only one event or block. Gives whether any was played.
    pub(super) fn advance(&mut self, events: &[Event], one: bool, shared: &mut SharedStages, times: &Times) -> bool {
        let mut moved = false;
        while let Some(event) = events.get(self.next) {
            if !self.play(*event, one, shared, times) {
                break;
            }
            moved = true;
            if self.open.is_none() {
                self.next += 1;
                self.has_come = false;
            }
            if one {
                break;
            }
        }
        moved
    }

    /// Plays an event, or one block of a pass. False if it waits for what another stage has not done yet.
    fn play(&mut self, event: Event, one: bool, shared: &mut SharedStages, times: &Times) -> bool {
        match event {
            Event::Pass(pass) => {
                if self.open.is_none() {
                    if let Some(place) = shared.needs(self.at, pass)
                        && !self.wait_for_transfer(shared.crossings[place])
                    {
                        return false;
                    }
                    self.begin(pass, times);
                }
                while let Some(open) = self.open.take() {
                    self.block(open, shared, times);
                    if one {
                        break;
                    }
                }
                true
            }
            Event::Send(transfer) => {
                let slot = 2 * usize::from(transfer.link == self.at) + usize::from(transfer.up);
                if let Some(place) = self.sending[slot]
                    && !self.has_come
                    && !self.wait_for_transfer(shared.crossings[place])
                {
                    return false;
                }
                self.sending[slot] = Some(shared.place_of(transfer));
                self.come(transfer, true, shared, times)
            }
            Event::Receive(transfer) => self.come(transfer, false, shared, times),
        }
    }

    /// Comes to an end of a transfer. False if it waits there for the other end.
    fn come(&mut self, transfer: Transfer, sends: bool, shared: &mut SharedStages, times: &Times) -> bool {
        if !self.has_come {
            self.has_come = true;
            shared.come(transfer, sends, self.clock, times.links[transfer.link]);
        }
        !times.transfers_block || self.wait_for_transfer(shared.crossings[shared.place_of(transfer)])
    }

    /// Waits for another stage.
    pub(super) fn wait(&mut self, until: f64) {
        if until > self.clock {
            self.parts.bubble += until - self.clock;
            self.clock = until;
        }
    }

    /// Waits for a transfer: before both ends came to it the other stage is late, afterwards the link is. False if the other has not
    /// come yet.
    fn wait_for_transfer(&mut self, Crossing { sent, awaited, end }: Crossing) -> bool {
        if end.is_nan() {
            return false;
        }
        self.wait(sent.max(awaited).min(end));
        if end > self.clock {
            self.parts.pipeline += end - self.clock;
            self.clock = end;
        }
        true
    }

    /// Spends time on a part.
    pub(super) fn pass_time(&mut self, seconds: f64, part: impl FnOnce(&mut Parts) -> &mut f64) {
        *part(&mut self.parts) += seconds;
        self.clock += seconds;
    }

    /// Plays a pass at once if no exchange is within it or beside it; else opens it.
    fn begin(&mut self, pass: Pass, times: &Times) {
        let last = pass.backward && self.backward_left[pass.chunk] == 1;
        if pass.backward {
            self.backward_left[pass.chunk] -= 1;
        }
        let whole = self.whole[pass.chunk][usize::from(pass.backward)];
        let shares_link = times.is_paced && whole.tensor > 0.0;
        let is_plain = match self.data.level {
            0 | 1 => !last && self.free <= self.clock && self.queued.is_empty() && !shares_link,
            2 => !pass.backward && !shares_link,
            _ => false,
        };
        if is_plain {
            self.parts.add(&whole, 1.0);
            self.clock += whole.total();
            if pass.backward {
                self.count_down(pass.chunk);
            }
            return;
        }
        let range = self.step.stages[self.at].chunks[pass.chunk].clone();
        let blocks: Vec<usize> = if pass.backward { range.rev().collect() } else { range.collect() };
        let gathered = Vec::with_capacity(blocks.len());
        let (backward, reductions) = (pass.backward, Vec::new());
        self.open = Some(OpenPass { backward, blocks, next: 0, exchanged: 0, late: 0.0, gathered, reductions });
    }

    /// A backward pass that completes no unit.
    fn count_down(&mut self, chunk: usize) {
        for block in self.step.stages[self.at].chunks[chunk].clone() {
            for unit in &self.data.of_block[block - self.data.first] {
                self.left[*unit] -= 1;
            }
        }
    }

    /// Plays the next block of a pass, or one exchange of its tensor group if that shares a link. Opens the pass again unless that was
    /// its end.
    fn block(&mut self, mut open: OpenPass, shared: &mut SharedStages, times: &Times) {
        let block = open.blocks[open.next];
        if self.data.level == 3 {
            let ahead = if self.data.overlap { 2 } else { 1 };
            while open.gathered.len() < (open.next + ahead).min(open.blocks.len()) {
                let wanted = open.blocks[open.gathered.len()];
                let seconds: f64 = self.units(wanted).iter().map(|unit| self.data.gather[*unit]).sum();
                open.gathered.push(self.exchange(seconds, shared));
            }
            self.wait_for_data(open.gathered[open.next]);
        }
        let of = self.blocks[self.step.pieces.places[block]];
        let parts = if open.backward { of.backward } else { of.forward };
        let exchanges = if times.is_paced { of.exchanges[usize::from(open.backward)] } else { 0 };
        let rest = Parts { tensor: 0.0, ..parts };
        if open.exchanged < exchanges {
            let share = 1.0 / f64::from(exchanges);
            if !times.sleeps {
                self.compute(&rest, share);
            }
            let late = (shared.link(self.at) - self.clock).max(0.0);
            self.pass_time(late + share * parts.tensor, |parts| &mut parts.tensor);
            shared.occupy(self.at, self.clock);
            open.exchanged += 1;
            open.late += late;
            self.open = Some(open);
            return;
        }
        match (exchanges, times.sleeps) {
            (0, _) => self.compute(&parts, 1.0),
            // A block sleeps for what its exchanges leave of its time.
            (_, true) => self.pass_time((rest.compute - open.late).max(0.0), |parts| &mut parts.compute),
            (_, false) => {}
        }
        if open.backward {
            self.wrote(block, &mut open.reductions, shared);
        }
        (open.next, open.exchanged, open.late) = (open.next + 1, 0, 0.0);
        if open.next < open.blocks.len() {
            self.open = Some(open);
        } else if let Some(end) = open.reductions.last().copied().filter(|_| self.data.level >= 2) {
            // Shards are added up at the end of each pass.
            self.wait_for_data(end);
        }
    }

    fn units(&self, block: usize) -> &'a [usize] {
        let data = self.data;
        &data.of_block[block - data.first]
    }

    /// Does this share of a computation while exchanges among replicas may run beside it, and slow it down.
    fn compute(&mut self, parts: &Parts, share: f64) {
        let seconds = share * parts.total();
        let queued: f64 = self.queued.iter().map(|(_, seconds)| seconds).sum();
        let beside = (self.free + queued - self.clock).max(0.0);
        let slowed = seconds.min(beside / self.slowdown);
        let factor = if seconds > 0.0 { 1.0 + slowed * (self.slowdown - 1.0) / seconds } else { 1.0 };
        self.parts.add(parts, share * factor);
        self.clock += seconds * factor;
    }

    /// A backward pass wrote to a block's units: those that are complete are exchanged.
    fn wrote(&mut self, block: usize, reductions: &mut Vec<f64>, shared: &mut SharedStages) {
        for unit in self.units(block) {
            self.left[*unit] -= 1;
            self.since[*unit] += 1;
            // Shards are exchanged for each micro-batch, when the last of the blocks has written that share the unit.
            let own = &self.step.stages[self.at].units[*unit];
            let each_time = self.data.level >= 2 && self.since[*unit] == own.writers.len();
            if !each_time && self.left[*unit] > 0 {
                continue;
            }
            self.since[*unit] = 0;
            self.pass_time(self.data.partial[*unit], |parts| &mut parts.tensor);
            let is_tied = own.tied && self.step.workload.recipe.mesh.pipeline > 1;
            if self.data.level < 2 && (!self.data.overlap || is_tied) {
                continue;
            }
            self.reduced[*unit] = true;
            let seconds = self.data.reduce[*unit];
            if self.data.level < 2 && !shared.links.is_empty() {
                self.queued.push_back((self.clock, seconds));
                continue;
            }
            reductions.push(self.exchange(seconds, shared));
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
        self.exchange_from(self.clock, seconds, shared)
    }

    fn exchange_from(&mut self, since: f64, seconds: f64, shared: &mut SharedStages) -> f64 {
        let link = shared.link(self.at);
        self.free = self.free.max(since).max(if seconds > 0.0 { link } else { 0.0 }) + seconds;
        if seconds > 0.0 {
            shared.occupy(self.at, self.free);
        }
        self.free
    }

    /// When the next exchange that waits for the link may have it.
    pub(super) fn next_exchange(&self) -> Option<f64> {
        self.queued.front().map(|(since, _)| since.max(self.free))
    }

    /// Plays the next exchange that waits for the link.
    pub(super) fn exchange_queued(&mut self, shared: &mut SharedStages) {
        if let Some((since, seconds)) = self.queued.pop_front() {
            self.exchange_from(since, seconds, shared);
        }
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
        while !self.queued.is_empty() {
            self.exchange_queued(shared);
        }
        for unit in 0..self.reduced.len() {
            if !self.reduced[unit] {
                self.exchange(self.data.reduce[unit], shared);
            }
        }
        self.wait_for_data(self.free);
        debug_assert!(self.micros == 0 || self.left.iter().all(|left| *left == 0), "a unit is incomplete");
    }
}

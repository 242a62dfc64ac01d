//! An event simulation of one replica: every stage plays its events in order, as the trainer does.
//!
//! A stage computes one pass at a time. Transfers between two stages run beside computation, one at a time in each direction of a link,
//! and begin when both ends have come to them; on a host without overlap both ends wait until they are over. Exchanges of gradients run
//! beside computation on a stream of their own.

mod data;
mod stage;

use parallel::{Event, Mesh, Pass, StagePieces, Transfer};
use record::ConstantName;
use terms::Collective;

use crate::costs::{Costs, ExchangeGroup};
use crate::passes::{BlockTimes, Parts, UpdateTimes, block_times, data_group, update_times};
use crate::workload::Step;

use data::DataTimes;
use stage::Stage;

/// What a step takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Simulated {
    /// Seconds of the step.
    pub seconds: f64,
    /// Where they go on the stage that is busy the longest.
    pub parts: Parts,
    /// Seconds in which each stage does something.
    pub busy: Vec<f64>,
}

/// All times that a simulation needs.
pub(crate) struct Times {
    pub(crate) blocks: Vec<BlockTimes>,
    /// A transfer over each link; the last joins the last stage and the first.
    links: Vec<f64>,
    ends: f64,
    updates: Vec<UpdateTimes>,
    pub(crate) data: Vec<DataTimes>,
    /// The sum of one number over all ranks.
    world: f64,
    slowdown: f64,
    step_s: f64,
    /// Whether all exchanges of a rank go over one link.
    pub(crate) is_paced: bool,
    /// Whether both ends of a transfer wait for it where they come to it.
    pub(crate) transfers_block: bool,
    /// Whether blocks sleep.
    sleeps: bool,
}

/// Simulates a step with these times.
pub fn simulate(step: &Step, costs: &Costs<'_>) -> Simulated {
    let times = Times::new(step, costs);
    play(step, &step.timetable, &times)
}

impl Times {
    pub(crate) fn new(step: &Step, costs: &Costs<'_>) -> Self {
        Self::with_blocks(step, costs, block_times(costs, &step.workload, &step.pieces))
    }

    /// All times, with those of blocks that are known already.
    pub(crate) fn with_blocks(step: &Step, costs: &Costs<'_>, blocks: Vec<BlockTimes>) -> Self {
        let workload = &step.workload;
        let recipe = &workload.recipe;
        let mesh = recipe.mesh;
        let (node, all) = (workload.ranks_per_node, mesh.ranks());
        let cut = if costs.habits().cut_transfers { mesh.tensor as u64 } else { 1 };
        let tensor = ExchangeGroup::strided(mesh.tensor, 1, node, all);
        let link = |stage: usize| {
            let Some(block) = step.stages[stage].chunks.first().map(|chunk| chunk.end - 1) else { return 0.0 };
            let bytes = step.pieces.blocks[step.pieces.places[block]].output_bytes;
            // With sequence parallelism a part has its own rows only, and nothing is left to cut.
            let cut = if recipe.sequence_parallel { 1 } else { cut };
            let pair = ExchangeGroup::of_stages(mesh, stage, (stage + 1) % mesh.pipeline, node);
            let sent = costs.exchange(Collective::SendRecv, pair, bytes / cut);
            let gathered = if cut > 1 { costs.exchange(Collective::AllGather, tensor, bytes) } else { 0.0 };
            sent + gathered
        };
        let state = |stage: &StagePieces| {
            if costs.habits().narrow_gradients { recipe.precision.bytes() } else { stage.state.bytes() }
        };
        let tied = |stage: &StagePieces| {
            let elements: usize = stage.units.iter().filter(|unit| unit.tied).map(|unit| unit.elements).sum();
            // Of gradients that replicas hold shards of, both stages sum the same shard.
            let own = if stage.level >= 2 { elements / mesh.data } else { elements };
            own as u64 * state(stage)
        };
        let ends = ExchangeGroup::of_stages(mesh, 0, mesh.pipeline - 1, node);
        let world = ExchangeGroup::strided(all, 1, node, all);
        // A stage like the one before takes as long.
        let mut updates: Vec<UpdateTimes> = Vec::with_capacity(mesh.pipeline);
        for (at, stage) in step.stages.iter().enumerate() {
            let known = at.checked_sub(1).filter(|before| step.stages[*before].update == stage.update);
            updates.push(known.map_or_else(|| update_times(costs, workload, stage), |before| updates[before]));
        }
        let data = step.stages.iter().map(|stage| DataTimes::new(costs, step, stage, state(stage)));
        Self {
            blocks,
            links: (0..mesh.pipeline).map(link).collect(),
            ends: if mesh.pipeline > 1 {
                costs.exchange(Collective::AllReduce, ends, tied(&step.stages[0]))
            } else {
                0.0
            },
            updates,
            data: data.collect(),
            world: costs.exchange(Collective::AllReduce, world, 8),
            slowdown: costs.slowdown(),
            is_paced: costs.is_paced(),
            sleeps: workload.emulated.sleep.is_some(),
            transfers_block: costs.is_host() && !recipe.overlap,
            step_s: costs.get(ConstantName::StepTime),
        }
    }
}

/// One transfer: when each end came to it, and when it is over.
#[derive(Clone, Copy, Debug)]
struct Crossing {
    sent: f64,
    awaited: f64,
    end: f64,
}

/// What all stages share while they play.
struct SharedStages {
    mesh: Mesh,
    chunks: usize,
    micros: usize,
    crossings: Vec<Crossing>,
    /// When each direction of each link is free again.
    free: Vec<f64>,
    /// When the one link of each stage's ranks is free again; empty where there is no such link.
    links: Vec<f64>,
}

impl SharedStages {
    /// The place of a transfer, from the place of its sender among all chunks of all stages.
    fn place(&self, up: bool, from_stage: usize, from_chunk: usize, micro: usize) -> usize {
        let at = from_chunk * self.mesh.pipeline + from_stage;
        (usize::from(up) * self.mesh.pipeline * self.chunks + at) * self.micros + micro
    }

    fn place_of(&self, transfer: Transfer) -> usize {
        // The sender is the lower end of the link if data goes up.
        let sender = if transfer.up { transfer.link } else { (transfer.link + 1) % self.mesh.pipeline };
        self.place(transfer.up, sender, transfer.from_chunk, transfer.micro)
    }

    fn come(&mut self, transfer: Transfer, sends: bool, now: f64, seconds: f64) {
        let place = self.place_of(transfer);
        let crossing = &mut self.crossings[place];
        *(if sends { &mut crossing.sent } else { &mut crossing.awaited }) = now;
        let begin = crossing.sent.max(crossing.awaited);
        if crossing.sent.is_nan() || crossing.awaited.is_nan() {
            return;
        }
        let way = transfer.link * 2 + usize::from(transfer.up);
        let ends = [transfer.link, (transfer.link + 1) % self.mesh.pipeline];
        let end = ends.iter().map(|end| self.link(*end)).fold(self.free[way], f64::max).max(begin) + seconds;
        (self.crossings[place].end, self.free[way]) = (end, end);
        ends.into_iter().for_each(|stage| self.occupy(stage, end));
    }

    /// When the link of a stage's ranks is free, if exchanges share it.
    fn link(&self, stage: usize) -> f64 {
        self.links.get(stage).copied().unwrap_or(0.0)
    }

    /// The link of a stage's ranks is busy until then.
    fn occupy(&mut self, stage: usize, until: f64) {
        if let Some(link) = self.links.get_mut(stage) {
            *link = link.max(until);
        }
    }

    /// What a pass waits for; None if it needs nothing from another stage.
    fn needs(&self, stage: usize, pass: Pass) -> Option<usize> {
        let stages = self.mesh.pipeline;
        let (at, last) = (pass.chunk * stages + stage, stages * self.chunks - 1);
        if stages == 1 || (!pass.backward && at == 0) || (pass.backward && at == last) {
            return None;
        }
        let from = if pass.backward { at + 1 } else { at - 1 };
        Some(self.place(!pass.backward, from % stages, from / stages, pass.micro))
    }
}

/// Plays the events of all stages.
pub(crate) fn play(step: &Step, timetable: &[Vec<Event>], times: &Times) -> Simulated {
    let mesh = step.workload.recipe.mesh;
    let chunks = step.workload.recipe.chunks;
    let passes = |events: &Vec<Event>| events.iter().filter(|event| matches!(event, Event::Pass(_))).count();
    let micros = timetable.first().map_or(0, passes) / (2 * chunks).max(1);
    let none = Crossing { sent: f64::NAN, awaited: f64::NAN, end: f64::NAN };
    let mut shared = SharedStages {
        mesh,
        chunks,
        micros,
        crossings: vec![none; if mesh.pipeline > 1 { 2 * mesh.pipeline * chunks * micros } else { 0 }],
        free: vec![0.0; 2 * mesh.pipeline],
        links: vec![0.0; if times.is_paced { mesh.pipeline } else { 0 }],
    };
    let mut stages: Vec<Stage> = (0..mesh.pipeline).map(|at| Stage::new(step, times, at, micros)).collect();
    let are_done = |stages: &[Stage<'_>]| stages.iter().zip(timetable).all(|(stage, events)| stage.is_done(events));
    // Exchanges that wait for a link when all passes are over compete with those that end the step.
    while !are_done(&stages) && advance(&mut stages, timetable, &mut shared, times) {}
    debug_assert!(are_done(&stages), "a stage waits for ever");
    end(step, stages, &mut shared, times)
}

/// Plays what can be played. False if nothing can.
fn advance(stages: &mut [Stage<'_>], timetable: &[Vec<Event>], shared: &mut SharedStages, times: &Times) -> bool {
    if !times.is_paced {
        // The order is that of the timetable alone: any stage may run ahead.
        return stages
            .iter_mut()
            .zip(timetable)
            .fold(false, |moved, (stage, events)| stage.advance(events, false, shared, times) || moved);
    }
    // A link that exchanges share goes to who comes first, so what is behind plays first, one event at a time.
    let clocks = stages.iter().enumerate().map(|(at, stage)| (stage.clock, at, false));
    let exchanges = stages.iter().enumerate().filter_map(|(at, stage)| Some((stage.next_exchange()?, at, true)));
    let mut order: Vec<(f64, usize, bool)> = clocks.chain(exchanges).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    order.into_iter().any(|(_, at, is_exchange)| match is_exchange {
        true => {
            stages[at].exchange_queued(shared);
            true
        }
        false => stages[at].advance(&timetable[at], true, shared, times),
    })
}

/// The end of the step: tied parameters, what is left of exchanges, norms, updates.
fn end(step: &Step, mut stages: Vec<Stage<'_>>, shared: &mut SharedStages, times: &Times) -> Simulated {
    let last = stages.len() - 1;
    if last > 0 && step.stages[0].units.iter().any(|unit| unit.tied) {
        let both = stages[0].clock.max(stages[last].clock);
        let mut begin = both;
        for at in [0, last] {
            while stages[at].next_exchange().is_some_and(|since| since < both) {
                stages[at].exchange_queued(shared);
            }
            begin = shared.link(at).max(begin);
        }
        for at in [0, last] {
            stages[at].wait(both);
            stages[at].pass_time(begin - both + times.ends, |parts| &mut parts.pipeline);
            shared.occupy(at, begin + times.ends);
            stages[at].reduce_tied(shared);
        }
    }
    for stage in &mut stages {
        stage.reduce_the_rest(shared);
    }
    if times.updates.iter().any(|update| update.has_norm) {
        for (stage, update) in stages.iter_mut().zip(&times.updates) {
            stage.pass_time(update.norm, |parts| &mut parts.optimizer);
        }
        meet(&mut stages, times.world);
    }
    for (stage, update) in stages.iter_mut().zip(&times.updates) {
        stage.pass_time(update.update, |parts| &mut parts.optimizer);
        stage.pass_time(update.gather, |parts| &mut parts.data);
    }
    meet(&mut stages, times.world);
    let busy: Vec<f64> = stages.iter().map(|stage| stage.parts.total() - stage.parts.bubble).collect();
    let busiest = (0..=last).max_by(|a, b| busy[*a].total_cmp(&busy[*b])).unwrap_or(0);
    let mut parts = stages[busiest].parts;
    parts.host += times.step_s;
    Simulated { seconds: stages[busiest].clock + times.step_s, parts, busy }
}

/// All ranks wait for the last.
fn meet(stages: &mut [Stage<'_>], seconds: f64) {
    let latest = stages.iter().map(|stage| stage.clock).fold(0.0, f64::max);
    for stage in stages {
        stage.wait(latest);
        stage.pass_time(seconds, |parts| &mut parts.data);
    }
}

/// The exchanges of gradients of a workload run among these.
pub(crate) fn replicas(step: &Step) -> ExchangeGroup {
    data_group(&step.workload)
}

#[cfg(test)]
impl Times {
    /// Seconds in which a stage's ranks send or receive in a step without sharding, of two stages at most.
    pub(crate) fn on_the_link(&self, step: &Step, stage: usize) -> f64 {
        let recipe = &step.workload.recipe;
        let micros = recipe.micro_batches[0] as f64;
        let tensor = |block: usize| {
            let BlockTimes { forward, backward, .. } = &self.blocks[step.pieces.places[block]];
            forward.tensor + backward.tensor
        };
        let tensor: f64 = step.stages[stage].chunks.iter().cloned().flatten().map(tensor).sum();
        let gradients: f64 = self.data[stage].reduce.iter().sum();
        let transfers = if recipe.mesh.pipeline > 1 { 2.0 * self.links[0] } else { 0.0 };
        let is_tied = step.stages[0].units.iter().any(|unit| unit.tied);
        micros * (tensor + transfers) + gradients + if is_tied { self.ends } else { 0.0 }
    }
}

#[cfg(test)]
mod tests;

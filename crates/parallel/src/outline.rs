//! What a rank's program takes, before anything is allocated.

use std::collections::BTreeMap;

use engine::{Axis, Category, Exchange, ExchangeKind, Instruction, MemoryPlan, Phase, Program, View};
use terms::{Collective, FieldError};
use trace::ExchangeNote;

use crate::check::check;
use crate::groups;
use crate::mesh::Coordinate;
use crate::recipe::Recipe;
use crate::strategies::{Built, build};

/// What a rank's program is made of, known before anything is allocated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outline {
    /// Bytes by category when memory is fullest.
    pub categories: BTreeMap<Category, usize>,
    /// Bytes in all, scratch of kernels included.
    pub bytes: usize,
    /// Of all bytes, those of memory that peers reach.
    pub shared_bytes: usize,
    /// Ranks of each group that this rank opens in addition to the world.
    pub groups: Vec<u32>,
    /// Floating-point operations of products in a step on this rank, recomputed ones included.
    pub flops: f64,
    /// Floating-point operations of products in a step on this rank, without recomputed ones.
    pub model_flops: f64,
    /// Operations and memory traffic of each phase of a step.
    pub phases: BTreeMap<Phase, PhaseWork>,
    /// What a step moves.
    pub traffic: Vec<Traffic>,
    /// Parameters that this rank computes with.
    pub parameters: usize,
}

/// What the operations of a phase take.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PhaseWork {
    /// Floating-point operations of products.
    pub flops: f64,
    /// Bytes that its operations read and write, each operand once for each operation: what moves where no cache keeps one
    /// operation's results for the next.
    pub bytes: f64,
}

/// Exchanges of one kind in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// "data", "tensor", "pipeline", "world".
    pub axis: &'static str,
    /// Which operation.
    pub operation: Collective,
    /// How many in a step.
    pub count: usize,
    /// Bytes (S of docs/explanation/bandwidth.md) in a step.
    pub bytes: u64,
}

/// The program of `rank` and what it takes; pure. `scratch`: bytes of temporary memory that a program takes where it runs.
///
/// # Errors
/// When the recipe cannot be followed.
pub fn outline(recipe: &Recipe, rank: usize, scratch: impl FnOnce(&Program) -> usize) -> Result<Outline, FieldError> {
    check(recipe)?;
    let built = build(recipe, recipe.mesh.coordinate(rank))?;
    let plan = engine::plan(&built.program);
    let bytes = scratch(&built.program);
    Ok(for_rank(&built, &plan, recipe, recipe.mesh.coordinate(rank), bytes))
}

/// The program of `rank`, for those who look at each of its operations; pure.
///
/// # Errors
/// When the recipe cannot be followed.
pub fn program(recipe: &Recipe, rank: usize) -> Result<Program, FieldError> {
    check(recipe)?;
    build(recipe, recipe.mesh.coordinate(rank)).map(|built| built.program)
}

pub(crate) fn for_rank(built: &Built, plan: &MemoryPlan, recipe: &Recipe, at: Coordinate, scratch: usize) -> Outline {
    let program = &built.program;
    let flops = |instruction: &Instruction| match instruction {
        Instruction::Run(op) => engine::flops(op),
        _ => 0.0,
    };
    let held = built.store.units.iter().flat_map(|unit| &unit.held);
    Outline {
        categories: plan.categories.clone(),
        bytes: plan.private + plan.shared + scratch,
        shared_bytes: plan.shared,
        groups: groups::sizes(recipe, at),
        flops: program.instructions.iter().map(flops).sum(),
        model_flops: built.model_flops,
        phases: phases(program),
        traffic: traffic(program),
        parameters: held.map(|held| held.len).sum(),
    }
}

/// The work of each phase, from the list of its operations.
fn phases(program: &Program) -> BTreeMap<Phase, PhaseWork> {
    let mut found: BTreeMap<Phase, PhaseWork> = BTreeMap::new();
    let mut current = Phase::Forward;
    for instruction in &program.instructions {
        match instruction {
            Instruction::Enter(phase) => current = *phase,
            Instruction::Run(op) => {
                let work = found.entry(current).or_default();
                work.flops += engine::flops(op);
                op.for_each_view(&mut |view| work.bytes += (view.len as u64 * program.dtype(view).bytes()) as f64);
            }
            _ => {}
        }
    }
    found
}

/// Which operation an exchange is.
pub(crate) fn operation(kind: ExchangeKind) -> Collective {
    match kind {
        ExchangeKind::Sum | ExchangeKind::Max => Collective::AllReduce,
        ExchangeKind::AllGather => Collective::AllGather,
        ExchangeKind::ReduceScatter => Collective::ReduceScatter,
        ExchangeKind::Transfer { .. } => Collective::Broadcast,
    }
}

/// What a recorder's spans say of each exchange of a step, by ticket.
pub(crate) fn exchange_notes(program: &Program, recipe: &Recipe, at: Coordinate) -> Vec<ExchangeNote> {
    let starts = program.instructions.iter().filter_map(|instruction| match instruction {
        Instruction::Start { exchange, .. } => Some(exchange),
        _ => None,
    });
    let mut in_step: BTreeMap<Axis, u32> = BTreeMap::new();
    let mut notes: Vec<(Axis, ExchangeNote)> = Vec::new();
    // Tickets count in the order of their starts.
    for exchange in starts {
        let place = in_step.entry(exchange.axis).or_default();
        let is_transfer = matches!(exchange.kind, ExchangeKind::Transfer { .. });
        let operation = if is_transfer { Collective::SendRecv } else { operation(exchange.kind) };
        let bytes = |view: View| view.len as u64 * program.dtype(view).bytes();
        let (group, ranks) = groups::named(exchange.axis, recipe.mesh, at);
        let note = ExchangeNote {
            operation,
            group,
            ranks,
            bytes: bytes(exchange.input).max(bytes(exchange.output)),
            place: *place,
            in_step: 0,
            synchronises: !is_transfer,
        };
        *place += 1;
        notes.push((exchange.axis, note));
    }
    let counted = |(axis, note): (Axis, ExchangeNote)| ExchangeNote { in_step: in_step[&axis], ..note };
    notes.into_iter().map(counted).collect()
}

fn axis_name(axis: Axis) -> &'static str {
    match axis {
        Axis::Data => "data",
        Axis::Tensor => "tensor",
        Axis::Link(_) | Axis::Ends => "pipeline",
        Axis::World => "world",
    }
}

fn traffic(program: &Program) -> Vec<Traffic> {
    let mut sums: Vec<Traffic> = Vec::new();
    for instruction in &program.instructions {
        let Instruction::Start { exchange, .. } = instruction else { continue };
        let (axis, operation) = (axis_name(exchange.axis), operation(exchange.kind));
        let bytes = bytes_of(program, exchange);
        match sums.iter_mut().find(|sum| sum.axis == axis && sum.operation == operation) {
            Some(sum) => {
                sum.count += 1;
                sum.bytes += bytes;
            }
            None => sums.push(Traffic { axis, operation, count: 1, bytes }),
        }
    }
    sums
}

/// S: the larger side, which for gathering and scattering is all ranks' blocks together.
pub(crate) fn bytes_of(program: &Program, exchange: &Exchange) -> u64 {
    let each = program.dtype(exchange.output).bytes();
    exchange.input.len.max(exchange.output.len) as u64 * each
}

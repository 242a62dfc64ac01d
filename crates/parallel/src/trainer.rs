//! Runs the program of one rank, step by step.

use std::collections::BTreeMap;

use comm::{Abort, Communicator, Options};
use engine::Category;
use terms::Collective;

use crate::recipe::{Recipe, Refusal};
use crate::source::Source;

/// What a rank's program is made of, known before anything is allocated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outline {
    /// Bytes by category when memory is fullest.
    pub categories: BTreeMap<Category, usize>,
    /// Bytes in all, scratch of kernels included.
    pub bytes: usize,
    /// Floating-point operations of products in a step on this rank, recomputed ones included.
    pub flops: f64,
    /// The same without recomputation.
    pub model_flops: f64,
    /// What a step moves.
    pub traffic: Vec<Traffic>,
    /// Parameters that this rank holds.
    pub parameters: usize,
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
    /// Bytes (S of definitions) in a step.
    pub bytes: u64,
}

/// A step as this rank saw it. Seconds; phases and waiting add up to the total.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepReport {
    /// Mean loss over the global batch: the same on all ranks.
    pub loss: f64,
    /// Waiting for data.
    pub input_s: f64,
    /// Forward pass, without waiting for communication.
    pub forward_s: f64,
    /// Backward pass, without waiting for communication.
    pub backward_s: f64,
    /// Optimizer.
    pub optimizer_s: f64,
    /// Waiting for communication, pipeline neighbours included.
    pub communication_s: f64,
    /// All of it.
    pub total_s: f64,
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The recipe does not fit.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Communication failed.
    #[error(transparent)]
    Comm(#[from] comm::Error),
    /// Threads could not be had.
    #[error(transparent)]
    Engine(#[from] engine::Error),
    /// Data could not be had.
    #[error("{0}")]
    Data(String),
    /// The loss is not a number.
    #[error("the loss of step {step} is {loss} on rank {rank}")]
    Loss {
        /// Which step, from 1.
        step: u64,
        /// Which rank computed it.
        rank: u32,
        /// What it is.
        loss: f64,
    },
}

/// Equal parameters where replicas must hold equal ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Numbers compared.
    pub compared: u64,
    /// Numbers that differ from the first replica's.
    pub different: u64,
}

/// The program of `rank` and what it takes; pure.
///
/// # Errors
/// When the recipe cannot be followed.
pub fn outline(recipe: &Recipe, rank: usize, threads: usize) -> Result<Outline, Refusal> {
    let _ = (recipe, rank, threads);
    todo!()
}

/// One rank's end of a training run.
pub struct Trainer {}

impl Trainer {
    /// Allocates everything, and gives parameters their initial values. Collective. `threads` run on `cores` in turn.
    ///
    /// # Errors
    /// What could not be had.
    pub fn new(
        recipe: &Recipe,
        comm: &mut dyn Communicator,
        abort: &Abort,
        options: &Options,
        threads: usize,
        cores: &[u32],
        source: Box<dyn Source>,
    ) -> Result<Self, Error> {
        let _ = (recipe, comm, abort, options, threads, cores, source);
        todo!()
    }

    /// One step. Collective.
    ///
    /// # Errors
    /// What communication or data say; a loss that is not a number, on every rank.
    pub fn step(&mut self, comm: &mut dyn Communicator) -> Result<StepReport, Error> {
        let _ = comm;
        todo!()
    }

    /// Back to the initial parameters and the first sample. Collective.
    pub fn reset(&mut self) {
        todo!()
    }

    /// Compares replicas' parameters bit by bit. Collective.
    ///
    /// # Errors
    /// What communication says.
    pub fn agreement(&mut self, comm: &mut dyn Communicator) -> Result<Agreement, Error> {
        let _ = comm;
        todo!()
    }
}

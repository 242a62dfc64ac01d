//! What is run, in order: commands with their answers, and comparisons that take several commands.

use super::checks::{self, Check};
use super::peer;
use super::products;
use super::rows::Outcome;
use super::stages::Stage;
use super::training::{Training, beside, golden};
use super::{Run, answered};

/// One row of the table.
pub(super) struct Unit {
    pub(super) name: String,
    pub(super) stage: Stage,
    /// About how long it takes on an H200.
    pub(super) seconds: u64,
    /// The command as the table shows it.
    pub(super) command: String,
    pub(super) work: Work,
}

/// What a row runs.
#[derive(Clone, Copy)]
pub(super) enum Work {
    Check(&'static Check),
    /// A model's losses, in these types.
    Losses(&'static golden::Golden, usize, &'static [&'static str]),
    /// A variant of GPT-2, in this round.
    Variant(usize, usize),
    /// A model other than GPT-2, native and eager.
    Model(usize),
    /// A type of products, beside torch's.
    Product(&'static str),
    /// A size of `all_reduce`, beside nccl-tests.
    Peer(usize),
}

/// All, in the order in which they run.
pub(super) fn all(has_peer: bool) -> Vec<Unit> {
    let checks = checks::all().map(|check| Unit {
        name: check.name.to_owned(),
        stage: check.stage,
        seconds: check.seconds,
        command: check.command.to_owned(),
        work: Work::Check(check),
    });
    let peers = (0..if has_peer { peer::SIZES.len() } else { 0 }).map(|at| Unit {
        name: format!("nccl_tests_{}", peer::SIZES[at].0),
        stage: Stage::Rest,
        seconds: 40,
        command: "all_reduce_perf, and rankmark comm all_reduce".to_owned(),
        work: Work::Peer(at),
    });
    let products = products::TYPES.map(|kind| Unit {
        name: format!("product_{kind}"),
        stage: Stage::Rest,
        seconds: 45,
        command: format!("xtask/jobs/products.py {kind}, and rankmark hardware gemm"),
        work: Work::Product(kind),
    });
    // Of the last stage, what decides an aim comes first, and what is measured again last.
    let mut all: Vec<Unit> =
        products.into_iter().chain(checks).chain(golden::units()).chain(peers).chain(beside::units()).collect();
    // Within a stage in this order.
    all.sort_by_key(|unit| unit.stage);
    all
}

impl Work {
    /// Runs it.
    pub(super) fn run(self, run: &Run<'_>, training: &mut Training<'_>) -> Outcome {
        match self {
            Self::Check(check) => {
                let words = check.words(run);
                answered(run.execute(check.name, &words).and_then(|ended| check.answer(&ended)))
            }
            Self::Losses(golden, at, types) => golden.row(training, at, types),
            Self::Variant(at, round) => answered(training.variant(at, round)),
            Self::Model(at) => answered(training.model(at)),
            Self::Product(kind) => answered(products::row(run, kind)),
            Self::Peer(at) => answered(peer::row(run, at)),
        }
    }
}

//! On devices work runs later than it is given. Here as late as waits permit, so that a missing wait shows: each kind of wait of a
//! program, and each of the two that every exchange has, is taken out, and training must end elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use comm::{Abort, Call, Communicator, Late, Shape, Ticket, Wait};
use device::{Queue, Region};
use engine::{Axis, ExchangeKind, Instruction, Program};
use terms::Space;

use super::equal::{gpt2, resnet};
use super::scaffold::{On, Outcome, difference, on, recipe, train, train_in};
use crate::{Optimizer, Recipe, Schedule};

const STEPS: usize = 3;

fn differs(right: &Outcome, other: &Outcome) -> bool {
    let apart = difference(right, other);
    other.differing > 0 || apart.is_nan() || apart > 1e-9
}

/// Recipes with every kind of exchange.
fn recipes() -> Vec<(&'static str, Recipe)> {
    let adam = Optimizer::AdamW { rate: 1e-2, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, decay: 0.01 };
    let serial = Recipe { clip: Some(0.5), optimizer: adam, ..recipe(gpt2(), 1, 4) };
    let two = on(&serial, 2, 1, 1);
    let mut all: Vec<(&str, Recipe)> = (0..=3).map(|sharded| ("data", Recipe { sharded, ..two.clone() })).collect();
    all.push(("data, no overlap", Recipe { overlap: false, ..two.clone() }));
    all.push(("tensor", on(&serial, 1, 2, 1)));
    all.push(("sequence", Recipe { sequence_parallel: true, ..on(&serial, 1, 2, 1) }));
    all.push(("pipeline", on(&serial, 1, 1, 2)));
    all.push(("interleaved", Recipe { schedule: Schedule::Interleaved, chunks: 2, ..on(&serial, 1, 1, 2) }));
    let norms = Recipe { synchronised: true, ..on(&recipe(resnet(), 2, 2), 2, 1, 1) };
    all.push(("batch norm", norms));
    all
}

/// A kind of wait: of which exchanges, and whether this rank gets something by them.
type Kind = (Axis, &'static str, bool);

fn kind_of(exchange: &engine::Exchange, rank: usize) -> Kind {
    let (name, gets) = match exchange.kind {
        ExchangeKind::Sum => ("sum", true),
        ExchangeKind::Max => ("max", true),
        ExchangeKind::AllGather => ("all_gather", true),
        ExchangeKind::ReduceScatter => ("reduce_scatter", true),
        ExchangeKind::Transfer { up } => ("transfer", up == (rank == 1)),
    };
    (exchange.axis, name, gets)
}

/// The kinds of all waits of a rank's program, by ticket.
fn kinds(program: &Program, rank: usize) -> BTreeMap<u32, Kind> {
    let start = |instruction: &Instruction| match instruction {
        Instruction::Start { ticket, exchange } => Some((*ticket, kind_of(exchange, rank))),
        _ => None,
    };
    program.instructions.iter().filter_map(start).collect()
}

/// Every kind of wait by which a rank gets something, taken out of all ranks' programs.
#[test]
fn each_kind_of_wait_of_a_program_is_missed() {
    let mut seen = BTreeSet::new();
    for (what, right) in recipes() {
        let before = train(&right, STEPS);
        let all: BTreeSet<Kind> = (0..2)
            .flat_map(|rank| {
                let built = crate::strategies::build(&right, right.mesh.coordinate(rank)).expect("it fits");
                kinds(&built.program, rank).into_values()
            })
            .filter(|(_, _, gets)| *gets)
            .collect();
        for kind in all {
            // Links of a pipeline are waited for in different orders by the two ranks.
            let is_piped = right.mesh.pipeline > 1;
            let wrap = |inner: Box<dyn Communicator>, abort: &Abort| -> Box<dyn Communicator> {
                if is_piped { On::Late.world(inner, abort) } else { Box::new(Late::apart(inner, abort.clone())) }
            };
            let without = train_in(On::Late, &wrap, &right, STEPS, 1, &|rank, program| {
                let kinds = kinds(program, rank);
                program.instructions.retain(
                    |instruction| !matches!(instruction, Instruction::Finish { ticket } if kinds[ticket] == kind),
                );
            });
            assert!(differs(&before, &without), "{what}, {kind:?}: nobody noticed");
            seen.insert((kind.0, kind.1));
        }
    }
    assert!(seen.len() >= 8, "{seen:?}");
}

/// A communicator to which one of the two orders is not told.
struct Heedless {
    inner: Box<dyn Communicator>,
    wait: Missing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    None,
    /// What is given may not be computed yet.
    Before,
    /// What is computed next may not have arrived.
    After,
}

impl Communicator for Heedless {
    fn shape(&self) -> &Shape {
        self.inner.shape()
    }

    fn alloc(&mut self, bytes: usize, space: Space) -> comm::Result<Arc<Region>> {
        self.inner.alloc(bytes, space)
    }

    fn start(&mut self, group: &[Call], after: &Queue) -> comm::Result<Ticket> {
        let none = Queue::host();
        self.inner.start(group, if self.wait == Missing::Before { &none } else { after })
    }

    fn finish(&mut self, ticket: &mut Ticket, how: Wait<'_>) -> comm::Result<bool> {
        match how {
            Wait::On(_) if self.wait == Missing::After => Ok(true),
            _ => self.inner.finish(ticket, how),
        }
    }

    fn split(&mut self, color: Option<u32>, key: u32) -> comm::Result<Option<Box<dyn Communicator>>> {
        let (part, wait) = (self.inner.split(color, key)?, self.wait);
        Ok(part.map(|inner| Box::new(Self { inner, wait }) as Box<dyn Communicator>))
    }
}

#[test]
fn both_orders_of_every_exchange_are_missed() {
    for (what, right) in recipes() {
        let before = train(&right, STEPS);
        let orders = [(On::Late, Missing::None), (On::Late, Missing::After), (On::Behind, Missing::Before)];
        for (on, wait) in orders {
            let wrap = |inner: Box<dyn Communicator>, abort: &Abort| -> Box<dyn Communicator> {
                Box::new(Heedless { inner: on.world(inner, abort), wait })
            };
            let after = train_in(on, &wrap, &right, STEPS, 1, &|_, _| {});
            assert_eq!(differs(&before, &after), wait != Missing::None, "{what}, {wait:?}");
        }
    }
}

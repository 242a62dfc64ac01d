//! The end of a step: norms, clipping, the optimizer, and parameters put together again.

use engine::op::{Op, Update};
use engine::{Axis, Exchange, ExchangeKind, View};
use terms::Dtype;

use super::Builder;
use crate::recipe::Optimizer;
use crate::units::Held;

impl Builder<'_> {
    pub(crate) fn update(&mut self) {
        let scaled = self.recipe.precision == Dtype::F16;
        if self.recipe.clip.is_some() || scaled {
            while self.finish_first().is_some() {}
            self.norm(scaled);
        }
        // Units in the order in which their exchanges began: the first is complete while others are under way.
        let mut waiting: Vec<usize> = self.reducing.iter().map(|reduction| reduction.unit).collect();
        let ready: Vec<usize> = (0..self.store.units.len()).filter(|unit| !waiting.contains(unit)).collect();
        for unit in ready {
            self.update_unit(unit);
        }
        for unit in waiting.drain(..) {
            self.finish_first();
            self.update_unit(unit);
        }
        if scaled {
            self.run(Update::EndStep { control: self.control });
        }
        self.gather_updated();
    }

    fn run(&mut self, op: Update) {
        self.program.run(Op::Update(op));
    }

    /// The sum of squares of all gradients, each counted by one rank.
    fn norm(&mut self, scaled: bool) {
        let control = self.control;
        self.run(Update::BeginNorm { control });
        let mine: Vec<View> = (0..self.store.units.len()).flat_map(|unit| self.counted(unit)).collect();
        for x in mine {
            self.run(Update::SumSquares { x, control });
        }
        if self.recipe.mesh.ranks() > 1 {
            let sum = control.part(2, 1);
            let (axis, kind) = (Axis::World, ExchangeKind::Sum);
            self.program.exchange(Exchange { axis, kind, input: sum, output: sum });
        }
        self.run(Update::Judge { control, dynamic: scaled });
    }

    /// The gradients of a unit that this rank counts: of its shard, not what another part or stage holds too.
    fn counted(&self, unit: usize) -> Vec<View> {
        if self.store.level == 0 && self.at.data > 0 {
            return Vec::new();
        }
        let (own, shard) = (self.store.storage[unit].own_gradient, self.store.shard);
        let counts = |held: &&Held| !held.copy && (!held.whole() || self.at.tensor == 0);
        let all = self.store.units[unit].held.iter().filter(counts);
        all.filter_map(|held| held.part_of(own, shard)).collect()
    }

    fn update_unit(&mut self, unit: usize) {
        let storage = self.store.storage[unit].clone();
        let copy = (self.terms.element != self.terms.state).then_some(storage.own);
        let (parameters, gradients) = (storage.master, storage.own_gradient);
        let (control, clip) = (self.control, self.recipe.clip);
        self.run(match self.recipe.optimizer {
            Optimizer::Sgd { rate, momentum } => {
                let velocity = storage.state.first().copied();
                Update::Sgd { parameters, gradients, velocity, copy, control, rate, momentum, clip }
            }
            Optimizer::AdamW { rate, beta1, beta2, epsilon, decay } => {
                let (first, second) = (storage.state[0], storage.state[1]);
                Update::AdamW {
                    parameters,
                    gradients,
                    first,
                    second,
                    copy,
                    control,
                    rate,
                    beta1,
                    beta2,
                    epsilon,
                    decay,
                    clip,
                }
            }
        });
    }

    /// Everybody's updated shard, on all replicas.
    fn gather_updated(&mut self) {
        if !matches!(self.store.level, 1 | 2) {
            return;
        }
        let start = |builder: &mut Self, unit: usize| {
            let (input, value) = (builder.store.storage[unit].own, builder.store.storage[unit].value);
            let output = value.expect("values are whole below level 3");
            builder.program.start(Exchange { axis: Axis::Data, kind: ExchangeKind::AllGather, input, output })
        };
        let tickets: Vec<u32> = (0..self.store.units.len()).map(|unit| start(self, unit)).collect();
        for ticket in tickets {
            self.program.finish(ticket);
        }
    }
}

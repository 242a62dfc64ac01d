//! Exchanges of gradients, and of parameters where replicas hold shards of them.

use engine::op::{Op, Rows};
use engine::{Axis, Category, Exchange, ExchangeKind, Lifetime, View};

use super::Builder;
use crate::units;

/// An exchange of a unit's gradients under way.
pub(super) struct Reduction {
    pub(super) unit: usize,
    ticket: u32,
    /// Where the shard's share of this micro-batch arrives, to be added afterwards.
    arrives: Option<View>,
}

impl Builder<'_> {
    /// The units that a block computes with.
    fn needs(&self, block: usize) -> Vec<usize> {
        let block = &self.recipe.model.blocks[block];
        let own = block.parameters().into_iter().map(|parameter| parameter.name);
        let mut needs: Vec<usize> = own.chain(units::borrowed(block)).map(|name| self.store.unit_of(&name)).collect();
        needs.sort_unstable();
        needs.dedup();
        needs
    }

    /// Has the values of a block put together, and begins with those of the next.
    pub(super) fn gather(&mut self, block: usize, next: Option<usize>) {
        if self.store.level < 3 {
            return;
        }
        self.begin_gathering(block);
        if let Some(next) = next.filter(|_| self.recipe.overlap) {
            self.begin_gathering(next);
        }
        for unit in self.needs(block) {
            if let Some(ticket) = self.gathering.remove(&unit) {
                self.program.finish(ticket);
            }
        }
    }

    fn begin_gathering(&mut self, block: usize) {
        for unit in self.needs(block) {
            if self.store.lacks_value(unit) {
                let ticket = self.store.gather(&mut self.program, unit, self.terms.element);
                self.gathering.insert(unit, ticket);
            }
        }
    }

    /// Values that a block computed with are not kept, but for those that are on their way for the next.
    pub(super) fn release(&mut self, block: usize) {
        if self.store.level < 3 {
            return;
        }
        for unit in self.needs(block) {
            if !self.gathering.contains_key(&unit) {
                self.store.release(unit);
            }
        }
    }

    /// A backward pass of this block wrote to its units: those that are complete are exchanged.
    pub(super) fn wrote(&mut self, block: usize) {
        for unit in self.needs(block) {
            if !self.store.units[unit].writers.contains(&block) {
                continue;
            }
            self.left[unit] -= 1;
            self.since[unit] += 1;
            let each_time = self.store.level >= 2 && self.since[unit] == self.store.units[unit].writers.len();
            if each_time || self.left[unit] == 0 {
                self.since[unit] = 0;
                self.complete(unit);
            }
        }
    }

    fn complete(&mut self, unit: usize) {
        for silent in self.store.unwritten(unit) {
            self.program.run(Op::Rows(Rows::Fill { y: silent, value: 0.0 }));
        }
        for held in self.store.partial_of(unit) {
            if let Some(view) = self.store.gradient_view(&held, unit) {
                let (axis, kind) = (Axis::Tensor, ExchangeKind::Sum);
                self.program.exchange(Exchange { axis, kind, input: view, output: view });
            }
        }
        // The other stage's share of a tied parameter comes at the end of the step.
        let later = self.store.level < 2 && (!self.recipe.overlap || self.store.units[unit].tied_across);
        if !later {
            self.reduce(unit);
        }
    }

    /// Begins the exchange of a unit's gradients among replicas.
    fn reduce(&mut self, unit: usize) {
        let Some(gradient) = self.store.gradient_of(unit) else { return };
        if self.recipe.mesh.data == 1 || !self.recipe.communicate {
            if self.store.level >= 2 {
                self.keep_own(unit, gradient);
            }
            return;
        }
        let own = self.store.storage[unit].own_gradient;
        let (kind, output, arrives) = match self.store.level {
            0 => (ExchangeKind::Sum, gradient, None),
            1 => (ExchangeKind::ReduceScatter, own, None),
            _ if !self.begun[unit] => (ExchangeKind::ReduceScatter, own, None),
            _ => {
                let state = self.terms.state;
                let share = self.program.buffer(Category::Communication, Lifetime::Step, state, own.len);
                (ExchangeKind::ReduceScatter, share, Some(share))
            }
        };
        self.begun[unit] = true;
        let ticket = self.program.start(Exchange { axis: Axis::Data, kind, input: gradient, output });
        self.reducing.push_back(Reduction { unit, ticket, arrives });
        if self.store.level >= 2 {
            self.store.flush(unit);
            let most = usize::from(self.recipe.overlap);
            while self.reducing.len() > most {
                self.finish_first();
            }
        }
    }

    /// Without communication: this replica's own share, so that time and memory are those of the rest of the step.
    fn keep_own(&mut self, unit: usize, gradient: View) {
        let own = self.store.storage[unit].own_gradient;
        let share = gradient.part(self.store.shard * own.len, own.len);
        let op =
            if self.begun[unit] { Rows::Add { a: own, b: share, y: own } } else { Rows::Convert { x: share, y: own } };
        self.program.run(Op::Rows(op));
        self.begun[unit] = true;
        self.store.flush(unit);
    }

    /// Finishes the oldest exchange of gradients.
    pub(super) fn finish_first(&mut self) -> Option<usize> {
        let Reduction { unit, ticket, arrives } = self.reducing.pop_front()?;
        self.program.finish(ticket);
        if let Some(share) = arrives {
            let own = self.store.storage[unit].own_gradient;
            self.program.run(Op::Rows(Rows::Add { a: own, b: share, y: own }));
        }
        Some(unit)
    }

    /// After a backward pass: shards are added up.
    pub(super) fn add_up_shards(&mut self) {
        if self.store.level >= 2 {
            while self.finish_first().is_some() {}
        }
    }

    /// At the end of the last backward pass: tied parameters of two stages, and what does not overlap.
    pub(super) fn reduce_the_rest(&mut self) {
        for unit in 0..self.store.units.len() {
            if !self.store.units[unit].tied_across {
                continue;
            }
            let view = self.tied_gradient(unit);
            let (axis, kind) = (Axis::Ends, ExchangeKind::Sum);
            self.program.exchange(Exchange { axis, kind, input: view, output: view });
            if self.store.level < 2 && self.recipe.overlap {
                self.reduce(unit);
            }
        }
        if self.store.level < 2 && !self.recipe.overlap {
            for unit in 0..self.store.units.len() {
                self.reduce(unit);
                self.finish_first();
            }
        }
    }

    /// What both stages hold of a tied parameter's gradient: all of it, or the same shard.
    fn tied_gradient(&self, unit: usize) -> View {
        match self.store.gradient_of(unit).filter(|_| self.store.level < 2) {
            Some(gradient) => gradient,
            None => self.store.storage[unit].own_gradient,
        }
    }
}

//! Where a rank's parameters, gradients and optimizer state lie: the buffers behind the units, for every degree of
//! sharding (ZeRO, arXiv 1910.02054).

use std::collections::{BTreeSet, HashMap, HashSet};

use engine::layers::Parameters;
use engine::op::{Op, Rows};
use engine::{Axis, Category, Exchange, ExchangeKind, Lifetime, Program, View};
use terms::Dtype;

use crate::recipe::{Optimizer, Recipe};
use crate::units::{Held, Unit};

/// The buffers of a unit. With sharding, a *shard* is this replica's equal part of the unit.
#[derive(Clone, Debug)]
pub(crate) struct Storage {
    /// E: what is computed with. None where it is put together when needed.
    pub(crate) value: Option<View>,
    /// E: this replica's shard of it; all of it without sharding.
    pub(crate) own: View,
    /// S: masters of the shard; `own` itself where E is S.
    pub(crate) master: View,
    /// S: gradients that last. None where they are put together for each micro-batch.
    pub(crate) gradient: Option<View>,
    /// S: gradients of the shard, summed over replicas.
    pub(crate) own_gradient: View,
    /// S: optimizer state of the shard.
    pub(crate) state: Vec<View>,
}

/// Units and what is known of them while a program is written.
pub(crate) struct Store {
    pub(crate) units: Vec<Unit>,
    pub(crate) storage: Vec<Storage>,
    /// Unit, offset and length of each parameter, and the length with its padding.
    places: HashMap<String, (usize, usize, usize, usize)>,
    /// E: what each unit is computed with now.
    values: Vec<Option<View>>,
    /// S: where each unit's gradients go now.
    gradients: Vec<Option<View>>,
    written: HashSet<String>,
    partial: BTreeSet<String>,
    state: Dtype,
    /// Shards that replicas hold of each unit.
    pub(crate) shards: usize,
    /// This replica's shard.
    pub(crate) shard: usize,
    /// 0 to 3; 0 where there is one replica.
    pub(crate) level: u8,
}

impl Store {
    pub(crate) fn new(program: &mut Program, recipe: &Recipe, units: Vec<Unit>, replica: usize, state: Dtype) -> Self {
        let level = level(recipe);
        let shards = if level == 0 { 1 } else { recipe.mesh.data };
        let shard = if level == 0 { 0 } else { replica };
        let mut store = Self {
            storage: Vec::new(),
            places: HashMap::new(),
            values: Vec::new(),
            gradients: Vec::new(),
            written: HashSet::new(),
            partial: BTreeSet::new(),
            state,
            shards,
            shard,
            level,
            units: Vec::new(),
        };
        for (number, unit) in units.iter().enumerate() {
            for held in &unit.held {
                store.places.insert(held.parameter.name.clone(), (number, held.offset, held.len, held.room));
            }
        }
        // Each kind for all units in a row, so that a whole kind is one run of memory.
        store.storage = units.iter().map(|unit| store.parameters(program, recipe, unit.len)).collect();
        for (number, unit) in units.iter().enumerate() {
            store.add_gradients(program, number, unit.len);
        }
        for number in 0..units.len() {
            store.add_state(program, recipe, number);
        }
        store.values = store.storage.iter().map(|storage| storage.value).collect();
        store.gradients = store.storage.iter().map(|storage| storage.gradient).collect();
        store.units = units;
        store
    }

    fn own_len(&self, len: usize) -> usize {
        len / self.shards
    }

    fn parameters(&self, program: &mut Program, recipe: &Recipe, len: usize) -> Storage {
        let mut persistent = |dtype, len| program.buffer(Category::Parameter, Lifetime::Persistent, dtype, len);
        let own_len = self.own_len(len);
        let (value, own) = if self.level == 3 {
            (None, persistent(recipe.precision, own_len))
        } else {
            let value = persistent(recipe.precision, len);
            (Some(value), value.part(self.shard * own_len, own_len))
        };
        let master = if recipe.precision == self.state { own } else { persistent(self.state, own_len) };
        Storage { value, own, master, gradient: None, own_gradient: own, state: Vec::new() }
    }

    fn add_gradients(&mut self, program: &mut Program, number: usize, len: usize) {
        let own_len = self.own_len(len);
        let mut persistent = |len| program.buffer(Category::Gradient, Lifetime::Persistent, self.state, len);
        let storage = &mut self.storage[number];
        if self.level >= 2 {
            storage.own_gradient = persistent(own_len);
        } else {
            let all = persistent(len);
            storage.gradient = Some(all);
            storage.own_gradient = all.part(self.shard * own_len, own_len);
        }
    }

    fn add_state(&mut self, program: &mut Program, recipe: &Recipe, number: usize) {
        let count = match recipe.optimizer {
            Optimizer::Sgd { momentum, .. } => usize::from(momentum != 0.0),
            Optimizer::AdamW { .. } => 2,
        };
        let len = self.storage[number].master.len;
        let state = (0..count).map(|_| program.buffer(Category::Optimizer, Lifetime::Persistent, self.state, len));
        self.storage[number].state = state.collect();
    }

    /// The unit that holds a parameter.
    pub(crate) fn unit_of(&self, name: &str) -> usize {
        self.places[name].0
    }

    /// Whether a unit's values must be put together before a block computes with them.
    pub(crate) fn lacks_value(&self, unit: usize) -> bool {
        self.values[unit].is_none()
    }

    /// Begins to put a unit's values together.
    pub(crate) fn gather(&mut self, program: &mut Program, unit: usize, element: Dtype) -> u32 {
        let len = self.units[unit].len;
        let value = program.buffer(Category::Communication, Lifetime::Step, element, len);
        self.values[unit] = Some(value);
        let input = self.storage[unit].own;
        program.start(Exchange { axis: Axis::Data, kind: ExchangeKind::AllGather, input, output: value })
    }

    /// Forgets values that were put together.
    pub(crate) fn release(&mut self, unit: usize) {
        self.values[unit] = self.storage[unit].value;
    }

    /// The gradient of a unit as it stands, if anything was written.
    pub(crate) fn gradient_of(&self, unit: usize) -> Option<View> {
        self.gradients[unit]
    }

    /// Where a parameter's gradient stands.
    pub(crate) fn gradient_view(&self, held: &Held, unit: usize) -> Option<View> {
        self.gradients[unit].map(|view| view.part(held.offset, held.len))
    }

    /// The parameters of a unit with gradients that are shares of a sum over the tensor group.
    pub(crate) fn partial_of(&self, unit: usize) -> Vec<Held> {
        self.units[unit].held.iter().filter(|held| self.partial.contains(&held.parameter.name)).cloned().collect()
    }

    /// Starts again: the next write to a unit's gradients goes to fresh memory.
    pub(crate) fn flush(&mut self, unit: usize) {
        self.gradients[unit] = None;
        for held in &self.units[unit].held {
            self.written.remove(&held.parameter.name);
        }
    }

    /// Parameters that nothing was written to in this step, though units are final: their gradient is zero.
    pub(crate) fn unwritten(&self, unit: usize) -> Vec<View> {
        let Some(gradient) = self.gradients[unit] else { return Vec::new() };
        let silent = self.units[unit].held.iter().filter(|held| !self.written.contains(&held.parameter.name));
        silent.map(|held| gradient.part(held.offset, held.len)).collect()
    }
}

/// The degree of sharding in effect: with one replica there is nothing to cut.
pub(crate) fn level(recipe: &Recipe) -> u8 {
    if recipe.mesh.data == 1 { 0 } else { recipe.sharded }
}

impl Parameters for Store {
    fn value(&self, name: &str) -> View {
        let (unit, offset, len, _) = self.places[name];
        self.values[unit].expect("values are put together before a block is emitted").part(offset, len)
    }

    fn gradient(&mut self, program: &mut Program, name: &str) -> (View, bool) {
        let (unit, offset, len, _) = self.places[name];
        let gradient = match self.gradients[unit] {
            Some(gradient) => gradient,
            None => {
                let all = program.buffer(Category::Gradient, Lifetime::Step, self.state, self.units[unit].len);
                // Sums over replicas read the padding too.
                for (offset, len) in self.units[unit].gaps() {
                    program.run(Op::Rows(Rows::Fill { y: all.part(offset, len), value: 0.0 }));
                }
                *self.gradients[unit].insert(all)
            }
        };
        let written = !self.written.insert(name.to_owned());
        (gradient.part(offset, len), written)
    }

    fn padded(&self, name: &str, view: View) -> View {
        View { len: self.places[name].3, ..view }
    }

    fn partial(&mut self, name: &str) {
        self.partial.insert(name.to_owned());
    }
}

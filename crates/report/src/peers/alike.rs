//! Which configurations are comparable, found by what they have in common rather than by trying every pair.

use std::collections::HashMap;

use super::{HOW, SAME, SAME_OR_ABSENT};
use crate::study::{Configuration, Operation};

/// What must be equal: ranks, and fields with their values.
type Exact<'o> = (u32, Vec<(&'o str, &'o str)>);
/// What must be equal where both say it.
type Told<'o> = Vec<Option<&'o str>>;

/// Configurations by what they have in common.
pub(super) struct Alike<'o> {
    all: &'o [Configuration<'o>],
    training: bool,
    /// Places in `all`, ascending.
    groups: HashMap<Exact<'o>, Vec<(Told<'o>, Vec<usize>)>>,
}

impl<'o> Alike<'o> {
    /// Those of an operation for which `is_one` holds.
    pub(super) fn of(operation: &'o Operation<'o>, is_one: impl Fn(&Configuration) -> bool) -> Self {
        let training = crate::training::is_training(operation);
        let mut alike = Self { all: &operation.configurations, training, groups: HashMap::new() };
        let mut places: HashMap<(Exact<'o>, Told<'o>), usize> = HashMap::new();
        for (index, configuration) in operation.configurations.iter().enumerate().filter(|(_, c)| is_one(c)) {
            let (exact, told) = alike.key(configuration);
            let groups = alike.groups.entry(exact.clone()).or_default();
            let place = *places.entry((exact, told.clone())).or_insert(groups.len());
            if place == groups.len() {
                groups.push((told, Vec::new()));
            }
            groups[place].1.push(index);
        }
        alike
    }

    /// Those that are comparable with this one, in the order of the run.
    pub(super) fn with(&self, configuration: &'o Configuration<'o>) -> Vec<&'o Configuration<'o>> {
        let (exact, told) = self.key(configuration);
        let agrees = |other: &Told| told.iter().zip(other).all(|(a, b)| a.zip(*b).is_none_or(|(a, b)| a == b));
        let groups = self.groups.get(&exact).into_iter().flatten().filter(|(other, _)| agrees(other));
        let mut places: Vec<usize> = groups.flat_map(|(_, places)| places).copied().collect();
        places.sort_unstable();
        places.into_iter().map(|place| &self.all[place]).collect()
    }

    fn key(&self, configuration: &'o Configuration<'o>) -> (Exact<'o>, Told<'o>) {
        let fields = || configuration.others.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        if self.training {
            return ((configuration.ranks, fields().filter(|(name, _)| !HOW.contains(name)).collect()), Vec::new());
        }
        let of = |wanted: &str| fields().find(|(name, _)| *name == wanted);
        let exact = SAME_OR_ABSENT.iter().filter_map(|name| of(name)).collect();
        ((configuration.ranks, exact), SAME.iter().map(|name| of(name).map(|(_, value)| value)).collect())
    }
}

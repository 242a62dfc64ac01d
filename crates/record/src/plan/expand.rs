//! Axes to resolved cases: the product in written order, defaults filled in, each combination checked.

use std::collections::HashMap;

use serde_json::Value;
use terms::{Error, Field, Role};

use super::axis::Axis;
use super::document::Entry;
use super::error::Diagnostics;
use super::list::Item;
use super::source::At;
use super::value::canonical;
use crate::{About, Case, SharedMap};

/// How many cases the axes stand for; `u64::MAX` when it cannot be counted.
pub(crate) fn count(axes: &[Axis]) -> u64 {
    axes.iter().fold(1, |product, axis| product.saturating_mul(axis.rows.len() as u64))
}

/// A case, and where its entry and its fields were written.
pub(crate) struct Placed {
    pub(crate) case: Case,
    pub(crate) at: At,
}

/// What a plan's entries have become so far.
#[derive(Default)]
pub(crate) struct Expanded {
    pub(crate) cases: Vec<Placed>,
    /// Where the value of an override is excluded by what the plan says of another field (the backend of another runtime): that
    /// combination is left out. It is an error where no case is left.
    pub(crate) excluded: Vec<(At, Error)>,
}

impl Expanded {
    /// What was left out, by reason.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut reasons: Vec<(&str, usize)> = Vec::new();
        for (_, error) in &self.excluded {
            match reasons.iter_mut().find(|(what, _)| *what == error.what) {
                Some((_, times)) => *times += 1,
                None => reasons.push((&error.what, 1)),
            }
        }
        let noun = |times| if times == 1 { "case is" } else { "cases are" };
        reasons.into_iter().map(|(what, times)| format!("{times} {} left out: {what}", noun(times))).collect()
    }
}

/// All cases of an entry, the last axis fastest. Call [`count`] first: this one trusts it. `overridden` are the fields that were
/// given in addition to the plan.
pub(crate) fn expand(
    entry: &Entry,
    axes: &[Axis],
    overridden: &[&str],
    errors: &mut Diagnostics,
    expanded: &mut Expanded,
) {
    let fields: Vec<&'static Field> = entry.about.all_fields().collect();
    let defaults = defaults(&fields, entry.at, errors);
    let mut counters = vec![0usize; axes.len()];
    loop {
        if errors.is_hopeless() {
            return;
        }
        let chosen = chosen(&fields, axes, &counters);
        let mut case = resolve(entry.about, &fields, &defaults, &chosen);
        match check(entry.about, &mut case) {
            Ok(()) => expanded.cases.push(Placed { case, at: entry.at }),
            Err(problem) => {
                let position = fields.iter().position(|field| field.name == problem.field);
                let at = position.and_then(|index| chosen[index]).map_or(entry.at, |item| item.at);
                let of_plan = |other: &str| !overridden.contains(&other);
                match problem.excluded_by.is_some_and(of_plan) && overridden.contains(&problem.field) {
                    true => expanded.excluded.push((at, problem.error)),
                    false => errors.add(at, problem.error),
                }
            }
        }
        if !advance(&mut counters, axes) {
            return;
        }
    }
}

/// Moves to the next combination; false after the last.
fn advance(counters: &mut [usize], axes: &[Axis]) -> bool {
    for (counter, axis) in counters.iter_mut().zip(axes).rev() {
        *counter += 1;
        if *counter < axis.rows.len() {
            return true;
        }
        *counter = 0;
    }
    false
}

/// The declared defaults, by field. One that its own kind refuses is a fault of the benchmark's table.
fn defaults(fields: &[&'static Field], at: At, errors: &mut Diagnostics) -> Vec<Option<Value>> {
    let mut read = |field: &Field| match canonical(field, field.default?, false) {
        Ok(value) => Some(value),
        Err(fault) => {
            errors.add(at, Error::new(format!("the declared default is wrong: {}", fault.what)));
            None
        }
    };
    fields.iter().map(|field| read(field)).collect()
}

/// The item given for each field in this combination.
fn chosen<'a>(fields: &[&'static Field], axes: &'a [Axis], counters: &[usize]) -> Vec<Option<&'a Item>> {
    let mut chosen = vec![None; fields.len()];
    for (axis, row) in axes.iter().zip(counters) {
        for (field, item) in axis.fields.iter().zip(&axis.rows[*row]) {
            if let Some(index) = fields.iter().position(|known| known.name == field.name) {
                chosen[index] = Some(item);
            }
        }
    }
    chosen
}

/// The case with all its values, before the benchmark's own check.
fn resolve(about: &About, fields: &[&'static Field], defaults: &[Option<Value>], chosen: &[Option<&Item>]) -> Case {
    let mut case = Case {
        id: String::new(),
        benchmark: about.name.to_owned(),
        parameters: SharedMap::default(),
        settings: SharedMap::default(),
        world: SharedMap::default(),
        caveats: Vec::new(),
        bytes_requested: None,
        skip: None,
    };
    for ((field, default), chosen) in fields.iter().zip(defaults).zip(chosen) {
        let Some(value) = chosen.map(|item| &item.value).or(default.as_ref()) else { continue };
        if field.role == Role::Sampling {
            case.settings.insert(field.name.to_owned(), value.clone());
        } else if field.always || Some(value) != default.as_ref() {
            case.parameters.insert(field.name.to_owned(), value.clone());
        }
        if field.role.starts_ranks() {
            case.world.insert(field.name.to_owned(), value.clone());
        }
    }
    case
}

/// The benchmark's check, then the identity. What the check removed or rounded is so in the world, too.
fn check(about: &About, case: &mut Case) -> Result<(), terms::FieldError> {
    let before: Vec<String> =
        case.parameters.keys().filter(|name| case.world.contains_key(name)).map(str::to_owned).collect();
    (about.check)(case)?;
    for name in before {
        match case.parameters.get(&name).cloned() {
            Some(value) => case.world.insert(name, value),
            None => drop(case.world.shift_remove(&name)),
        }
    }
    case.identify(about);
    Ok(())
}

/// Drops repeated cases, keeping the first, and says how many. The same case with other settings is an error: it would
/// be two cases with one identity, and neither setting may be dropped in silence.
pub(crate) fn without_repeats(cases: Vec<Placed>, errors: &mut Diagnostics, notes: &mut Vec<String>) -> Vec<Case> {
    let mut first: HashMap<String, usize> = HashMap::new();
    let mut kept: Vec<Case> = Vec::new();
    let mut repeats = 0;
    for Placed { case, at } in cases {
        match first.get(&case.id).map(|index| &kept[*index]) {
            None => {
                first.insert(case.id.clone(), kept.len());
                kept.push(case);
            }
            Some(same) if same.settings == case.settings => repeats += 1,
            Some(same) => {
                let differs = case.settings.iter().find(|(name, value)| same.settings.get(name) != Some(*value));
                let name = differs.map_or("a setting", |(name, _)| name);
                let message = format!("a case of this entry is asked for twice, with different `{name}`");
                let hint = "cases that differ only in how they are sampled belong in separate plans";
                errors.add(at, Error::new(message).hint(hint));
            }
        }
    }
    if repeats > 0 {
        let noun = if repeats == 1 { "case is" } else { "cases are" };
        notes.push(format!("{repeats} {noun} asked for more than once; each runs once, at its first place"));
    }
    kept
}

/// Brings cases of one world together, worlds in order of their first case: each world starts once.
pub(crate) fn group_by_world(cases: &mut [Case]) {
    let mut order: HashMap<String, usize> = HashMap::new();
    let mut keys: HashMap<String, usize> = HashMap::new();
    for case in cases.iter() {
        let sorted: std::collections::BTreeMap<_, _> = case.world.iter().collect();
        let world = Value::from_iter(sorted.into_iter().map(|(name, value)| (name, value.clone()))).to_string();
        let next = order.len();
        keys.insert(case.id.clone(), *order.entry(world).or_insert(next));
    }
    cases.sort_by_key(|case| keys[&case.id]);
}

//! The figures that a plan expects of its hardware: `expected`.

use serde_json::{Map, Value};
use terms::{Error, Role, normalize, suggestion};

use super::document::{benchmark, unknown_key};
use super::error::Diagnostics;
use super::limits;
use super::source::{At, shown};
use super::tree::{PlanKey, PlanNode, Tree};
use super::value::canonical;
use super::{list, written};
use crate::expected::{Basis, Expected};
use crate::{About, Metric};

const KEYS: [&str; 7] = ["benchmark", "where", "metric", "value", "basis", "source", "with"];
/// Keys that may be left out.
const OPTIONAL: [&str; 2] = ["where", "with"];
/// The smallest list, for hints.
const FORM: &str = "write `- {benchmark: collective, where: {op: all_reduce, ranks: 8}, metric: busbw_gbs, value: 480, \
                    basis: measured, source: \"...\"}`";

/// Reads the list. Every error is reported; what is wrong is left out.
pub(super) fn read(node: PlanNode, benchmarks: &[&'static About], errors: &mut Diagnostics) -> Vec<Expected> {
    let kind = node.kind();
    match node.tree {
        Tree::Null => Vec::new(),
        Tree::List(nodes) if nodes.len() > limits::EXPECTED => {
            let message = format!("{} expected figures; at most {} are allowed", nodes.len(), limits::EXPECTED);
            errors.add(node.at, Error::new(message));
            Vec::new()
        }
        Tree::List(nodes) => nodes.into_iter().filter_map(|node| figure(node, benchmarks, errors)).collect(),
        _ => {
            errors.add(node.at, Error::new(format!("`expected` takes a list of figures, not {kind}")).hint(FORM));
            Vec::new()
        }
    }
}

fn figure(node: PlanNode, benchmarks: &[&'static About], errors: &mut Diagnostics) -> Option<Expected> {
    let kind = node.kind();
    let Tree::Map(entries) = node.tree else {
        errors.add(node.at, Error::new(format!("an expected figure is a mapping, not {kind}")).hint(FORM));
        return None;
    };
    let before = errors.added;
    for (key, _) in entries.iter().filter(|(key, _)| !KEYS.contains(&normalize(&key.text).as_str())) {
        unknown_key("an expected figure", key, &KEYS, errors);
    }
    let find = |name: &str| entries.iter().find(|(key, _)| normalize(&key.text) == name).map(|(_, node)| node);
    for needed in KEYS.iter().filter(|needed| !OPTIONAL.contains(needed) && find(needed).is_none()) {
        errors.add(node.at, Error::new(format!("the expected figure has no `{needed}`")).hint(FORM));
    }
    let about = find("benchmark").and_then(|node| benchmark(node, benchmarks, errors));
    let metric = find("metric").zip(about).and_then(|(node, about)| metric(node, about, errors));
    let parameters = find("where").zip(about).map(|(node, about)| parameters(node, about, errors));
    let value = find("value").and_then(|node| value(node, metric, errors));
    let basis = find("basis").and_then(|node| basis(node, errors));
    let source = find("source").and_then(|node| source(node, errors));
    let with = find("with").and_then(|node| text("with", node, errors)).map(str::to_owned);
    (errors.added == before).then_some(())?;
    Some(Expected {
        benchmark: about?.name.to_owned(),
        parameters: parameters.unwrap_or_default(),
        metric: metric?.name.to_owned(),
        value: value?,
        basis: basis?,
        source: source?,
        with,
    })
}

/// A single text; reported where it is none.
fn text<'n>(name: &str, node: &'n PlanNode, errors: &mut Diagnostics) -> Option<&'n str> {
    match &node.tree {
        Tree::Scalar { text, .. } if !text.trim().is_empty() => Some(text.trim()),
        Tree::Scalar { .. } | Tree::Null => {
            errors.add(node.at, Error::new(format!("`{name}` of an expected figure is empty")).hint(FORM));
            None
        }
        _ => {
            let message = format!("`{name}` of an expected figure takes a single value, not {}", node.kind());
            errors.add(node.at, Error::new(message).hint(FORM));
            None
        }
    }
}

/// Only numbers can be compared.
fn metric(node: &PlanNode, about: &'static About, errors: &mut Diagnostics) -> Option<&'static Metric> {
    let name = text("metric", node, errors)?;
    let numbers = about.metrics.iter().filter(|one| one.shape.is_number()).map(|one| one.name);
    if let Some(found) = about.metrics.iter().find(|one| one.shape.is_number() && one.name == normalize(name)) {
        return Some(found);
    }
    let hint = suggestion(name, numbers);
    let message = format!("benchmark `{}` has no metric `{}` that is a number", about.name, shown(name));
    errors.add(node.at, Error::new(message).hint(hint));
    None
}

fn value(node: &PlanNode, metric: Option<&Metric>, errors: &mut Diagnostics) -> Option<f64> {
    let text = text("value", node, errors)?;
    let number = text.parse::<f64>().ok().filter(|value| value.is_finite() && *value > 0.0);
    if number.is_none() {
        let unit = metric.map(|metric| metric.unit).filter(|unit| !unit.is_empty());
        let unit = unit.map_or(String::new(), |unit| format!(", in {unit}"));
        let message = format!("`value` of an expected figure must be a number above 0, not `{}`", shown(text));
        errors.add(node.at, Error::new(message).hint(format!("the number alone{unit}")));
    }
    number
}

fn basis(node: &PlanNode, errors: &mut Diagnostics) -> Option<Basis> {
    let name = text("basis", node, errors)?;
    let found = normalize(name).parse().ok();
    if found.is_none() {
        let names = <Basis as terms::Named>::names().join(", ");
        let message = format!("`basis` of an expected figure does not take `{}`", shown(name));
        errors.add(node.at, Error::new(message).hint(format!("valid values: {names}")));
    }
    found
}

fn source(node: &PlanNode, errors: &mut Diagnostics) -> Option<String> {
    text("source", node, errors).map(str::to_owned)
}

/// The parameters that a case must have: one canonical value each.
fn parameters(node: &PlanNode, about: &'static About, errors: &mut Diagnostics) -> Map<String, Value> {
    let mut found = Map::new();
    let entries = match &node.tree {
        Tree::Map(entries) => entries.as_slice(),
        Tree::Null => &[],
        _ => {
            let message = format!("`where` takes a mapping of fields, not {}", node.kind());
            errors.add(node.at, Error::new(message).hint("for example {op: all_reduce, ranks: 8}"));
            &[]
        }
    };
    for (key, node) in entries {
        let mut unknown = Vec::new();
        for one in written::fields(about, key, node, &mut unknown) {
            parameter(key, one, &mut found, errors);
        }
        for (at, name) in unknown {
            written::report_unknown(about, &[], at, &name, errors);
        }
    }
    found
}

fn parameter(key: &PlanKey, one: written::Written<'_>, found: &mut Map<String, Value>, errors: &mut Diagnostics) {
    let name = one.field.name;
    if one.field.role == Role::Sampling {
        let message = format!("`{name}` says how to sample, not what: no figure depends on it");
        return errors.add(key.at, Error::new(message));
    }
    let items = list::items(one.field, one.node, errors);
    if let [_, second, ..] = items.as_slice() {
        let at: At = second.at;
        return errors.add(at, Error::new(format!("`{name}` of an expected figure takes one value")));
    }
    let Some(item) = items.into_iter().next() else { return };
    // A case keeps such a value only where it is another one.
    let default = one.field.default.filter(|_| !one.field.always);
    if default.and_then(|text| canonical(one.field, text, false).ok()).as_ref() == Some(&item.value) {
        let message = format!("`{name}` of an expected figure is the default, which no case tells from others");
        return errors.add(key.at, Error::new(message).hint(format!("leave out `{name}`")));
    }
    if found.insert(name.to_owned(), item.value).is_some() {
        errors.add(key.at, Error::new(format!("`{name}` is given twice")));
    }
}

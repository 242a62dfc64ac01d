//! A field's value in a plan or flag to the list of canonical values that it stands for: scalars, lists, ranges.

use serde_json::Value;
use terms::{Bytes, Error, Field, Kind, Role, normalize};

use super::error::Diagnostics;
use super::limits;
use super::source::{At, shown};
use super::tree::{PlanNode, Tree};
use super::value::{canonical, not_a_quantity, wants};

/// One canonical value and where it was written.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) value: Value,
    pub(crate) at: At,
}

/// All values of a field, in written order. Errors are reported; a value that is wrong is left out.
pub(crate) fn items(field: &Field, node: &PlanNode, errors: &mut Diagnostics) -> Vec<Item> {
    let mut found = Vec::new();
    match &node.tree {
        _ if matches!(field.kind, Kind::Texts) => return texts(field, node, errors),
        Tree::List(nodes) if nodes.is_empty() => {
            errors.add(
                node.at,
                Error::new(format!("`{}` is an empty list", field.name)).hint("leave it out, or name a value"),
            );
        }
        Tree::List(nodes) => nodes.iter().for_each(|node| one(field, node, &mut found, errors)),
        _ => one(field, node, &mut found, errors),
    }
    // A setting is not part of a case's identity: two values of it would be two cases with one id.
    if field.role == Role::Sampling
        && let Some(second) = found.iter().skip(1).find(|item| item.value != found[0].value)
    {
        let message = format!("`{}` says how to sample, not what: it takes one value", field.name);
        errors.add(second.at, Error::new(message).hint("put cases that differ in it into separate plans"));
    }
    found
}

/// One item: a scalar, or a range that stands for several.
fn one(field: &Field, node: &PlanNode, found: &mut Vec<Item>, errors: &mut Diagnostics) {
    if found.len() > limits::CASES || errors.is_hopeless() {
        return;
    }
    let range = match (&node.tree, field.kind) {
        (Tree::Scalar { text, .. }, Kind::Bytes) if text.contains("..") => text_range(field, text, node.at),
        (Tree::Scalar { .. } | Tree::Map(_), Kind::Choice(variants)) => super::choice::items(field, variants, node),
        (Tree::Scalar { text, .. }, Kind::Text) if crate::holds_secret(text) => {
            Err((node.at, secret(field).hint("leave the password or token out")))
        }
        (Tree::Scalar { text, quoted }, _) => canonical(field, text, *quoted)
            .map(|value| vec![Item { value, at: node.at }])
            .map_err(|fault| (node.at, fault)),
        (Tree::Map(_), Kind::Bytes) => map_range(field, node),
        (Tree::Null, _) => Err((
            node.at,
            Error::new(format!("`{}` has no value", field.name)).hint(format!("it takes {}", wants(field))),
        )),
        _ => {
            let message = format!("`{}` takes {}, not {}", field.name, wants(field), node.kind());
            Err((node.at, Error::new(message)))
        }
    };
    match range {
        Ok(items) => found.extend(items),
        Err((at, fault)) => errors.add(at, fault),
    }
}

/// Texts that all belong to one case: one item, an array. As a parameter it is joined by spaces, so none may hold one.
fn texts(field: &Field, node: &PlanNode, errors: &mut Diagnostics) -> Vec<Item> {
    let nodes = match &node.tree {
        Tree::List(nodes) => nodes.as_slice(),
        _ => std::slice::from_ref(node),
    };
    if nodes.is_empty() || nodes.len() > limits::TEXTS {
        let message = format!("`{}` takes 1 to {} texts, not {}", field.name, limits::TEXTS, nodes.len());
        errors.add(node.at, Error::new(message));
        return Vec::new();
    }
    let mut all = Vec::new();
    for node in nodes {
        match &node.tree {
            Tree::Scalar { text, .. } if field.role != Role::Sampling && text.contains(char::is_whitespace) => {
                errors.add(node.at, Error::new(format!("`{}` cannot hold white space", field.name)));
            }
            Tree::Scalar { text, .. } if is_secret(text) => {
                let hint = "export it in the shell that starts the run: processes inherit it";
                errors.add(node.at, secret(field).hint(hint));
            }
            Tree::Scalar { text, .. } => all.push(Value::String(text.clone())),
            _ => errors.add(node.at, Error::new(format!("`{}` takes texts, not {}", field.name, node.kind()))),
        }
    }
    let value = match field.role {
        Role::Sampling => Value::Array(all),
        _ => Value::String(all.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")),
    };
    vec![Item { value, at: node.at }]
}

fn secret(field: &Field) -> Error {
    Error::new(format!("`{}` would put a secret into the record", field.name))
}

/// Whether a text is NAME=value with a name that smells like a secret, or holds something that looks like one.
fn is_secret(text: &str) -> bool {
    let named = text.split_once('=').is_some_and(|(name, _)| crate::smells_like_secret(name));
    named || crate::holds_secret(text)
}

type Ranged = Result<Vec<Item>, (At, Error)>;

/// `8..1GiB*2`; without `*FACTOR` sizes double.
fn text_range(field: &Field, text: &str, at: At) -> Ranged {
    let (from, rest) = text.split_once("..").unwrap_or((text, ""));
    let (to, factor) = match rest.split_once('*') {
        Some((to, factor)) => (to, Some(factor)),
        None => (rest, None),
    };
    let bytes = |text: &str| text.trim().parse::<Bytes>().map_err(|error| (at, not_a_quantity(field, &error)));
    let factor = factor.map_or(Ok(2), |text| {
        let fault =
            || (at, Error::new(format!("`{}`: a range's factor is a whole number, not `{}`", field.name, shown(text))));
        text.trim().parse::<u64>().map_err(|_| fault())
    })?;
    range(field, bytes(from)?, bytes(to)?, factor, at)
}

/// `{from: 1KiB, to: 1GiB, factor: 4}`.
fn map_range(field: &Field, node: &PlanNode) -> Ranged {
    let Tree::Map(entries) = &node.tree else { return Ok(Vec::new()) };
    let (mut from, mut to, mut factor) = (None, None, 2);
    let bytes = |text: &str| text.parse::<Bytes>().map_err(|error| not_a_quantity(field, &error));
    for (key, value) in entries {
        let Tree::Scalar { text, .. } = &value.tree else {
            return Err((value.at, Error::new(format!("`{}` of a range takes a single value", shown(&key.text)))));
        };
        let fault = |error: String| (value.at, Error::new(format!("`{}`: {error}", field.name)));
        match normalize(&key.text).as_str() {
            "from" => from = Some(bytes(text).map_err(|error| (value.at, error))?),
            "to" => to = Some(bytes(text).map_err(|error| (value.at, error))?),
            "factor" => {
                let wrong = || fault(format!("a range's factor is a whole number, not `{}`", shown(text)));
                factor = text.trim().parse::<u64>().map_err(|_| wrong())?;
            }
            other => {
                let message = format!("a range of `{}` has no `{}`", field.name, shown(other));
                return Err((key.at, Error::new(message).hint("write {from: 1KiB, to: 1GiB, factor: 4}")));
            }
        }
    }
    match (from, to) {
        (Some(from), Some(to)) => range(field, from, to, factor, node.at),
        _ => Err((node.at, Error::new(format!("a range of `{}` needs `from` and `to`", field.name)))),
    }
}

/// from, from x factor, ... up to and including `to`: at most 64 values, since each at least doubles.
fn range(field: &Field, from: Bytes, to: Bytes, factor: u64, at: At) -> Ranged {
    let wrong = |message: String| Err((at, Error::new(format!("`{}`: {message}", field.name))));
    if from.0 == 0 || factor < 2 {
        return wrong("a range starts above 0 and its factor is at least 2".to_owned());
    }
    if to < from {
        return wrong(format!("the range from {from} to {to} is empty"));
    }
    let sizes = std::iter::successors(Some(from.0), |size| size.checked_mul(factor).filter(|next| *next <= to.0));
    Ok(sizes.map(|size| Item { value: size.into(), at }).collect())
}

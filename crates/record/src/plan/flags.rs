//! Flags and overrides as keys and values with places: what a plan's mapping would be.

use super::error::Diagnostics;
use super::limits;
use super::source::{At, shown};
use super::tree::{PlanKey, PlanNode, Tree};
use terms::{Error, Kind};

use crate::About;

/// What flags say.
pub(crate) struct Flags {
    /// Flags that name a field.
    pub(crate) fields: Vec<(PlanKey, PlanNode)>,
    /// Flags that name none, and where.
    pub(crate) unknown: Vec<(At, String)>,
}

/// Flags (`--bytes 1KiB,1MiB`) or overrides (`--set bytes=1KiB,1MiB`) as keys and values with places, and those that
/// name no field.
pub(crate) fn read(
    benchmarks: &[&'static About],
    pairs: &[(impl AsRef<str>, impl AsRef<str>)],
    flag: &str,
    errors: &mut Diagnostics,
) -> Flags {
    let mut found = Flags { fields: Vec::new(), unknown: Vec::new() };
    for (name, text) in pairs {
        let (name, text) = (terms::normalize(&name.as_ref().replace('.', "_")), text.as_ref());
        let at = match flag {
            "--" => errors.sources.add_flag(&format!("--{}", name.replace('_', "-")), ' ', text),
            set => errors.sources.add_flag(&format!("{set} {name}"), '=', text),
        };
        let key = At { start: 0, end: at.start.saturating_sub(1), ..at };
        if text.len() > limits::SCALAR * 16 {
            errors.add(at, Error::new(format!("`{}` is given {} bytes of text", shown(&name), text.len())));
            continue;
        }
        let named = |name: &str| benchmarks.iter().find_map(|about| about.field(name));
        let Some(field) = named(&name) else {
            found.unknown.push((key, name));
            continue;
        };
        let repeats = matches!(field.kind, Kind::Texts);
        let node = match field.kind {
            Kind::Texts => scalar(text, at),
            Kind::Choice(_) => joined(super::choice::split(text).iter().map(|part| scalar(part.trim(), at)), at),
            _ => split(text, at),
        };
        // Under another of its names, too.
        let is_same =
            |key: &PlanKey| key.text == name || named(&key.text).is_some_and(|known| known.name == field.name);
        match found.fields.iter_mut().find(|(key, _)| is_same(key)) {
            None => {
                let tree = if repeats { PlanNode { at, tree: Tree::List(vec![node]) } } else { node };
                found.fields.push((PlanKey { at: key, text: name }, tree));
            }
            Some((_, PlanNode { tree: Tree::List(texts), .. })) if repeats => texts.push(node),
            Some(_) => errors.add(at, Error::new(format!("`{name}` is given twice")).hint("separate values by commas")),
        }
    }
    found
}

fn scalar(text: &str, at: At) -> PlanNode {
    let tree = if text.is_empty() { Tree::Null } else { Tree::Scalar { text: text.to_owned(), quoted: false } };
    PlanNode { at, tree }
}

/// A comma list; a single value is not a list, so that messages do not speak of one.
fn split(text: &str, at: At) -> PlanNode {
    let mut start = at.start;
    let items: Vec<PlanNode> = text
        .split(',')
        .map(|part| {
            let end = start + part.len() as u32;
            let node = scalar(part.trim(), At { start, end, ..at });
            start = end + 1;
            node
        })
        .collect();
    joined(items.into_iter(), at)
}

fn joined(items: impl Iterator<Item = PlanNode>, at: At) -> PlanNode {
    match <[PlanNode; 1]>::try_from(items.collect::<Vec<_>>()) {
        Ok([only]) => only,
        Err(items) => PlanNode { at, tree: Tree::List(items) },
    }
}

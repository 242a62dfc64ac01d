//! The keys of a case, of `defaults` and of overrides to declared fields: nested keys joined, unknown ones refused.

use terms::{Error, Field, Kind, did_you_mean, nearest, normalize};

use super::error::Diagnostics;
use super::source::{At, shown};
use super::tree::{PlanKey, PlanNode, Tree};
use crate::{About, aliases};

/// A field as it was given.
#[derive(Clone, Copy)]
pub(crate) struct Written<'a> {
    pub(crate) field: &'static Field,
    pub(crate) key: At,
    pub(crate) node: &'a PlanNode,
}

/// The fields of one key: the field of that name, or, where the value is a mapping (`pace: {bandwidth: ..}`), the
/// fields with names that continue it (`pace_bandwidth`). Keys that name nothing are returned in `unknown`.
pub(crate) fn fields<'a>(
    about: &About,
    key: &PlanKey,
    node: &'a PlanNode,
    unknown: &mut Vec<(At, String)>,
) -> Vec<Written<'a>> {
    let mut found = Vec::new();
    join(about, &normalize(&key.text), key.at, node, unknown, &mut found);
    found
}

fn join<'a>(
    about: &About,
    name: &str,
    key: At,
    node: &'a PlanNode,
    unknown: &mut Vec<(At, String)>,
    found: &mut Vec<Written<'a>>,
) {
    let field = about.field(name);
    let prefix = format!("{name}_");
    match &node.tree {
        Tree::Map(entries)
            if !matches!(field, Some(Field { kind: Kind::Bytes, .. }))
                && about.all_fields().any(|field| field.names().any(|name| name.starts_with(&prefix))) =>
        {
            for (key, node) in entries {
                join(about, &format!("{prefix}{}", normalize(&key.text)), key.at, node, unknown, found);
            }
        }
        _ => match field {
            Some(field) => found.push(Written { field, key, node }),
            None => unknown.push((key, name.to_owned())),
        },
    }
}

/// Reports a key that names no field of `about`.
pub(crate) fn report_unknown(about: &About, others: &[&'static About], at: At, name: &str, errors: &mut Diagnostics) {
    let message = format!("benchmark `{}` has no field `{}`", about.name, shown(name));
    let own = about.all_fields().map(|field| field.name).chain(["benchmark", "zip"]);
    let owner = others.iter().find(|other| other.field(name).is_some());
    if let Some(explained) = aliases::no_field(name) {
        let hint = explained.hint(|field| about.field(field).is_some(), |field, _| format!("`{field}`"));
        let fault = Error::new(message).cause(explained.cause);
        return errors.add(at, if hint.is_empty() { fault } else { fault.hint(hint) });
    }
    let near = aliases::meant(about, name).or_else(|| nearest(name, own));
    let hint = match (near, owner) {
        (Some(near), _) => did_you_mean(near),
        (None, Some(owner)) => format!("benchmark `{}` has it", owner.name),
        (None, None) => {
            format!("valid values: {}", about.all_fields().map(|field| field.name).collect::<Vec<_>>().join(", "))
        }
    };
    errors.add(at, Error::new(message).hint(hint));
}

/// Reports a key that names no field of any benchmark.
pub(crate) fn report_unknown_to_all(benchmarks: &[&'static About], at: At, name: &str, errors: &mut Diagnostics) {
    let fault = Error::new(format!("no benchmark has a field `{}`", shown(name)));
    if let Some(explained) = aliases::no_field(name) {
        let has = |field: &str| benchmarks.iter().any(|about| about.field(field).is_some());
        let hint = explained.hint(has, |field, _| format!("`{field}`"));
        let fault = fault.cause(explained.cause);
        return errors.add(at, if hint.is_empty() { fault } else { fault.hint(hint) });
    }
    let known = benchmarks.iter().flat_map(|about| about.all_fields().map(|field| field.name));
    let near = benchmarks.iter().find_map(|about| aliases::meant(about, name)).or_else(|| nearest(name, known));
    errors.add(
        at,
        match near {
            Some(near) => fault.hint(did_you_mean(near)),
            None => fault,
        },
    );
}

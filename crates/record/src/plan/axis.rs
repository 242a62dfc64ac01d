//! What one entry of a plan varies, and in which order: defaults below case below overrides, lists and `zip`.

use terms::{Error, Field, normalize};

use super::document::Entry;
use super::error::Diagnostics;
use super::list::{Item, items};
use super::source::{At, shown};
use super::tree::{PlanKey, PlanNode, Tree};
use super::written::{Written, fields, report_unknown};
use crate::About;

/// Fields that advance together: one field, or those of a `zip`.
pub(crate) struct Axis {
    pub(crate) fields: Vec<&'static Field>,
    /// `[row][field]`.
    pub(crate) rows: Vec<Vec<Item>>,
    /// The last key of it, for the error that there are too many cases.
    pub(crate) at: At,
}

/// Keys and their values.
type Keyed<'a> = &'a [(PlanKey, PlanNode)];

enum AxisPart<'a> {
    Field(Written<'a>),
    Zip(Vec<Written<'a>>, At),
}

impl AxisPart<'_> {
    fn names(&self, field: &Field) -> bool {
        match self {
            Self::Field(written) => written.field.name == field.name,
            Self::Zip(columns, _) => columns.iter().any(|written| written.field.name == field.name),
        }
    }
}

/// The axes of an entry, slowest first: defaults in their order, then the case's own fields in theirs. An override
/// takes the place of the field that it overrides; one that the plan does not give comes last.
pub(crate) fn axes(
    entry: &Entry,
    (defaults, overrides): (Keyed<'_>, Keyed<'_>),
    benchmarks: &[&'static About],
    errors: &mut Diagnostics,
    notes: &mut Vec<String>,
) -> Vec<Axis> {
    let own = own_parts(entry, benchmarks, errors);
    let mut unknown = Vec::new();
    let mut parts: Vec<AxisPart<'_>> = defaults
        .iter()
        // What a default names is unknown here and known to another benchmark, or reported by the caller.
        .flat_map(|(key, node)| fields(entry.about, key, node, &mut unknown))
        .filter(|written| !own.iter().any(|part| part.names(written.field)))
        .map(AxisPart::Field)
        .collect();
    parts.extend(own);
    let overrides: Vec<Written<'_>> =
        overrides.iter().flat_map(|(key, node)| fields(entry.about, key, node, &mut unknown)).collect();
    drop_obsolete(&mut parts, &overrides, notes);
    overrides.into_iter().for_each(|written| override_with(&mut parts, written));
    parts.into_iter().filter_map(|part| axis(part, errors)).collect()
}

/// Drops what the plan says of a field whose meaning comes from another one that is replaced by another value: layers of
/// another model, the mesh of another strategy.
fn drop_obsolete(parts: &mut Vec<AxisPart<'_>>, overrides: &[Written<'_>], notes: &mut Vec<String>) {
    let is_given = |name: &str| overrides.iter().any(|written| written.field.name == name);
    let of_plan = |name: &str| {
        parts.iter().find_map(|part| match part {
            AxisPart::Field(written) if written.field.name == name => texts(written.node),
            _ => None,
        })
    };
    let replaced = overrides.iter().filter(|written| of_plan(written.field.name) != texts(written.node));
    let replaced: Vec<&str> = replaced.map(|written| written.field.name).collect();
    parts.retain(|part| {
        let AxisPart::Field(Written { field, .. }) = part else { return true };
        let is_obsolete = replaced.contains(&field.of) && !is_given(field.name);
        if is_obsolete {
            let note = format!("`{}` of the plan is dropped: it belongs to another `{}`", field.name, field.of);
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        !is_obsolete
    });
}

/// The values of a field as they are written; None where they are not single ones.
fn texts(node: &PlanNode) -> Option<Vec<&str>> {
    match &node.tree {
        Tree::Scalar { text, .. } => Some(vec![text.as_str()]),
        Tree::List(items) => items
            .iter()
            .map(|item| match &item.tree {
                Tree::Scalar { text, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect(),
        _ => None,
    }
}

/// The case's own fields; a field that is given twice under different keys (`pace: {latency}`, `pace_latency`) is
/// reported.
fn own_parts<'a>(entry: &'a Entry, benchmarks: &[&'static About], errors: &mut Diagnostics) -> Vec<AxisPart<'a>> {
    let mut parts: Vec<AxisPart<'a>> = Vec::new();
    let mut unknown = Vec::new();
    for (key, node) in &entry.fields {
        let zipped = normalize(&key.text) == "zip";
        let found = if zipped {
            columns(entry.about, node, &mut unknown, errors)
        } else {
            fields(entry.about, key, node, &mut unknown)
        };
        let before = parts.len();
        for (index, written) in found.iter().enumerate() {
            let twice = parts[..before].iter().any(|part| part.names(written.field))
                || found[..index].iter().any(|other| other.field.name == written.field.name);
            if twice {
                errors.add(written.key, Error::new(format!("`{}` is given twice in this case", written.field.name)));
            }
        }
        match zipped {
            true => parts.push(AxisPart::Zip(found, key.at)),
            false => parts.extend(found.into_iter().map(AxisPart::Field)),
        }
    }
    for (at, name) in unknown {
        report_unknown(entry.about, benchmarks, at, &name, errors);
    }
    parts
}

fn columns<'a>(
    about: &About,
    node: &'a PlanNode,
    unknown: &mut Vec<(At, String)>,
    errors: &mut Diagnostics,
) -> Vec<Written<'a>> {
    let hint = "write zip: {ranks: [1, 2], bytes: [1MiB, 2MiB]}";
    let Tree::Map(entries) = &node.tree else {
        errors.add(node.at, Error::new(format!("`zip` takes a mapping of lists, not {}", node.kind())).hint(hint));
        return Vec::new();
    };
    let mut found = Vec::new();
    for (key, node) in entries {
        match node.tree {
            Tree::List(_) => found.extend(fields(about, key, node, unknown)),
            _ => {
                let message = format!("`{}` in a zip takes a list, not {}", shown(&key.text), node.kind());
                errors.add(node.at, Error::new(message).hint(hint));
            }
        }
    }
    found
}

/// An overridden field leaves a zip: the rest of the zip goes on without it.
fn override_with<'a>(parts: &mut Vec<AxisPart<'a>>, written: Written<'a>) {
    let name = written.field.name;
    for part in parts.iter_mut() {
        match part {
            AxisPart::Field(old) if old.field.name == name => {
                *old = written;
                return;
            }
            AxisPart::Field(_) => {}
            AxisPart::Zip(columns, _) => columns.retain(|column| column.field.name != name),
        }
    }
    parts.push(AxisPart::Field(written));
}

fn axis(part: AxisPart<'_>, errors: &mut Diagnostics) -> Option<Axis> {
    match part {
        AxisPart::Field(Written { field, key, node }) => {
            let rows: Vec<_> = items(field, node, errors).into_iter().map(|item| vec![item]).collect();
            (!rows.is_empty()).then_some(Axis { fields: vec![field], rows, at: key })
        }
        AxisPart::Zip(columns, at) => {
            let values: Vec<Vec<Item>> =
                columns.iter().map(|written| items(written.field, written.node, errors)).collect();
            let lengths: Vec<usize> = values.iter().map(Vec::len).collect();
            let rows = lengths.first().copied().unwrap_or(0);
            if lengths.iter().any(|length| *length != rows) {
                let named: Vec<String> = columns
                    .iter()
                    .zip(&lengths)
                    .map(|(written, length)| format!("`{}` {length}", written.field.name))
                    .collect();
                let message = format!("the lists of a zip must be equally long: {}", named.join(", "));
                errors.add(at, Error::new(message));
                return None;
            }
            let row = |index: usize| values.iter().map(|column| column[index].clone()).collect();
            let fields = columns.iter().map(|written| written.field).collect();
            (rows > 0).then(|| Axis { fields, rows: (0..rows).map(row).collect(), at })
        }
    }
}

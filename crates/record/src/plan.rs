//! Plans: text or flags to resolved cases.
//!
//! Two steps, for YAML, JSON and flags alike: a generic tree in which everything knows its place (`tree`), then the
//! typed check against the declared fields (`document`, `written`, `list`, `value`, `axis`), then expansion (`expand`).
//! Every error is reported with its place, not only the first. Never panics, whatever the text.

use std::io::Read;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use terms::{Error, outside};

use crate::{About, Case, Expected};

mod axis;
mod choice;
mod document;
mod error;
mod expand;
mod expected;
mod flags;
pub mod limits;
mod list;
mod other_words;
mod source;
mod sweep;
mod tree;
mod value;
mod written;

pub use choice::chosen;
pub use error::{PlanError, PlanErrors};
pub use source::SourceLocation;

pub(crate) use document::is_safe_name;
pub(crate) use value::{canonical, canonical_number};

use document::{Document, Entry};
use error::Diagnostics;
use flags::Flags;
use source::{At, Sources};
use tree::{PlanKey, PlanNode};

/// A plan, resolved: what will run, in this order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// Name of the plan; safe as a directory's.
    pub experiment: String,
    /// `profiling: {enabled: ..}`.
    pub profiling: bool,
    /// All cases, those of one world together. Identities are unique.
    #[serde(deserialize_with = "crate::case::read_cases")]
    pub cases: Vec<Case>,
    /// What the user should know: repeated cases that run once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Figures that the hardware is expected to reach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expected: Vec<Expected>,
    /// The format of another tool's configuration that it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_as: Option<String>,
    /// The plan's text, as it was written: for job files, never for a line of output. Empty for flags.
    #[serde(default, skip_serializing_if = "String::is_empty", deserialize_with = "original_text")]
    pub source_text: String,
}

impl Plan {
    /// Puts the cases that each one of a benchmark stands for in its place, in order. Of equal ones the first stays.
    pub fn replace_cases(&mut self, benchmark: &str, mut each: impl FnMut(Case) -> Vec<Case>) {
        let mut known = std::collections::HashSet::new();
        let mut cases = Vec::with_capacity(self.cases.len());
        for case in std::mem::take(&mut self.cases) {
            match case.benchmark == benchmark {
                true => cases.extend(each(case).into_iter().filter(|case| known.insert(case.id.clone()))),
                false => cases.push(case),
            }
        }
        self.cases = cases;
    }
}

/// A text of several lines, which its reader needs as they are.
fn original_text<'de, D: serde::Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    String::deserialize(from).map(|text| outside::original(&text).into_owned())
}

/// Reads a plan's text, YAML or JSON. `file_name` is for messages. Each override is a field's name and its value as in
/// a flag (`--set bytes=1KiB,1MiB`). It replaces the value in every case of a benchmark that has the field.
///
/// # Errors
/// Everything that is wrong, with places.
pub fn read(
    text: &str,
    file_name: &str,
    benchmarks: &[&'static About],
    overrides: &[(String, String)],
) -> Result<Plan, PlanErrors> {
    read_kept(text, file_name, benchmarks, (overrides, &|_| true))
}

/// Overrides, and which benchmarks keep their cases.
pub type OfKept<'a> = (&'a [(String, String)], &'a dyn Fn(&About) -> bool);

/// Reads a plan with only the cases of benchmarks that are kept, so that overrides and checks meet no other. A plan that has none
/// of them is read whole and without overrides: the caller says what it has.
///
/// # Errors
/// As [`read`].
pub fn read_kept(
    text: &str,
    file_name: &str,
    benchmarks: &[&'static About],
    (overrides, is_kept): OfKept<'_>,
) -> Result<Plan, PlanErrors> {
    if text.len() > limits::BYTES {
        return Err(too_large(file_name));
    }
    let mut sources = Sources::default();
    let source = sources.add_file(file_name, text);
    let mut errors = Diagnostics::new(sources);
    let Some(root) = tree::parse(source, text, &mut errors) else { return Err(errors.into_errors()) };
    let mut document = document::document(root, benchmarks, &mut errors);
    check_defaults(&document, benchmarks, &mut errors);
    let has_kept = document.entries.iter().any(|entry| is_kept(entry.about));
    let overrides = if has_kept { overrides } else { &[] };
    // A field that only other cases take changes nothing here, and is not a mistake.
    let overrides = overrides_of(benchmarks, &document.entries, overrides, &mut errors);
    document.entries.retain(|entry| !has_kept || is_kept(entry.about));
    resolve(document, &overrides, benchmarks, errors, text)
}

/// Reads a plan from a file.
///
/// # Errors
/// As [`read`]; also when the file cannot be read, is too large, or is not UTF-8.
pub fn load(path: &Path, benchmarks: &[&'static About], overrides: &[(String, String)]) -> Result<Plan, PlanErrors> {
    load_kept(path, benchmarks, (overrides, &|_| true))
}

/// Reads a file with only the cases of benchmarks that are kept, see [`read_kept`].
///
/// # Errors
/// As [`load`].
pub fn load_kept(path: &Path, benchmarks: &[&'static About], kept: OfKept<'_>) -> Result<Plan, PlanErrors> {
    let name = path.display().to_string();
    let unreadable = |error: std::io::Error| {
        let error = Error::new(format!("plan {name} cannot be read: {error}"));
        PlanErrors::single(error.hint("`rankmark gen-config` writes one"))
    };
    let mut bytes = Vec::new();
    // One byte more than is taken, so that a file of /proc, which says no size, is noticed when it is too large.
    let file = crate::file::open_named(path).map_err(unreadable)?;
    file.take(limits::BYTES as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > limits::BYTES {
        return Err(too_large(&name));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let line =
            1 + error.as_bytes()[..error.utf8_error().valid_up_to()].iter().filter(|byte| **byte == b'\n').count();
        PlanErrors::single(Error::new(format!("plan {name} is not UTF-8 text (line {line})")))
    })?;
    read_kept(&text, &name, benchmarks, kept)
}

/// A plan of one benchmark from command-line flags: field names and texts, in the order in which they shall multiply
/// (last fastest). Commas split lists, except in [`terms::Kind::Texts`]: the flag of such a field repeats.
///
/// # Errors
/// As [`read`]; places show the flag.
pub fn from_flags(
    about: &'static About,
    pairs: &[(impl AsRef<str>, impl AsRef<str>)],
    overrides: &[(String, String)],
) -> Result<Plan, PlanErrors> {
    let mut errors = Diagnostics::new(Sources::default());
    let at = errors.sources.add_flag("rankmark", ' ', about.name);
    let Flags { fields, unknown } = flags::read(&[about], pairs, "--", &mut errors);
    for (at, name) in unknown {
        written::report_unknown(about, &[], at, &name, &mut errors);
    }
    let document = Document {
        experiment: about.name.to_owned(),
        profiling: false,
        defaults: Vec::new(),
        entries: vec![Entry { about, at, fields }],
        expected: Vec::new(),
    };
    let overrides = overrides_of(&[about], &document.entries, overrides, &mut errors);
    resolve(document, &overrides, &[about], errors, "")
}

/// A plan of one benchmark in which no field is given.
///
/// # Errors
/// As [`from_flags`], if the benchmark requires a field.
pub fn from_defaults(about: &'static About) -> Result<Plan, PlanErrors> {
    from_flags(about, &[("", ""); 0], &[])
}

fn too_large(name: &str) -> PlanErrors {
    let error = Error::new(format!("plan {name} is larger than {} MiB", limits::BYTES >> 20));
    PlanErrors::single(error.hint("use ranges (`8..1GiB*2`) and lists, or several plans"))
}

/// Typed check, expansion, repeats, worlds.
fn resolve(
    document: Document,
    overrides: &[(PlanKey, PlanNode)],
    benchmarks: &[&'static About],
    mut errors: Diagnostics,
    text: &str,
) -> Result<Plan, PlanErrors> {
    let mut expanded = expand::Expanded::default();
    let overridden: Vec<&str> = overridden_fields(&document.entries, overrides);
    let mut total: u64 = 0;
    let mut notes = Vec::new();
    for entry in &document.entries {
        let before = errors.added;
        let axes = axis::axes(entry, (&document.defaults, overrides), benchmarks, &mut errors, &mut notes);
        total = total.saturating_add(expand::count(&axes));
        if total > limits::CASES as u64 {
            errors.add(axes.last().map_or(entry.at, |axis| axis.at), document::too_many(total));
            break;
        }
        // Where a value is wrong its combinations cannot be judged: they would only be blamed for what is missing.
        if errors.added == before {
            expand::expand(entry, &axes, &overridden, &mut errors, &mut expanded);
        }
        if errors.is_hopeless() {
            break;
        }
    }
    match expanded.cases.is_empty() {
        true => expanded.excluded.drain(..).for_each(|(at, error)| errors.add(at, error)),
        false => notes.extend(expanded.notes()),
    }
    let mut cases = expand::without_repeats(expanded.cases, &mut errors, &mut notes);
    if !errors.is_empty() {
        return Err(errors.into_errors());
    }
    expand::group_by_world(&mut cases);
    let Document { experiment, profiling, expected, .. } = document;
    Ok(Plan { experiment, profiling, cases, notes, expected, read_as: None, source_text: text.to_owned() })
}

/// The fields that overrides give a value.
fn overridden_fields(entries: &[Entry], overrides: &[(PlanKey, PlanNode)]) -> Vec<&'static str> {
    let of = |(entry, (key, node)): (&Entry, &(PlanKey, PlanNode))| {
        let found = written::fields(entry.about, key, node, &mut Vec::new());
        found.into_iter().map(|written| written.field.name).collect::<Vec<_>>()
    };
    entries.iter().flat_map(|entry| overrides.iter().map(move |one| (entry, one))).flat_map(of).collect()
}

/// Keys of `defaults` that no benchmark has, and values of those that no case reads.
fn check_defaults(document: &Document, benchmarks: &[&'static About], errors: &mut Diagnostics) {
    let used = |about: &&About| document.entries.iter().any(|entry| entry.about.name == about.name);
    for (key, node) in &document.defaults {
        let mut unknown_to_all: Option<Vec<(At, String)>> = None;
        let mut read_by_case = false;
        let mut first = None;
        for about in benchmarks {
            let mut unknown = Vec::new();
            let found = written::fields(about, key, node, &mut unknown);
            read_by_case |= used(about) && !found.is_empty();
            first = first.or_else(|| (!found.is_empty()).then_some(found));
            unknown_to_all = Some(match unknown_to_all {
                None => unknown,
                Some(before) => {
                    before.into_iter().filter(|(at, _)| unknown.iter().any(|(other, _)| other == at)).collect()
                }
            });
        }
        for (at, name) in unknown_to_all.into_iter().flatten() {
            written::report_unknown_to_all(benchmarks, at, &name, errors);
        }
        for written in first.into_iter().flatten().filter(|_| !read_by_case) {
            list::items(written.field, written.node, errors);
        }
    }
}

/// Overrides as fields; one that no case takes is an error, since the user would wait for an effect.
fn overrides_of(
    benchmarks: &[&'static About],
    entries: &[Entry],
    overrides: &[(String, String)],
    errors: &mut Diagnostics,
) -> Vec<(PlanKey, PlanNode)> {
    let Flags { fields, unknown } = flags::read(benchmarks, overrides, "--set", errors);
    for (at, name) in unknown {
        written::report_unknown_to_all(benchmarks, at, &name, errors);
    }
    for (key, _) in &fields {
        if !entries.is_empty() && !entries.iter().any(|entry| entry.about.field(&key.text).is_some()) {
            errors.add(key.at, Error::new(format!("no case of this plan has a field `{}`", key.text)));
        }
    }
    fields
}

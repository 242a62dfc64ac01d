//! The form of a plan: its top keys and its cases, before fields are looked at.

use terms::{Error, normalize, suggestion};

use super::error::Diagnostics;
use super::expected;
use super::limits;
use super::source::{At, shown};
use super::tree::{PlanKey, PlanNode, SHAPE, Tree};
use crate::{About, Expected};

/// A plan with the right form.
pub(crate) struct Document {
    pub(crate) experiment: String,
    pub(crate) profiling: bool,
    pub(crate) defaults: Vec<(PlanKey, PlanNode)>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) expected: Vec<Expected>,
}

/// One item of `cases`, or the flags of one command.
pub(crate) struct Entry {
    pub(crate) about: &'static About,
    /// The benchmark's name as written.
    pub(crate) at: At,
    pub(crate) fields: Vec<(PlanKey, PlanNode)>,
}

const KEYS: [&str; 5] = ["experiment", "defaults", "profiling", "cases", "expected"];

/// Reads the form. Every error is reported; what is wrong is left out.
pub(crate) fn document(root: PlanNode, benchmarks: &[&'static About], errors: &mut Diagnostics) -> Document {
    let mut document = Document {
        experiment: String::new(),
        profiling: false,
        defaults: Vec::new(),
        entries: Vec::new(),
        expected: Vec::new(),
    };
    let Tree::Map(entries) = root.tree else {
        errors.add(root.at, Error::new(format!("a plan is a mapping, not {}", root.kind())).hint(SHAPE));
        return document;
    };
    let mut met = Vec::new();
    for (key, node) in entries {
        let name = normalize(&key.text);
        match name.as_str() {
            "experiment" => document.experiment = experiment(&node, errors),
            "profiling" => document.profiling = profiling(node, errors),
            "defaults" => document.defaults = defaults(node, errors),
            "cases" => document.entries = cases(node, benchmarks, errors),
            "expected" => document.expected = expected::read(node, benchmarks, errors),
            _ => unknown_key("a plan", &key, &KEYS, errors),
        }
        met.push(name);
    }
    for needed in ["experiment", "cases"] {
        if !met.iter().any(|name| name == needed) {
            errors.add(root.at, Error::new(format!("the plan has no `{needed}`")).hint(SHAPE));
        }
    }
    document
}

pub(super) fn unknown_key(of: &str, key: &PlanKey, known: &[&'static str], errors: &mut Diagnostics) {
    let hint = suggestion(&key.text, known.iter().copied());
    errors.add(key.at, Error::new(format!("{of} has no key `{}`", shown(&key.text))).hint(hint));
}

/// A name that is also a directory's: a letter or digit, then letters, digits, `.`, `_`, `-`; at most 64.
pub(crate) fn is_safe_name(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

fn experiment(node: &PlanNode, errors: &mut Diagnostics) -> String {
    match &node.tree {
        Tree::Scalar { text, .. } if is_safe_name(text) => text.clone(),
        Tree::Scalar { text, .. } => {
            let message = format!("`{}` cannot name an experiment", shown(text));
            let rule = "a letter or digit, then letters, digits, `.`, `_` or `-`, at most 64: it names a directory";
            errors.add(node.at, Error::new(message).hint(rule));
            String::new()
        }
        _ => {
            errors.add(node.at, Error::new(format!("`experiment` takes a name, not {}", node.kind())));
            String::new()
        }
    }
}

fn profiling(node: PlanNode, errors: &mut Diagnostics) -> bool {
    let mut enabled = false;
    let Tree::Map(entries) = node.tree else {
        let message = format!("`profiling` takes a mapping, not {}", node.kind());
        errors.add(node.at, Error::new(message).hint("write profiling: {enabled: true}"));
        return enabled;
    };
    for (key, node) in entries {
        match (normalize(&key.text).as_str(), &node.tree) {
            ("enabled", Tree::Scalar { text, quoted: false })
                if matches!(normalize(text).as_str(), "true" | "false") =>
            {
                enabled = normalize(text) == "true";
            }
            ("enabled", _) => errors.add(node.at, Error::new("`enabled` must be true or false")),
            _ => unknown_key("`profiling`", &key, &["enabled"], errors),
        }
    }
    enabled
}

fn defaults(node: PlanNode, errors: &mut Diagnostics) -> Vec<(PlanKey, PlanNode)> {
    let kind = node.kind();
    match node.tree {
        Tree::Map(entries) => entries.into_iter().filter(|(key, _)| is_default(key, errors)).collect(),
        // `defaults:` with every line below it commented out.
        Tree::Null => Vec::new(),
        _ => {
            errors.add(node.at, Error::new(format!("`defaults` takes a mapping of fields, not {kind}")));
            Vec::new()
        }
    }
}

fn is_default(key: &PlanKey, errors: &mut Diagnostics) -> bool {
    let name = normalize(&key.text);
    if name == "zip" || name == "benchmark" {
        let message = format!("`{name}` belongs in a case, not in `defaults`");
        errors.add(key.at, Error::new(message));
        return false;
    }
    true
}

fn cases(node: PlanNode, benchmarks: &[&'static About], errors: &mut Diagnostics) -> Vec<Entry> {
    let kind = node.kind();
    match node.tree {
        Tree::List(nodes) if nodes.is_empty() => {
            errors.add(node.at, Error::new("`cases` is empty").hint(SHAPE));
            Vec::new()
        }
        Tree::List(nodes) if nodes.len() > limits::CASES => {
            errors.add(node.at, too_many(nodes.len() as u64));
            Vec::new()
        }
        Tree::List(nodes) => nodes.into_iter().filter_map(|node| entry(node, benchmarks, errors)).collect(),
        _ => {
            errors.add(node.at, Error::new(format!("`cases` takes a list, not {kind}")).hint(SHAPE));
            Vec::new()
        }
    }
}

/// The refusal of a plan that expands to too many cases.
pub(crate) fn too_many(cases: u64) -> Error {
    let at_least = if cases == u64::MAX { "more than can be counted".to_owned() } else { format!("at least {cases}") };
    Error::new(format!("the plan has {at_least} cases; at most {} are allowed", limits::CASES))
        .hint("lists multiply: shorten one, raise a range's factor, or write several plans")
}

fn entry(node: PlanNode, benchmarks: &[&'static About], errors: &mut Diagnostics) -> Option<Entry> {
    let kind = node.kind();
    let Tree::Map(mut fields) = node.tree else {
        errors.add(node.at, Error::new(format!("a case is a mapping, not {kind}")).hint(SHAPE));
        return None;
    };
    let Some(position) = fields.iter().position(|(key, _)| normalize(&key.text) == "benchmark") else {
        errors.add(node.at, Error::new("the case has no `benchmark`").hint(known(benchmarks)));
        return None;
    };
    let (_, name) = fields.remove(position);
    let about = benchmark(&name, benchmarks, errors)?;
    Some(Entry { about, at: name.at, fields })
}

/// The benchmark that a value names; reported where it names none.
pub(super) fn benchmark(
    name: &PlanNode,
    benchmarks: &[&'static About],
    errors: &mut Diagnostics,
) -> Option<&'static About> {
    let Tree::Scalar { text, .. } = &name.tree else {
        let message = format!("`benchmark` takes one name, not {}", name.kind());
        errors.add(name.at, Error::new(message).hint(known(benchmarks)));
        return None;
    };
    // The command that measures a benchmark names it, too: `comm`, `train`.
    let names = |about: &&&'static About| {
        let wanted = normalize(text);
        let by_command = about.command.as_ref().is_some_and(|command| normalize(command.name) == wanted);
        normalize(about.name) == wanted || by_command
    };
    let found = benchmarks.iter().find(names);
    if found.is_none() {
        let hint = suggestion(text, benchmarks.iter().map(|about| about.name));
        errors.add(name.at, Error::new(format!("there is no benchmark `{}`", shown(text))).hint(hint));
    }
    found.copied()
}

fn known(benchmarks: &[&'static About]) -> String {
    format!("valid values: {}", benchmarks.iter().map(|about| about.name).collect::<Vec<_>>().join(", "))
}

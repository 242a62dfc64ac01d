//! Tables of what is registered: what `rankmark list` shows, metrics, exit codes.

use record::{About, Better, Metric, Shape};
use terms::Kind;

use super::markdown::{cell, code, table};
use crate::commands::list;
use crate::exit_codes::EXIT_CODES;

/// How far the pages lie below docs.
const DEPTH: usize = 1;

/// Kinds of `rankmark list` that have one page together.
pub(super) const NAMES: [&str; 8] =
    ["benchmarks", "operations", "primitives", "models", "strategies", "presets", "hardware", "injections"];

/// A kind of `rankmark list`, as it lists it.
pub(super) fn listed(kind: &str) -> String {
    let sections = list::sections();
    let (_, entries) = sections.into_iter().find(|(name, _)| *name == kind).expect("a kind of `rankmark list`");
    if entries.iter().all(|(_, doc)| doc.is_empty()) {
        return entries.iter().map(|(name, _)| format!("* {}\n", code(name))).collect();
    }
    table(&["name", "meaning"], entries.into_iter().map(|(name, doc)| vec![code(&name), cell(&doc, DEPTH)]))
}

/// The fields of each benchmark, with what they take.
pub(super) fn fields() -> String {
    let abouts = benchmarks::abouts();
    let mut text = String::new();
    let everywhere = |name: &str| abouts.iter().all(|about| about.field(name).is_some());
    let first = abouts.first().expect("there are benchmarks");
    text += "## Every benchmark\n\n";
    text += &table_of_fields(first, &everywhere);
    for about in &abouts {
        text += &format!("\n{}\n{}.\n\n", heading(about), cell(about.doc, DEPTH));
        text += &table_of_fields(about, &|name| !everywhere(name));
    }
    text
}

fn table_of_fields(about: &About, wanted: &dyn Fn(&str) -> bool) -> String {
    let rows = about.all_fields().filter(|field| wanted(field.name)).map(|field| {
        let values = match field.kind {
            Kind::Word(words) => words().iter().map(|word| code(word)).collect::<Vec<_>>().join(", "),
            _ => String::new(),
        };
        vec![code(field.name), cell(field.doc, DEPTH), values, field.default.map(code).unwrap_or_default()]
    });
    table(&["field", "meaning", "values", "default"], rows)
}

/// `## collective`, with the command that measures it.
fn heading(about: &About) -> String {
    let command = about.command.map(|command| format!(" (`rankmark {}`)", command.name)).unwrap_or_default();
    format!("## `{}`{command}\n", about.name)
}

/// The metrics of each benchmark.
pub(super) fn metrics() -> String {
    let mut text = String::new();
    for about in benchmarks::abouts().into_iter().filter(|about| !about.metrics.is_empty()) {
        text += &format!("{}\n", heading(about));
        let row = |metric: &Metric| {
            let better = match metric.better {
                _ if !metric.shape.is_number() => "",
                Better::Higher => "more",
                Better::Lower => "less",
            };
            let unit = if metric.unit.is_empty() { String::new() } else { cell(metric.unit, DEPTH) };
            vec![code(metric.name), cell(metric.doc, DEPTH), shape(metric.shape).to_owned(), unit, better.to_owned()]
        };
        text += &table(&["metric", "meaning", "value", "unit", "better"], about.metrics.iter().map(row));
        text.push('\n');
    }
    text
}

fn shape(shape: Shape) -> &'static str {
    match shape {
        Shape::Number => "number",
        Shape::Rate => "rate",
        Shape::Interval => "number with its interval",
        Shape::Word => "word",
        Shape::Map => "values by name",
        Shape::List => "list",
        Shape::Matrix => "matrix",
        Shape::Curve => "pairs",
    }
}

/// What the exit status says.
pub(super) fn exit_codes() -> String {
    let row = |code: &crate::exit_codes::ExitCode| vec![code.codes.to_owned(), cell(code.meaning, DEPTH)];
    table(&["code", "meaning"], EXIT_CODES.iter().map(row))
}

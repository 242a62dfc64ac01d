//! The results that DDLB writes: one line for each implementation.

use std::borrow::Cow;

use terms::{Dtype, Error, Named};

use super::csv::{self, CsvTable};
use super::nccl::plain;
use super::runs::ToolGroups;
use crate::collective;
use crate::{Content, Details, Figures, Format, Results, Row, Shape, Source};

/// The format.
pub(super) struct DdlbCsv;

/// Every column, with the spellings that it has.
const COLUMNS: &[&[&str]] = &[
    &["implementation"],
    &["mean_time (ms)", "mean_time"],
    &["std_time"],
    &["min_time"],
    &["max_time"],
    &["m"],
    &["n"],
    &["k"],
    &["dtype"],
    &["Throughput (TFLOPS)"],
    &["Throughput std (TFLOPS)"],
    &["world_size"],
    &["hostname"],
    &["time_measurement_backend"],
    &["barrier_at_each_iteration"],
    &["option"],
    &["primitive"],
    &["valid"],
];

impl Format for DdlbCsv {
    fn about(&self) -> (&'static str, &'static str) {
        ("ddlb_csv", "DDLB: its results as CSV")
    }

    fn marks(&self) -> &'static [&'static str] {
        &["implementation", "Throughput (TFLOPS)", "world_size"]
    }

    fn recognises(&self, source: &Source) -> bool {
        let first = source.text().lines().next().unwrap_or_default();
        let has = |name: &str| first.split(',').any(|column| column.trim() == name);
        has("implementation") && has("Throughput (TFLOPS)") && has("world_size")
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let table = csv::table(source)?;
        // The column `valid` is missing where the first row was not validated: its later cells then stand without a name.
        table.refuse_unknown(source, "DDLB, which names no version,", COLUMNS)?;
        for names in [&["implementation"][..], COLUMNS[1], &["m"], &["n"], &["k"], &["dtype"], &["world_size"]] {
            if table.column(names).is_none() {
                return Err(source.error(1, format!("the column `{}` is missing", names[0])));
            }
        }
        let mut results = ToolGroups::default();
        for (line, row) in &table.rows {
            let method = method(&table, row);
            add(
                source,
                &table,
                *line,
                row,
                results.for_method(&format!("{method:?}"), || results_of(&table, &method)),
            )?;
        }
        Ok(Content::Results(results.finish()))
    }
}

/// What decides how a row was timed, by column: rows of several clocks are not trials of one case.
fn method(table: &CsvTable, row: &[String]) -> Vec<(&'static str, String)> {
    let cell = |name: &'static str| {
        let value = plain(&row[table.column(&[name])?]);
        (!value.is_empty()).then_some((name, value))
    };
    // What has no counterpart has its options in its name.
    let (base, options) = label(table, row);
    let options = if matches!(base, "pytorch" | "transformer_engine") { options } else { "" };
    let options = options.split(", ").filter(|option| !option.is_empty() && !is_field(option));
    let options = options.collect::<Vec<_>>().join(", ");
    let options = (!options.is_empty()).then(|| ("options", plain(&options)));
    cell("time_measurement_backend").into_iter().chain(options).collect()
}

/// Whether an option of an implementation is a field of the case.
fn is_field(option: &str) -> bool {
    ["backend=", "order="].iter().any(|name| option.starts_with(name))
}

/// Results of rows that were timed alike.
fn results_of(table: &CsvTable, method: &[(&'static str, String)]) -> Results {
    let mut results = Results::new("DDLB", "mean over iterations of the slowest rank");
    results.begin_run();
    results.tell(method.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    let name = "Throughput std (TFLOPS)";
    if table.column(&[name]).is_some() {
        results.leave_unread(format!("the column `{name}`: the record has the standard deviation of times alone"));
    }
    results
}

/// `pytorch (backend=nccl, order=AG_before)` as name and options.
fn label<'r>(table: &CsvTable, row: &'r [String]) -> (&'r str, &'r str) {
    let label = table.column(&["implementation"]).map_or("", |at| row[at].trim());
    label.split_once(" (").map_or((label, ""), |(base, rest)| (base, rest.trim_end_matches(')')))
}

fn add(source: &Source, table: &CsvTable, line: usize, row: &[String], results: &mut Results) -> Result<(), Error> {
    let cell = |names: &[&str]| table.column(names).map(|at| row[at].trim());
    let (base, options) = label(table, row);
    let label = cell(&["implementation"]).unwrap_or_default();
    if let Some(given) = cell(&["option"]).filter(|given| !given.split(", ").all(|option| options.contains(option))) {
        results.leave_unread(format!(
            "`option` of line {line}: `{}` is not among those of the implementation",
            plain(given)
        ));
    }
    let option = |name: &str| options.split(", ").find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    if let Some(host) = cell(&["hostname"]).map(plain).filter(|host| !host.is_empty() && !results.hosts.contains(host))
    {
        results.hosts.push(host);
    }
    let of_file = cell(&["primitive"]).filter(|primitive| !primitive.is_empty());
    // Only this primitive has an order, and these two are of it alone.
    let derived = (option("order").is_some() || matches!(base, "compute_only" | "jax")).then_some("tp_columnwise");
    let primitive = match of_file.or(derived) {
        Some("tp_columnwise") => "tp_columnwise",
        Some("tp_rowwise") => "tp_rowwise",
        Some(other) => {
            return Err(source
                .error(line, format!("there is no primitive `{}`", plain(other)))
                .hint("valid values: tp_columnwise, tp_rowwise"));
        }
        // Columnwise rows of these two name their order.
        None if base == "pytorch" || (base == "fuser" && option("algorithm").is_some()) => "tp_rowwise",
        None => {
            let hint = "add a column `primitive` with tp_columnwise or tp_rowwise";
            results.omit(line, format!("`{}`: the file does not say which primitive; {hint}", plain(label)));
            return Ok(());
        }
    };
    let way = way(base, option("order"), primitive);
    if way.is_none() {
        results.note(format!("`{}` has no counterpart here and keeps its name", plain(base)));
    }
    if cell(&["valid"]).is_some_and(|valid| valid == "False") {
        results.omit(line, format!("`{}`: its own check failed", plain(label)));
        return Ok(());
    }
    let dtype = cell(&["dtype"]).unwrap_or_default();
    let Some(dtype) = collective::dtype(dtype.trim_start_matches("torch.")).filter(|dtype| dtype.is_float()) else {
        results.omit(line, format!("there is no element type `{}`", plain(dtype)));
        return Ok(());
    };
    let mut fields = vec![("primitive", Cow::Borrowed(primitive))];
    for (name, column) in [("m", "m"), ("n", "n"), ("k", "k"), ("ranks", "world_size")] {
        let value = csv::whole(source, line, column, cell(&[column]).unwrap_or_default())?;
        fields.push((name, value.to_string().into()));
    }
    fields.extend([
        ("dtype", Dtype::name(dtype).into()),
        ("implementation", way.as_ref().map_or("sequential", |way| way.implementation).into()),
        ("runtime", "pytorch".into()),
    ]);
    fields.push(("backend", backend(option("backend")).into()));
    if cell(&["barrier_at_each_iteration"]) == Some("True") {
        fields.push(("mode", "isolated".into()));
    }
    let mut name = plain(label);
    if base == "compute_only" {
        results.note("the CSV does not tell `size` of compute_only: sharded and unsharded look alike");
        let is_known = |(shape, _): &(Shape, Vec<Figures>)| {
            shape.implementation.as_deref() == Some(&name) && shape.fields == fields
        };
        if results.shapes().iter().any(is_known) {
            name += &format!(" (line {line})");
        }
    }
    let words = match &way {
        Some(way) => vec![("variant", way.variant.into()), ("order", way.order.into())],
        None => vec![("variant", name.clone().into())],
    };
    let figures = figures(source, line, cell, words)?;
    let implementation = way.is_none().then_some(name);
    results.add(Row { shape: Shape { benchmark: "primitive", fields, device: "cuda", implementation }, figures });
    Ok(())
}

/// An implementation of ours as a field, and by the words that its charts have.
struct ImplementationWay {
    implementation: &'static str,
    variant: &'static str,
    order: &'static str,
}

/// None for what has no counterpart: nvFuser, XLA, and what a row does not tell enough of.
fn way(base: &str, order: Option<&str>, primitive: &str) -> Option<ImplementationWay> {
    let columnwise = primitive == "tp_columnwise";
    let way = |implementation, variant, order| Some(ImplementationWay { implementation, variant, order });
    match (base, order) {
        ("pytorch", Some("AG_before")) if columnwise => way("sequential:order=AG_before", "sequential", "AG_before"),
        ("pytorch", Some("AG_after")) if columnwise => way("sequential:order=AG_after", "sequential", "AG_after"),
        ("pytorch", None) if !columnwise => way("sequential", "sequential", "RS_after"),
        ("transformer_engine", _) if columnwise => {
            way("transformer_engine:order=AG_before", "transformer_engine", "AG_before")
        }
        ("transformer_engine", _) => way("transformer_engine", "transformer_engine", "RS_after"),
        _ => None,
    }
}

fn backend(name: Option<&str>) -> &'static str {
    match name {
        Some("ucc") => "ucc",
        Some("ucc/tl/nccl") => "ucc/tl/nccl",
        Some("ucc/tl/cuda") => "ucc/tl/cuda",
        Some("ucc/tl/ucp") => "ucc/tl/ucp",
        _ => "nccl",
    }
}

fn figures<'r>(
    source: &Source,
    line: usize,
    cell: impl Fn(&[&str]) -> Option<&'r str>,
    words: Vec<(&'static str, Cow<'static, str>)>,
) -> Result<Figures, Error> {
    let time = |names: &[&str]| {
        let text = cell(names).filter(|text| !text.is_empty());
        text.map(|text| csv::time(source, line, names[0], text, 1e-3)).transpose()
    };
    let mean = time(COLUMNS[1])?.ok_or_else(|| source.error(line, "`mean_time (ms)` is empty"))?;
    let deviation = cell(&["std_time"]).filter(|text| !text.is_empty());
    let deviation = deviation.map(|text| csv::deviation(source, line, "std_time", text, 1e-3)).transpose()?;
    let rate = cell(&["Throughput (TFLOPS)"]).filter(|text| !text.is_empty());
    let rate = rate.map(|text| csv::parse_number(source, line, "Throughput (TFLOPS)", text)).transpose()?;
    let metrics = rate.map(|rate| ("tflops", rate)).into_iter().collect();
    let details = Details {
        mean: Some(mean),
        min: time(&["min_time"])?,
        max: time(&["max_time"])?,
        std: deviation,
        metrics,
        words,
        ..Details::default()
    };
    let wrong = (cell(&["valid"]) == Some("True")).then_some(0);
    Ok(Figures { time_s: mean, iterations: None, wrong, details: Some(Box::new(details)) })
}

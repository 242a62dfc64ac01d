//! `rankmark list`: what there is, from the tables that everything is registered in; and records.

mod records;

use std::path::{Path, PathBuf};

use clap::ValueHint;
use record::Caveat;
use serde_json::{Value, json};
use terms::{Bytes, Collective, Kind, Named};
use view::terminal;

use super::{Ended, Typed};
use crate::session::Entry;
use crate::{Failure, packed, screen};
use record::store::RESULTS;

/// The kind that is on disk, not in a table.
const RECORDS: &str = "records";

/// What there is; `list records [DIR]`: the runs that were made
#[derive(clap::Args)]
pub(crate) struct List {
    /// only this kind
    #[arg(value_parser = KINDS)]
    kind: Option<String>,
    /// of `records`: the folder that holds them (default: results)
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    folder: Option<PathBuf>,
    /// JSON on standard output
    #[arg(long)]
    json: bool,
}

const KINDS: [&str; 15] = [
    "benchmarks",
    "models",
    "strategies",
    "primitives",
    "operations",
    "backends",
    "formats",
    "layouts",
    "imports",
    "presets",
    "hardware",
    "fields",
    "caveats",
    "injections",
    RECORDS,
];

/// A kind of thing, and its entries as name and description.
pub(crate) type Section = (&'static str, Vec<(String, String)>);

/// Every kind that stands in tables, in the order of the output.
pub(crate) fn sections() -> Vec<Section> {
    let abouts = benchmarks::abouts();
    let own = |name: &str, doc: &str| (name.to_owned(), doc.to_owned());
    vec![
        ("benchmarks", abouts.iter().map(|about| own(about.name, about.doc)).collect()),
        ("models", benchmarks::models().iter().map(|model| own(model.name, &taken(model))).collect()),
        ("strategies", benchmarks::strategies().into_iter().map(|(name, doc)| own(name, doc)).collect()),
        ("primitives", benchmarks::primitives().into_iter().map(|(name, doc)| own(name, doc)).collect()),
        ("operations", Collective::ALL.iter().map(|op| own(op.name(), bandwidth(*op))).collect()),
        ("backends", comm::backends().map(|backend| own(backend.about().name, backend.about().doc)).collect()),
        ("formats", report::FORMATS.iter().map(|format| own(format.name(), format.doc())).collect()),
        ("layouts", report::LAYOUTS.iter().map(|layout| own(layout.name(), layout.doc())).collect()),
        ("imports", import::FORMATS.iter().map(|format| own(format.name(), format.doc())).collect()),
        ("presets", plans::presets::PRESETS.iter().map(|preset| own(preset.name, preset.doc)).collect()),
        ("hardware", plans::hardware::HARDWARE.iter().map(|hardware| own(hardware.name, hardware.doc)).collect()),
        ("fields", fields(&abouts)),
        ("caveats", Caveat::ALL.iter().map(|caveat| own(caveat.name(), caveat.explanation())).collect()),
        ("injections", trace::INJECTION_USAGE.split(" | ").map(|usage| own(usage, "")).collect()),
    ]
}

/// Fields, each once; with the benchmarks that have it, where not all do.
fn fields(abouts: &[&'static record::About]) -> Vec<(String, String)> {
    let mut found: Vec<((String, String), Vec<&str>)> = Vec::new();
    for (about, field) in abouts.iter().flat_map(|about| about.all_fields().map(move |field| (about, field))) {
        let words =
            if let Kind::Word(words) = field.kind { format!(" [{}]", words().join(", ")) } else { String::new() };
        let default = field.default.map_or(String::new(), |default| format!(" (default: {default})"));
        let entry = (field.name.to_owned(), format!("{}{words}{default}", field.doc));
        match found.iter_mut().find(|(known, _)| *known == entry) {
            Some((_, benchmarks)) => benchmarks.push(about.name),
            None => found.push((entry, vec![about.name])),
        }
    }
    let line = |((name, doc), benchmarks): ((String, String), Vec<&str>)| match benchmarks.len() == abouts.len() {
        true => (name, doc),
        false => (name, format!("{}: {doc}", benchmarks.join(", "))),
    };
    found.into_iter().map(line).collect()
}

/// What a model takes: `124M parameters, 0.855 TFLOP a sample of 1024 tokens, 2.1 GiB for one sample: GPT-2, ...`.
fn taken(model: &benchmarks::ModelLine) -> String {
    let tokens = if model.tokens > 0 { format!(" of {} tokens", model.tokens) } else { String::new() };
    let memory = model.bytes.map_or(String::new(), |bytes| format!(", {} to train it", Bytes(bytes).about()));
    let parameters = count(model.parameters as f64);
    let flops = count(model.flops);
    format!("{parameters} parameters, {flops}FLOP a sample{tokens}{memory}: {}", model.doc)
}

/// Three significant digits and a prefix: `124 M`, `0.855 T`.
fn count(value: f64) -> String {
    let (scaled, prefix) = match value {
        v if v >= 1e12 => (v / 1e12, " T"),
        v if v >= 1e9 => (v / 1e9, " G"),
        v if v >= 1e6 => (v / 1e6, " M"),
        v if v >= 1e3 => (v / 1e3, " k"),
        v => (v, " "),
    };
    format!("{}{prefix}", view::number::three_digits(scaled))
}

/// What `bytes` means, and the factor of the bus bandwidth.
fn bandwidth(op: Collective) -> &'static str {
    match op {
        Collective::AllReduce => "bytes: a rank's; busbw = algbw x 2(n-1)/n",
        Collective::AllToAllV => "bytes: the most that a rank sends or receives; busbw = algbw x (n-1)/n",
        Collective::Barrier => "moves no bytes",
        op if op.size_counts_all_ranks() => "bytes: all ranks' blocks together; busbw = algbw x (n-1)/n",
        _ => "bytes: a rank's; busbw = algbw",
    }
}

impl Typed for List {
    const NAME: &'static str = "list";

    fn run(self, _: Entry<'_>) -> Ended {
        let folder = self.folder.as_deref();
        match self.kind.as_deref() {
            Some(RECORDS) => records::run(&packed::opened(folder.unwrap_or(Path::new(RESULTS)))?, self.json),
            kind => tables(kind, folder, self.json),
        }
    }
}

fn tables(wanted: Option<&str>, folder: Option<&Path>, as_json: bool) -> Ended {
    if let Some(folder) = folder {
        let what = format!("`{}` is not used: only `list records` takes a folder", folder.display());
        return Err(Failure::new(what).hint(format!("rankmark list records {}", folder.display())));
    }
    let sections = sections().into_iter().filter(|(name, _)| wanted.is_none_or(|wanted| wanted == *name));
    if as_json {
        let entries = |entries: Vec<(String, String)>| -> Value {
            entries.into_iter().map(|(name, doc)| json!({ "name": name, "doc": doc })).collect()
        };
        let all: serde_json::Map<String, Value> =
            sections.map(|(name, list)| (name.to_owned(), entries(list))).collect();
        return screen::print_json(&format!("{}\n", Value::Object(all)));
    }
    let mut text = String::new();
    for (name, entries) in sections {
        let width = entries.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        text.push_str(&format!("{}\n", terminal::Style::Bold.paint(name)));
        // A terminal's lines are wrapped; in a pipe each entry stays one line, for `grep`.
        let indent = width + 4;
        for (name, doc) in entries {
            let doc = match screen::terminal_width() {
                Some(columns) => terminal::wrap(&doc, columns.saturating_sub(indent).max(30))
                    .replace('\n', &format!("\n{:indent$}", "")),
                None => doc,
            };
            text.push_str(format!("  {name:width$}  {doc}").trim_end());
            text.push('\n');
        }
    }
    screen::print(&text)
}

//! `rankmark list`: what there is, from the tables that everything is registered in; and records.

use std::path::{Path, PathBuf};

use clap::ValueHint;
use record::Caveat;
use serde_json::{Value, json};
use terms::{Collective, Named};
use view::terminal;

use super::{Ended, Typed};
use crate::session::Entry;
use crate::{Failure, packed, screen};
use record::store::{RESULTS, RecordFolders};

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
        ("models", benchmarks::models().iter().map(|model| own(model.name, &model.takes())).collect()),
        ("strategies", benchmarks::strategies().into_iter().map(|(name, doc)| own(name, doc)).collect()),
        ("primitives", benchmarks::primitives().into_iter().map(|(name, doc)| own(name, doc)).collect()),
        ("operations", Collective::ALL.iter().map(|op| own(op.name(), op.size_words())).collect()),
        ("backends", comm::backends().map(|backend| own(backend.about().name, backend.about().doc)).collect()),
        ("formats", report::FORMATS.iter().map(|format| own(format.name(), format.doc())).collect()),
        ("layouts", report::LAYOUTS.iter().map(|layout| own(layout.name(), layout.doc())).collect()),
        ("imports", import::FORMATS.iter().map(|format| own(format.name(), format.doc())).collect()),
        ("presets", plans::presets::PRESETS.iter().map(|preset| own(preset.name, preset.doc)).collect()),
        ("hardware", plans::hardware::HARDWARE.iter().map(|hardware| own(hardware.name, hardware.doc)).collect()),
        ("fields", record::described_fields(&abouts)),
        ("caveats", Caveat::ALL.iter().map(|caveat| own(caveat.name(), caveat.explanation())).collect()),
        ("injections", trace::INJECTION_USAGE.split(" | ").map(|usage| own(usage, "")).collect()),
    ]
}

impl Typed for List {
    const NAME: &'static str = "list";

    fn run(self, _: Entry<'_>) -> Ended {
        let folder = self.folder.as_deref();
        match self.kind.as_deref() {
            Some(RECORDS) => records(&packed::opened(folder.unwrap_or(Path::new(RESULTS)))?, self.json),
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

/// The records in a folder, the newest first.
fn records(folder: &Path, as_json: bool) -> Ended {
    let found = RecordFolders::at(folder).map_err(|error| {
        let hint = "`rankmark list records DIR` names another folder; runs make `results`";
        Failure::new(format!("{} cannot be listed", folder.display())).cause(error).hint(hint)
    })?;
    // Reading a folder that cannot be looked into says why.
    let unreadable = found.unreadable.into_iter().map(|(folder, _)| folder);
    let found = report::listed(found.records.into_iter().chain(unreadable));
    if as_json {
        return screen::print_json(&found.iter().map(|found| format!("{}\n", found.json())).collect::<String>());
    }
    if found.is_empty() {
        screen::remark(&format!("note: {} holds no record\n", folder.display()));
    }
    screen::print(&report::listed_table(&found))
}

//! `report.html`: the whole report in one file that loads nothing. A policy in its head forbids it to, names the style and
//! the script in it by their hashes, and allows no others.
//!
//! All that is said stands in the page itself, and is read without the script: charts are pictures, tables are tables. The
//! script makes charts answer to the pointer and tables sort, from the values at the end of the page. The page is the same
//! for the same records, byte for byte. Text from data is escaped by the types of `markup`.

mod bar;
mod cases;
mod explained;
mod figures;
mod head;
mod json;
mod notes;
mod pack;
mod samples;
mod tiles;
mod together;

use std::path::{Path, PathBuf};

use diagnose::compare::Settings;
use record::file::FileStem;
use record::show::{Show, Table};

use crate::document::html::{elements, prose};
use crate::document::prose_list;
use crate::escape::one_line;
use crate::formats::write::Out;
use crate::markup::{Html as Elements, Json, Literal, Page, html};
use crate::number::{count, thousands};
use crate::study::{Operation, operations};
use crate::words::caveats::Wording;
use crate::words::findings::findings;
use crate::words::layout::Layout;
use crate::{
    Artifact, Comparisons, Error, Format, Gate, Run, SideSource, chart, charts, words::drift,
    words::explained as traces, words::peers, words::results, words::sentences,
};

const FILE: &str = "report.html";
/// A record of more cases has no table without the script: `cases.csv` has them.
const STATIC: usize = 300;
/// The title of the overview.
const SUMMARY: &str = "Summary by configuration";
/// Operations of a record that have a section: a browser shows no more in good time. `cases.csv` has the rest.
const SECTIONS: usize = 1_000;
/// Cases of a record that have a row; of more, `cases.csv` has the rest.
const ROWS: usize = 20_000;

const STYLE: &str = concat!(include_str!("page/page.css"), include_str!("page/together.css"));
const SCRIPT: &str = concat!(
    include_str!("page/base.js"),
    include_str!("page/axis.js"),
    include_str!("page/chart.js"),
    include_str!("page/matrix.js"),
    include_str!("page/lanes.js"),
    include_str!("page/waterfall.js"),
    include_str!("page/table.js"),
    include_str!("page/start.js"),
);

/// The HTML report.
#[derive(Debug)]
pub(crate) struct Html;

impl Format for Html {
    fn about(&self) -> (&'static str, &'static str) {
        ("html", "report.html: summary, findings, interactive charts, every case; one file that loads nothing")
    }

    fn render(&self, run: &Run) -> Result<Vec<Artifact>, Error> {
        Ok(vec![Artifact::new(FILE, page(&[run], None).into_bytes())])
    }
}

/// Writes one page about several records below `dir`, and returns its path. `compared` says of each record behind the first,
/// the base, what its comparison with that one found; without it the page compares nothing.
///
/// # Errors
/// When it cannot be written.
pub fn write_together(runs: &[Run], compared: Option<&Comparisons>, dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let runs: Vec<&Run> = runs.iter().collect();
    let mut out = Out::below(dir);
    out.put(&Artifact::new(FILE, page(&runs, compared).into_bytes()))?;
    Ok(out.into_written().files)
}

/// Writes one page about the runs in these directories below `dir`, each compared with the first, and returns its path.
///
/// # Errors
/// Where a record cannot be read, or the page cannot be written.
pub fn write_compared(runs: &[Run], directories: &[PathBuf], dir: &Path) -> Result<Vec<PathBuf>, Error> {
    // What is damaged was said when the run of each was read.
    let side = |directory: &PathBuf| {
        Ok(SideSource { name: directory.display().to_string(), records: vec![record::read_run(directory)?] })
    };
    let mut sides = directories.iter().map(side).collect::<Result<Vec<_>, Error>>()?;
    let Some((base, others)) = sides.split_first_mut() else { return write_together(runs, None, dir) };
    base.meet(others);
    let settings = Settings { threshold: Gate::default().threshold, history: Vec::new() };
    write_together(runs, Some(&Comparisons::new(base, others, &settings)), dir)
}

/// What the script reads.
#[derive(Default)]
struct Data {
    charts: Vec<Json>,
    sections: Vec<Json>,
    /// Tables of what traces showed.
    tables: Vec<Json>,
}

fn page(runs: &[&Run], compared: Option<&Comparisons>) -> Elements {
    let mut style = chart::rules();
    style.literal(STYLE);
    let mut data = Data::default();
    let mut body = html!("<a class=\"skip\" href=\"#cases\">To the results</a>\n<main>\n");
    body += match runs {
        [run] => record(run, "", 1, &mut data),
        several => together::together(several, compared, &mut data),
    };
    body.literal("</main>\n");
    let titles: Vec<String> = runs.iter().map(|run| one_line(&run.title)).filter(|title| !title.is_empty()).collect();
    let title = if titles.is_empty() { "Report".to_owned() } else { titles.join(", ") };
    let [status, caveats] = cases::vocabulary(Wording::common(runs.iter().map(|run| run.wording)));
    let mut values =
        vec![("charts", json::array(data.charts)), ("sections", json::array(data.sections)), status, caveats];
    if !data.tables.is_empty() {
        values.push(("tables", json::array(data.tables)));
    }
    Page { title: &title, style, body, script: Some((SCRIPT, json::object(values))) }.write()
}

/// The switch of light and dark: the script shows it.
const THEME: Literal = Literal("<button type=\"button\" id=\"theme\" hidden></button>");

/// One record, with a title of this level.
fn record(run: &Run, prefix: &str, level: u8, data: &mut Data) -> Elements {
    let operations = operations(&run.cases, &run.benchmarks);
    let (quantiles, unread) = samples::quantiles(run, ROWS);
    let found = findings(run, &operations);
    let mut out = if level == 1 { html!("<div class=\"top\"><div></div>{}</div>", THEME) } else { Elements::new() };
    out += head::head(run, &operations, &found, level);
    let mut notes = notes::sections(run, &operations);
    // The overview stands before what it sums up.
    let summed = notes.iter().position(|(title, _)| *title == SUMMARY).map(|place| notes.remove(place));
    let limits = explained::section(run, prefix, data);
    let limits = (!limits.is_empty()).then_some((traces::TITLE, limits));
    let before: Vec<(&'static str, Elements)> = summed.into_iter().chain(limits).collect();
    let shown = &operations[..operations.len().min(SECTIONS)];
    out += contents(&before, shown, &notes, prefix);
    let said = sentences::beyond(run, &operations, &found);
    if !said.is_empty() {
        html!(out => "<section><h2>What the data show</h2>{}</section>\n", elements(&prose_list(said)));
    }
    out += before.iter().map(|part| titled(part, prefix)).collect::<Elements>();
    html!(out => "<div id=\"{}cases\">", prefix);
    let mut room = ROWS;
    let several = operations.len() > sentences::FEW_OPERATIONS;
    let (plain, none) = (Show::default(), Table::default());
    for operation in shown {
        let show = operation.declared.map_or(&plain, |declared| &declared.show);
        let declared = show.tables.first().unwrap_or(&none);
        // It reads every case: once for the page and the script.
        let layout = Layout::new(operation, show, declared, "").worded(run.wording);
        out += part(run, operation, (&layout, declared), (prefix, several), data);
        data.sections.push(cases::section(operation, &layout, &quantiles, room));
        let number: usize = operation.configurations.iter().map(|c| c.cases.len()).sum();
        room = room.saturating_sub(number);
    }
    if shown.len() < operations.len() {
        let (left, all) = (operations.len() - shown.len(), operations.len());
        let why = format!(
            "{} of {} have no section on this page: `cases.csv` has all cases.",
            thousands(left as i64),
            count(all, "operation", "operations")
        );
        html!(out => "<p class=\"warn\">{}</p>", prose(&why));
    }
    out.literal("</div>");
    if let Some(why) = unread {
        html!(out => "<p class=\"warn\">{}</p>", prose(&why));
    }
    out += notes.iter().map(|part| titled(part, prefix)).collect::<Elements>();
    out
}

/// A section with its title.
fn titled((title, body): &(&str, Elements), prefix: &str) -> Elements {
    html!("<section id=\"{}{}\"><h2>{}</h2>{}</section>\n", prefix, FileStem::of(title), title, body)
}

/// Links to the sections, in their order.
fn contents(
    before: &[(&'static str, Elements)],
    operations: &[Operation],
    notes: &[(&'static str, Elements)],
    prefix: &str,
) -> Elements {
    let titled = |(title, _): &(&'static str, Elements)| {
        html!("<li><a href=\"#{}{}\">{}</a></li>", prefix, FileStem::of(title), title)
    };
    let operation = |operation: &Operation| {
        let name = one_line(&operation.name);
        html!("<li><a href=\"#{}section-{}\">{}</a></li>", prefix, operation.stem, name)
    };
    let entries = before.iter().map(titled).chain(operations.iter().map(operation)).chain(notes.iter().map(titled));
    html!("<nav aria-label=\"sections\"><ul>{}</ul></nav>\n", entries.collect::<Elements>())
}

/// One operation: what it shows, its charts, its tables. One of a single case folds, with its numbers in the line that stays.
fn part(
    run: &Run,
    operation: &Operation,
    (layout, declared): (&Layout, &Table),
    (prefix, several): (&str, bool),
    data: &mut Data,
) -> Elements {
    let name = one_line(&operation.name);
    let charts = charts::shown(run, operation);
    let mut cases = operation.configurations.iter().flat_map(|own| own.cases.iter().map(move |case| (own, *case)));
    let only = cases.next().filter(|_| cases.next().is_none());
    let mut out = html!("<section id=\"{}section-{}\">", prefix, operation.stem);
    match &only {
        Some(case) => {
            // What has a chart stays open: a fold would hide it in print.
            let open = Literal(if charts.is_empty() { "" } else { " open=\"\"" });
            let line = one_line(&layout.in_a_line(case));
            html!(out => "<details class=\"one\"{}><summary><h2>{}</h2> <span>{}</span></summary>", open, name, line);
        }
        None => html!(out => "<h2>{}</h2>", name),
    }
    if !operation.constants.is_empty() {
        html!(out => "<p class=\"constants\">{}</p>", prose(&operation.constants));
    }
    if several {
        out += elements(&prose_list(sentences::of_operation(run, operation)));
    }
    out += figures::figures(&charts, prefix, &mut data.charts);
    out += elements(&drift::left_out(run, operation).into_iter().collect::<Vec<_>>());
    out += elements(&peers::results(operation));
    let (main, others) =
        if run.cases.len() <= STATIC { results::page(operation, run.wording) } else { Default::default() };
    let plain = if !main.is_empty() {
        elements(&main)
    } else if run.cases.len() > STATIC {
        html!("<p>Without JavaScript this page lists no cases: <code>cases.csv</code> has them.</p>")
    } else {
        html!("<p>No case was measured.</p>")
    };
    for (class, text) in [("same", layout.heading()), ("most", layout.caveats.sentence())] {
        html!(out => "{}", text.map(|text| html!("<p class=\"{}\">{}</p>", class, prose(&text))));
    }
    html!(out => "<div data-section=\"{}\"><div class=\"static\">{}</div></div>", data.sections.len(), plain);
    out += elements(&results::below(layout, declared));
    out += others.iter().map(|table| elements(table)).collect::<Elements>();
    out.literal(if only.is_some() { "</details></section>\n" } else { "</section>\n" });
    out
}

//! `report.html`: the whole report in one file that loads nothing. A policy in its head forbids it to, names the style and
//! the script in it by their hashes, and allows no others.
//!
//! All that is said stands in the page itself, and is read without the script: charts are pictures, tables are tables. The
//! script makes charts answer to the pointer and tables sort, from the values at the end of the page. The page is the same
//! for the same records, byte for byte. Text from data is escaped: in `escape::xml` for the page, in `json` for the values.

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

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use record::show::{Show, Table};

use crate::document::html::{html, prose};
use crate::document::prose_list;
use crate::escape::{file_stem, one_line, xml as escape};
use crate::formats::write::Out;
use crate::number::{count, thousands};
use crate::study::{Operation, operations};
use crate::words::caveats::Wording;
use crate::words::findings::findings;
use crate::words::layout::Layout;
use crate::{
    AgainstBase, Artifact, Error, Format, Run, chart, charts, words::drift, words::explained as traces, words::peers,
    words::results, words::sentences,
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
    fn name(&self) -> &'static str {
        "html"
    }

    fn doc(&self) -> &'static str {
        "report.html: summary, findings, interactive charts, every case; one file that loads nothing"
    }

    fn render(&self, run: &Run) -> Result<Vec<Artifact>, Error> {
        Ok(vec![Artifact::new(FILE, page(&[run], &[]).into_bytes())])
    }
}

/// Writes one page about several records below `dir`, and returns its path. `compared` says of each record behind the first,
/// the base, what its comparison with that one found.
///
/// # Errors
/// When it cannot be written.
pub fn write_together(runs: &[Run], compared: &[AgainstBase], dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let runs: Vec<&Run> = runs.iter().collect();
    let mut out = Out::below(dir);
    out.put(&Artifact::new(FILE, page(&runs, compared).into_bytes()))?;
    Ok(out.into_written().files)
}

/// What the script reads.
#[derive(Default)]
struct Data {
    charts: Vec<String>,
    sections: Vec<String>,
    /// Tables of what traces showed.
    tables: Vec<String>,
}

fn page(runs: &[&Run], compared: &[AgainstBase]) -> String {
    let style = format!("{}{STYLE}", chart::rules());
    let mut data = Data::default();
    let body = match runs {
        [run] => record(run, "", "h1", &mut data),
        several => together::together(several, compared, &mut data),
    };
    let titles: Vec<String> = runs.iter().map(|run| one_line(&run.title)).filter(|title| !title.is_empty()).collect();
    let title = if titles.is_empty() { "Report".to_owned() } else { titles.join(", ") };
    let policy = crate::policy::policy(&style, &[SCRIPT]);
    let [status, caveats] = cases::vocabulary(Wording::common(runs.iter().map(|run| run.wording)));
    let mut values =
        vec![("charts", json::array(&data.charts)), ("sections", json::array(&data.sections)), status, caveats];
    if !data.tables.is_empty() {
        values.push(("tables", json::array(&data.tables)));
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"rankmark\">\n<title>{}</title>\n<style>{style}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#cases\">To the results</a>\n<main>\n{body}</main>\n\
         <script type=\"application/json\" id=\"data\">{}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
        escape(&title),
        json::object(&values)
    )
}

/// The switch of light and dark: the script shows it.
const THEME: &str = "<button type=\"button\" id=\"theme\" hidden></button>";

/// One record.
fn record(run: &Run, prefix: &str, heading: &str, data: &mut Data) -> String {
    let operations = operations(&run.cases, &run.benchmarks);
    let (quantiles, unread) = samples::quantiles(run, ROWS);
    let found = findings(run, &operations);
    let head = head::head(run, &operations, &found, heading);
    let mut out = if heading == "h1" { format!("<div class=\"top\"><div></div>{THEME}</div>{head}") } else { head };
    let mut notes = notes::sections(run, &operations);
    // The overview stands before what it sums up.
    let summed = notes.iter().position(|(title, _)| *title == SUMMARY).map(|place| notes.remove(place));
    let limits = explained::section(run, prefix, data);
    let limits = (!limits.is_empty()).then_some((traces::TITLE, limits));
    let before: Vec<(&'static str, String)> = summed.into_iter().chain(limits).collect();
    let shown = &operations[..operations.len().min(SECTIONS)];
    out += &contents(&before, shown, &notes, prefix);
    let said = sentences::beyond(run, &operations, &found);
    if !said.is_empty() {
        let _ = writeln!(out, "<section><h2>What the data show</h2>{}</section>", html(&prose_list(said)));
    }
    out += &before.iter().map(|part| titled(part, prefix)).collect::<String>();
    let anchor = if prefix.is_empty() { "cases".to_owned() } else { format!("{prefix}cases") };
    let _ = write!(out, "<div id=\"{anchor}\">");
    let mut room = ROWS;
    let several = operations.len() > sentences::FEW_OPERATIONS;
    let (plain, none) = (Show::default(), Table::default());
    for operation in shown {
        let show = operation.declared.map_or(&plain, |declared| &declared.show);
        let declared = show.tables.first().unwrap_or(&none);
        // It reads every case: once for the page and the script.
        let layout = Layout::new(operation, show, declared, "").worded(run.wording);
        out += &part(run, operation, (&layout, declared), (prefix, several), data);
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
        let _ = write!(out, "<p class=\"warn\">{}</p>", prose(&why));
    }
    out += "</div>";
    if let Some(why) = unread {
        let _ = write!(out, "<p class=\"warn\">{}</p>", prose(&why));
    }
    out + &notes.iter().map(|part| titled(part, prefix)).collect::<String>()
}

/// A section with its title.
fn titled((title, body): &(&str, String), prefix: &str) -> String {
    format!("<section id=\"{prefix}{}\"><h2>{title}</h2>{body}</section>\n", file_stem(title))
}

/// Links to the sections, in their order.
fn contents(
    before: &[(&'static str, String)],
    operations: &[Operation],
    notes: &[(&'static str, String)],
    prefix: &str,
) -> String {
    let entry = |id: &str, name: &str| format!("<li><a href=\"#{prefix}{}\">{}</a></li>", escape(id), escape(name));
    let titled = |(title, _): &(&'static str, String)| entry(&file_stem(title), title);
    let parts = operations.iter().map(|operation| entry(&section_id(operation), &one_line(&operation.name)));
    let entries: String = before.iter().map(titled).chain(parts).chain(notes.iter().map(titled)).collect();
    format!("<nav aria-label=\"sections\"><ul>{entries}</ul></nav>\n")
}

fn section_id(operation: &Operation) -> String {
    format!("section-{}", operation.stem)
}

/// One operation: what it shows, its charts, its tables. One of a single case folds, with its numbers in the line that stays.
fn part(
    run: &Run,
    operation: &Operation,
    (layout, declared): (&Layout, &Table),
    (prefix, several): (&str, bool),
    data: &mut Data,
) -> String {
    let (id, name) = (section_id(operation), escape(&one_line(&operation.name)));
    let charts = charts::shown(run, operation);
    let mut cases = operation.configurations.iter().flat_map(|own| own.cases.iter().map(move |case| (own, *case)));
    let only = cases.next().filter(|_| cases.next().is_none());
    let mut out = format!("<section id=\"{prefix}{id}\">");
    match &only {
        Some(case) => {
            // What has a chart stays open: a fold would hide it in print.
            let open = if charts.is_empty() { "" } else { " open=\"\"" };
            let line = escape(&one_line(&layout.in_a_line(case)));
            let _ = write!(out, "<details class=\"one\"{open}><summary><h2>{name}</h2> <span>{line}</span></summary>");
        }
        None => out += &format!("<h2>{name}</h2>"),
    }
    if !operation.constants.is_empty() {
        let _ = write!(out, "<p class=\"constants\">{}</p>", prose(&operation.constants));
    }
    if several {
        out += &html(&prose_list(sentences::of_operation(run, operation)));
    }
    out += &figures::figures(&charts, prefix, &mut data.charts);
    out += &html(&drift::left_out(run, operation).into_iter().collect::<Vec<_>>());
    out += &html(&peers::results(operation));
    let (main, others) =
        if run.cases.len() <= STATIC { results::page(operation, run.wording) } else { Default::default() };
    let plain = if !main.is_empty() {
        html(&main)
    } else if run.cases.len() > STATIC {
        "<p>Without JavaScript this page lists no cases: <code>cases.csv</code> has them.</p>".to_owned()
    } else {
        "<p>No case was measured.</p>".to_owned()
    };
    for (class, text) in [("same", layout.heading()), ("most", layout.caveats.sentence())] {
        out += &text.map_or_else(String::new, |text| format!("<p class=\"{class}\">{}</p>", prose(&text)));
    }
    let _ = write!(out, "<div data-section=\"{}\"><div class=\"static\">{plain}</div></div>", data.sections.len());
    out += &html(&results::below(layout, declared));
    out += &others.iter().map(|table| html(table)).collect::<String>();
    out += if only.is_some() { "</details>" } else { "" };
    out + "</section>\n"
}

//! One page about several records: the verdict of the comparison, the cases with both times, charts with a line for each
//! record, what sets the records apart, and the report of each, folded.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use diagnose::compare::Comparison;
use record::{CaseLine, Declared, DeclaredField, Shape};
use terms::{Field, Kind, Label, Named as _, Role};
use view::{COLOURS, ChartSpec, NamedChart, declared_charts};

use super::bar::bar;
use super::{Data, THEME, figures, record};
use crate::Run;
use crate::compare::{self, Comparisons, letter};
use crate::document::html::{elements, inline};
use crate::escape::one_line;
use crate::markup::{Html, Literal, html};
use crate::number::count;
use crate::page::status;
use crate::study::operations;

/// Rows of the table of cases.
const ROWS: usize = 500;
/// Operations whose charts are drawn.
const DRAWN: usize = 24;
/// The parameter that tells the cases of the records apart in charts. No benchmark declares it.
const RECORD: &str = "record";

/// The page of several runs, the first of which is the base, and what the comparison of each other with it says; None: they are
/// not compared.
pub(super) fn together(runs: &[&Run], compared: Option<&Comparisons>, data: &mut Data) -> Html {
    let mut out = html!("<div class=\"top\"><h1>{}</h1>{}</div>", count(runs.len(), "record", "records"), THEME);
    let others = compared.map_or(&[][..], |compared| &compared.others);
    for (at, compared) in compared.iter().flat_map(|compared| (0..others.len()).map(move |at| (at, compared))) {
        out += elements(&compare::verdict(compared, at));
        out += shares_of(&others[at].comparison);
    }
    out += records(runs);
    let any = others.iter().any(|one| !one.comparison.cases.is_empty());
    if let Some(compared) = compared {
        // What a reader must know before the figures: what else differs.
        html!(out => "<h2>What sets the records apart</h2>{}", elements(&[compare::differences(compared)]));
        if any {
            html!(out => "<h2 id=\"cases\">Cases</h2>{}", elements(&compare::cases(compared, ROWS)));
        }
        let rests_on = compare::rests_on(compared);
        if !rests_on.is_empty() {
            html!(out => "<h2>What the verdicts rest on</h2>{}", elements(&rests_on));
        }
    }
    if let Some(compared) = compared.filter(|_| any) {
        out += charts(runs, compared, data);
    }
    let is_open = others.iter().any(|one| one.comparison.verdict().is_none()) || others.is_empty();
    for (index, run) in runs.iter().enumerate() {
        html!(
            out => "<details class=\"record\"{} id=\"r{}\"><summary>Report of {}: {}</summary>{}</details>\n",
            Literal(if is_open { " open" } else { "" }),
            index,
            letter(index),
            title(run),
            record(run, &format!("r{index}-"), 2, data)
        );
    }
    out
}

/// A bar of the verdicts of cases.
fn shares_of(comparison: &Comparison) -> Html {
    match comparison.verdict() {
        Some(_) => bar(|word| {
            comparison.cases.iter().filter(|case| case.verdict.is_some_and(|one| one.name() == word)).count()
        }),
        None => Html::new(),
    }
}

/// What a record is called in labels of charts, where a letter alone may be a value of another field.
fn name(index: usize) -> String {
    format!("{RECORD} {}", letter(index))
}

fn title(run: &Run) -> String {
    let title = one_line(&run.title);
    if title.is_empty() { "Report".to_owned() } else { title }
}

/// A record's letter, with what two records are called in sentences.
fn called(index: usize, records: usize) -> String {
    let word = match (index, records) {
        (0, _) => " (base)",
        (_, 2) => " (new)",
        _ => "",
    };
    letter(index) + word
}

/// Which record is which.
fn records(runs: &[&Run]) -> Html {
    let line = |(index, run): (usize, &&Run)| {
        // One machine is named once.
        let machine = if index > 0 && run.machine == runs[0].machine { String::new() } else { run.machine.clone() };
        let parts = [run.started.clone(), run.directory.display().to_string(), machine];
        let parts: Vec<String> = parts.iter().map(|part| one_line(part)).filter(|part| !part.is_empty()).collect();
        html!(
            "<dt>{}</dt><dd><a href=\"#r{}\">{}</a> · {} · {}</dd>",
            called(index, runs.len()),
            index,
            title(run),
            parts.join(" · "),
            inline(&status(run))
        )
    };
    html!("<dl class=\"facts\">{}</dl>", runs.iter().enumerate().map(line).collect::<Html>())
}

/// Charts of the operations that several records have, with a line for each record.
fn charts(runs: &[&Run], compared: &Comparisons, data: &mut Data) -> Html {
    let mut benchmarks: Vec<Declared> = Vec::new();
    for declared in runs.iter().flat_map(|run| &run.benchmarks) {
        match benchmarks.iter_mut().find(|other| other.name == declared.name) {
            // A field that one record alone has, such as the side of an interleaved one.
            Some(other) => {
                let more = declared.fields.iter().filter(|field| other.field(&field.name).is_none());
                let more: Vec<DeclaredField> = more.cloned().collect();
                other.fields.extend(more);
            }
            None => {
                let mut declared = declared.clone();
                declared.fields.push(field());
                benchmarks.push(declared);
            }
        }
    }
    let of_run = |(index, run): (usize, &&Run)| {
        let measured: HashMap<&str, &CaseLine> = run.cases.iter().map(|case| (case.id.as_str(), case)).collect();
        let of_case = |case: &CaseLine| {
            let mut case = case.clone();
            if let Some(of) = measured.get(case.id.as_str()) {
                with_rates(&mut case, of, view::study::declaration(&run.benchmarks, &of.benchmark));
            }
            case.parameters.insert(RECORD, name(index).into());
            case
        };
        // As they were compared, so that table and chart show the same times.
        let compared = match index {
            0 => Some(&compared.base.cases),
            other => compared.others.get(other - 1).map(|one| &one.latest.cases),
        };
        compared.unwrap_or(&run.cases).iter().map(of_case).collect::<Vec<_>>()
    };
    let cases: Vec<CaseLine> = runs.iter().enumerate().flat_map(of_run).collect();
    let mut sections = Html::new();
    for operation in operations(&cases, &benchmarks).iter().take(DRAWN) {
        let charts: Vec<NamedChart> = declared_charts(operation)
            .into_iter()
            .filter_map(|chart| Some(NamedChart { spec: overlaid(chart.spec, runs.len())?, ..chart }))
            .collect();
        if !charts.is_empty() {
            let figures = figures::figures(&charts, "all-", &mut data.charts);
            html!(sections => "<h3>{}</h3>{}", one_line(&operation.name), figures);
        }
    }
    if sections.is_empty() { sections } else { html!("<h2>Charts</h2>{}", sections) }
}

/// Gives a case that has the times of one state of the machine the rates that follow from these: work over time.
fn with_rates(case: &mut CaseLine, measured: &CaseLine, declared: Option<&Declared>) {
    let (Some(time), Some(of)) = (&case.time_s, &measured.time_s) else { return };
    let faster = of.median / time.median;
    let rates = declared.map_or(&[][..], |declared| &declared.metrics).iter().filter(|one| one.shape == Shape::Rate);
    for rate in rates {
        let value = measured.metric(&rate.name).filter(|_| case.metrics.get(&rate.name).is_none());
        if let Some(value) = value {
            case.metrics.insert(rate.name.clone(), (value * faster).into());
        }
    }
}

/// Declares the record as a field, so that labels have its letter.
fn field() -> DeclaredField {
    let field = Field::new(Kind::Text, None, "record of a comparison").named(RECORD);
    DeclaredField::of(&field.role(Role::Implementation).label(Label::Around("{}")))
}

/// The chart with the letter of the record first in each label, and a colour for each record; None where it does not show
/// several records. What all lines share goes into the subtitle.
fn overlaid(mut spec: ChartSpec, records: usize) -> Option<ChartSpec> {
    let names: Vec<String> = (0..records).map(name).collect();
    let split = |label: &str| {
        let parts: Vec<&str> = label.split(", ").collect();
        let record = names.iter().position(|name| parts.contains(&name.as_str()))?;
        let rest: Vec<&str> = parts.into_iter().filter(|part| *part != names[record]).collect();
        Some((record, rest.join(", ")))
    };
    let split: Vec<(usize, String)> = spec.series.iter().map(|one| split(&one.label)).collect::<Option<_>>()?;
    let mut seen: Vec<usize> = split.iter().map(|(record, _)| *record).collect();
    seen.sort_unstable();
    seen.dedup();
    let across: BTreeSet<u64> = spec.series.iter().flat_map(|one| &one.points).map(|point| point.x.to_bits()).collect();
    if seen.len() < 2 || across.len() < 2 {
        return None;
    }
    let mut rests: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, rest) in &split {
        let next = rests.len();
        rests.entry(rest).or_insert(next);
    }
    let alone = rests.len() == 1;
    for (one, (record, rest)) in spec.series.iter_mut().zip(&split) {
        let letter = letter(*record);
        one.label = if alone || rest.is_empty() { letter.clone() } else { format!("{letter}, {rest}") };
        one.style = record % COLOURS + COLOURS * rests[rest.as_str()];
    }
    if let (true, Some((_, rest))) = (alone, split.first()) {
        let parts = [spec.subtitle.as_str(), rest].into_iter().filter(|part| !part.is_empty());
        spec.subtitle = parts.collect::<Vec<_>>().join(", ");
    }
    // A limit for each record would hide the lines that are compared.
    spec.references.clear();
    spec.note = spec.note.replace(" Dashed: the limit that was measured with the case.", "");
    // Of two points on top of each other, both are seen.
    spec.series.sort_by_key(|one| one.style % COLOURS);
    Some(spec)
}

//! One page about several records: the verdict of the comparison, the cases with both times, charts with a line for each
//! record, what sets the records apart, and the report of each, folded.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use record::{CaseLine, Declared, DeclaredField, Shape};
use view::{COLOURS, ChartSpec, NamedChart, declared_charts};

use super::bar::bar;
use super::{Data, THEME, figures, record};
use crate::document::html::{elements, inline, prose};
use crate::document::{Align, Block, Table, Words, bullets};
use crate::escape::one_line;
use crate::markup::{Html, Literal, html};
use crate::number::{NONE, count};
use crate::page::status;
use crate::study::operations;
use crate::words::interleaved::title_of;
use crate::words::verdict::{Tone, tone_of};
use crate::{AgainstBase, CaseAgainstBase, Run};

/// Rows of the table of cases.
const ROWS: usize = 500;
/// Operations whose charts are drawn.
const DRAWN: usize = 24;
/// Characters of a value that differs.
const VALUE: usize = 120;
/// The parameter that tells the cases of the records apart in charts. No benchmark declares it.
const RECORD: &str = "record";

/// The page of several runs: the first run is the base, and each other one has its comparison with it.
pub(super) fn together(runs: &[&Run], compared: &[AgainstBase], data: &mut Data) -> Html {
    let mut out = html!("<div class=\"top\"><h1>{}</h1>{}</div>", count(runs.len(), "record", "records"), THEME);
    for (at, one) in compared.iter().enumerate() {
        let prefix = if compared.len() > 1 { format!("{} against A: ", letter(at + 1)) } else { String::new() };
        for warning in &one.warnings {
            html!(out => "<p class=\"banner\">{}{}</p>", prefix, prose(warning));
        }
    }
    for (at, one) in compared.iter().enumerate() {
        out += verdict(one, (compared.len() > 1).then(|| letter(at + 1)));
    }
    out += records(runs);
    // What a reader must know before the figures: what else differs, and why a verdict is what it is.
    if !compared.is_empty() {
        out += apart(compared);
    }
    let any = compared.iter().any(|one| !one.cases.is_empty());
    if any {
        out += cases(compared);
    }
    if !compared.is_empty() {
        out += rests_on(compared);
    }
    if any {
        out += charts(runs, compared, data);
    }
    let is_open = compared.iter().any(|one| one.verdict.is_empty()) || compared.is_empty();
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

/// What a record is called: A, B, ... Z, then by its number.
fn letter(index: usize) -> String {
    let letter = u8::try_from(index).ok().filter(|index| *index < 26).map(|index| char::from(b'A' + index));
    letter.map_or_else(|| format!("#{}", index + 1), |letter| letter.to_string())
}

/// What a record is called in labels of charts, where a letter alone may be a value of another field.
fn name(index: usize) -> String {
    format!("{RECORD} {}", letter(index))
}

fn title(run: &Run) -> String {
    let title = one_line(&run.title);
    if title.is_empty() { "Report".to_owned() } else { title }
}

/// The verdict in one sentence, a bar of the verdicts of cases, and the largest change.
fn verdict(one: &AgainstBase, name: Option<String>) -> Html {
    let name = name.map_or_else(String::new, |name| format!("{name} against A: "));
    if one.verdict.is_empty() {
        let sentence = prose(&one.sentence);
        return html!("<p class=\"verdict care\">{}<strong>Nothing in common</strong>: {}.</p>", name, sentence);
    }
    let sentence = one_line(&one.sentence);
    let rest = sentence.strip_prefix(&one.verdict).unwrap_or(&sentence);
    let class = match tone_of(&one.verdict) {
        Tone::Good => "verdict",
        Tone::Care => "verdict care",
        Tone::Bad => "verdict bad",
    };
    let title = title_of(&one.verdict);
    let mut out = html!("<p class=\"{}\">{}<strong>{}</strong>{}.</p>", class, name, title, prose(rest));
    let of = |verdict: &str| one.cases.iter().filter(|case| case.verdict == verdict).count();
    out += bar(of);
    if !one.largest.is_empty() {
        html!(out => "<p class=\"meta\">{}</p>", prose(&one.largest));
    }
    out
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
            letter(index),
            index,
            title(run),
            parts.join(" · "),
            inline(&status(run))
        )
    };
    html!("<dl class=\"facts\">{}</dl>", runs.iter().enumerate().map(line).collect::<Html>())
}

/// A table that scrolls on its own where the screen is narrow. A title comes with whether its cells are numbers.
fn wide(name: &str, titles: &[(String, bool)], rows: &Html) -> Html {
    let head = |(title, number): &(String, bool)| {
        html!("<th scope=\"col\"{}>{}</th>", Literal(if *number { " class=\"n\"" } else { "" }), title)
    };
    html!(
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table class=\"compared\"><thead><tr>{}\
         </tr></thead><tbody>{}</tbody></table></div>\n",
        name,
        titles.iter().map(head).collect::<Html>(),
        rows
    )
}

/// The cases that the base shares with any record, the most important first.
fn cases(compared: &[AgainstBase]) -> Html {
    let rows = rows_of(compared);
    let mut titles = vec![("case".to_owned(), false), ("A".to_owned(), true)];
    for at in 1..=compared.len() {
        let letter = letter(at);
        titles.extend([
            (letter.clone(), true),
            (format!("{letter}/A (interval)"), true),
            ("verdict".to_owned(), false),
        ]);
    }
    let mut body = Html::new();
    for row in rows.iter().take(ROWS) {
        let Some(any) = row.iter().flatten().next() else { continue };
        let base = row.iter().flatten().map(|case| case.values[0].as_str()).find(|value| *value != NONE);
        let base = one_line(base.unwrap_or(NONE));
        html!(body => "<tr><th scope=\"row\">{}</th><td class=\"n\">{}</td>", one_line(&any.label), base);
        row.iter().for_each(|case| body += cells(*case));
        body.literal("</tr>");
    }
    let more = rows.len().saturating_sub(ROWS);
    let more = (more > 0).then(|| {
        let more = count(more, "case", "cases");
        html!("<p>{} more: <code>rankmark compare --all</code> lists them.</p>", more)
    });
    html!("<h2 id=\"cases\">Cases</h2>{}{}", more, wide("cases of both records", &titles, &body))
}

fn cells(case: Option<&CaseAgainstBase>) -> Html {
    let Some(case) = case else {
        return html!("<td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td>", NONE, NONE, NONE);
    };
    let three = crate::number::ratio;
    let ends = case.interval.map_or(String::new(), |[low, high]| format!(" ({} to {})", three(low), three(high)));
    let mark = if case.extrapolated { "*" } else { "" };
    let ratio = case.ratio.map_or_else(|| NONE.to_owned(), |ratio| format!("{}{ends}{mark}", three(ratio)));
    let class = Literal(match case.verdict.as_str() {
        "worse" => " class=\"unwell\"",
        "better" => " class=\"better\"",
        "cannot tell" => " class=\"idle\"",
        _ => "",
    });
    let (value, verdict) = (one_line(&case.values[1]), one_line(&case.verdict));
    html!("<td class=\"n\">{}</td><td class=\"n wraps\">{}</td><td{}>{}</td>", value, ratio, class, verdict)
}

/// A row for each case: what each comparison says of it. Of one comparison in its order, of several by the verdict that
/// matters most.
fn rows_of(compared: &[AgainstBase]) -> Vec<Vec<Option<&CaseAgainstBase>>> {
    let mut rows: Vec<Vec<Option<&CaseAgainstBase>>> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (at, one) in compared.iter().enumerate() {
        for case in &one.cases {
            let place = *places.entry(&case.id).or_insert_with(|| {
                rows.push(vec![None; compared.len()]);
                rows.len() - 1
            });
            rows[place][at] = Some(case);
        }
    }
    let weight = |case: &CaseAgainstBase| {
        ["worse", "better", "cannot tell", "same"].iter().position(|word| *word == case.verdict).unwrap_or(4)
    };
    if compared.len() > 1 {
        rows.sort_by_key(|row| row.iter().flatten().map(|case| weight(case)).min());
    }
    rows
}

/// Charts of the operations that several records have, with a line for each record.
fn charts(runs: &[&Run], compared: &[AgainstBase], data: &mut Data) -> Html {
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
            0 => compared.iter().map(|one| &one.lines[0]).find(|lines| !lines.is_empty()),
            other => compared.get(other - 1).map(|one| &one.lines[1]).filter(|lines| !lines.is_empty()),
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
    DeclaredField {
        name: RECORD.to_owned(),
        kind: "text".to_owned(),
        default: None,
        unit: String::new(),
        doc: "record of a comparison".to_owned(),
        role: terms::Role::Implementation,
        owner: String::new(),
        loads: false,
        label: "{}".to_owned(),
        follows_unless: String::new(),
    }
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

/// The values of a field in the base and in another record.
type Both<'c> = [&'c Option<String>; 2];

/// What sets machines, plans, versions and environments apart: only fields that differ.
fn apart(compared: &[AgainstBase]) -> Html {
    let mut fields: BTreeMap<(usize, &str, &str), Vec<Option<Both>>> = BTreeMap::new();
    let topics: Vec<&str> = compared.iter().flat_map(|one| &one.differences).map(|one| one.topic.as_str()).collect();
    for (at, one) in compared.iter().enumerate() {
        for field in &one.differences {
            let topic = topics.iter().position(|topic| *topic == field.topic).unwrap_or(0);
            let row = fields.entry((topic, &field.topic, &field.name)).or_insert_with(|| vec![None; compared.len()]);
            row[at] = Some([&field.base, &field.new]);
        }
    }
    let short = |value: &Option<String>| {
        let value = value.as_deref().map_or(NONE.to_owned(), one_line);
        if value.chars().count() <= VALUE { value } else { value.chars().take(VALUE).collect::<String>() + "..." }
    };
    let letters = (0..=compared.len()).map(|index| (letter(index), Align::Left));
    let titles = [(String::new(), Align::Left), ("field".to_owned(), Align::Left)];
    let mut table = Table::new(titles.into_iter().chain(letters));
    for ((_, topic, name), row) in &fields {
        let base = row.iter().flatten().next().map_or(NONE.to_owned(), |[base, _]| short(base));
        let others = row.iter().map(|both| both.map_or("as A".to_owned(), |[_, new]| short(new)));
        table.row([(*topic).to_owned(), one_line(name), base].into_iter().chain(others).collect::<Vec<_>>());
    }
    let body = if table.is_empty() {
        let lines = || compared.iter().flat_map(|one| &one.lines).flatten();
        let imported = lines().any(|line| line.caveats.contains(&record::Caveat::Imported));
        elements(&[Block::Paragraph(crate::nothing_differs(imported).into())])
    } else {
        elements(&[Block::Table(table)])
    };
    html!("<h2>What sets the records apart</h2>{}", body)
}

/// What the verdicts rest on, and the cases without a partner.
fn rests_on(compared: &[AgainstBase]) -> Html {
    let mut said: Vec<String> = Vec::new();
    for (at, one) in compared.iter().enumerate() {
        let other = letter(at + 1);
        let prefix = if compared.len() > 1 { format!("{other}: ") } else { String::new() };
        let lone = ["A".to_owned(), other].into_iter().zip(&one.lone).filter(|(_, cases)| !cases.is_empty());
        let lone = lone.map(|(letter, cases)| {
            let few: Vec<&str> = cases.iter().take(3).map(String::as_str).collect();
            let more = if cases.len() > 3 { format!(" and {} more", cases.len() - 3) } else { String::new() };
            format!("Only {letter} has {}: {}{more}.", count(cases.len(), "case", "cases"), few.join("; "))
        });
        let notes = one.notes.iter().cloned().chain(lone);
        said.extend(notes.map(|note| one_line(&format!("{prefix}{note}"))));
    }
    let items: Vec<Words> = said.iter().map(|line| Words::prose(line)).collect();
    if items.is_empty() {
        Html::new()
    } else {
        html!("<h2>What the verdicts rest on</h2>{}", elements(&bullets(items)))
    }
}

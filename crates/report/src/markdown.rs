//! `report.md`: summary, pictures, tables, doubts and method, fit for a pull request.

use std::collections::BTreeMap;

use record::{CaseLine, Caveat};
use terms::{Named as _, Status};

use crate::charts::{self, Named};
use crate::escape::{code, markdown as escaped, one_line};
use crate::facts::{self, Saturation};
use crate::number::{NONE, bytes, count, list, percent, seconds, thousands, three_digits};
use crate::sentences;
use crate::study::{Configuration, Measured, Operation, banner, operation, operations};
use crate::table::{Align, Table};
use crate::{Artifact, Error, Format, Run};

/// The Markdown report.
#[derive(Debug)]
pub(crate) struct Markdown;

impl Format for Markdown {
    fn name(&self) -> &'static str {
        "markdown"
    }

    fn doc(&self) -> &'static str {
        "report.md: summary, pictures (see `charts`), tables, doubts, method"
    }

    fn render(&self, run: &Run) -> Result<Vec<Artifact>, Error> {
        Ok(vec![Artifact::new("report.md", page(run).into_bytes())])
    }
}

fn page(run: &Run) -> String {
    let operations = operations(run);
    let several = operations.len() > sentences::FEW_OPERATIONS;
    let mut page = head(run);
    page += &section("What the data show", &bullets(&sentences::sentences(run)));
    for operation in &operations {
        let words = if several { bullets(&sentences::of_operation(operation)) } else { String::new() };
        let pictures = pictures(&charts::of_operation(run, operation));
        let parts = [escaped(&operation.constants), words, pictures, results(operation)];
        let body: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
        page += &section(&escaped(&operation.name), &body.join("\n\n"));
    }
    page += &section("Summary by configuration", &summary(&operations));
    page += &section("Cases without a result", &without_result(run));
    page += &section("Caveats", &caveats(run));
    page += &section("Method", &method(run));
    page += &section("Run it again", &again(run));
    page
}

fn section(title: &str, body: &str) -> String {
    if body.trim().is_empty() { String::new() } else { format!("\n## {title}\n\n{}\n", body.trim_end()) }
}

fn bullets(sentences: &[String]) -> String {
    sentences.iter().map(|sentence| format!("* {}", escaped(sentence))).collect::<Vec<_>>().join("\n")
}

fn head(run: &Run) -> String {
    let title = if run.title.trim().is_empty() { "Report".to_owned() } else { escaped(&run.title) };
    let mut text = format!("# {title}\n");
    if let Some(warning) = banner(run.cases.iter()) {
        text += &format!("\n> **{}**\n", escaped(&warning));
    }
    let mut facts = vec![("Status", status(run))];
    facts.push(("Started", escaped(&run.started)));
    facts.push(("Machine", escaped(&run.machine)));
    facts.push(("Command", if run.command.is_empty() { String::new() } else { code(&run.command) }));
    facts.push(("Program", escaped(&run.program)));
    text.push('\n');
    for (name, value) in facts.into_iter().filter(|(_, value)| !value.is_empty()) {
        text += &format!("* {name}: {value}\n");
    }
    text
}

/// `12 cases: 11 ok (wrong 0 in each), 1 failed`.
fn status(run: &Run) -> String {
    let of = |status: Status| run.cases.iter().filter(move |case| case.status == status);
    let mut parts = Vec::new();
    for (status, word) in
        [(Status::Ok, "ok"), (Status::Failed, "failed"), (Status::Skipped, "skipped"), (Status::NotRun, "not run")]
    {
        let number = of(status).count();
        if number == 0 {
            continue;
        }
        // Only a check that ran may be quoted.
        let checked = status == Status::Ok && of(status).all(|case| case.wrong == Some(0));
        parts.push(format!("{number} {word}{}", if checked { " (`wrong` 0 in each)" } else { "" }));
    }
    format!(
        "{}: {}",
        count(run.cases.len(), "case", "cases"),
        if parts.is_empty() { NONE.to_owned() } else { parts.join(", ") }
    )
}

fn pictures(charts: &[Named]) -> String {
    let picture = |chart: &Named| {
        let stem = &chart.stem;
        format!("[![{}](charts/{stem}.png)](charts/{stem}.svg)", escaped(&chart.spec.title))
    };
    charts.iter().map(picture).collect::<Vec<_>>().join("\n\n")
}

/// Every measured case of an operation.
fn results(operation: &Operation) -> String {
    use Align::{Left, Right};
    let mut table = Table::new(&[
        ("bytes", Right),
        ("ranks", Right),
        ("configuration", Left),
        ("op", Left),
        ("type", Left),
        ("time", Right),
        ("±95%", Right),
        ("algbw GB/s", Right),
        ("busbw GB/s", Right),
        ("% of limit", Right),
        ("wrong", Right),
        ("caveats", Left),
    ]);
    for configuration in &operation.configurations {
        let plain = crate::study::ranks(configuration.ranks);
        let label = if configuration.label == plain { NONE.to_owned() } else { escaped(&configuration.label) };
        let mut cases: Vec<&CaseLine> =
            configuration.cases.iter().copied().filter(|case| case.time_s.is_some()).collect();
        cases.sort_by_key(|case| case.bytes);
        for case in cases {
            table.row(result(operation, case, &label));
        }
    }
    if table.is_empty() {
        String::new()
    } else {
        table.without_empty(NONE, &["configuration", "type", "% of limit"]).markdown()
    }
}

fn result(operation: &Operation, case: &CaseLine, label: &str) -> Vec<String> {
    let measured = Measured::of(case);
    let none = || NONE.to_owned();
    let of = |text: Option<String>| text.unwrap_or_else(none);
    let point = measured.as_ref();
    let caveats: Vec<&str> = case.caveats.iter().map(|caveat| caveat.name()).collect();
    vec![
        of(case.bytes.map(bytes)),
        case.ranks.to_string(),
        label.to_owned(),
        escaped(&operation.name),
        of(case.dtype.as_deref().map(escaped)),
        of(point.map(|point| seconds(point.time.mid))),
        of(point.map(|point| percent(point.time.relative_half_width()))),
        of(point.and_then(|point| Some(three_digits(point.algbw?.mid)))),
        of(point.and_then(|point| Some(three_digits(point.busbw?.mid)))),
        of(point.and_then(|point| Some(percent(point.limit_share?)))),
        of(case.wrong.map(|wrong| thousands(i64::try_from(wrong).unwrap_or(i64::MAX)))),
        caveats.join(", "),
    ]
}

fn summary(operations: &[Operation]) -> String {
    use Align::{Left, Right};
    let mut table = Table::new(&[
        ("op", Left),
        ("configuration", Left),
        ("cases", Right),
        ("smallest time", Right),
        ("latency floor", Right),
        ("peak busbw GB/s", Right),
        ("at", Right),
        ("90% of peak from", Right),
        ("best % of limit", Right),
    ]);
    for operation in operations {
        for configuration in operation.configurations.iter().filter(|c| !c.points.is_empty()) {
            table.row(summed(operation, configuration));
        }
    }
    if table.is_empty() {
        return String::new();
    }
    let table = table.without_empty(NONE, &["latency floor", "90% of peak from", "best % of limit"]);
    format!(
        "{}\nA latency floor is the median time of the smallest sizes where time does not depend on bytes (within a \
         factor of 1.25 while bytes grow at least fourfold). `{NONE}`: the data do not show it.",
        table.markdown()
    )
}

fn summed(operation: &Operation, configuration: &Configuration) -> Vec<String> {
    let of = |text: Option<String>| text.unwrap_or_else(|| NONE.to_owned());
    let smallest = configuration.points.iter().map(|point| point.time.mid).min_by(f64::total_cmp);
    let peak = facts::peak(configuration);
    let saturation = facts::saturation(configuration).map(|saturation| match saturation {
        Saturation::From(size) => bytes(size),
        Saturation::AtSmallest(size) => format!("<= {}", bytes(size)),
        Saturation::StillRising(size) => format!("> {}", bytes(size)),
    });
    let share = configuration.points.iter().filter_map(|point| point.limit_share).max_by(f64::total_cmp);
    let over = if configuration.oversubscribed() { " (oversubscribed)" } else { "" };
    vec![
        escaped(&operation.name),
        format!("{}{over}", escaped(&configuration.label)),
        configuration.points.len().to_string(),
        of(smallest.map(seconds)),
        of(facts::floor(configuration).map(|floor| seconds(floor.seconds))),
        of(peak.as_ref().map(|(_, busbw, _)| three_digits(busbw.mid))),
        of(peak.as_ref().map(|(size, _, _)| bytes(*size))),
        of(saturation.map(|text| escaped(&text))),
        of(share.map(percent)),
    ]
}

/// Failed, skipped and not run, with reasons, and how to run just these.
fn without_result(run: &Run) -> String {
    let mut text = String::new();
    let mut rerun = false;
    for case in run.cases.iter().filter(|case| case.status != Status::Ok) {
        rerun = true;
        let reason = case.reason.as_deref().map(one_line).filter(|reason| !reason.is_empty());
        let reason = reason.unwrap_or_else(|| "no reason was recorded".to_owned());
        text += &format!("* **{}** {}: {}\n", case.status.name().replace('_', " "), described(case), escaped(&reason));
        for wrong in case.wrong_elements.iter().take(4) {
            let (expected, got) = (code(&wrong.expected), code(&wrong.got));
            text += &format!("  * rank {}, element {}: expected {expected}, got {got}\n", wrong.rank, wrong.index);
        }
    }
    for case in run.cases.iter().filter(|case| case.status == Status::Ok && !case.gates_missed.is_empty()) {
        text += &format!("* **gate missed** {}: {}\n", described(case), escaped(&case.gates_missed.join("; ")));
    }
    if rerun {
        let command = format!("rankmark run --resume {}", quoted(&run.directory.display().to_string()));
        text += &format!("\nRun just these again: {}\n", code(&command));
    }
    text
}

/// `all_reduce 64 MiB, 4 ranks, shm`.
fn described(case: &CaseLine) -> String {
    let size = case.bytes.map(|size| format!(" {}", bytes(size))).unwrap_or_default();
    let backend = crate::study::backend(case);
    let backend = if backend.is_empty() { backend } else { format!(", {backend}") };
    let id = one_line(&case.id);
    escaped(&format!("{}{size}, {}{backend} (id {id})", operation(case), crate::study::ranks(case.ranks)))
}

/// A path as one word of a shell command.
fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | ':' | '+' | '@' | '%' | ',');
    if !path.is_empty() && path.chars().all(plain) {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}

/// The long form of each caveat that occurs, and how often.
fn caveats(run: &Run) -> String {
    let mut numbers: BTreeMap<Caveat, usize> = BTreeMap::new();
    for caveat in run.cases.iter().flat_map(|case| &case.caveats) {
        *numbers.entry(*caveat).or_default() += 1;
    }
    let line = |(caveat, number): (&Caveat, &usize)| {
        format!("* `{caveat}` ({}): {}.", count(*number, "case", "cases"), caveat.explanation())
    };
    numbers.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// How the numbers came about; only what applies to this run.
fn method(run: &Run) -> String {
    let measured: Vec<&CaseLine> = run.cases.iter().filter(|case| case.time_s.is_some()).collect();
    if measured.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "A sample's time is the maximum over ranks; the time of a case is the median of its samples. Nothing is dropped \
         as an outlier. ±95% is half the width of the 95% interval of the median, relative to it; the interval \
         accounts for the correlation of successive samples.",
    );
    let modes: Vec<String> = terms::Mode::ALL
        .iter()
        .filter(|mode| measured.iter().any(|case| case.mode == **mode))
        .map(|mode| match mode {
            terms::Mode::Streaming => {
                "`streaming`: calls back to back between two synchronisations, their time divided by their number"
                    .to_owned()
            }
            terms::Mode::Isolated => {
                "`isolated`: one call a sample, all ranks starting at one agreed instant".to_owned()
            }
        })
        .collect();
    text += &format!(" Mode {}.", list(&modes));
    if measured.iter().any(|case| case.metric("busbw_gbs").is_some()) {
        text += " algbw = bytes / time and busbw = algbw x a factor of operation and ranks, both in GB/s (1e9 bytes a \
                 second), as nccl-tests define them.";
    }
    if measured.iter().any(|case| case.metric("limit_share").is_some()) {
        text += " % of limit compares with the time in which the same cores move the operation's memory traffic, \
                 measured beside each case at the same working set and ranks.";
    }
    if measured.iter().any(|case| case.wrong.is_some()) {
        text += " `wrong` counts wrong elements over all ranks, checked before and after timing.";
    }
    text + " Exact values are in `cases.csv`, samples in the record."
}

fn again(run: &Run) -> String {
    if run.command.trim().is_empty() {
        String::new()
    } else {
        format!("```sh\n{}\n```", one_line(&run.command).replace("```", "` ` `"))
    }
}

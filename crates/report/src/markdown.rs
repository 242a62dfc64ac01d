//! `report.md`: summary, pictures, tables, caveats and method, fit for a pull request.

use std::collections::{BTreeMap, HashMap};

use record::{CaseLine, Caveat};
use terms::{Named as _, Status};

use view::NamedChart;

use crate::charts;
use crate::damage;
use crate::drift;
use crate::escape::{code, markdown as escaped, one_line, shell};
use crate::expected;
use crate::explained;
use crate::facts::{self, Saturation};
use crate::imported;
use crate::interleaved;
use crate::labels;
use crate::names::{self, what};
use crate::number::{NONE, bytes, count, list, percent, seconds, thousands, three_digits};
use crate::peers;
use crate::placement;
use crate::results;
use crate::sentences;
use crate::study::{Configuration, Operation, banner, cache, operations};
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
        "report.md: summary, pictures (see `charts`), tables, caveats, method"
    }

    fn refers_to(&self) -> &'static [&'static str] {
        &["svg", "png"]
    }

    fn render(&self, run: &Run) -> Result<Vec<Artifact>, Error> {
        Ok(vec![Artifact::new("report.md", page(run).into_bytes())])
    }
}

pub(crate) fn page(run: &Run) -> String {
    let operations = operations(&run.cases, &run.benchmarks);
    let several = operations.len() > sentences::FEW_OPERATIONS;
    let mut page = head(run);
    page += &section("Comparison", &interleaved::text(run));
    page += &section("What the data show", &bullets(&sentences::about(run, &operations)));
    page += &section(explained::TITLE, &explained::markdown(run, pictures));
    for operation in &operations {
        let words = if several { bullets(&sentences::of_operation(run, operation)) } else { String::new() };
        let pictures =
            [pictures(&charts::of_operation(run, operation)), drift::left_out(run, operation).unwrap_or_default()];
        let pictures = pictures.join("\n\n").trim_end().to_owned();
        let results = results::results(operation);
        let parts = [escaped(&operation.constants), words, pictures, peers::results(operation), results];
        let body: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
        page += &section(&escaped(&operation.name), &body.join("\n\n"));
    }
    page += &section("Expected figures", &expected::table(run));
    page += &section("Summary by configuration", &summary(&operations));
    page += &section("Cases that need attention", &without_result(run));
    page += &section("Damaged lines", &damage::list(run));
    page += &section("Caveats", &caveats(run));
    page += &section("Imported file", &imported::text(run));
    page += &section("Placement", &placement::text(run));
    page += &section("Method", &method(run));
    page += &section("Run it again", &again(run));
    page
}

pub(crate) fn section(title: &str, body: &str) -> String {
    if body.trim().is_empty() { String::new() } else { format!("\n## {title}\n\n{}\n", body.trim_end()) }
}

pub(crate) fn bullets(sentences: &[String]) -> String {
    sentences.iter().map(|sentence| format!("* {}", escaped(sentence))).collect::<Vec<_>>().join("\n")
}

fn head(run: &Run) -> String {
    let title = if run.title.trim().is_empty() { "Report".to_owned() } else { escaped(&run.title) };
    let mut text = format!("# {title}\n");
    for warning in damage::banners(run).into_iter().chain(banner(run.cases.iter())) {
        text += &format!("\n> **{}**\n", escaped(&warning));
    }
    let mut facts = vec![("Status", status(run))];
    facts.extend(labels::facts(&run.labels).map(|(name, value)| (name, escaped(&value))));
    facts.push(("Started", escaped(&run.started)));
    facts.push(("Machine", escaped(&run.machine)));
    facts.push(("Sensors", escaped(&sensors(run))));
    facts.push(("Limits", escaped(&run.profiles.join("; "))));
    facts.push(("Command", if run.command.is_empty() { String::new() } else { code(&run.command) }));
    facts.push(("Program", escaped(&run.program)));
    facts.push(("Imported", escaped(&imported::line(run))));
    facts.push(("Merged from", escaped(&run.merged.join("; "))));
    facts.push(("Note", escaped(&run.notes.join("; "))));
    facts.extend(run.plan_notes.iter().map(|note| ("Plan", escaped(note))));
    text.push('\n');
    for (name, value) in facts.into_iter().filter(|(_, value)| !value.is_empty()) {
        text += &format!("* {name}: {value}\n");
    }
    text
}

/// What the machine's sensors told while cases ran: the hottest, the slowest clock, medians of power and utilization.
pub(crate) fn sensors(run: &Run) -> String {
    let values = |name: &str| -> Vec<f64> {
        let of = |case: &CaseLine| case.metrics.get("sensors")?.get(name)?.as_f64();
        run.cases.iter().filter_map(of).collect()
    };
    let median = |name: &str| Some(values(name)).filter(|all| !all.is_empty()).map(|all| stats::median(&all));
    let hottest = values("temperature_c").into_iter().max_by(f64::total_cmp);
    let slowest = values("clock_mhz").into_iter().min_by(f64::total_cmp);
    let parts = [
        hottest.map(|degrees| format!("up to {degrees:.0} °C")),
        slowest.map(|mhz| format!("slowest core at {mhz:.0} MHz")),
        median("power_w").map(|watts| format!("{watts:.0} W")),
        median("utilization").map(|share| format!("{} of all cores busy", crate::number::percent(share))),
    ];
    parts.into_iter().flatten().chain(device_sensors(run)).collect::<Vec<_>>().join(", ")
}

/// Of the devices that ranks worked on: how many, the hottest, and the slowest clock.
fn device_sensors(run: &Run) -> Option<String> {
    let of = |case: &'_ CaseLine| Some(case.metrics.get("sensors")?.get("devices")?.as_array()?.clone());
    let looks: Vec<serde_json::Value> = run.cases.iter().filter_map(of).flatten().collect();
    let values = |name: &str| looks.iter().filter_map(|look| look.get(name)?.as_f64()).collect::<Vec<f64>>();
    let devices: std::collections::BTreeSet<u64> = values("device").into_iter().map(|device| device as u64).collect();
    let hottest = values("temperature_c").into_iter().max_by(f64::total_cmp);
    let slowest = values("clock_mhz").into_iter().min_by(f64::total_cmp);
    let told = [
        hottest.map(|degrees| format!("up to {degrees:.0} °C")),
        slowest.map(|mhz| format!("slowest clock {mhz:.0} MHz")),
    ];
    let told: Vec<String> = told.into_iter().flatten().collect();
    (!told.is_empty()).then(|| format!("{}: {}", count(devices.len(), "device", "devices"), told.join(", ")))
}

/// `12 cases: 11 ok (wrong 0 in each), 1 failed`.
pub(crate) fn status(run: &Run) -> String {
    let of = |status: Status| run.cases.iter().filter(move |case| case.status == status && !case.lacks_trials());
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
    let preliminary = run.cases.iter().filter(|case| case.lacks_trials()).count();
    parts.extend((preliminary > 0).then(|| format!("{preliminary} {}", Caveat::Preliminary.name())));
    format!(
        "{}: {}",
        count(run.cases.len(), "case", "cases"),
        if parts.is_empty() { NONE.to_owned() } else { parts.join(", ") }
    )
}

fn pictures(charts: &[NamedChart]) -> String {
    let picture = |chart: &NamedChart| {
        let stem = &chart.stem;
        format!("[![{}](charts/{stem}.png)](charts/{stem}.svg)", escaped(&chart.spec.title))
    };
    charts.iter().map(picture).collect::<Vec<_>>().join("\n\n")
}

fn or_none(text: &str) -> String {
    if text.is_empty() { NONE.to_owned() } else { escaped(text) }
}

pub(crate) fn summary(operations: &[Operation]) -> String {
    use Align::{Left, Right};
    let mut table = Table::new([
        ("op", Left),
        ("backend", Left),
        ("ranks", Right),
        ("variant", Left),
        ("cases", Right),
        ("smallest time", Right),
        ("latency floor", Right),
        ("peak busbw GB/s", Right),
        ("at", Right),
        ("90% of peak from", Right),
        ("best % of limit", Right),
        ("caveats", Left),
    ]);
    for operation in operations {
        for configuration in operation.configurations.iter().filter(|c| !c.points.is_empty()) {
            table.row(summed(operation, configuration));
        }
    }
    if table.is_empty() {
        return String::new();
    }
    let table = table.without_empty(
        NONE,
        &["variant", "latency floor", "peak busbw GB/s", "at", "90% of peak from", "best % of limit"],
    );
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
        Saturation::AtSmallest(size) => format!("≤ {}", bytes(size)),
        Saturation::StillRising(_) => "still rising".to_owned(),
    });
    let share = configuration.points.iter().filter_map(|point| point.limit_share).max_by(f64::total_cmp);
    vec![
        escaped(&operation.name),
        or_none(&configuration.backend),
        configuration.ranks.to_string(),
        or_none(&configuration.variant),
        configuration.points.len().to_string(),
        of(smallest.map(seconds)),
        of(facts::floor(configuration).map(|floor| seconds(floor.seconds))),
        of(peak.as_ref().map(|(_, busbw, _)| three_digits(busbw.mid))),
        of(peak.as_ref().map(|(size, _, _)| bytes(*size))),
        of(saturation),
        of(share.map(percent)),
        if configuration.oversubscribed() { Caveat::Oversubscribed.name().to_owned() } else { String::new() },
    ]
}

/// Cases of one reason that are named; more are counted.
const NAMED: usize = 3;

/// Failed, skipped and not run, with reasons, and how to run just these.
pub(crate) fn without_result(run: &Run) -> String {
    let mut groups: Vec<(&str, String, Vec<&CaseLine>)> = Vec::new();
    let mut places: HashMap<(&str, String), usize> = HashMap::new();
    for case in run.cases.iter().filter(|case| case.status != Status::Ok || case.lacks_trials()) {
        let (word, unknown) = match case.status {
            Status::Ok => (Caveat::Preliminary.name(), Caveat::Preliminary.explanation()),
            other => (other.name(), "no reason was recorded"),
        };
        let reason = case.reason.as_deref().map(one_line).filter(|reason| !reason.is_empty());
        let reason = reason.unwrap_or_else(|| unknown.to_owned());
        let place = *places.entry((word, reason.clone())).or_insert(groups.len());
        if place == groups.len() {
            groups.push((word, reason, Vec::new()));
        }
        groups[place].2.push(case);
    }
    let mut text = String::new();
    for (word, reason, cases) in &groups {
        let mut names: Vec<String> = cases.iter().take(NAMED).map(|case| described(case)).collect();
        if cases.len() > NAMED {
            names.push(format!("{} more", thousands((cases.len() - NAMED) as i64)));
        }
        text += &format!("* **{}** {}: {}\n", word.replace('_', " "), list(&names), escaped(reason));
        for wrong in cases.iter().flat_map(|case| &case.wrong_elements).take(4) {
            let (expected, got) = (code(&wrong.expected), code(&wrong.got));
            text += &format!("  * rank {}, element {}: expected {expected}, got {got}\n", wrong.rank, wrong.index);
        }
    }
    for case in run.cases.iter().filter(|case| case.caveats.contains(&Caveat::Restarted)) {
        let reason = case.reason.as_deref().map(one_line).unwrap_or_default();
        text += &format!("* **restarted** {}: {}\n", described(case), escaped(&reason));
    }
    for case in run.cases.iter().filter(|case| case.status == Status::Ok && !case.gates_missed.is_empty()) {
        text += &format!("* **gate missed** {}: {}\n", described(case), escaped(&case.gates_missed.join("; ")));
    }
    // Pairs of now and of then are not pairs: such a record does not go on.
    if !groups.is_empty() && run.interleaved.is_none() {
        text += &format!("\nRun just these again: {}\n", code(&run.resume_command()));
    }
    text
}

/// The case in words, as Markdown.
fn described(case: &CaseLine) -> String {
    escaped(&names::described(case))
}

/// The long form of each caveat that occurs, and how often.
pub(crate) fn caveats(run: &Run) -> String {
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
pub(crate) fn method(run: &Run) -> String {
    let measured: Vec<&CaseLine> = run.cases.iter().filter(|case| case.time_s.is_some()).collect();
    if measured.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "A sample's time is the maximum over ranks. A trial is one visit to a case; it gives one median. The time of a \
         case is the median of these. Nothing is dropped as an outlier.",
    );
    if measured.iter().any(|case| case.time_s.as_ref().is_some_and(|time| time.ci95.is_some())) {
        text += " ±95% is half the width of the 95% interval of that median over the span of the run's trials, relative \
                 to it: the sign interval, which assumes no distribution. Another run may differ by more; `ci95_again` \
                 in the record is the interval of what an equal run soon after shows. A ratio of two cases is the median \
                 of the ratios of their trials round by round.";
    }
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
    if measured.iter().any(|case| cache(case) == Some("cache-warm")) {
        text += " `cache-warm`: calls repeat on the same buffers, so what fits into the caches is read from there.";
    }
    if measured.iter().any(|case| cache(case) == Some("cache-cold")) {
        text += " `cache-cold`: each call uses other buffers, of more than the last cache in all.";
    }
    if measured.iter().any(|case| case.metric("busbw_gbs").is_some()) {
        text += " algbw = bytes / time and busbw = algbw x a factor of operation and ranks, both in GB/s (1e9 bytes a \
                 second), as nccl-tests define them.";
    }
    if measured.iter().any(|case| case.metric("limit_share").is_some()) {
        text += " % of limit compares with the time in which the same cores move the operation's memory traffic, \
                 measured beside each case at the same working set and ranks.";
    }
    if measured.iter().any(|case| case.wrong.is_some()) {
        text += " `wrong` counts wrong elements over all ranks. Every element is compared before the first sample, after \
                 the last one, and after some calls in between, outside the timed part: as many as take 3% of the time. A \
                 wrong result that a later call overwrites before the next comparison is not seen.";
    }
    if measured.iter().any(|case| what(case) == "barrier") {
        text += " Of a barrier, `wrong` counts exits of a rank before the last rank entered; each rank comes late on \
                 purpose in some. `-`: clocks could not tell.";
    }
    if let Some(cost) = run.overhead {
        let (sample, call) = (seconds(cost.sample_ns / 1e9), seconds(cost.call_ns / 1e9));
        text += &format!(" Measuring itself costs {sample} a sample and {call} a call; it is not subtracted.");
    }
    text + " Exact values are in `cases.csv`, samples in the record."
}

pub(crate) fn again(run: &Run) -> String {
    if run.command.trim().is_empty() {
        return String::new();
    }
    // What a launcher told its processes holds for that job only.
    let repeated = run.environment.iter().filter(|(name, _)| !record::is_of_its_job(name));
    let variables = repeated.map(|(name, value)| format!("{}={} ", shell(name), shell(value)));
    let line = format!("{}{}", variables.collect::<String>(), run.command);
    // Inside a fence only the fence itself is markup.
    format!("```sh\n{}\n```", one_line(&line).replace("```", "` ` `"))
}

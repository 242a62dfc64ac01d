//! What a comparison says in words: the verdict, why a case has its own, and what verdicts rest on.

use std::collections::HashMap;

use diagnose::Verdict;
use diagnose::compare::{
    Compared, Comparison, EqualRuns, FEWEST_RUNS, Lone, Reason, Source as Noise, StateSeen, Unmatched,
};
use record::show::Format;
use terms::{Named, Status};
use view::number::{NONE, bytes, count, percent, ratio as three, seconds, three_digits, width};

use super::apart::mixed;
use super::labels::Labels;
use super::states::in_states;

/// Reasons, and cases without a partner, that are listed.
const MOST_LISTED: usize = 12;

/// The verdict in one sentence that begins with its word.
pub fn sentence(comparison: &Comparison, labels: &Labels) -> String {
    let of = |verdict| comparison.count(verdict);
    let judged = comparison.cases.iter().filter(|case| case.verdict.is_some()).count();
    let cases = count(judged, "case", "cases");
    let threshold = share(comparison.threshold);
    let rest = |verdicts: &[(Verdict, &str)]| -> String {
        let parts = verdicts.iter().filter(|(verdict, _)| of(*verdict) > 0);
        parts.map(|(verdict, what)| format!("; {} {what}", of(*verdict))).collect()
    };
    let same = format!("the same within {threshold}");
    let text = match comparison.verdict() {
        None => return format!("nothing in common: {}", nothing(comparison)),
        Some(Verdict::Worse) => {
            let failed =
                comparison.cases.iter().filter(|case| matches!(case.reason, Reason::NotOk(Status::Failed, _))).count();
            let worst = comparison.cases.iter().find(|case| case.verdict == Some(Verdict::Worse));
            let worst = worst.map_or(String::new(), |case| match change(case) {
                Some(change) => format!(", {} by {change}", labels.label(case)),
                None => format!(": {} failed", labels.label(case)),
            });
            let failed = if failed > 0 { format!(" ({failed} newly failed)") } else { String::new() };
            let others =
                [(Verdict::Better, "better"), (Verdict::Same, same.as_str()), (Verdict::CannotTell, "cannot be told")];
            format!("worse: {} of {cases}{failed}{worst}{}", of(Verdict::Worse), rest(&others))
        }
        Some(Verdict::CannotTell) => {
            let others = [(Verdict::Better, "better"), (Verdict::Same, same.as_str())];
            let why = shared_reason(comparison).map_or(String::new(), |why| format!(", {why}"));
            let change = shown_change(comparison);
            format!("cannot tell: {} of {cases}{why}{}{change}", of(Verdict::CannotTell), rest(&others))
        }
        Some(Verdict::Better) => {
            format!("better: {} of {cases}{}", of(Verdict::Better), rest(&[(Verdict::Same, same.as_str())]))
        }
        Some(Verdict::Same) => format!("same: {cases} within {threshold}"),
    };
    let newly = comparison.only_base.len();
    let gone = if newly > 0 {
        format!("; {} not compared", count(newly, "case of the base is", "cases of the base are"))
    } else {
        String::new()
    };
    format!("{text}{gone}")
}

/// What keeps all undecided cases from a verdict, in a few words; None where they differ, or where numbers say it.
fn shared_reason(comparison: &Comparison) -> Option<&'static str> {
    let short = |case: &Compared| match &case.reason {
        Reason::OtherState(_) => Some("the machine was in another state"),
        Reason::OtherClock(_) => Some("the clock of the cores changed"),
        Reason::Imported => Some("too few runs, with one statistic each"),
        Reason::OtherStatistic(_) => Some("the two sides report different statistics"),
        Reason::FewTrials(_) => Some("too few trials"),
        Reason::NoHistory => Some("the noise between runs is unknown"),
        Reason::OneComputed => Some("one side is computed"),
        Reason::Emulated => Some("a device was emulated"),
        _ => None,
    };
    let mut found = comparison.cases.iter().filter(|case| case.verdict == Some(Verdict::CannotTell)).map(short);
    let first = found.next()??;
    found.all(|other| other == Some(first)).then_some(first)
}

/// `; a change of 4.1% to 9.8% would have shown`.
fn shown_change(comparison: &Comparison) -> String {
    let changes = comparison.cases.iter().filter_map(|case| case.smallest_change);
    let (low, high) = changes.fold((f64::INFINITY, 0.0f64), |(low, high), change| (low.min(change), high.max(change)));
    match (width(low), width(high)) {
        _ if !low.is_finite() => String::new(),
        _ if low > 1.0 => "; no change below 2x would have shown".to_owned(),
        (low, high) if low == high => format!("; a change of {low} would have shown"),
        (low, high) => format!("; changes of {low} to {high} would have shown"),
    }
}

/// A change of the value as it is said.
fn change(case: &Compared) -> Option<String> {
    case.ratio.map(changed)
}

/// A ratio as a change: `+12%`, `3.4x`.
pub(super) fn changed(ratio: f64) -> String {
    if (0.5..2.0).contains(&ratio) {
        format!("{}{}", if ratio >= 1.0 { "+" } else { "-" }, percent((ratio - 1.0).abs()))
    } else {
        format!("{}x", three_digits(ratio))
    }
}

/// Why a case has its verdict, in one sentence.
pub fn why(case: &Compared, threshold: f64) -> String {
    let within = share(threshold);
    let smallest = case.smallest_change.map_or(String::new(), |change| format!(" (smallest change {})", width(change)));
    match &case.reason {
        Reason::Interval => {
            let ends =
                case.interval.map_or(String::new(), |[low, high]| format!(" ({} to {})", three(low), three(high)));
            let ratio = case.ratio.map_or(String::new(), three);
            match case.verdict {
                Some(Verdict::Same) => format!("ratio {ratio}{ends} lies within {within} of 1"),
                Some(Verdict::CannotTell) => {
                    format!("ratio {ratio}{ends} includes 1, but also changes above {within}{smallest}")
                }
                _ => format!("ratio {ratio}{ends} excludes 1"),
            }
        }
        Reason::BelowSmallest => format!("the change is below the smallest that two single runs can show{smallest}"),
        Reason::NoHistory => format!(
            "the interval lies within {within} of 1, but the noise between runs is unknown ({FEWEST_RUNS} equal runs \
             show it)"
        ),
        Reason::FewTrials([base, new]) => {
            format!("an interval needs {} trials, but there are {base} and {new}", stats::FEWEST_TRIALS)
        }
        Reason::OneFigure => format!("each run has one value: {FEWEST_RUNS} equal runs show its noise"),
        Reason::Imported => format!(
            "another program measured it, with one statistic per run, and there are too few runs. {FEWEST_RUNS} equal \
             runs on one side, or 3 on each, show how much runs differ"
        ),
        Reason::Emulated => "a device was emulated: its times say nothing about a GPU".to_owned(),
        Reason::OtherStatistic([base, new]) => {
            let said = |statistic: &Option<String>| match statistic {
                Some(statistic) => format!("the {}", view::one_line(statistic)),
                None => "the slowest rank (Rankmark)".to_owned(),
            };
            format!("the base reports {}, the new side {}", said(base), said(new))
        }
        Reason::OneComputed => "one side is computed, the other is measured".to_owned(),
        Reason::OtherState(seen) => other_state(seen),
        Reason::OtherClock(slower) => {
            let (share, word) = if *slower > 1.0 { (slower - 1.0, "slower") } else { (1.0 / slower - 1.0, "faster") };
            format!(
                "the core clock is {} {word} now, which may explain the whole change. Measure both interleaved \
                 (`rankmark compare --interleave`)",
                percent(share)
            )
        }
        Reason::NotOk(status, why) if why.is_empty() => format!("ok in the base, now {}", status.name()),
        Reason::NotOk(status, why) => format!("ok in the base, now {}: {}", status.name(), view::one_line(why)),
        Reason::NowOk(status) => format!("{} in the base, now ok", status.name()),
        Reason::NeverOk(status) => format!("not ok in the base, now {}", status.name()),
        Reason::NoValue => "a time is missing, or is not positive".to_owned(),
    }
}

/// Says that the machine was not the same, and how it can be.
fn other_state(seen: &[StateSeen; 2]) -> String {
    let one = |seen: &StateSeen| {
        let trip = seen.round_trip_ns.map(|ns| format!("{} from core to core", seconds(ns * 1e-9)));
        match (&seen.name, trip) {
            (Some(name), Some(trip)) => format!("{} ({trip})", view::one_line(name)),
            (Some(name), None) => view::one_line(name),
            (None, trip) => trip.unwrap_or_else(|| "one state".to_owned()),
        }
    };
    format!(
        "the machine was in another state: {} in the base, {} now. Measure both interleaved (`rankmark compare --interleave`), pinned (`--bind core`), or for longer (`--max-seconds`)",
        one(&seen[0]),
        one(&seen[1])
    )
}

/// A threshold as it was given: `3%`.
fn share(threshold: f64) -> String {
    terms::Ratio(threshold).to_string()
}

/// A value as it is read.
pub(super) fn value(case: &Compared, value: f64) -> String {
    match case.quantity.format {
        Format::Bytes => bytes(value as u64),
        _ => seconds(value),
    }
}

/// Both values of a case as they are read; of what is not compared, such as times in different states of the
/// machine, each side's own.
pub(super) fn values(case: &Compared) -> [String; 2] {
    match case.values {
        Some(values) => values.map(|number| value(case, number)),
        None => [case.base, case.new].map(|line| match (line.status, &line.time_s) {
            (Status::Ok, Some(time)) if case.quantity.is_time() => seconds(time.median),
            (Status::Ok, _) => "-".to_owned(),
            (other, _) => other.name().to_owned(),
        }),
    }
}

/// A verdict as a cell of a table.
pub(super) fn word(verdict: Option<Verdict>) -> &'static str {
    verdict.map_or(NONE, Verdict::name)
}

/// What must be known before any figure is read, a line each.
pub(super) fn warning_lines(comparison: &Comparison) -> Vec<String> {
    let sides = ["base", "new side"].into_iter().zip(&comparison.incomplete);
    let mut parts: Vec<String> =
        sides.flat_map(|(side, banners)| banners.iter().map(move |banner| format!("{side}: {banner}"))).collect();
    if comparison.other_machine {
        parts.push("WARNING: the machines differ. A change may come from the machine.".to_owned());
    }
    if comparison.simulated {
        let exact = comparison.cases.iter().any(|case| case.interval.is_some() && case.source == Noise::Exact);
        let noise = if exact { " Times without noise are exact, so every difference counts." } else { "" };
        parts.push(format!("SIMULATED: times are computed, not measured.{noise}"));
    }
    parts.extend(injected(comparison));
    parts.extend(["base", "new side"].into_iter().zip(&comparison.mixed).filter_map(|(side, of)| mixed(side, of)));
    if comparison.same_record {
        parts.push("Both sides are the same record.".to_owned());
    }
    parts
}

/// Says that cases ran with a fault that somebody asked for: a change is then that of the fault.
fn injected(comparison: &Comparison) -> Option<String> {
    let [base, new] = comparison.injected;
    let cases = |number: usize| count(number, "case", "cases");
    let sides = match (base, new) {
        (0, 0) => return None,
        (base, 0) => format!("{} of the base", cases(base)),
        (0, new) => format!("{} of the new record", cases(new)),
        (base, new) => format!("{} of the base, {} of the new record", cases(base), cases(new)),
    };
    Some(format!("FAULT INJECTED on request into {sides}: their changes are those of the fault."))
}

/// What the verdicts rest on, a paragraph each.
pub(super) fn basis(comparison: &Comparison) -> Vec<String> {
    let mut parts: Vec<String> = reasons(comparison);
    parts.extend(in_states(comparison));
    parts.extend(noise(comparison));
    parts.extend(correction(comparison));
    parts
}

/// Why cases are undecided, or failed: each reason once, with the number of cases.
fn reasons(comparison: &Comparison) -> Vec<String> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut found: Vec<(String, usize)> = Vec::new();
    for case in &comparison.cases {
        let text = match &case.reason {
            Reason::Interval => continue,
            Reason::BelowSmallest | Reason::NoHistory => continue,
            Reason::NotOk(..) | Reason::NowOk(_) | Reason::NeverOk(_) => why(case, comparison.threshold),
            _ => format!("{}: {}", word(case.verdict), why(case, comparison.threshold)),
        };
        let place = *places.entry(text).or_insert_with_key(|text| {
            found.push((text.clone(), 0));
            found.len() - 1
        });
        found[place].1 += 1;
    }
    let more = found.len().saturating_sub(MOST_LISTED);
    let mut lines: Vec<String> = found
        .into_iter()
        .take(MOST_LISTED)
        .map(|(text, cases)| format!("{}: {text}", count(cases, "case", "cases")))
        .collect();
    if more > 0 {
        lines.push(format!("... and {}", count(more, "more reason", "more reasons")));
    }
    lines
}

/// Where the noise between runs is known from.
fn noise(comparison: &Comparison) -> Option<String> {
    let with = |wanted: fn(&Noise) -> bool| {
        comparison.cases.iter().filter(move |case| case.interval.is_some() && wanted(&case.source))
    };
    let of = |wanted: fn(&Noise) -> bool| with(wanted).count();
    let (runs, trials) = (of(|source| matches!(source, Noise::Runs(_))), of(|source| *source == Noise::Trials));
    let fewest = comparison.cases.iter().filter_map(|case| match case.source {
        Noise::Runs(runs) => Some(runs),
        _ => None,
    });
    let (fewest, most) = fewest.fold((usize::MAX, 0), |(low, high), runs| (low.min(runs), high.max(runs)));
    let mut text = String::new();
    if runs > 0 {
        text = format!("The noise between runs is known from {}.", equal_runs(comparison, fewest, most));
    }
    if trials > 0 {
        let known = too_few(with(|source| *source == Noise::Trials).map(|case| case.equal_runs));
        text += &format!(
            " {known}: the noise between runs is unknown, so {} only changes above the smallest detectable one. \
             {FEWEST_RUNS} or more equal runs show this noise: `rankmark baseline save NAME DIR...`, or \
             `--history DIR`.",
            if trials == 1 { "1 case shows".to_owned() } else { format!("{trials} cases show") }
        );
    }
    if comparison.runs[1] > 0 {
        text += &format!(" {} from other machines do not count.", count(comparison.runs[1], "run", "runs"));
    }
    (!text.is_empty()).then(|| text.trim().to_owned())
}

/// Why no equal runs tell the noise of these cases.
fn too_few(cases: impl Iterator<Item = EqualRuns>) -> String {
    let single = "so these count as two single runs";
    match cases.max_by_key(EqualRuns::most) {
        Some(runs) if runs.most() < 2 => "These are two single runs".to_owned(),
        Some(EqualRuns { sides: [base, new], history, .. })
            if base.max(new) > 1 && base + new <= FEWEST_RUNS && history < FEWEST_RUNS =>
        {
            format!("{} of the base and {new} of the new side are too few, {single}", count(base, "run", "runs"))
        }
        Some(runs) if runs.most() < FEWEST_RUNS => {
            format!("{} equal runs that have these cases are too few, {single}", runs.most())
        }
        // Computed times, or a clock of few ticks.
        Some(runs) => format!("{} runs with the same values do not show any noise, {single}", runs.most()),
        None => "These are two single runs".to_owned(),
    }
}

/// `6 equal runs and 3 of the new side, one statistic each`.
fn equal_runs(comparison: &Comparison, fewest: usize, most: usize) -> String {
    let each = if comparison.one_statistic { ", one statistic each" } else { "" };
    let of_sides = comparison.cases.iter().any(|case| case.equal_runs.of_sides);
    match if of_sides { comparison.side_runs } else { [1, 1] } {
        [base, new] if new > 1 && base == new => format!("{base} runs a side{each}"),
        [base, new] if new > 1 => format!("{} of the base and {new} of the new side{each}", count(base, "run", "runs")),
        _ if fewest == most => format!("{most} equal runs{each}"),
        _ => format!("{fewest} to {most} equal runs{each}"),
    }
}

/// How many cases are judged together, and what that takes.
fn correction(comparison: &Comparison) -> Option<String> {
    let correction = &comparison.correction;
    if correction.cases == 0 {
        return None;
    }
    let level = format!("{}%", trimmed(100.0 * (1.0 - correction.level)));
    let mut text = match correction.cases {
        1 => "One case is judged, at 95%.".to_owned(),
        cases => format!(
            "{cases} cases are judged together. Holm's procedure keeps the chance of any false better or worse at 5%, so \
             each interval has a level of {level}."
        ),
    };
    let by_trials = comparison.cases.iter().any(|case| case.interval.is_some() && case.source == Noise::Trials);
    if by_trials && let Some(needed) = correction.trials_needed {
        text += &format!(" This needs {needed} trials per case");
        let fewest = correction.trials_needed_uncorrelated.filter(|fewest| *fewest < needed);
        text += &fewest
            .map_or(String::new(), |fewest| format!(" with the correlation of these trials, {fewest} without it"));
        text += &match correction.short {
            0 => ".".to_owned(),
            1 => "; 1 case has fewer, so its interval (*) assumes a distribution.".to_owned(),
            short => format!("; {short} cases have fewer, so intervals with * assume a distribution."),
        };
    }
    Some(text)
}

/// A number without trailing zeros.
fn trimmed(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The cases that one side alone has, a line each; of many only the first.
pub(super) fn unmatched(cases: &[Unmatched], labels: &Labels) -> Vec<String> {
    let line = |case: &Unmatched| {
        let why = match &case.why {
            Lone::NothingAlike => "no such workload on the other side".to_owned(),
            Lone::Several(fields) => {
                format!("on the other side it has different values of {}", view::number::list(fields))
            }
        };
        format!("{}: {why}", labels.line(case.line))
    };
    let more = cases.len().saturating_sub(MOST_LISTED);
    let more = (more > 0).then(|| format!("... and {more} more"));
    cases.iter().take(MOST_LISTED).map(line).chain(more).collect()
}

/// Why nothing can be compared.
fn nothing(comparison: &Comparison) -> String {
    match comparison.cases.len() {
        0 => format!(
            "no case of the base ({}) has the same workload, ranks and device as a case of the other side ({})",
            count(comparison.only_base.len(), "case", "cases"),
            count(comparison.only_new.len(), "case", "cases"),
        ),
        both => format!("none of the {} is ok in the base", count(both, "common case", "common cases")),
    }
}

/// The largest change that was shown, with its interval; where none was, the largest that was seen. A case that newly
/// failed has changed, and no value says by how much.
pub(super) fn largest(comparison: &Comparison, labels: &Labels) -> Option<String> {
    let shown = |case: &&Compared| matches!(case.verdict, Some(Verdict::Worse | Verdict::Better));
    let size = |case: &&Compared| case.ratio.map_or(0.0, |ratio| ratio.ln().abs());
    let largest = |cases: &mut dyn Iterator<Item = &Compared>| -> Option<String> {
        let case = cases.max_by(|a, b| size(a).total_cmp(&size(b)))?;
        let change = changed(case.ratio?);
        let ends =
            case.interval.map_or(String::new(), |[low, high]| format!(" ({} to {})", changed(low), changed(high)));
        Some(format!("{}: {change}{ends}", labels.label(case)))
    };
    let ratios = || comparison.cases.iter().filter(|case| case.ratio.is_some());
    if let Some(change) = largest(&mut ratios().filter(shown)) {
        return Some(format!("Largest change: {change}."));
    }
    let seen = largest(&mut ratios())?;
    // Without an interval, nothing could have been detected.
    if ratios().all(|case| case.interval.is_none()) {
        return Some(format!("Whether anything changed cannot be told. The largest difference is in {seen}."));
    }
    let what = if comparison.cases.iter().any(|case| shown(&case)) { "change of a value" } else { "change" };
    Some(format!("No {what} was detected. The largest difference is in {seen}."))
}

/// A ratio with its interval: `1.05 (0.98 to 1.12)`. A star marks one that needs more trials than there are.
pub(super) fn ratio(case: &Compared) -> String {
    case.ratio.map_or_else(
        || NONE.to_owned(),
        |ratio| {
            let ends =
                case.interval.map_or(String::new(), |[low, high]| format!(" ({} to {})", three(low), three(high)));
            let is_marked = case.extrapolated && case.interval.is_some();
            format!("{}{ends}{}", three(ratio), if is_marked { "*" } else { "" })
        },
    )
}

//! From what launches gave to the case line: times, intervals, wrong elements, doubts.

use record::{Case, CaseLine, Caveat, TimeSummary, WrongElement};
use stats::{StopReason, hierarchical_interval, median, median_interval, quantile, sorted};
use terms::{Collective, Status};

use crate::straggler::{Straggler, straggler};
use crate::{Launch, Settings};

/// Wrong elements that a case line names.
const TOLD: usize = 16;
/// Starts of ranks that are known less precisely than this share of the time are a doubt.
const STARTS_APART: f64 = 0.1;
/// A wait is told only where what arrivals may be off is less than this share of it.
const CLEARLY: f64 = 0.1;
/// A drift of less than this over the case is nobody's concern.
const DRIFT: f64 = 0.05;
/// Samples that a drift is looked for in, at least: fewer cannot tell a trend from correlated noise.
const DRIFT_SAMPLES: usize = 100;

/// What is known of the run beside its launches.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances {
    /// More ranks than cores.
    pub oversubscribed: bool,
    /// Times are computed.
    pub simulated: bool,
    /// A container or a virtual machine takes processor time or clocks away in ways that times show.
    pub virtualised: bool,
    /// Seed of the bootstrap.
    pub seed: u64,
}

/// The case line of these launches, without the benchmark's own metrics. `limit_s` comes beside it, for those.
pub fn case_line(case: &Case, settings: &Settings, launches: &[Launch], about: Circumstances) -> CaseLine {
    let mut line = CaseLine::unmeasured(case, Status::Ok, "");
    line.reason = None;
    line.simulated = about.simulated;
    let series: Vec<Vec<f64>> = launches.iter().map(Launch::series).collect();
    line.time_s = time_summary(&series, about.seed);
    line.samples = Some(series.iter().map(|launch| launch.len() as u64).sum());
    line.calls_per_sample = launches.last().map(|launch| u64::from(launch.calls));
    line.launches = Some(launches.len() as u32);
    line.per_rank_median_s = Some(per_rank(launches));
    if let [_, _, ..] = series.as_slice() {
        line.per_launch_median_s = series.iter().map(|launch| median(launch)).collect();
    }
    line.clocks = launches.last().map(|launch| launch.clocks.clone()).unwrap_or_default();
    let apart = launches.iter().filter_map(|launch| launch.starts_apart_ns).reduce(f64::max);
    line.starts_apart_s = apart.map(|ns| ns / 1e9);
    set_wrong(case, &mut line, launches);
    // Where ranks may run ahead of each other, or wait for a core, being last means nothing.
    let tells = case.word::<Collective>("op").is_some_and(Collective::synchronises) && !about.oversubscribed;
    let late = |launch: &Launch| {
        straggler(&launch.arrivals).filter(|slow| launch.arrivals_apart_ns < CLEARLY * slow.wait_s * 1e9)
    };
    let slow = launches.iter().find_map(late).filter(|_| tells);
    line.caveats = caveats(case, settings, launches, &series, slow.as_ref(), about);
    let vague = line.starts_apart_s.zip(line.time_s.as_ref());
    if vague.is_some_and(|(apart, time)| apart > STARTS_APART * time.median) {
        line.caveats.push(Caveat::StartsApart);
    }
    if let Some(slow) = slow.filter(|_| line.reason.is_none()) {
        line.metrics.insert("slow_rank".to_owned(), slow.rank.0.into());
        line.metrics.insert("slow_rank_wait_s".to_owned(), slow.wait_s.into());
    }
    line
}

/// Seconds of the bare memory traffic: the median of the launches', as the time is. Were it the fastest of all, one launch that
/// met the machine at its quickest would make every other look slow, and the share would fall with the number of launches.
pub fn limit_s(launches: &[Launch]) -> Option<f64> {
    let limits: Vec<f64> = launches.iter().filter_map(|launch| launch.limit_s).collect();
    (!limits.is_empty()).then(|| median(&limits))
}

/// Times over all launches. The interval is that of the series of one launch, or of the bootstrap over several.
fn time_summary(launches: &[Vec<f64>], seed: u64) -> Option<TimeSummary> {
    let all = sorted(&launches.concat());
    let (min, max) = (*all.first()?, *all.last()?);
    let several = launches.len() > 1;
    // With several launches the headline is the median of launch medians: each launch counts once.
    let center = if several {
        median(&launches.iter().filter(|launch| !launch.is_empty()).map(|launch| median(launch)).collect::<Vec<_>>())
    } else {
        quantile(&all, 0.5)
    };
    let interval = if several { hierarchical_interval(launches, seed) } else { median_interval(&launches[0]) };
    // From six samples on, the smallest and the largest enclose the median with 1 - 2^-5 = 96.9% if independent.
    let ci95 = interval.map_or([min, max], |interval| [interval.low, interval.high]);
    let at = |p| quantile(&all, p);
    Some(TimeSummary { median: center, ci95, p05: at(0.05), p50: at(0.5), p95: at(0.95), p99: at(0.99), min, max })
}

/// Median of each rank's own samples, over all launches.
fn per_rank(launches: &[Launch]) -> Vec<f64> {
    let ranks = launches.iter().map(|launch| launch.samples.len()).max().unwrap_or(0);
    let own = |rank: usize| {
        let samples = launches.iter().flat_map(move |launch| {
            let calls = f64::from(launch.calls.max(1));
            launch.samples.get(rank).into_iter().flatten().map(move |ns| *ns as f64 / 1e9 / calls)
        });
        samples.collect::<Vec<f64>>()
    };
    (0..ranks).map(own).filter(|samples| !samples.is_empty()).map(|samples| median(&samples)).collect()
}

fn set_wrong(case: &Case, line: &mut CaseLine, launches: &[Launch]) {
    let reports = || launches.iter().flat_map(|launch| &launch.wrong);
    let count: u64 = reports().map(|report| report.count).sum();
    let mut first: Vec<WrongElement> = reports().flat_map(|report| report.first.iter().cloned()).collect();
    // The earliest evidence, before one rank's wrong element has spread to the others in later calls.
    let earliest = first.first().cloned();
    first.sort_by_key(|wrong| (wrong.rank, wrong.index));
    first.dedup();
    line.wrong = Some(count);
    // A barrier alone leaves nothing to compare.
    if reports().all(|report| report.compared == 0) && case.word("op") != Some(Collective::Barrier) {
        line.status = Status::Failed;
        line.reason = Some("the check compared no element: nothing is known of the data".to_owned());
    }
    if count > 0 {
        line.status = Status::Failed;
        line.reason = Some(about_wrong(count, &first, earliest.as_ref()));
    }
    line.wrong_elements = spread(first);
}

/// How many, on which ranks, and the earliest of them.
fn about_wrong(count: u64, first: &[WrongElement], earliest: Option<&WrongElement>) -> String {
    let elements = if count == 1 { "element" } else { "elements" };
    if first.is_empty() {
        return format!("{count} wrong {elements}");
    }
    let mut ranks: Vec<u32> = first.iter().map(|wrong| wrong.rank).collect();
    ranks.dedup();
    let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
    let word = if ranks.len() == 1 { "rank" } else { "ranks" };
    let example = earliest.map_or(String::new(), |WrongElement { rank, index, expected, got }| {
        let whose = if ranks.len() == 1 { String::new() } else { format!(" of rank {rank}") };
        format!(": element {index}{whose} should be {expected} and is {got}")
    });
    format!("{count} wrong {elements} on {word} {}{example}", ranks.join(", "))
}

/// At most [`TOLD`] of them, of as many ranks as possible: the first of each rank, then the second, ...; by rank.
fn spread(first: Vec<WrongElement>) -> Vec<WrongElement> {
    let mut turns: Vec<(usize, WrongElement)> = Vec::with_capacity(first.len());
    for wrong in first {
        let turn = turns.last().map_or(0, |(turn, last)| if last.rank == wrong.rank { turn + 1 } else { 0 });
        turns.push((turn, wrong));
    }
    turns.sort_by_key(|(turn, wrong)| (*turn, wrong.rank));
    turns.truncate(TOLD);
    turns.sort_by_key(|(turn, wrong)| (wrong.rank, *turn));
    turns.into_iter().map(|(_, wrong)| wrong).collect()
}

fn caveats(
    case: &Case,
    settings: &Settings,
    launches: &[Launch],
    series: &[Vec<f64>],
    slow: Option<&Straggler>,
    about: Circumstances,
) -> Vec<Caveat> {
    let mut found = case.caveats.clone();
    let mut add = |condition: bool, caveat: Caveat| {
        if condition && !found.contains(&caveat) {
            found.push(caveat);
        }
    };
    add(about.simulated, Caveat::Simulated);
    add(about.oversubscribed, Caveat::Oversubscribed);
    add(about.virtualised, Caveat::Virtualised);
    add(case.number("pace_bandwidth").is_some(), Caveat::Paced);
    let imprecise = |launch: &Launch| launch.stopped.is_some_and(|reason| reason != StopReason::Precise);
    // Who asked to sample for the whole time did not ask for a precision.
    add(!settings.soaks() && launches.iter().any(imprecise), Caveat::Imprecise);
    add(launches.iter().any(|launch| !launch.steady), Caveat::Unsteady);
    add(series.iter().any(|series| drifts(series)), Caveat::Drift);
    add(launches.iter().any(|launch| launch.missed_starts > 0), Caveat::MissedStart);
    add(slow.is_some(), Caveat::SlowRank);
    for launch in launches {
        if let Some((before, after)) = &launch.canaries {
            for doubt in before.doubts(after, launch.wall_s, case.ranks(), about.oversubscribed) {
                add(true, doubt);
            }
        }
    }
    add(series.iter().any(|series| quantised(series)), Caveat::ClockResolution);
    found
}

fn drifts(series: &[f64]) -> bool {
    series.len() >= DRIFT_SAMPLES && stats::drift(series).is_some_and(|drift| drift.change.abs() >= DRIFT)
}

/// Whether some sample took no time at all: the clock does not resolve it.
fn quantised(series: &[f64]) -> bool {
    series.contains(&0.0)
}

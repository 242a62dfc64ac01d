//! From what trials gave to the case line: times, intervals, wrong elements, caveats.

use std::collections::{BTreeSet, HashMap};

use record::found::{self, Level};
use record::{CaseLine, CaseState, Caveat, Limit, MOST_WRONG_ELEMENTS, TimeSummary, WorldUse, WrongElement};
use stats::{median, quantile, sign_interval, sorted};
use terms::{Collective, Status};

use crate::straggler::{Straggler, straggler};
use crate::{CaseRun, LimitTime, Trial, barrier, device_sensors, device_times, sensors};

/// Starts of ranks that are known less precisely than this share of the time are a caveat.
const STARTS_APART: f64 = 0.1;
/// A wait is reported only if the error of arrivals is less than this share of it.
const CLEARLY: f64 = 0.1;
/// A drift of less than this over the case is nobody's concern.
const DRIFT: f64 = 0.05;
/// Samples of a single trial that a drift is looked for in, at least: fewer cannot tell a trend from correlated noise.
const DRIFT_SAMPLES: usize = 100;
/// Six trials are to span so many seconds.
const SPAN_S: f64 = 8.0;
/// Samples that a 99.9th percentile is of, at least.
const TAIL_SAMPLES: usize = 1_000;
/// A mean that differs from the median by more than this share is reported.
const MEAN_DIFFERS: f64 = 0.2;
/// Simulated ranks of which a case line has medians of their own, at most.
const MOST_RANK_MEDIANS: u32 = 1024;
/// A share of the limit that may lie beyond this is none.
pub const BEYOND_LIMIT: f64 = 1.05;

/// What is known of the run outside its trials.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances {
    /// More ranks than cores.
    pub oversubscribed: bool,
    /// Times are computed.
    pub simulated: bool,
    /// A container or a virtual machine takes processor time or clocks away in ways that times show.
    pub virtualised: bool,
    /// Whether further trials may follow.
    pub open: bool,
}

/// The case line of these trials, without the benchmark's own metrics and without what only the whole run tells
/// ([`conclude`]).
pub fn case_line(run: &CaseRun, about: Circumstances) -> CaseLine {
    // Times are those of one state of the machine; what went wrong did so in any.
    let shown = run.in_state();
    let trials = &shown.trials;
    let mut line = CaseLine::unmeasured(&run.case, Status::Ok, "");
    line.reason = None;
    line.simulated = about.simulated;
    let series: Vec<Vec<f64>> = trials.iter().map(Trial::series).collect();
    let interval = !run.settings.quick && !run.settings.exact;
    line.time_s = time_summary(&series, interval);
    let count = |trial: &Trial| trial.samples.rows().iter().map(Vec::len).min().unwrap_or(0) as u64;
    line.samples = Some(run.trials.iter().map(count).sum());
    line.calls_per_sample = trials.last().map(|trial| u64::from(trial.calls));
    line.trials = Some(run.trials.len() as u32);
    line.span_s = run.trials.last().map(|trial| trial.span_s);
    line.worlds = worlds(&run.trials);
    (line.state, line.states) = states(run);
    // A line is written after each trial, and readers hold all: of many simulated ranks the samples alone tell.
    let kept = !about.simulated || run.case.ranks() <= MOST_RANK_MEDIANS;
    line.per_rank_median_s = kept.then(|| per_rank(trials));
    let measured = trials.iter().zip(&series).filter(|(_, series)| !series.is_empty());
    (line.trial_round, line.trial_median_s) = measured.map(|(trial, series)| (trial.round, median(series))).unzip();
    line.limit = line.time_s.as_ref().and_then(|time| limit(&shown, time)).map(Box::new);
    line.clocks = trials.last().map(|trial| trial.clocks.clone()).unwrap_or_default();
    let apart = trials.iter().filter_map(|trial| trial.starts_apart_ns).reduce(f64::max);
    line.starts_apart_s = apart.map(|ns| ns / 1e9);
    set_wrong(run, &mut line);
    if let Some(checked) = checked(run) {
        found::CHECKED.put(&mut line.metrics, checked);
    }
    let looks = |trial: &Trial| {
        let (before, after) = trial.canaries.as_ref()?;
        let within = trial.sensors.iter().copied();
        Some(std::iter::once(before.system.sensors).chain(within).chain([after.system.sensors]).collect())
    };
    let sensors = found::Sensors {
        devices: device_sensors::summary(run.trials.iter().flat_map(|trial| &trial.devices)),
        ..sensors::summary(&run.trials.iter().filter_map(looks).collect::<Vec<_>>())
    };
    if sensors != found::Sensors::default() {
        found::SENSORS.put(&mut line.metrics, sensors);
    }
    let launches: Vec<f64> = run.trials.iter().filter_map(|trial| trial.launch_s).collect();
    if !launches.is_empty() {
        found::LAUNCH_S.put(&mut line.metrics, median(&launches));
    }
    let mut ready = run.trials.iter().rev().flat_map(|trial| &trial.ready);
    if let Some(times) = line.per_rank_median_s.as_deref().filter(|_| line.device != "cpu").and_then(over_ranks) {
        found::RANK_S.put(&mut line.metrics, times);
    }
    // In memory of the host the way follows from the size alone.
    if let Some(ready) = ready.find(|ready| line.device != "cpu" && !ready.path.is_empty()) {
        found::PATH.put(&mut line.metrics, ready.path.clone());
    }
    if let Some(times) = device_times::median(&run.trials.iter().filter_map(|trial| trial.device_s).collect::<Vec<_>>())
    {
        found::DEVICE_S.put(&mut line.metrics, times);
    }
    if let Some(bytes) = run.trials.iter().filter_map(|trial| trial.library_bytes).max() {
        found::LIBRARY_BYTES.put(&mut line.metrics, bytes);
    }
    let levels = levels(run, &line);
    if !levels.is_empty() {
        found::LEVELS.put(&mut line.metrics, levels);
    }
    let slow = slow_rank(run, about);
    line.caveats = caveats(run, &line, &series, slow.as_ref(), about);
    if let Some(slow) = slow.filter(|_| line.reason.is_none()) {
        found::SLOW_RANK.put(&mut line.metrics, slow.rank.0);
        found::SLOW_RANK_WAIT_S.put(&mut line.metrics, slow.wait_s);
    }
    line
}

/// Adds to a line what only the whole run tells: the interval of what an equal run soon after shows. `correlation` is
/// that of neighbouring trials, pooled over the run's cases.
pub fn conclude(line: &mut CaseLine, correlation: Option<f64>) {
    let again = correlation.and_then(|correlation| stats::again_interval(&line.trial_median_s, correlation));
    if let Some(time) = line.time_s.as_mut().filter(|time| time.ci95.is_some()) {
        // A case with equal trials has a point either way.
        time.ci95_again = again.or_else(|| time.ci95.filter(|[low, high]| low == high));
    }
}

/// Adds the interval that earlier equal runs tell, with these medians, to a line whose own trials cannot tell it. It also holds
/// the run's own interval: an equal run is no better known than this one.
pub fn learn_from_runs(line: &mut CaseLine, earlier: &[f64]) {
    let Some(time) = line.time_s.as_mut().filter(|time| time.ci95_again.is_none()) else { return };
    let Some([low, high]) = stats::equal_run_interval(time.median, earlier) else { return };
    let [own_low, own_high] = time.ci95.unwrap_or([time.median; 2]);
    time.ci95_earlier = Some([low.min(own_low), high.max(own_high)]);
    time.earlier_runs = Some(earlier.len() as u32);
}

/// The fastest, the median and the slowest of several ranks.
fn over_ranks(medians: &[f64]) -> Option<found::RankTimes> {
    let sorted = sorted(medians);
    let (min, max) = (*sorted.first()?, *sorted.last()?);
    (sorted.len() > 1).then(|| found::RankTimes { min, median: quantile(&sorted, 0.5), max })
}

fn worlds(trials: &[Trial]) -> Option<WorldUse> {
    // The first trial's ranks are new in any case.
    let later = trials.get(1..).filter(|later| !later.is_empty()).unwrap_or(trials);
    let fresh = later.iter().filter(|trial| trial.fresh).count();
    match fresh {
        _ if trials.is_empty() => None,
        0 => Some(WorldUse::Kept),
        all if all == later.len() => Some(WorldUse::Fresh),
        _ => Some(WorldUse::Mixed),
    }
}

/// Times over all trials: each counts once, whatever the number of its samples.
fn time_summary(trials: &[Vec<f64>], interval: bool) -> Option<TimeSummary> {
    let all = sorted(&trials.concat());
    let (min, max) = (Some(*all.first()?), Some(*all.last()?));
    let filled = || trials.iter().filter(|trial| !trial.is_empty());
    let medians: Vec<f64> = filled().map(|trial| median(trial)).collect();
    let means = filled().map(|trial| trial.iter().sum::<f64>() / trial.len() as f64);
    let mean = Some(means.sum::<f64>() / medians.len() as f64);
    let ci95 = sign_interval(&medians).filter(|_| interval);
    let at = |p| Some(quantile(&all, p));
    let (p05, p50, p95, p99) = (at(0.05), at(0.5), at(0.95), at(0.99));
    let p999 = at(0.999).filter(|_| all.len() >= TAIL_SAMPLES);
    Some(TimeSummary {
        median: median(&medians),
        ci95,
        ci95_again: None,
        ci95_earlier: None,
        earlier_runs: None,
        mean,
        std: None,
        p05,
        p50,
        p95,
        p99,
        p999,
        min,
        max,
    })
}

/// The limit by the loop whose ceiling is the fastest, and the share of it that the case's time reaches.
fn limit(run: &CaseRun, time: &TimeSummary) -> Option<Limit> {
    let probed = |variant: &str| -> Vec<(&LimitTime, Option<f64>)> {
        let find = |trial: &'_ Trial| trial.limits.iter().position(|limit| limit.variant == variant);
        run.trials.iter().filter_map(|trial| Some((&trial.limits[find(trial)?], trial.median()))).collect()
    };
    let variants: BTreeSet<&str> =
        run.trials.iter().flat_map(|trial| &trial.limits).map(|l| l.variant.as_str()).collect();
    let ceilings = variants.into_iter().filter_map(|variant| Some((variant, ceiling(&probed(variant))?)));
    let (best, ceiling) = ceilings.min_by(|(_, a), (_, b)| a.mid.total_cmp(&b.mid))?;
    let share = stats::share_of_ceiling(ceiling, time.median, time.ci95)?;
    let (limits, times): (Vec<f64>, Vec<f64>) =
        probed(best).into_iter().filter_map(|(limit, time)| Some((limit.seconds, time?))).unzip();
    let paired = stats::paired_ratio(&limits, &times);
    Some(Limit {
        variant: best.to_owned(),
        time_s: ceiling.mid,
        ci95: ceiling.ends,
        share: share.mid,
        share_ci95: share.ends,
        paired_share: paired.map(|paired| paired.mid),
        paired_share_ci95: paired.and_then(|paired| paired.ends),
        why_not: None,
    })
}

/// The ceiling by the trials that probed it, or by their rounds where trials are few. None from one trial: what disturbed
/// it disturbed all of its rounds.
fn ceiling(probed: &[(&LimitTime, Option<f64>)]) -> Option<stats::Ratio> {
    let trials: Vec<f64> = probed.iter().map(|(limit, _)| limit.seconds).collect();
    match trials.len() {
        0 | 1 => None,
        few if few < stats::FEWEST_PROBES => {
            let rounds: Vec<f64> = probed.iter().flat_map(|(limit, _)| limit.rounds.iter().copied()).collect();
            stats::ceiling(&rounds)
        }
        _ => stats::ceiling(&trials),
    }
}

/// Whether the time is a share of the limit: not where it may lie well beyond the limit, nor where the limit itself is impossible.
fn is_share(limit: &Limit) -> bool {
    limit.why_not.is_none() && limit.share_ci95.map_or(limit.share, |[_, high]| high) <= BEYOND_LIMIT
}

/// The state that stands for the case, and the times in each; none where the run saw one state.
fn states(run: &CaseRun) -> (Option<String>, Vec<CaseState>) {
    let Some(labels) = &run.labels else { return (None, Vec::new()) };
    let medians: Vec<f64> = run.trials.iter().map(|trial| trial.median().unwrap_or(f64::NAN)).collect();
    let states = labels.times(&medians, !run.settings.quick && !run.settings.exact);
    let shown = labels.shown().and_then(|state| labels.names.get(state)).filter(|_| !states.is_empty());
    (shown.cloned(), states)
}

/// The levels that the medians of trials lie on, in the order of their times; none where there is one.
fn levels(run: &CaseRun, line: &CaseLine) -> Vec<Level> {
    if run.simulated {
        return Vec::new();
    }
    let trials = &line.trial_median_s;
    let states = stats::states(&trials.iter().map(|trial| vec![Some(*trial)]).collect::<Vec<_>>());
    if states.count() < 2 {
        return Vec::new();
    }
    let level = |state: usize| {
        let trials = states.of.iter().filter(|of| **of == state).count() as u64;
        Some(Level { median_s: states.levels[state][0]?, trials, share: states.share(state) })
    };
    (0..states.count()).filter_map(level).collect()
}

/// Median of each rank's own samples, over all trials. Ranks with equal samples share it.
fn per_rank(trials: &[Trial]) -> Vec<f64> {
    let ranks = trials.iter().map(|trial| trial.samples.len()).max().unwrap_or(0);
    let own = |rank: usize| {
        let samples = trials.iter().flat_map(move |trial| {
            let calls = f64::from(trial.calls.max(1));
            trial.samples.get(rank).into_iter().flatten().map(move |ns| *ns as f64 / 1e9 / calls)
        });
        let samples: Vec<f64> = samples.collect();
        (!samples.is_empty()).then(|| median(&samples))
    };
    let rows = |rank: usize| -> Vec<Option<u32>> {
        trials.iter().map(|trial| trial.samples.row_of().get(rank).copied()).collect()
    };
    let mut known = HashMap::new();
    (0..ranks).filter_map(|rank| *known.entry(rows(rank)).or_insert_with(|| own(rank))).collect()
}

/// The rank that others wait for, by the arrivals of all trials.
fn slow_rank(run: &CaseRun, about: Circumstances) -> Option<Straggler> {
    // Where ranks may run ahead of each other, are in groups, or wait for a core, being last means nothing.
    let in_groups = run.trials.iter().flat_map(|trial| &trial.ready).any(|ready| ready.group > 0);
    let tells = run.case.op().is_some_and(Collective::synchronises) && !about.oversubscribed && !in_groups;
    let looks: Vec<&[Vec<f64>]> = run.trials.iter().map(|trial| trial.arrivals.as_slice()).collect();
    let apart = run.trials.iter().map(|trial| trial.arrivals_apart_ns).fold(0.0, f64::max);
    straggler(&looks).filter(|slow| tells && apart < CLEARLY * slow.wait_s * 1e9)
}

fn set_wrong(run: &CaseRun, line: &mut CaseLine) {
    if run.case.op() == Some(Collective::Barrier) {
        return set_early(line, &barrier::together(run.trials.iter().map(|trial| &trial.exits)));
    }
    let reports = || run.trials.iter().flat_map(|trial| &trial.wrong);
    let count: u64 = reports().map(|report| report.count).sum();
    let mut first: Vec<WrongElement> = reports().flat_map(|report| report.first.iter().cloned()).collect();
    // The earliest evidence, before one rank's wrong element has spread to the others in later calls.
    let earliest = first.first().cloned();
    first.sort_by_key(|wrong| (wrong.rank, wrong.index));
    first.dedup();
    line.wrong = Some(count);
    if reports().all(|report| report.compared == 0) {
        line.status = Status::Failed;
        line.reason = Some("the check compared no element: nothing is known of the data".to_owned());
    }
    if count > 0 {
        line.status = Status::Failed;
        line.reason = Some(about_wrong(count, &first, earliest.as_ref()));
    }
    line.wrong_elements = spread(first);
}

/// How much the checks compared, where they left something out.
fn checked(run: &CaseRun) -> Option<found::Checked> {
    let (compared, left_out) = if run.case.op() == Some(Collective::Barrier) {
        let exits = barrier::together(run.trials.iter().map(|trial| &trial.exits));
        (exits.compared, exits.left_out)
    } else {
        let ready = run.trials.iter().flat_map(|trial| &trial.ready);
        let reports = run.trials.iter().flat_map(|trial| &trial.wrong);
        (reports.map(|report| report.compared).sum(), ready.map(|ready| ready.left_out).max().unwrap_or(0))
    };
    (left_out > 0).then(|| found::Checked { compared, of: compared.saturating_add(left_out) })
}

/// Checks a barrier: no rank may leave before the last has entered. Where nothing could be compared, nothing is said.
fn set_early(line: &mut CaseLine, exits: &barrier::Exits) {
    line.wrong = exits.wrong();
    if let Some(reason) = exits.reason() {
        line.status = Status::Failed;
        line.reason = Some(reason);
        line.wrong_elements = exits.elements();
    }
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
        let at = if ranks.len() == 1 { String::new() } else { format!(" of rank {rank}") };
        format!(": element {index}{at} should be {expected} and is {got}")
    });
    format!("{count} wrong {elements} on {word} {}{example}", ranks.join(", "))
}

/// At most [`MOST_WRONG_ELEMENTS`] of them, of as many ranks as possible: the first of each rank, then the second, ...; by rank.
fn spread(first: Vec<WrongElement>) -> Vec<WrongElement> {
    let mut turns: Vec<(usize, WrongElement)> = Vec::with_capacity(first.len());
    for wrong in first {
        let turn = turns.last().map_or(0, |(turn, last)| if last.rank == wrong.rank { turn + 1 } else { 0 });
        turns.push((turn, wrong));
    }
    turns.sort_by_key(|(turn, wrong)| (*turn, wrong.rank));
    turns.truncate(MOST_WRONG_ELEMENTS);
    turns.sort_by_key(|(turn, wrong)| (wrong.rank, *turn));
    turns.into_iter().map(|(_, wrong)| wrong).collect()
}

fn caveats(
    run: &CaseRun,
    line: &CaseLine,
    series: &[Vec<f64>],
    slow: Option<&Straggler>,
    about: Circumstances,
) -> Vec<Caveat> {
    let mut found = run.case.caveats.clone();
    let mut add = |condition: bool, caveat: Caveat| {
        if condition && !found.contains(&caveat) {
            found.push(caveat);
        }
    };
    add(about.simulated, Caveat::Simulated);
    add(about.oversubscribed, Caveat::Oversubscribed);
    add(about.virtualised, Caveat::Virtualised);
    add(run.case.is_paced(), Caveat::Paced);
    add(found::CHECKED.value(line).is_some(), Caveat::PartlyChecked);
    let ready = || run.trials.iter().flat_map(|trial| &trial.ready);
    add(ready().any(|ready| ready.emulated), Caveat::Emulated);
    add(ready().any(|ready| ready.shared_device), Caveat::SharedDevice);
    let (short, wide, skewed) = (is_short(run, line), is_wide(run, line), is_skewed(line));
    add(run.settings.quick, Caveat::QuickLook);
    add(about.open, Caveat::Preliminary);
    add(short && !about.open, Caveat::ShortSpan);
    add(wide, Caveat::CiAboveTarget);
    add(skewed, Caveat::MeanDiffers);
    add(found::LEVELS.value(line).is_some(), Caveat::TwoLevels);
    let probed = run.trials.iter().any(|trial| !trial.limits.is_empty());
    let no_share = line.limit.as_ref().map_or(probed && !about.open, |limit| !is_share(limit));
    add(no_share, Caveat::LimitNotFound);
    // Most of the trials: one that met the machine at a bad moment is not a caveat about all.
    let judged: Vec<bool> = run.trials.iter().filter_map(|trial| trial.steady).collect();
    let unsettled = judged.iter().filter(|steady| !**steady).count();
    add(2 * unsettled > judged.len(), Caveat::WarmUpNotConverged);
    add(drifts(series, &line.trial_median_s), Caveat::Drift);
    add(run.trials.iter().any(|trial| trial.missed_starts > 0), Caveat::MissedStart);
    add(slow.is_some(), Caveat::SlowRank);
    for trial in &run.trials {
        if let Some((before, after)) = &trial.canaries {
            for caveat in before.caveats(after, trial.wall_s, run.case.ranks(), about.oversubscribed) {
                add(true, caveat);
            }
        }
    }
    add(series.iter().any(|series| quantised(series)), Caveat::ClockResolution);
    let vague = line.starts_apart_s.zip(line.time_s.as_ref());
    add(vague.is_some_and(|(apart, time)| apart > STARTS_APART * time.median), Caveat::StartsApart);
    found
}

/// Whether the trials say little of a machine that changes within seconds. A user who asked for one trial, or for a quick
/// look, knows; and what is computed does not change.
fn is_short(run: &CaseRun, line: &CaseLine) -> bool {
    let asked = run.settings.quick || run.settings.exact || run.simulated || run.settings.trials == Some(1);
    !asked && (run.trials.len() < stats::FEWEST_TRIALS || line.span_s.is_some_and(|span| span < SPAN_S))
}

/// Whether the printed interval is wider than the target. Who asked to sample for the whole time set no target.
fn is_wide(run: &CaseRun, line: &CaseLine) -> bool {
    let time = line.time_s.as_ref();
    let width = time.and_then(|time| Some(stats::relative_half_width(time.ci95?, time.median)));
    run.settings.target > 0.0 && width.is_some_and(|width| width > run.settings.target)
}

fn is_skewed(line: &CaseLine) -> bool {
    line.time_s
        .as_ref()
        .is_some_and(|time| time.mean.is_some_and(|mean| (mean - time.median).abs() > MEAN_DIFFERS * time.median))
}

/// By the trend of trial medians; by that of samples where there is one trial.
fn drifts(series: &[Vec<f64>], medians: &[f64]) -> bool {
    let drift = match series {
        [one] if one.len() >= DRIFT_SAMPLES => stats::drift(one),
        [_] => None,
        _ => stats::trial_drift(medians),
    };
    drift.is_some_and(|drift| drift.change.abs() >= DRIFT)
}

/// Whether some sample took no time at all: the clock does not resolve it.
fn quantised(series: &[f64]) -> bool {
    series.contains(&0.0)
}

/// The share of the limit as a metric's value; None where none was found. What reaches more than its limit within the noise of
/// both reaches all of it; [`Limit::share`] keeps the quotient.
pub fn limit_share(limit: Option<&Limit>) -> Option<f64> {
    let limit = limit.filter(|limit| is_share(limit))?;
    Some(limit.share.min(1.0)).filter(|share| share.is_finite())
}

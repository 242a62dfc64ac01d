//! The verdict on each pair of cases, and on all of them together.

use record::{Better, CaseLine, Record};
use stats::{FEWEST_TRIALS, MedianLaw, holm, pooled_correlation, trials_needed};
use terms::Status;

use super::law::Law;
use super::matching::{Held, Pair, declared};
use super::quantity::{Quantity, headline};
use super::runs::{self, EqualRunSeries, Noise, series};
use super::{Compared, Correction, EqualRuns, FAMILY_LEVEL, Reason, Source, states};
use crate::Verdict;

/// Cases of one run share the machine's moods: more than so many do not make its slow change better known.
const INDEPENDENT_CASES: usize = 6;
/// The most that a slow change may widen: beyond, the estimate is of something else.
const MOST_SLOW: f64 = 25.0;

/// All verdicts.
pub(super) struct Judged<'r> {
    pub(super) cases: Vec<Compared<'r>>,
    pub(super) correction: Correction,
}

/// The measured ratio of a pair, before levels are corrected.
struct RatioLaw {
    law: Law,
    log_ratio: f64,
}

/// Judges pairs of the latest records. `bases` and `news` are equal runs, the latest last; `history` are others.
pub(super) fn judge<'r>(
    [bases, news]: [&[&'r Record]; 2],
    pairs: &[Pair<'r>],
    history: &[&'r Record],
    threshold: f64,
) -> Judged<'r> {
    let [latest, new] = [bases, news].map(|side| side[side.len() - 1]);
    let cases: Vec<Held> = pairs.iter().map(|pair| Held { record: pair.of[0], line: pair.base }).collect();
    let of_new: Vec<Held> = pairs.iter().map(|pair| Held { record: pair.of[1], line: pair.new }).collect();
    let sides = [series(&cases, bases), series(&of_new, news)];
    let of_sides = runs::of_sides(&sides[0], &sides[1]);
    let in_history = series(&cases, history);
    let of_history = runs::of_history(&in_history);
    let correlations = [correlation(latest), correlation(new)];
    let slow = slow_change(pairs, correlations);
    let mut known: Vec<Option<RatioLaw>> = Vec::new();
    let mut compared: Vec<Compared> = Vec::new();
    for (at, pair) in pairs.iter().enumerate() {
        let mut case = unjudged(pair);
        case.equal_runs = EqualRuns {
            sides: [&sides[0][at], &sides[1][at]].map(|side| side.values.len()),
            history: in_history[at].values.len(),
            of_sides: of_sides[at].is_some(),
        };
        let [base_record, new_record] = pair.of;
        let known_of =
            Known { sides: [&sides[0][at], &sides[1][at]], of_sides: of_sides[at], of_history: of_history[at] };
        known.push(match states::seen(base_record, pair.base, new_record, pair.new) {
            Some(seen)
                if is_ok(pair.base)
                    && is_ok(pair.new)
                    && case.quantity.is_time()
                    && not_measured(pair.base, pair.new).is_none() =>
            {
                (case.verdict, case.reason) = (Some(Verdict::CannotTell), Reason::OtherState(seen));
                None
            }
            _ if statistic(base_record) != statistic(new_record) && is_ok(pair.base) && is_ok(pair.new) => {
                let reason = Reason::OtherStatistic([statistic(base_record), statistic(new_record)]);
                (case.verdict, case.reason) = (Some(Verdict::CannotTell), reason);
                None
            }
            _ => look(&mut case, &known_of, slow, correlations),
        });
        compared.push(case);
    }
    let correction = correct(&mut compared, &known, correlations, threshold);
    for (case, pair) in compared.iter_mut().zip(pairs) {
        let changed = matches!(case.verdict, Some(Verdict::Better | Verdict::Worse)) && case.reason == Reason::Interval;
        let ratio = case.ratio.filter(|_| changed && case.quantity.is_time());
        if let Some(slower) =
            ratio.and_then(|ratio| states::by_clock(pair.of[0], case.base, pair.of[1], case.new, ratio))
        {
            (case.verdict, case.reason) = (Some(Verdict::CannotTell), Reason::OtherClock(slower));
        }
    }
    // By cached keys: sorting by comparing would need room for half of the cases once more.
    compared.sort_by_cached_key(|case| ordered(order(case)));
    Judged { cases: compared, correction }
}

/// What a time of a record is: the statistic of the program that measured it; None of this program's own.
fn statistic(record: &Record) -> Option<String> {
    record.file.imported.as_ref().map(|imported| imported.statistic.clone())
}

/// What is known of one case apart from its two lines.
struct Known<'s> {
    /// Values of the case in the runs of both sides.
    sides: [&'s EqualRunSeries; 2],
    of_sides: Option<Noise>,
    of_history: Option<Noise>,
}

/// The lag-1 correlation of a run's trials, as the run has it, or as its lines tell.
fn correlation(record: &Record) -> f64 {
    let own = record.file.rounds.as_ref().and_then(|rounds| rounds.correlation);
    let lines = || pooled_correlation(record.cases.iter().map(|line| line.trial_median_s.as_slice()));
    own.or_else(lines).filter(|correlation| correlation.is_finite()).unwrap_or(0.0)
}

/// How much more than trials explain a run changes from its first half to its second, as a share of the variance, with the
/// degrees of freedom to which it is known. An effect below one standard error is treated as zero.
fn slow_change(pairs: &[Pair], correlations: [f64; 2]) -> (f64, f64) {
    let share = |pair: &Pair| {
        let laws = [pair.base, pair.new].into_iter().zip(correlations);
        let laws: Option<Vec<MedianLaw>> =
            laws.map(|(line, correlation)| MedianLaw::new(&line.trial_median_s, correlation)).collect();
        let laws = laws.filter(|_| is_ok(pair.base) && is_ok(pair.new))?;
        // Over the errors of both runs: each alone is known badly, and its inverse worse.
        let error = laws.iter().map(|law| law.error().powi(2)).sum::<f64>();
        let change: Option<f64> = laws.iter().map(|law| Some(law.slow_change()? * law.error().powi(2))).sum();
        change.filter(|_| error > 0.0).map(|change| change / error)
    };
    let shares: Vec<f64> = pairs.iter().filter_map(share).collect();
    if shares.is_empty() {
        return (0.0, 1.0);
    }
    let degrees = 2.0 * shares.len().min(INDEPENDENT_CASES) as f64;
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    let chance = 1.0 + (2.0 / degrees).sqrt();
    ((mean.min(MOST_SLOW) - chance).max(0.0), degrees)
}

fn is_ok(line: &CaseLine) -> bool {
    line.status == Status::Ok && line.wrong.unwrap_or(0) == 0
}

fn unjudged<'r>(pair: &Pair<'r>) -> Compared<'r> {
    let declared = declared(pair.of[0], pair.base);
    let trials = [pair.base, pair.new].map(|line| line.trial_median_s.len());
    Compared {
        base: pair.base,
        new: pair.new,
        changes: pair.changes.clone(),
        quantity: Quantity::from_declared(declared),
        values: None,
        ratio: None,
        interval: None,
        level: FAMILY_LEVEL,
        extrapolated: false,
        smallest_change: None,
        trials,
        source: Source::Trials,
        equal_runs: EqualRuns::default(),
        shown: headline(declared, pair.base, pair.new).filter(|_| is_ok(pair.base) && is_ok(pair.new)),
        verdict: None,
        reason: Reason::NoValue,
    }
}

/// What is known of the ratio; None where no interval can be made, with the verdict and the reason set.
fn look(case: &mut Compared, known: &Known, slow: (f64, f64), correlations: [f64; 2]) -> Option<RatioLaw> {
    let (base, new) = (case.base, case.new);
    let ended = |verdict, reason| (verdict, reason);
    let (verdict, reason) = match (is_ok(base), is_ok(new)) {
        (true, false) => {
            let why = new.reason.clone().unwrap_or_default();
            // What fails is worse; what did not run tells nothing.
            let failed = matches!(new.status, Status::Failed | Status::Ok);
            ended(Some(if failed { Verdict::Worse } else { Verdict::CannotTell }), Reason::NotOk(new.status, why))
        }
        (false, true) => ended(None, Reason::NowOk(base.status)),
        (false, false) => ended(None, Reason::NeverOk(new.status)),
        (true, true) => ended(Some(Verdict::CannotTell), Reason::NoValue),
    };
    (case.verdict, case.reason) = (verdict, reason);
    if !(is_ok(base) && is_ok(new)) {
        return None;
    }
    let own = [case.quantity.value(base)?, case.quantity.value(new)?];
    let mean = |side: usize| known.sides[side].mean().filter(|_| known.of_sides.is_some()).unwrap_or(own[side]);
    let (base_value, new_value) = (mean(0), mean(1));
    let log_ratio = (new_value / base_value).ln();
    (case.values, case.ratio) = (Some([base_value, new_value]), Some(new_value / base_value));
    let law = match law(case, known, slow, correlations) {
        Ok((law, source)) => {
            case.source = source;
            law
        }
        Err(reason) => {
            case.reason = reason;
            return None;
        }
    };
    case.reason = Reason::Interval;
    // Of what is better in large numbers, the inverse is what grows when it becomes worse.
    let log_ratio = if case.quantity.better == Better::Higher { -log_ratio } else { log_ratio };
    Some(RatioLaw { law, log_ratio })
}

/// Why two lines are not two measurements of real devices, which no state of a machine explains.
fn not_measured(base: &CaseLine, new: &CaseLine) -> Option<Reason> {
    let emulated = |line: &CaseLine| line.caveats.contains(&record::Caveat::Emulated);
    match () {
        () if base.simulated != new.simulated => Some(Reason::OneComputed),
        () if emulated(base) || emulated(new) => Some(Reason::Emulated),
        () => None,
    }
}

fn law(case: &Compared, known: &Known, slow: (f64, f64), correlations: [f64; 2]) -> Result<(Law, Source), Reason> {
    let (base, new) = (case.base, case.new);
    if let Some(reason) = not_measured(base, new) {
        return Err(reason);
    }
    let constant = |line: &CaseLine| line.trial_median_s.windows(2).all(|pair| pair[0] == pair[1]);
    if base.simulated && constant(base) && constant(new) {
        return Ok((Law::Exact, Source::Exact));
    }
    let imported = |line: &CaseLine| line.caveats.contains(&record::Caveat::Imported);
    let is_imported = imported(base) || imported(new);
    let fewest = *case.trials.iter().min().unwrap_or(&0);
    let by_runs = |trials: Option<usize>| {
        let noise = known.of_sides.or(known.of_history)?;
        let runs = known.sides.map(|side| if known.of_sides.is_some() { side.values.len() } else { 1 });
        Some((of_runs(noise, runs, trials.unwrap_or(noise.trials as usize)), Source::Runs(noise.runs)))
    };
    if !case.quantity.is_time() {
        return match by_runs(None) {
            Some(law) => Ok(law),
            None if case.ratio == Some(1.0) => Ok((Law::Exact, Source::Exact)),
            None => Err(Reason::OneFigure),
        };
    }
    // One figure of a run of another program is what each of its runs has.
    if is_imported {
        return by_runs(None).ok_or(Reason::Imported);
    }
    if fewest < FEWEST_TRIALS {
        return Err(Reason::FewTrials(case.trials));
    }
    if let Some(law) = by_runs(Some(fewest)) {
        return Ok(law);
    }
    let laws = [(base, correlations[0]), (new, correlations[1])]
        .map(|(line, correlation)| MedianLaw::new(&line.trial_median_s, correlation));
    let [Some(base), Some(new)] = laws else { return Err(Reason::NoValue) };
    // Two runs, each with the variance of one half against the other.
    let deviation = (2.0 * slow.0).sqrt() * base.error().hypot(new.error());
    Ok((Law::Trials { base, new, slow: (deviation, slow.1) }, Source::Trials))
}

/// The law of the mean of new runs against the mean of equal runs. `trials`: the fewest of what is compared.
fn of_runs(noise: Noise, runs: [usize; 2], trials: usize) -> Law {
    // Fewer trials than the runs that tell the noise have: all of the noise is taken to be that of trials.
    let fewer = (noise.trials / trials.max(1) as f64).max(1.0);
    let [base, new] = [0, 1].map(|side| noise.variances[side] / runs[side].max(1) as f64);
    Law::Runs { deviation: (base + fewer * new).sqrt(), degrees: noise.degrees }
}

/// Corrects levels for the number of cases (Holm), and sets intervals and verdicts.
fn correct(cases: &mut [Compared], known: &[Option<RatioLaw>], correlations: [f64; 2], threshold: f64) -> Correction {
    let noisy: Vec<usize> =
        (0..cases.len()).filter(|at| cases[*at].source != Source::Exact && known[*at].is_some()).collect();
    let p_values: Vec<f64> =
        noisy.iter().filter_map(|at| known[*at].as_ref()).map(|known| known.law.p_value(known.log_ratio)).collect();
    let held = holm(&p_values, FAMILY_LEVEL);
    let first = FAMILY_LEVEL / noisy.len().max(1) as f64;
    for (at, held) in noisy.iter().zip(&held) {
        cases[*at].level = held.level;
    }
    for (case, known) in cases.iter_mut().zip(known) {
        let Some(RatioLaw { law, log_ratio }) = known else { continue };
        let reach = law.reach(case.level);
        let interval = [log_ratio - reach.low, log_ratio + reach.high].map(f64::exp);
        case.interval = Some(if case.quantity.better == Better::Higher {
            [1.0 / interval[1], 1.0 / interval[0]]
        } else {
            interval
        });
        case.extrapolated = reach.extrapolated;
        case.smallest_change = law.smallest_change(first);
        let verdict = Verdict::from_interval(Some(interval), threshold);
        (case.verdict, case.reason) = without_history(case, verdict, log_ratio.abs());
    }
    let by_trials = noisy.iter().filter(|at| cases[**at].source == Source::Trials);
    let q = correlations.into_iter().fold(0.0, f64::max);
    let needed = trials_needed(first, q);
    Correction {
        cases: noisy.len(),
        level: first,
        trials_needed: needed,
        trials_needed_uncorrelated: trials_needed(first, 0.0),
        short: by_trials
            .filter(|at| needed.is_none_or(|needed| cases[**at].trials.iter().any(|n| *n < needed)))
            .count(),
    }
}

/// Two runs without history: only a change of the smallest size that could have been shown is one.
fn without_history(case: &Compared, verdict: Verdict, change: f64) -> (Option<Verdict>, Reason) {
    let judged = match (case.source, verdict) {
        (Source::Trials, Verdict::Same) => (Verdict::CannotTell, Reason::NoHistory),
        (Source::Trials, Verdict::Better | Verdict::Worse)
            if case.smallest_change.is_none_or(|smallest| change < smallest.ln_1p()) =>
        {
            (Verdict::CannotTell, Reason::BelowSmallest)
        }
        (_, verdict) => (verdict, Reason::Interval),
    };
    (Some(judged.0), judged.1)
}

/// A number's bits in the order of `f64::total_cmp`.
fn ordered(number: f64) -> i64 {
    let bits = number.to_bits().cast_signed();
    bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
}

/// The order in which cases are read: worse, cannot tell, better, same, the rest; within each the largest cost first.
fn order(case: &Compared) -> f64 {
    let group = match case.verdict {
        Some(Verdict::Worse) => 0.0,
        Some(Verdict::CannotTell) => 1.0,
        Some(Verdict::Better) => 2.0,
        Some(Verdict::Same) => 3.0,
        None => 4.0,
    };
    let cost = case.ratio.map_or(0.0, f64::ln);
    let cost = if case.quantity.better == Better::Higher { -cost } else { cost };
    // Newly failed cases have no ratio and come first.
    let newly = matches!(case.reason, Reason::NotOk(..));
    group - if newly { 0.4 } else { 0.39 * (cost / (1.0 + cost.abs())) }
}

//! The verdict on each pair of cases, and on all of them together.

use record::{Better, CaseLine, Record};
use stats::{FEWEST_TRIALS, MedianLaw, holm, pooled_correlation, trials_needed};
use terms::Status;

use super::law::Law;
use super::matching::{Pair, declared};
use super::quantity::{Quantity, headline};
use super::runs::{Noise, Series, noise, series};
use super::{Compared, Correction, FAMILY_LEVEL, FEWEST_RUNS, Reason, Source, states};
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

/// Judges pairs. `base` are equal runs, the latest last; `history` are others.
pub(super) fn judge<'r>(
    base: &[&'r Record],
    new: &'r Record,
    pairs: &[Pair<'r>],
    history: &[&'r Record],
    threshold: f64,
) -> Judged<'r> {
    let latest = base[base.len() - 1];
    let cases: Vec<&CaseLine> = pairs.iter().map(|pair| pair.base).collect();
    let bases = series(&cases, latest, base);
    let of_base = noise(&bases, true);
    let of_history = noise(&series(&cases, latest, history), false);
    let correlations = [correlation(latest), correlation(new)];
    let slow = slow_change(pairs, correlations);
    let mut known: Vec<Option<RatioLaw>> = Vec::new();
    let mut compared: Vec<Compared> = Vec::new();
    for (at, pair) in pairs.iter().enumerate() {
        let mut case = unjudged(pair, latest);
        let noises = (of_base[at], of_history[at]);
        known.push(match states::seen(latest, pair.base, new, pair.new) {
            Some(seen) if is_ok(pair.base) && is_ok(pair.new) && case.quantity.is_time() => {
                (case.verdict, case.reason) = (Some(Verdict::CannotTell), Reason::OtherState(seen));
                None
            }
            _ => look(&mut case, &bases[at], noises, slow, correlations),
        });
        compared.push(case);
    }
    let correction = correct(&mut compared, &known, correlations, threshold);
    for case in &mut compared {
        let changed = matches!(case.verdict, Some(Verdict::Better | Verdict::Worse)) && case.reason == Reason::Interval;
        let ratio = case.ratio.filter(|_| changed && case.quantity.is_time());
        if let Some(slower) = ratio.and_then(|ratio| states::by_clock(latest, case.base, new, case.new, ratio)) {
            (case.verdict, case.reason) = (Some(Verdict::CannotTell), Reason::OtherClock(slower));
        }
    }
    // By cached keys: sorting by comparing would need room for half of the cases once more.
    compared.sort_by_cached_key(|case| ordered(order(case)));
    Judged { cases: compared, correction }
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

fn unjudged<'r>(pair: &Pair<'r>, record: &Record) -> Compared<'r> {
    let declared = declared(record, pair.base);
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
        shown: headline(declared, pair.base, pair.new).filter(|_| is_ok(pair.base) && is_ok(pair.new)),
        verdict: None,
        reason: Reason::NoValue,
    }
}

/// What is known of the ratio; None where no interval can be made, with the verdict and the reason set.
fn look(
    case: &mut Compared,
    bases: &Series,
    noises: (Option<Noise>, Option<Noise>),
    slow: (f64, f64),
    correlations: [f64; 2],
) -> Option<RatioLaw> {
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
    let new_value = case.quantity.value(new)?;
    let several = noises.0.is_some() && bases.values.len() >= FEWEST_RUNS;
    let base_value = match several {
        true => (bases.values.iter().map(|value| value.ln()).sum::<f64>() / bases.values.len() as f64).exp(),
        false => case.quantity.value(base)?,
    };
    let log_ratio = (new_value / base_value).ln();
    (case.values, case.ratio) = (Some([base_value, new_value]), Some(new_value / base_value));
    let law = match law(case, (several, bases.values.len()), noises, slow, correlations) {
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

fn law(
    case: &Compared,
    (several, runs): (bool, usize),
    (of_base, of_history): (Option<Noise>, Option<Noise>),
    slow: (f64, f64),
    correlations: [f64; 2],
) -> Result<(Law, Source), Reason> {
    let (base, new) = (case.base, case.new);
    if base.simulated != new.simulated {
        return Err(Reason::OneComputed);
    }
    if [base, new].iter().any(|line| line.caveats.contains(&record::Caveat::Emulated)) {
        return Err(Reason::Emulated);
    }
    let constant = |line: &CaseLine| line.trial_median_s.windows(2).all(|pair| pair[0] == pair[1]);
    if base.simulated && constant(base) && constant(new) {
        return Ok((Law::Exact, Source::Exact));
    }
    let imported = |line: &CaseLine| line.caveats.contains(&record::Caveat::Imported) && line.trial_median_s.is_empty();
    let fewest = *case.trials.iter().min().unwrap_or(&0);
    if !case.quantity.is_time() {
        return match of_base.or(of_history) {
            Some(noise) => Ok((of_runs(noise, several, runs, noise.trials as usize), Source::Runs(noise.runs))),
            None if case.ratio == Some(1.0) => Ok((Law::Exact, Source::Exact)),
            None => Err(Reason::OneFigure),
        };
    }
    if imported(base) || imported(new) {
        return Err(Reason::Imported);
    }
    if fewest < FEWEST_TRIALS {
        return Err(Reason::FewTrials(case.trials));
    }
    if let Some(noise) = of_base.or(of_history) {
        return Ok((of_runs(noise, several, runs, fewest), Source::Runs(noise.runs)));
    }
    let laws = [(base, correlations[0]), (new, correlations[1])]
        .map(|(line, correlation)| MedianLaw::new(&line.trial_median_s, correlation));
    let [Some(base), Some(new)] = laws else { return Err(Reason::NoValue) };
    // Two runs, each with the variance of one half against the other.
    let deviation = (2.0 * slow.0).sqrt() * base.error().hypot(new.error());
    Ok((Law::Trials { base, new, slow: (deviation, slow.1) }, Source::Trials))
}

/// The law of a new run against the mean of equal runs, or against one of them. `trials`: the fewest of what is compared.
fn of_runs(noise: Noise, several: bool, runs: usize, trials: usize) -> Law {
    let base = if several { 1.0 / runs as f64 } else { 1.0 };
    // Fewer trials than the runs that tell the noise have: all of the noise is taken to be that of trials.
    let fewer = (noise.trials / trials.max(1) as f64).max(1.0);
    Law::Runs { deviation: (noise.variance * (base + fewer)).sqrt(), degrees: noise.degrees }
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

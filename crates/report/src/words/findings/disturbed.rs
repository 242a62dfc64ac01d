//! Findings about the machine while it was measured: what disturbed it, its states, and intervals that it made wide.

use record::found::{LEVELS, Level};
use record::{CaseLine, Caveat};
use terms::Named as _;

use super::{Finding, FindingTopic, cases, finding, share};
use crate::Run;
use crate::number::{list, percent, seconds};
use crate::study::{Measured, Operation};
use crate::words::results::shows_time;
use crate::words::states;

/// A caveat of noise on more than this share of cases is a finding.
const OFTEN: f64 = 0.2;
/// A time whose interval is this wide to each side, as a share of it, is no more than a hint.
const UNCERTAIN: f64 = 0.25;

/// What disturbs a run, the strongest evidence first.
const NOISE: [Caveat; 6] = [
    Caveat::StolenTime,
    Caveat::QuotaReached,
    Caveat::OtherPrograms,
    Caveat::Throttled,
    Caveat::Noisy,
    Caveat::ContextSwitches,
];

/// Findings on disturbances of the machine, but for those about intervals.
pub(super) fn findings(run: &Run) -> impl Iterator<Item = Finding> {
    [noise(run), states(run), levels(run)].into_iter().flatten()
}

fn noise(run: &Run) -> Option<Finding> {
    let is_timed = |case: &&CaseLine| case.time_s.is_some() && !case.simulated && shows_time(run, case);
    let measured: Vec<&CaseLine> = run.cases.iter().filter(is_timed).collect();
    let number = |caveat: Caveat| measured.iter().filter(|case| case.caveats.contains(&caveat)).count();
    let often = |caveat: &Caveat| number(*caveat) as f64 > OFTEN * measured.len() as f64;
    let first = NOISE.into_iter().find(often)?;
    let any = |case: &&&CaseLine| NOISE.iter().any(|caveat| case.caveats.contains(caveat));
    let all = measured.iter().filter(any).count();
    let words: Vec<String> = match NOISE.into_iter().filter(|caveat| number(*caveat) > 0).collect::<Vec<_>>()[..] {
        [one] => vec![word(one)],
        ref several if several.iter().all(|caveat| number(*caveat) == all) => {
            several.iter().map(|one| word(*one)).collect()
        }
        ref several => several.iter().map(|caveat| format!("{} in {}", word(*caveat), number(*caveat))).collect(),
    };
    let disturbed = share(all, measured.len(), "is disturbed", "are disturbed");
    let title = format!("{disturbed}: {}", list(&words));
    let explanation = first.explanation();
    let mut letters = explanation.chars();
    let upper = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let remedy = remedy(first, states::is_pinned(run));
    Some(finding(FindingTopic::Disturbed, title, format!("{upper}{}.", letters.as_str()), remedy))
}

fn word(caveat: Caveat) -> String {
    caveat.name().replace('_', " ")
}

fn remedy(caveat: Caveat, pinned: bool) -> &'static str {
    match caveat {
        Caveat::StolenTime => "Other tenants use these cores: repeat at another time, or on a machine of your own.",
        Caveat::QuotaReached => "Raise the container's quota of processor time, or run fewer ranks.",
        Caveat::OtherPrograms => {
            "Stop the other programs, use fewer ranks, or repeat at another time. To compare two versions on such a \
             machine, use `rankmark compare --interleave`."
        }
        Caveat::Throttled => "Check cooling, the power limit and the frequency governor, then repeat.",
        _ if pinned => "Stop other programs on these cores, then repeat.",
        _ => "Stop other programs on these cores, or pin ranks with `--bind core`, then repeat.",
    }
}

/// What the machine was like, where it changed. Times are those of one state, so this disturbs none of them.
fn states(run: &Run) -> Option<Finding> {
    let [title, evidence] = states::title_and_evidence(run)?;
    Some(finding(FindingTopic::Hint, title, evidence, states::action(run)))
}

/// Cases that the machine ran at several speeds, and the one with the speeds furthest apart.
fn levels(run: &Run) -> Option<Finding> {
    let all = run.cases.iter().filter_map(|case| LEVELS.of(case)).filter(|levels| levels.len() > 1);
    let all: Vec<Vec<Level>> = all.collect();
    let apart = |levels: &[Level]| levels[levels.len() - 1].median_s / levels[0].median_s;
    let furthest = all.iter().max_by(|a, b| apart(a).total_cmp(&apart(b)))?;
    let level = |level: &Level| format!("{} in {} of its trials", seconds(level.median_s), percent(level.share));
    let levels: Vec<String> = furthest.iter().map(level).collect();
    let measured = run.cases.iter().filter(|case| case.time_s.is_some()).count();
    let title = format!("The machine had several speeds in {} of {}", all.len(), cases(measured));
    let evidence =
        format!("The most different took {}. A median over both depends on how long each speed lasted.", list(&levels));
    let pin = if states::is_pinned(run) { "Ask" } else { "Pin ranks with `--bind core`, and ask" };
    let action =
        format!("{pin} who else uses the machine. Compare two versions interleaved: `rankmark compare --interleave`.");
    Some(finding(FindingTopic::Disturbed, title, evidence, action))
}

/// Intervals above the target: a hint, unless most are so wide that the times say little.
pub(super) fn wide(operations: &[Operation]) -> Option<Finding> {
    let measured: Vec<&Measured> = operations.iter().flat_map(Operation::points).collect();
    let half = |of: &&&Measured| of.time.relative_half_width().is_some_and(|half| half >= UNCERTAIN);
    let (total, uncertain) = (measured.len(), measured.iter().filter(half).count());
    let above = measured.iter().filter(|of| of.has(Caveat::CiAboveTarget)).count();
    let action = "Give each case more time: `--max-seconds`.";
    if 2 * uncertain > total {
        let has = share(uncertain, total, "has an interval", "have intervals");
        let title = format!("{has} of ±{} or more", percent(UNCERTAIN));
        let evidence = "Do not rely on these medians, nor on ratios of them.";
        let action = "Repeat on a machine that nobody else uses, and give each case more time: `--max-seconds`.";
        return Some(finding(FindingTopic::Uncertain, title, evidence, action));
    }
    (above > 0).then(|| {
        let title = share(above, total, "has", "have") + " an interval wider than the target";
        finding(FindingTopic::Hint, title, "Small differences between these cases cannot be detected.", action)
    })
}

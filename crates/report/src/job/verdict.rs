//! The sentence that says what limits the steps.

use diagnose::profile::{Analysis, FindingKind, LEAST_FINDING, ProfileFinding, Straggler};

use terms::text::sentence;
use view::number::{count, percent};

use super::Explanation;
use super::calls;

/// A sentence about what limits the steps: of what was found, the first, which is the largest loss that is credible.
pub fn verdict(one: &Explanation) -> String {
    let analysis = &one.analysis;
    if let Some(hang) = one.hangs.first() {
        return hang.clone();
    }
    let first = analysis.findings.first();
    let is_first = |kind: FindingKind| first.is_some_and(|finding| finding.kind == kind);
    let slow = analysis.straggler.as_ref().map(|slow| slow_ranks(slow, analysis));
    match (slow, first) {
        (Some(slow), Some(ProfileFinding { kind, what, .. })) if *kind != FindingKind::Straggler => {
            return format!("{} {}", sentence(what), sentence(&slow));
        }
        (Some(slow), _) => return slow,
        (None, _) => {}
    }
    if let Some(busy) = first.filter(|_| is_first(FindingKind::BusyMachine) && !analysis.busy.is_empty()) {
        return format!("{} No rank is named as slow.", sentence(&busy.what));
    }
    if let Some(rotating) = analysis.rotating.as_ref().filter(|_| is_first(FindingKind::RotatingDelays)) {
        return format!("ranks are late in turn: that costs {} of the time", percent(rotating.share));
    }
    if let Some(verdict_of_calls) = calls::verdict(analysis) {
        return joined(verdict_of_calls, whole_recording(analysis));
    }
    if analysis.steps.numbers.is_empty() {
        let unknown = "there is no step that all ranks have, so where the time of steps goes is not known".to_owned();
        return joined(unknown, whole_recording(analysis));
    }
    let pauses = analysis.findings.iter().any(|finding| finding.kind == FindingKind::Pauses);
    let ranks = ranks(analysis, pauses);
    match first {
        Some(ProfileFinding { kind: FindingKind::Pauses, what, .. }) => format!("{what} {}", sentence(&ranks)),
        Some(finding) => format!("{}. {}", ranks.trim_end_matches('.'), finding.what),
        None if analysis.is_whole => {
            format!("{ranks}; nothing else costs more than {} of the time", percent(LEAST_FINDING))
        }
        None => ranks,
    }
}

/// The slow ranks, and how long a step would take without them.
fn slow_ranks(slow: &Straggler, analysis: &Analysis) -> String {
    let without = analysis.without_slow_ranks.map_or_else(String::new, |without| {
        let them = if analysis.stragglers.len() > 1 { "all of them" } else { "it" };
        format!("; without {them} {without}")
    });
    slow_rank(slow, analysis.stragglers.len()) + &without
}

fn joined(first: String, second: Option<String>) -> String {
    match second {
        Some(second) => format!("{} {second}", sentence(&first)),
        None => first,
    }
}

/// Where the time of devices goes in a recording without steps; None without kernels.
fn whole_recording(analysis: &Analysis) -> Option<String> {
    let idle = analysis.idle.as_ref().filter(|idle| idle.of_s > 0.0)?;
    let share = |seconds: f64| percent((seconds / idle.of_s).clamp(0.0, 1.0));
    let (comm, exposed) = (analysis.overlap.comm_s.mean(), analysis.overlap.exposed_s.mean());
    Some(format!(
        "In the whole recording the device has no kernel and no copy for {} of the time. Communication takes {}, of which \
         nothing overlaps {}.",
        share(idle.idle_s.mean()),
        share(comm),
        share(exposed)
    ))
}

fn slow_rank(slow: &Straggler, stragglers: usize) -> String {
    let also = match stragglers {
        0 | 1 => String::new(),
        more => format!("; {}", count(more - 1, "more rank is slow", "more ranks are slow")),
    };
    // A tenth of the loss and more is worth a word.
    let waited = slow.descheduled_share.filter(|waited| *waited >= 0.1 * slow.share);
    let waits = waited.map_or_else(String::new, |waited| {
        format!("; it waits {} of the time for a processor, more than the others", percent(waited))
    });
    let place =
        if slow.before_forward { ", before the forward pass (such as input that no DataLoader loads)" } else { "" };
    let between = |[low, high]: [f64; 2]| format!("{} to {}", percent(low), percent(high));
    let costs = match slow.only_in_phase {
        None => format!("it costs {} of the time ({})", percent(slow.share), between(slow.ci95)),
        Some(there) => format!(
            "there it takes {} of the time longer than the others ({}), which costs about {} of the time ({})",
            percent(there.share),
            between(there.ci95),
            percent(slow.share),
            between(slow.ci95)
        ),
    };
    format!("rank {} is slow in {}{place}: {costs}{waits}{also}", slow.rank, slow.phase.name())
}

/// The verdict on ranks if none is named. Pauses are separate from the other steps.
fn ranks(analysis: &Analysis, pauses: bool) -> String {
    let others = if pauses { " in the other steps" } else { "" };
    match (&analysis.straggler_abstains, analysis.straggler_at_most) {
        (Some(_), _) if analysis.world == Some(1) => "one rank waits for no other".to_owned(),
        (Some(why), _) => why.clone(),
        (None, Some(share)) => {
            format!("no rank is slow{others}: none loses more than {} of the time", percent(share.max(0.0)))
        }
        (None, None) if pauses => format!("no rank is slow{others}"),
        (None, None) => "no rank is slow in most steps, and what single steps cost is not known".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use diagnose::profile::Phase;

    use super::*;

    #[test]
    fn one_more_slow_rank_is_one() {
        let slow = Straggler {
            rank: 3,
            host: None,
            phase: Phase::Backward,
            before_forward: false,
            only_in_phase: None,
            share: 0.1,
            ci95: [0.05, 0.15],
            lost_s_per_step: 1e-3,
            persistent: true,
            descheduled_share: None,
            blame: None,
            worst_step: 0,
            confidence: 0.95,
        };
        assert!(slow_rank(&slow, 2).ends_with("; 1 more rank is slow"), "{}", slow_rank(&slow, 2));
        assert!(slow_rank(&slow, 3).ends_with("; 2 more ranks are slow"), "{}", slow_rank(&slow, 3));
    }
}

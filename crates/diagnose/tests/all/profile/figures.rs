//! Figures of an analysis that cannot be: shares beyond all of the time, parts that do not add up, and sentences that clear what
//! the table beside them shows. Over jobs of any kind, not those that went wrong once.

use diagnose::profile::{Analysis, FindingKind, Phase, Settings, Who, analyse};
use trace::timeline::Timeline;

use super::simulation::{Fault, Law, PHASES, Scenario, Target, scattered};

/// Numbers from 0 to 1 that follow no pattern.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 += 1;
        scattered(self.0) as f64 / (1u64 << 31) as f64
    }
}

/// A job of any kind: ranks, steps, noise, delays of any length in any steps, and processors that others use.
fn any_job(random: &mut Random) -> Timeline {
    let one_of = |random: &mut Random, number: usize| (random.uniform() * number as f64) as usize;
    let ranks = 2 + one_of(random, 4);
    let laws = [Law::Normal, Law::Correlated(0.9), Law::HeavyTailed, Law::Spikes];
    let faults = (0..one_of(random, 4)).map(|_| Fault {
        target: if random.uniform() < 0.2 { Target::Rotating } else { Target::Rank(one_of(random, ranks)) },
        phase: PHASES[one_of(random, PHASES.len())].0,
        delay: 10f64.powf(2.5 * random.uniform() - 2.0),
        every: 1 + one_of(random, 12),
    });
    let faults: Vec<Fault> = faults.collect();
    let scenario = Scenario {
        law: laws[one_of(random, laws.len())],
        aligned: random.uniform() < 0.7,
        faults,
        ..Scenario::equal(ranks, 10 + one_of(random, 90), 10f64.powf(2.0 * random.uniform() - 2.5))
    };
    let mut timeline = scenario.timeline((random.uniform() * 1e6) as u64);
    if random.uniform() < 0.5 {
        for rank in &mut timeline.ranks {
            let most = 3e7 * random.uniform();
            rank.descheduled =
                (0..=scenario.steps as u32).map(|step| (step, (most * random.uniform()) as u64)).collect();
        }
    }
    timeline
}

/// Every share of an analysis.
fn shares(analysis: &Analysis) -> Vec<(String, f64)> {
    let mut all: Vec<(String, f64)> = Vec::new();
    for one in &analysis.stragglers {
        let ends = [one.share, one.ci95[0], one.ci95[1]].into_iter();
        let parts = one.only_in_phase.map_or_else(Vec::new, |there| vec![there.share, there.ci95[0], there.ci95[1]]);
        all.extend(ends.chain(parts).chain(one.descheduled_share).map(|share| (format!("rank {}", one.rank), share)));
    }
    all.extend(analysis.busy.iter().flat_map(|one| [one.share, one.descheduled_share]).map(|it| ("busy".into(), it)));
    all.extend(analysis.rotating.iter().map(|one| ("rotating".into(), one.share)));
    all.extend(analysis.pauses.iter().map(|one| ("pauses".into(), one.share)));
    all.extend(analysis.straggler_at_most.map(|share| ("at most".into(), share)));
    all.extend(analysis.findings.iter().map(|one| (format!("{:?}", one.kind), one.share)));
    all.extend(analysis.findings.iter().filter_map(|one| Some((one.what.clone(), one.without?.share))));
    all
}

#[test]
fn no_figure_says_what_cannot_be() {
    let mut random = Random(7);
    let mut kinds = std::collections::BTreeSet::new();
    for number in 0..150 {
        let analysis = analyse(&any_job(&mut random), &Settings::default());
        for (what, share) in shares(&analysis) {
            assert!((0.0..=1.0).contains(&share), "job {number}: {what} is {share}");
        }
        let steps = &analysis.steps;
        for rank in &steps.ranks {
            let parts = [&rank.input, &rank.forward, &rank.backward, &rank.optimizer, &rank.wait, &rank.other];
            let sum: f64 = parts.iter().map(|part| part.mean()).sum();
            assert!((sum - rank.total.mean()).abs() < 1e-9, "job {number}: {sum} of {}", rank.total.mean());
        }
        for finding in &analysis.findings {
            kinds.insert(format!("{:?}", finding.kind));
            let (saves, mean) = (finding.saves_s_per_step, steps.mean_s());
            assert!(saves >= 0.0 && saves <= mean * (1.0 + 1e-9), "job {number}: {saves} of {mean}: {}", finding.what);
            if let Some(without) = finding.without {
                assert!(without.step_s <= without.recorded_s, "job {number}: {}", finding.what);
            }
        }
        clears_nothing(&analysis, number);
        blames_nobody_off_its_processor(&analysis, number);
    }
    // All kinds came up, or nothing was tested.
    for kind in ["Straggler", "BusyMachine", "Pauses", "Waits", "RotatingDelays", "InputBound", "ExposedCommunication"]
    {
        assert!(kinds.contains(kind), "{kind} of {kinds:?}");
    }
}

/// Where the matrix shows waits, something is said of them.
fn clears_nothing(analysis: &Analysis, number: usize) {
    let ranks = analysis.steps.ranks.len() as f64;
    let waited: f64 = analysis.blame.iter().flatten().flatten().sum::<f64>() / ranks;
    let explains = |kind: FindingKind| {
        matches!(
            kind,
            FindingKind::Straggler
                | FindingKind::BusyMachine
                | FindingKind::RotatingDelays
                | FindingKind::Pauses
                | FindingKind::Waits
        )
    };
    // A loss that is less than a finding has to cost is in the analysis all the same.
    let slow = analysis.stragglers.iter().map(|one| one.share);
    let others = analysis.busy.iter().map(|one| one.share).chain(analysis.rotating.as_ref().map(|one| one.share));
    let is_small = slow.chain(others).any(|share| share < 0.01);
    let is_said = is_small || analysis.findings.iter().any(|finding| explains(finding.kind));
    let share = analysis.steps.share(waited);
    assert!(is_said || share < 0.01, "job {number}: ranks wait for {share} of the time: {:?}", analysis.findings);
}

fn blames_nobody_off_its_processor(analysis: &Analysis, number: usize) {
    for one in &analysis.stragglers {
        let waited = one.descheduled_share.unwrap_or(0.0);
        assert!(waited < 0.5 * one.share || one.phase != Phase::Host, "job {number}: {one:?}");
    }
    let two = analysis.pauses.as_ref().filter(|pauses| pauses.steps.len() < 3);
    assert!(two.is_none_or(|pauses| !matches!(pauses.who, Who::Rank(_))), "job {number}");
}

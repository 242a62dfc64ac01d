//! Timelines that cannot carry a claim: the analysis abstains and says why.

use super::simulation::Scenario;
use diagnose::profile::{Analysis, Phase, Settings, analyse};
use trace::timeline::{Kind, NameId, Timeline};

use super::{analysed, close, delay, planted};

fn analyse_default(timeline: &Timeline) -> Analysis {
    let analysis = analyse(timeline, &Settings::default());
    assert!(serde_json::to_value(&analysis).unwrap().is_object());
    analysis
}

#[track_caller]
fn notes(analysis: &Analysis, part: &str) {
    assert!(analysis.notes.iter().any(|note| note.contains(part)), "{part} is not in {:?}", analysis.notes);
}

#[test]
fn nothing_says_nothing() {
    let analysis = analyse_default(&Timeline::default());
    assert_eq!((analysis.findings.len(), analysis.steps.numbers.len(), analysis.straggler.is_some()), (0, 0, false));
    assert!(analysis.straggler_abstains.unwrap().contains("two ranks"));
    let mut steps_missing = planted(Vec::new()).timeline(1);
    steps_missing.ranks.iter_mut().for_each(|rank| rank.spans.retain(|span| span.kind != Kind::Step));
    notes(&analyse_default(&steps_missing), "no step is on all ranks");
}

#[test]
fn ranks_with_other_steps_share_what_they_have() {
    let mut timeline = planted(vec![delay(1, Phase::Forward, 0.05)]).timeline(1);
    timeline.ranks[0].spans.retain(|span| span.kind != Kind::Step || span.number < 35);
    timeline.ranks[2].spans.retain(|span| span.kind != Kind::Step || span.number > 5);
    let analysis = analyse_default(&timeline);
    assert_eq!((analysis.steps.numbers[0], analysis.steps.warm_up), (7, Some(6)));
    assert_eq!(analysis.steps.numbers.len(), 28);
    notes(&analysis, "different steps (35 to 41)");
    assert_eq!(analysis.straggler.unwrap().rank, 1);
}

#[test]
fn a_range_of_steps_is_looked_at() {
    let settings = Settings { steps: Some(10..30), ..Settings::default() };
    let analysis = analyse(&planted(Vec::new()).timeline(1), &settings);
    assert_eq!(analysis.steps.numbers, (10..30).collect::<Vec<u32>>());
}

#[test]
fn clocks_that_jump_order_nothing() {
    let mut timeline = Scenario { aligned: false, ..planted(vec![delay(1, Phase::Forward, 0.05)]) }.timeline(1);
    timeline.clock_error_ns = Some(1_000);
    let analysis = analyse_default(&timeline);
    notes(&analysis, "clocks of the ranks jump");
    assert!(analysis.critical_path.is_none() && analysis.critical_path_abstains.is_some());
    assert_eq!(analysis.collectives.operations[0].arrival_wait_s, None);
    assert_eq!(analysis.straggler.unwrap().rank, 1);
}

#[test]
fn clocks_too_far_apart_order_nothing() {
    let mut timeline = planted(vec![delay(1, Phase::Forward, 0.05)]).timeline(1);
    timeline.clock_error_ns = Some(5_000_000);
    let analysis = analyse_default(&timeline);
    assert!(analysis.critical_path_abstains.unwrap().contains("us apart"));
    assert_eq!(analysis.collectives.operations[0].arrival_wait_s, None);
}

#[test]
fn spans_backwards_and_without_length_do_no_harm() {
    let clean = planted(vec![delay(1, Phase::Forward, 0.05)]);
    let mut timeline = clean.timeline(1);
    for rank in &mut timeline.ranks {
        for number in 0..20 {
            rank.push(Kind::Forward, NameId(0), 0, 1_000_000 * number, 1_000_000 * number);
        }
        rank.push(Kind::Step, NameId(0), 999, 7, 7);
        rank.push(Kind::Backward, NameId(0), 0, 5_000_000, 4_000_000);
        rank.sort();
    }
    let analysis = analyse_default(&timeline);
    notes(&analysis, "4 spans end before they begin");
    assert_eq!(analysis.straggler, analysed(&clean).straggler);
}

#[test]
fn without_collectives_work_is_the_whole_step() {
    let mut timeline = planted(vec![delay(1, Phase::Forward, 0.05)]).timeline(1);
    for rank in &mut timeline.ranks {
        rank.spans.retain(|span| span.kind != Kind::Collective);
        rank.collectives.clear();
    }
    let analysis = analyse_default(&timeline);
    assert_eq!((analysis.collectives.matched, analysis.overlap.overlapped_share), (0, None));
    // The waits of the others count as their own work, so nobody is late, and nobody can be cleared.
    assert_eq!(analysis.straggler, None);
    assert!(analysis.straggler_abstains.unwrap().contains("shows no communication"));
}

#[test]
fn one_rank_of_eight_is_described_and_not_judged() {
    let mut timeline = Scenario::equal(8, 40, 0.0).timeline(1);
    timeline.ranks.truncate(1);
    let analysis = analyse_default(&timeline);
    notes(&analysis, "1 of 8 ranks are present");
    assert!(analysis.straggler_abstains.unwrap().contains("two ranks"));
    close(analysis.steps.ranks[0].forward.median.unwrap(), 0.027);
    // One rank does not show which part is transfer and which is wait.
    assert_eq!(analysis.collectives.operations[0].wait_s, None);
}

#[test]
fn few_steps_name_nobody() {
    let analysis = analysed(&Scenario { steps: 8, ..planted(vec![delay(1, Phase::Forward, 0.5)]) });
    assert!(analysis.straggler.is_none() && analysis.straggler_abstains.unwrap().contains("8 steps are too few"));
    let noisy = Scenario { steps: 11, jitter: 0.15, ..planted(vec![delay(1, Phase::Forward, 0.2)]) };
    let analysis = analysed(&noisy);
    assert!(analysis.straggler.is_none() && analysis.straggler_abstains.unwrap().contains("too correlated"));
    // What lies far beyond all noise is named.
    let analysis = analysed(&Scenario { jitter: 0.001, ..noisy });
    assert_eq!(analysis.straggler.map(|one| (one.rank, one.phase)), Some((1, Phase::Forward)));
}

#[test]
fn a_delay_that_noise_may_hide_clears_nobody() {
    let noisy = Scenario { steps: 40, jitter: 0.4, ..planted(vec![delay(1, Phase::Forward, 0.2)]) };
    let analysis = analysed(&noisy);
    assert!(analysis.straggler.is_none() && analysis.straggler_at_most.is_none());
    let why = analysis.straggler_abstains.unwrap();
    assert!(why.contains("cannot be told from 40 steps") && why.contains(" may lose up to "), "{why}");
    // Quiet and equal ranks are cleared, with a bound.
    let analysis = analysed(&Scenario { jitter: 0.01, ..planted(Vec::new()) });
    assert!(analysis.straggler.is_none() && analysis.straggler_abstains.is_none());
    assert!(analysis.straggler_at_most.is_some_and(|share| share > 0.0 && share < 0.02));
}

#[test]
fn hidden_waits_judge_nobody() {
    let mut timeline = planted(vec![delay(1, Phase::Forward, 0.05)]).timeline(1);
    for span in timeline.ranks.iter_mut().flat_map(|rank| &mut rank.spans) {
        span.queue = u32::from(span.kind == Kind::Collective);
    }
    let analysis = analyse_default(&timeline);
    assert!(analysis.straggler_abstains.as_ref().unwrap().contains("own work is not known"));
    notes(&analysis, "does not show when their steps wait");
}

#[test]
fn calls_without_partners_count_nowhere() {
    let mut timeline = planted(Vec::new()).timeline(1);
    for call in timeline.ranks.iter_mut().flat_map(|rank| &mut rank.collectives) {
        call.sequence = None;
    }
    assert_eq!(analyse_default(&timeline).collectives.matched, 40);
    let spans = &mut timeline.ranks[3].spans;
    let fifth = spans.iter().enumerate().filter(|(_, span)| span.kind == Kind::Collective).nth(5).unwrap().0;
    spans.remove(fifth);
    let analysis = analyse_default(&timeline);
    assert_eq!((analysis.collectives.matched, analysis.collectives.unmatched), (39, 3));
    notes(&analysis, "3 collective calls have no partner");
}

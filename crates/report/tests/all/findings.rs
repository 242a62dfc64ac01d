//! What is found first, what is advised, and that the verdict, its colour and the findings agree.

use record::{Caveat, Explained, ExplainedCase, ExplainedFinding, Waterfall};
use report::Run;
use serde_json::json;

use crate::data::{self, Invented};

/// Verdict with its class, and the findings with what to do, of the page.
struct Said {
    verdict: String,
    bar: bool,
    cards: Vec<String>,
}

fn page(run: &Run) -> String {
    let files = report::format("html").unwrap().render(run).unwrap();
    String::from_utf8(files[0].content.clone()).unwrap()
}

fn said(run: &Run) -> Said {
    let page = page(run);
    let page = page.split("<script").next().unwrap().split("</style>").nth(1).unwrap().to_owned();
    let verdict = page.split("<p class=\"verdict").nth(1).unwrap().split("</p>").next().unwrap().to_owned();
    let cards = page.split("<div class=\"card\">").skip(1).map(|card| card.split("</div>").next().unwrap().to_owned());
    let bar = page.contains("<rect class=\"ok\"");
    Said { verdict, bar, cards: cards.collect() }
}

/// Two ranks at this share of the ideal, whose recorded steps lost these shares.
fn trained(efficiency: [f64; 3], terms: &[(&str, f64)]) -> Run {
    let mut run = data::scaled();
    let [low, mid, high] = efficiency;
    let mut line = run.cases.iter().max_by_key(|line| line.ranks).unwrap().clone();
    line.metrics.insert("scaling", json!({"kind": "weak", "base_ranks": 1, "efficiency": mid, "ci95": [low, high]}));
    line.parameters.insert("overlap".to_owned(), json!(true));
    let (id, ranks) = (line.id.clone(), line.ranks);
    run.cases.retain(|line| line.ranks == 1);
    run.cases.push(line);
    let terms: Vec<(String, f64)> = terms.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    let end = 1.0 + terms.iter().map(|(_, value)| value).sum::<f64>();
    let fall = Waterfall {
        title: format!("Efficiency from 1 to {ranks} ranks"),
        from: ("1 rank".into(), 1.0),
        terms,
        to: (format!("{ranks} ranks"), end),
        ..Waterfall::default()
    };
    let traced = ExplainedCase { case: id, title: "steps".into(), waterfall: Some(fall), ..ExplainedCase::default() };
    run.explained = Some(Explained { cases: vec![traced], ..Explained::default() });
    run
}

#[test]
fn advice_on_scaling_comes_from_the_largest_loss_of_the_waterfall() {
    let run = trained([0.39, 0.45, 0.5], &[("exposed transfer", -0.04), ("slower computation", -0.45)]);
    let said = said(&run);
    let card = said.cards.iter().find(|card| card.contains("of ideal")).unwrap_or_else(|| panic!("{:?}", said.cards));
    assert!(card.contains("45% (39% to 50%) of ideal"), "{card}");
    assert!(card.contains("slower computation 45%") && card.contains("Communication is not the reason"), "{card}");
    assert!(!card.contains("larger batch"), "{card}");
    let run = trained([0.39, 0.45, 0.5], &[("exposed transfer", -0.45), ("slower computation", -0.04)]);
    assert!(self::said(&run).cards.iter().any(|card| card.contains("exposed transfer 45%") && card.contains("bf16")));
}

#[test]
fn an_efficiency_whose_interval_reaches_what_is_good_is_no_finding() {
    for (ends, found) in [([0.6, 0.7, 0.79], true), ([0.6, 0.7, 0.85], false)] {
        let said = said(&trained(ends, &[("exposed transfer", -0.3)]));
        assert_eq!(said.cards.iter().any(|card| card.contains("of ideal")), found, "{:?}", said.cards);
        assert_eq!(said.verdict.contains("Scaling is below good"), found, "{}", said.verdict);
    }
}

#[test]
fn a_page_has_one_efficiency() {
    let run = trained([0.39, 0.45, 0.5], &[("exposed transfer", -0.04), ("slower computation", -0.13)]);
    let page = page(&run);
    assert!(page.contains("45%") && !page.contains("83%"), "the recorded steps reach 83%, the measured ones 45%");
    let card = said(&run).cards.into_iter().find(|card| card.contains("of ideal")).unwrap();
    assert!(card.contains("unexplained 38%") && card.contains("do not show this loss"), "{card}");
}

#[test]
fn a_disturbed_machine_comes_before_what_its_times_seem_to_show() {
    let mut run = trained([0.39, 0.45, 0.5], &[("exposed transfer", -0.5)]);
    run.cases.iter_mut().for_each(|case| case.caveats = vec![Caveat::OtherPrograms]);
    let said = said(&run);
    assert!(said.verdict.contains("care\"><strong>Results are right, times are disturbed"), "{}", said.verdict);
    assert!(said.cards[0].contains("are disturbed: other programs"), "{:?}", said.cards);
    assert!(!said.bar, "a green bar would contradict the verdict");
}

#[test]
fn intervals_that_say_nothing_are_not_healthy() {
    let case = |bytes: u64| Invented { half_width: 0.6, ..Invented::new(2, bytes, 1e-5) }.line();
    let run = data::run([1024, 4096, 16384].map(case).to_vec());
    let said = said(&run);
    assert!(said.verdict.contains("Results are right, times are uncertain"), "{}", said.verdict);
    assert!(said.cards[0].contains("3 of 3 cases have intervals of ±25% or more"), "{:?}", said.cards);
}

#[test]
fn several_disturbances_are_each_counted() {
    let mut run = data::study();
    for (index, case) in run.cases.iter_mut().enumerate() {
        case.caveats = if index % 2 == 0 { vec![Caveat::ContextSwitches] } else { vec![Caveat::StolenTime] };
    }
    let first = said(&run).cards.remove(0);
    assert!(first.contains("12 of 12 cases are disturbed: stolen time in 6 and context switches in 6"), "{first}");
    assert!(first.contains("Other tenants"), "what to do follows from the strongest evidence: {first}");
}

#[test]
fn cases_without_all_trials_say_how_to_go_on() {
    let mut run = data::study();
    run.cases[3].caveats = vec![Caveat::Preliminary];
    let first = said(&run).cards.remove(0);
    assert!(first.contains("1 of 12 cases did not make all trials") && first.contains("--resume"), "{first}");
}

#[test]
fn a_limit_names_the_memory_that_the_data_are_in() {
    let of = |bytes: u64| {
        let case = Invented { limit: Some(20.5), ..Invented::new(2, bytes, bytes as f64 / 20e9) }.line();
        said(&data::run(vec![case])).cards.into_iter().find(|card| card.contains("limits all_reduce")).unwrap()
    };
    let (cached, past) = (of(1 << 20), of(1 << 30));
    assert!(cached.contains("Cache bandwidth limits") && !cached.contains("sockets"), "{cached}");
    assert!(past.contains("Memory bandwidth limits") && past.contains("sockets"), "{past}");
}

#[test]
fn no_more_than_all_of_a_limit_is_reached() {
    let case = Invented { limit: Some(19.2), ..Invented::new(2, 1 << 20, (1 << 20) as f64 / 20e9) }.line();
    let said = said(&data::run(vec![case]));
    let card = said.cards.iter().find(|card| card.contains("limits all_reduce")).unwrap();
    assert!(card.contains("100% of the limit") && !card.contains("104%"), "{card}");
}

#[test]
fn a_bandwidth_of_caches_is_not_called_that_of_memory() {
    let case = |bytes: u64, gbs: f64| {
        let mut line = Invented::new(1, bytes, 1e-5).line();
        line.benchmark = "hardware".to_owned();
        let parameters =
            json!({"test": "triad", "ranks": 1, "threads": 1, "backend": "shm", "device": "cpu", "bytes": bytes});
        line.parameters = parameters.as_object().cloned().unwrap().into();
        line.metrics = json!({"gbs": gbs}).as_object().cloned().unwrap().into();
        line
    };
    let page = page(&data::run(vec![case(16 << 10, 990.0), case(8 << 20, 60.0), case(1 << 30, 12.5)]));
    let tiles: Vec<&str> = page.split("<div class=\"tile\">").skip(1).collect();
    assert!(tiles[0].contains("<dt>triad, memory</dt>") && tiles[0].contains("12.5"), "{tiles:?}");
    assert!(tiles[1].contains("<dt>triad, L1 cache</dt>") && tiles[1].contains("990"), "{tiles:?}");
}

#[test]
fn what_the_traces_of_a_case_found_is_in_the_head() {
    let mut run = data::explained();
    let said = said(&run);
    let case = &run.explained.as_ref().unwrap().cases[0];
    // The card has the finding's first sentence alone: the verdict above it has all that is said of the steps.
    let what = &case.findings[0].what;
    let title = format!("<h3>{}</h3>", what.split(". ").next().unwrap().trim_end_matches('.'));
    let card = said.cards.iter().find(|card| card.starts_with(&title));
    assert!(card.is_some_and(|card| card.contains("89.0 ms a step")), "{:?}", said.cards);
    assert!(!said.verdict.contains(".."), "{}", said.verdict);
    // Without a finding there is none.
    run.explained.as_mut().unwrap().cases[0].findings.clear();
    assert!(!self::said(&run).cards.iter().any(|card| card.starts_with(&title)));
}

/// A loss of 1.8% that is an estimate stood above one of 55%.
#[test]
fn the_largest_credible_loss_comes_first() {
    let traced = |confidence: &str, seconds: f64| {
        let mut run = trained([0.39, 0.45, 0.5], &[("slower computation", -0.55)]);
        let found = ExplainedFinding {
            what: "moving bytes takes part of the step".into(),
            confidence: confidence.into(),
            seconds,
            ..ExplainedFinding::default()
        };
        let step = run.cases.iter().max_by_key(|line| line.ranks).and_then(|line| line.time_s.clone()).unwrap().median;
        let case = &mut run.explained.as_mut().unwrap().cases[0];
        case.findings = vec![ExplainedFinding { seconds: seconds * step, ..found }];
        said(&run)
    };
    let first = |said: &Said, what: &str| said.cards.iter().position(|card| card.contains(what));
    let estimate = traced("low", 0.18);
    assert!(estimate.verdict.contains("Scaling is below good"), "{}", estimate.verdict);
    assert!(!estimate.verdict.contains("moving bytes"), "{}", estimate.verdict);
    assert!(first(&estimate, "of ideal") < first(&estimate, "moving bytes"), "{:?}", estimate.cards);
    let small = traced("high", 0.028);
    assert!(first(&small, "of ideal") < first(&small, "moving bytes"), "{:?}", small.cards);
    let large = traced("high", 0.7);
    assert!(first(&large, "moving bytes") < first(&large, "of ideal"), "{:?}", large.cards);
}

#[test]
fn a_small_loss_of_steps_is_neither_a_verdict_nor_a_finding() {
    let traced = |confidence: &str, share: Option<f64>, seconds: f64| {
        let mut run = trained([0.97, 0.98, 0.99], &[]);
        let what = "moving bytes takes part of the step".to_owned();
        let confidence = confidence.to_owned();
        let found = ExplainedFinding { what, confidence, seconds, share, ..ExplainedFinding::default() };
        run.explained.as_mut().unwrap().cases[0].findings = vec![found];
        let step = run.cases.iter().max_by_key(|line| line.ranks).and_then(|line| line.time_s.clone()).unwrap().median;
        run.explained.as_mut().unwrap().cases[0].findings[0].seconds *= step;
        said(&run)
    };
    let has_card = |said: &Said| said.cards.iter().any(|card| card.starts_with("<h3>moving bytes"));
    // Records of earlier versions have no share.
    for share in [Some(0.006), None] {
        let small = traced("high", share, 0.006);
        assert!(!small.verdict.contains("Steps lose time") && !has_card(&small), "{share:?}: {}", small.verdict);
        let large = traced("high", share.map(|_| 0.5), 0.5);
        assert!(
            large.verdict.contains("Steps lose time") && has_card(&large),
            "{share:?}: {} {:?}",
            large.verdict,
            large.cards
        );
    }
    let estimate = traced("low", Some(0.3), 0.3);
    assert!(!estimate.verdict.contains("Steps lose time") && has_card(&estimate), "{}", estimate.verdict);
}

#[test]
fn other_programs_do_not_disturb_what_memory_holds() {
    let mut run = data::held();
    run.cases.iter_mut().for_each(|case| case.caveats = vec![Caveat::OtherPrograms]);
    let said = said(&run);
    assert!(said.verdict.starts_with("\"><strong>Results are right</strong>: "), "{}", said.verdict);
    assert!(said.verdict.contains(" takes ") && !said.verdict.contains("disturbed"), "{}", said.verdict);
    assert!(!said.cards.iter().any(|card| card.contains("disturbed")), "{:?}", said.cards);
}

#[test]
fn an_injected_fault_does_not_make_the_machine_slow() {
    let mut line = Invented::new(2, 1 << 20, 1e-5).line();
    line.caveats = vec![Caveat::Injected, Caveat::SlowRank];
    line.metrics.insert("slow_rank", json!(1));
    line.metrics.insert("slow_rank_wait_s", json!(0.95e-5));
    let said = said(&data::run(vec![line]));
    assert!(
        said.verdict.contains("<strong>Measured with an injected fault</strong>: rank 1 is last"),
        "{}",
        said.verdict
    );
    assert!(said.verdict.contains("waiting for it takes 95% of the time"), "{}", said.verdict);
    assert!(said.cards[0].contains("without") && !said.cards[0].contains("Check its core"), "{:?}", said.cards);
}

/// The verdict of a quick plan was eight lines of what the traces of one of its cases said.
#[test]
fn of_one_case_among_others_the_verdict_has_the_first_sentence() {
    let mut run = trained([0.97, 0.98, 0.99], &[]);
    let found = ExplainedFinding {
        what: "Moving bytes takes 40% of a step. A second sentence.".into(),
        confidence: "high".into(),
        share: Some(0.4),
        seconds: 0.04,
        ..ExplainedFinding::default()
    };
    let case = &mut run.explained.as_mut().unwrap().cases[0];
    (case.findings, case.verdict) = (vec![found], "All that the traces said. And more.".into());
    let said = said(&run);
    assert!(said.verdict.contains("steps: Moving bytes takes 40% of a step"), "{}", said.verdict);
    assert!(!said.verdict.contains("second sentence") && !said.verdict.contains("And more"), "{}", said.verdict);
}

/// Resumed, the record of an imported trace said `skipped` where it had named the rank that all wait for.
#[test]
fn a_record_of_traces_is_not_resumed() {
    let mut line = Invented::new(4, 0, 1e-2).line();
    (line.benchmark, line.wrong, line.status) = ("job".to_owned(), None, terms::Status::Failed);
    let case = ExplainedCase { case: line.id.clone(), verdict: "Rank 3 is late.".into(), ..ExplainedCase::default() };
    let mut run = data::run(vec![line]);
    run.explained = Some(Explained { cases: vec![case], ..Explained::default() });
    assert_eq!(run.again(&[&run.cases[0]]), None);
    assert!(!page(&run).contains("--resume"));
    run.explained = None;
    assert!(run.again(&[&run.cases[0]]).is_some());
}

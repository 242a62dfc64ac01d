//! Expected figures: the sentence, the table, and what neither says.

use record::{Basis, CaseLine, Expected};
use report::{Run, sentences};
use serde_json::{Value, json};

use crate::data::{self, Invented};
use crate::golden::text;

const GIB: u64 = 1 << 30;

fn figure(parameters: Value, value: f64, basis: Basis) -> Expected {
    Expected {
        benchmark: "collective".into(),
        parameters: parameters.as_object().cloned().unwrap(),
        metric: "busbw_gbs".into(),
        value,
        basis,
        source: "a page".into(),
        with: None,
    }
}

/// A case over 8 ranks of 1 GiB with this busbw: 2 x 7/8 of the bytes over the time.
fn case(busbw: f64) -> Invented {
    Invented::new(8, GIB, GIB as f64 * 1.75 / (busbw * 1e9))
}

fn run(cases: Vec<CaseLine>, expected: Vec<Expected>) -> Run {
    Run { expected, ..data::run(cases) }
}

/// The cells of the table, row by row.
fn rows(page: &str) -> Vec<Vec<String>> {
    let table = page.split("## Expected figures\n\n").nth(1).unwrap_or_default();
    let lines = table.lines().take_while(|line| line.starts_with('|')).skip(2);
    lines.map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

#[test]
fn the_share_is_said_of_the_best_case() {
    let eight = json!({"op": "all_reduce", "ranks": 8});
    let run = run(vec![case(300.0).line(), case(394.0).line()], vec![figure(eight, 480.0, Basis::Measured)]);
    let said = sentences(&run).join("\n");
    let wanted = "all_reduce over 8 ranks at 1 GiB: busbw 394 GB/s (390 to 398), 82% of what this hardware gives \
                  (480 GB/s, measured, a page).";
    assert!(said.contains(wanted), "{said}");
    assert_eq!(report::expected(&run), [wanted]);
    let cells = ["all_reduce over 8 ranks: busbw", "480 GB/s", "measured", "a page", "394 GB/s (390 to 398)", "82%"];
    let found = rows(&text("markdown", &run));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].iter().map(|cell| cell.replace('\\', "")).collect::<Vec<_>>(), cells);
}

#[test]
fn more_than_expected_is_said() {
    let run = run(vec![case(480.0).line()], vec![figure(json!({"ranks": 8}), 400.0, Basis::Specification)]);
    let said = report::expected(&run);
    let wanted = "120% of what this hardware gives (400 GB/s, specification, a page), more than is expected.";
    assert!(said.len() == 1 && said[0].contains(wanted), "{said:?}");
}

#[test]
fn a_figure_without_a_case_is_in_the_table_only() {
    let mut wrong = case(400.0).line();
    wrong.wrong = Some(3);
    let figures =
        vec![figure(json!({"ranks": 8}), 480.0, Basis::Measured), figure(json!({"ranks": 4}), 1.0, Basis::Measured)];
    let run = run(vec![wrong], figures);
    assert!(report::expected(&run).is_empty());
    let found = rows(&text("markdown", &run));
    assert!(found.len() == 2 && found.iter().all(|row| row[4..] == ["-", "-"]), "{found:?}");
    assert!(!text("markdown", &data::run(vec![case(400.0).line()])).contains("Expected figures"));
}

#[test]
fn a_simulated_case_says_so() {
    let mut line = case(240.0).line();
    line.simulated = true;
    let run = run(vec![line], vec![figure(json!({"ranks": 8}), 480.0, Basis::Measured)]);
    assert!(report::expected(&run)[0].ends_with("; simulated, not measured."), "{:?}", report::expected(&run));
    assert!(rows(&text("markdown", &run))[0][4].contains("(simulated)"));
    // Nothing of a machine follows from it.
    let advice = "of an expected figure is reached";
    assert!(!text("markdown", &run).contains(advice), "{}", text("markdown", &run));
    let measured = Run { cases: vec![case(240.0).line()], ..run };
    assert!(text("markdown", &measured).contains(&format!("50% {advice}")), "{}", text("markdown", &measured));
}

#[test]
fn a_measurement_is_said_before_a_specification_of_the_same() {
    let eight = || json!({"ranks": 8});
    let figures = vec![figure(eight(), 450.0, Basis::Specification), figure(eight(), 370.0, Basis::Measured)];
    let run = run(vec![case(333.0).line()], figures);
    let said = report::expected(&run);
    assert!(said.len() == 1 && said[0].contains(" 90% of "), "{said:?}");
    let shares: Vec<String> = rows(&text("markdown", &run)).into_iter().map(|row| row[5].clone()).collect();
    assert_eq!(shares, ["74%", "90%"]);
}

#[test]
fn of_a_time_less_is_better() {
    let mut run = run(vec![case(400.0).line()], vec![figure(json!({"ranks": 8}), 300.0, Basis::Measured)]);
    for metric in run.benchmarks.iter_mut().flat_map(|declared| &mut declared.metrics) {
        metric.better = record::Better::Lower;
    }
    let said = report::expected(&run);
    assert!(said[0].contains("75% of the speed of what this hardware gives"), "{said:?}");
}

#[test]
fn sentences_stay_few() {
    let figures = (0..9).map(|seed| figure(json!({"ranks": 8, "seed": 1}), 400.0 + f64::from(seed), Basis::Measured));
    let said = report::expected(&run(vec![case(300.0).line()], figures.collect()));
    assert_eq!(said.len(), 5);
    assert!(said[4].starts_with("5 expected figures stand in the table"), "{said:?}");
}

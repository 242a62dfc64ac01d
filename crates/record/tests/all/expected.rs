//! Figures that a plan expects of its hardware.

use record::{Better, CaseLine, plan};
use serde_json::json;
use terms::Status;

use crate::table::TABLE;

const CASES: &str =
    "experiment: x\ncases:\n  - {benchmark: collective, op: all_reduce, bytes: [1KiB, 1MiB], ranks: 8}\n";

fn read(figures: &str) -> Result<record::Plan, String> {
    let text = format!("{CASES}expected:{figures}\n");
    plan::read(&text, "p.yaml", &TABLE, &[]).map_err(|errors| errors.to_string())
}

const FIGURE: &str = "\n  - {benchmark: Collective, where: {op: all-reduce, ranks: 8}, metric: busbw-gbs, value: 4.8e2, basis: measured, source: a page}";

#[test]
fn a_figure_is_read_in_canonical_values() {
    let plan = read(FIGURE).unwrap();
    let said = json!([{
        "benchmark": "collective",
        "where": {"op": "all_reduce", "ranks": 8},
        "metric": "busbw_gbs",
        "value": 480.0,
        "basis": "measured",
        "source": "a page",
    }]);
    assert_eq!(serde_json::to_value(&plan.expected).unwrap(), said);
    // What the record keeps is read back; plans without figures keep nothing.
    let kept = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<record::Plan>(&kept).unwrap(), plan);
    let none = read("").unwrap();
    assert!(none.expected.is_empty() && serde_json::to_value(&none).unwrap().get("expected").is_none());
}

#[test]
fn a_wrong_figure_is_refused_at_its_place() {
    for (right, wrong, said) in [
        ("Collective", "colective", "p.yaml:5:17: there is no benchmark `colective`"),
        ("busbw-gbs", "busbw", "benchmark `collective` has no metric `busbw` that is a number"),
        ("ranks: 8", "rank: 8", "benchmark `collective` has no field `rank`"),
        ("ranks: 8", "ranks: 0", "`ranks` must be a whole number from 1 to 4096, not 0"),
        ("ranks: 8", "ranks: [2, 8]", "`ranks` of an expected figure takes one value"),
        ("ranks: 8", "bind: core", "`bind` of an expected figure is the default, which no case tells from others"),
        ("ranks: 8", "max_seconds: 8", "`max_seconds` says how to sample, not what: no figure depends on it"),
        ("4.8e2", "0", "`value` of an expected figure must be a number above 0, not `0`"),
        ("4.8e2", "-480", "must be a number above 0, not `-480`"),
        ("4.8e2", "inf", "must be a number above 0, not `inf`"),
        ("4.8e2", "480 GB/s", "hint:  the number alone, in GB/s"),
        ("measured", "guessed", "`basis` of an expected figure does not take `guessed`"),
        ("measured", "guessed", "hint:  valid values: specification, measured"),
        ("a page", "''", "`source` of an expected figure is empty"),
        (", source: a page", "", "the expected figure has no `source`"),
        ("where:", "when:", "an expected figure has no key `when`"),
        ("where: {op: all-reduce, ranks: 8}", "where: 8", "`where` takes a mapping of fields, not a single value"),
    ] {
        assert!(FIGURE.contains(right), "{right}");
        let errors = read(&FIGURE.replacen(right, wrong, 1)).expect_err(wrong);
        assert!(errors.contains(said), "`{said}` is not in\n{errors}");
    }
    assert!(read(" 8").unwrap_err().contains("`expected` takes a list of figures, not a single value"));
    assert!(read("\n  - 8").unwrap_err().contains("an expected figure is a mapping, not a single value"));
}

#[test]
fn a_figure_is_compared_with_the_best_right_case() {
    let plan = read(FIGURE).unwrap();
    let line = |case: usize, value: f64| {
        let mut line = CaseLine::unmeasured(&plan.cases[case], Status::Ok, "");
        line.wrong = Some(0);
        line.metrics.insert("busbw_gbs".to_owned(), value.into());
        line
    };
    let mut failed = line(1, 900.0);
    failed.status = Status::Failed;
    let wrong = CaseLine { wrong: Some(1), ..line(1, 800.0) };
    let mut other = line(0, 700.0);
    other.parameters.insert("ranks", 4.into());
    let lines = [line(0, 100.0), line(1, 394.0), failed, wrong, other];
    let figure = &plan.expected[0];
    let best = |better| figure.best(&lines, better).map(|(line, value)| (line.bytes, value));
    assert_eq!(best(Better::Higher), Some((Some(1 << 20), 394.0)));
    assert_eq!(best(Better::Lower), Some((Some(1 << 10), 100.0)));
    assert_eq!(figure.best(&lines[2..], Better::Higher), None);
    // A metric may be a number with an interval.
    let mut interval = line(0, 1.0);
    interval.metrics.insert("busbw_gbs".to_owned(), json!({"value": 410.0, "ci95": [400.0, 420.0]}));
    assert_eq!(figure.best(&[interval], Better::Higher).map(|(_, value)| value), Some(410.0));
}

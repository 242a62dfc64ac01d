//! What the printed intervals of a run hold.

use record::IntervalSource;

use crate::Run;
use crate::number::seconds;

/// What ±95% is the interval of, in a sentence; None where no case has one.
pub fn interval_claim(run: &Run) -> Option<String> {
    let timed = run.cases.iter().filter_map(|case| Some((case.time_s.as_ref()?.printed()?.1, case.span_s)));
    let timed: Vec<(IntervalSource, Option<f64>)> = timed.collect();
    let total = timed.len();
    let earlier: Vec<u32> = timed.iter().filter_map(|(source, _)| runs_of(*source)).collect();
    let own: Vec<Option<f64>> =
        timed.iter().filter(|(source, _)| *source == IntervalSource::OwnSpan).map(|(_, span)| *span).collect();
    if total == 0 {
        return None;
    }
    let span = span(&own).map_or_else(String::new, |span| format!(" over the {span} that a case's trials span"));
    if own.len() == total {
        return Some(format!("±95% is the interval of the median{span}; another run may differ by more."));
    }
    let mut text = "±95% is the interval in which the median of an equal run lies".to_owned();
    if let Some(runs) = range(&earlier, |runs| runs.to_string()) {
        let plural = if runs == "1" { "run" } else { "runs" };
        text += &format!(", {}from {runs} earlier {plural} here", in_cases(earlier.len(), total));
    }
    if !own.is_empty() {
        text += &format!(
            "; {}it is that of the median{span}, and another run may differ by more",
            in_cases(own.len(), total)
        );
    }
    Some(text + ".")
}

fn runs_of(source: IntervalSource) -> Option<u32> {
    match source {
        IntervalSource::EarlierRuns(runs) => Some(runs),
        IntervalSource::Trials | IntervalSource::OwnSpan => None,
    }
}

/// `in 2 of 9 cases `; nothing of all.
fn in_cases(number: usize, total: usize) -> String {
    if number == total { String::new() } else { format!("in {number} of {total} cases ") }
}

fn span(spans: &[Option<f64>]) -> Option<String> {
    let known: Vec<f64> = spans.iter().flatten().copied().collect();
    range(&known, |span| seconds(*span))
}

/// `3 to 5`, or `5` where all are shown alike.
fn range<T: PartialOrd>(values: &[T], show: impl Fn(&T) -> String) -> Option<String> {
    let least = values.iter().reduce(|a, b| if b < a { b } else { a })?;
    let most = values.iter().reduce(|a, b| if b > a { b } else { a })?;
    let (least, most) = (show(least), show(most));
    Some(if least == most { most } else { format!("{least} to {most}") })
}

#[cfg(test)]
mod tests {
    use record::{CaseLine, TimeSummary};

    use super::*;

    fn case(time: TimeSummary, span_s: f64) -> CaseLine {
        let mut line: CaseLine = serde_json::from_value(serde_json::json!({
            "schema": 1, "id": "0", "benchmark": "x", "parameters": {}, "status": "ok", "ranks": 2, "runtime": "native",
            "backend": "shm", "device": "cpu", "mode": "streaming", "caveats": [], "simulated": false,
        }))
        .unwrap();
        (line.time_s, line.span_s) = (Some(TimeSummary { median: 1.0, ..time }), Some(span_s));
        line
    }

    #[test]
    fn it_says_how_the_interval_of_an_equal_run_is_known() {
        let ends = Some([0.9, 1.1]);
        let own = || case(TimeSummary { ci95: ends, ..TimeSummary::default() }, 8.0);
        let trials = || case(TimeSummary { ci95: ends, ci95_again: ends, ..TimeSummary::default() }, 9.0);
        let earlier =
            |runs| case(TimeSummary { ci95_earlier: ends, earlier_runs: Some(runs), ..TimeSummary::default() }, 0.1);
        let said = |cases: Vec<CaseLine>| interval_claim(&Run { cases, ..Run::default() });
        assert_eq!(said(vec![case(TimeSummary::default(), 1.0)]), None);
        let claim = said(vec![own()]).unwrap();
        assert!(claim.contains("over the 8.00 s that a case's trials span; another run may differ"), "{claim}");
        let equal = "±95% is the interval in which the median of an equal run lies";
        assert_eq!(said(vec![trials()]).unwrap(), format!("{equal}."));
        assert_eq!(said(vec![earlier(5), earlier(5)]).unwrap(), format!("{equal}, from 5 earlier runs here."));
        let mixed = said(vec![trials(), earlier(3), earlier(5), own()]).unwrap();
        let parts = [
            "in 2 of 4 cases from 3 to 5 earlier runs here",
            "in 1 of 4 cases it is that of the median over the 8.00 s",
        ];
        assert!(parts.iter().all(|part| mixed.contains(part)), "{mixed}");
    }
}

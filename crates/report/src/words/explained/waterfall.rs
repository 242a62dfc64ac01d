//! How efficiency is lost, cause by cause. The recorded steps say where; how much in all, the measured ones say: a page has one
//! efficiency.

use record::{CaseLine, ExplainedCase, Waterfall};

use crate::Run;

/// The term for what no cause explains.
const UNEXPLAINED: &str = "unexplained";
/// Ends closer than this are the same.
const SAME: f64 = 0.005;

/// Whether the values are shares: the title or the name of an end says so.
pub(super) fn is_efficiency(of: &Waterfall) -> bool {
    [&of.title, &of.from.0, &of.to.0].iter().any(|text| text.to_lowercase().contains("efficiency"))
}

/// The waterfall of a case's traces. Where its line has an efficiency, it ends there, and what the recorded steps do not
/// explain of it is a term.
pub(super) fn waterfall(of: &ExplainedCase, line: Option<&CaseLine>) -> Option<Waterfall> {
    let recorded = of.waterfall.as_ref()?;
    let measured =
        line.and_then(|line| view::number_at(line, "scaling.efficiency")).filter(|_| is_efficiency(recorded));
    let Some(measured) = measured.filter(|measured| (measured - recorded.to.1).abs() > SAME) else {
        return Some(recorded.clone());
    };
    let mut fall = recorded.clone();
    fall.terms.retain(|(name, _)| name != UNEXPLAINED);
    let explained: f64 = fall.terms.iter().map(|(_, value)| value).sum();
    fall.terms.push((UNEXPLAINED.to_owned(), measured - fall.from.1 - explained));
    fall.to.1 = measured;
    Some(fall)
}

/// What a case loses of the ideal, by cause: the largest loss first. Empty where its steps were not recorded.
pub(crate) fn losses(run: &Run, line: &CaseLine) -> Vec<(String, f64)> {
    let recorded = run.explained.iter().flat_map(|all| &all.cases).find(|of| of.case == line.id);
    let fall = recorded.and_then(|of| waterfall(of, Some(line))).filter(is_efficiency);
    let mut losses: Vec<(String, f64)> = fall.into_iter().flat_map(|fall| fall.terms).collect();
    losses.retain(|(_, value)| value.is_finite() && *value < 0.0);
    losses.iter_mut().for_each(|(_, value)| *value = -*value);
    losses.sort_by(|a, b| b.1.total_cmp(&a.1));
    losses
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(efficiency: f64) -> CaseLine {
        let line = serde_json::json!({
            "schema": 1, "id": "a", "benchmark": "training", "parameters": {}, "status": "ok", "ranks": 2,
            "runtime": "native", "backend": "shm", "device": "cpu", "mode": "streaming", "caveats": [], "simulated": false,
            "scaling": {"efficiency": efficiency},
        });
        serde_json::from_value(line).unwrap()
    }

    fn traced(to: f64) -> ExplainedCase {
        let terms = vec![("exposed transfer".to_owned(), -0.04), (UNEXPLAINED.to_owned(), to - 1.0 + 0.04)];
        let fall = Waterfall {
            title: "Efficiency from 1 to 2 ranks".to_owned(),
            from: ("1 rank".to_owned(), 1.0),
            terms,
            to: ("2 ranks".to_owned(), to),
            without: vec!["Without slow rank 1 a step would take 90 ms.".to_owned()],
        };
        ExplainedCase { case: "a".to_owned(), waterfall: Some(fall), ..ExplainedCase::default() }
    }

    #[test]
    fn a_waterfall_ends_at_the_efficiency_that_was_measured() {
        let fall = waterfall(&traced(0.83), Some(&line(0.45))).unwrap();
        assert_eq!((fall.to.1, fall.without.len()), (0.45, 1));
        let sum: f64 = fall.from.1 + fall.terms.iter().map(|(_, value)| value).sum::<f64>();
        assert!((sum - 0.45).abs() < 1e-12, "{fall:?}");
        assert_eq!(fall.terms[0], ("exposed transfer".to_owned(), -0.04), "what was recorded stays");
        assert_eq!(waterfall(&traced(0.83), None).unwrap().to.1, 0.83, "without a line, its own end");
    }

    #[test]
    fn times_are_no_efficiency() {
        let mut of = traced(0.83);
        of.waterfall.as_mut().unwrap().title = "Where the step went".to_owned();
        assert_eq!(waterfall(&of, Some(&line(0.45))).unwrap().to.1, 0.83);
    }
}

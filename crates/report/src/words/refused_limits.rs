//! Limits that are not shown, because nothing on the machine can be as fast.

use crate::Run;
use crate::number::count;

/// Reasons that are named.
const MOST: usize = 3;

/// Why limits of these cases are not shown; None where none was refused.
pub fn refused_limits(run: &Run) -> Option<String> {
    let reasons = run.cases.iter().filter_map(|case| case.limit.as_ref()?.why_not.as_deref());
    let reasons: Vec<&str> = reasons.collect();
    let mut distinct: Vec<&str> = Vec::new();
    for reason in reasons.iter().copied() {
        if !distinct.contains(&reason) {
            distinct.push(reason);
        }
    }
    let more = distinct.len().saturating_sub(MOST);
    let mut named: Vec<String> = distinct.iter().take(MOST).map(|reason| (*reason).to_owned()).collect();
    named.extend((more > 0).then(|| format!("{} like these", count(more, "more reason", "more reasons"))));
    let of = count(reasons.len(), "case", "cases");
    (!named.is_empty()).then(|| format!("No limit is shown for {of}: {}.", named.join("; ")))
}

#[cfg(test)]
mod tests {
    use record::{CaseLine, Limit};

    use super::*;

    #[test]
    fn each_reason_is_named_once() {
        let case = |why: Option<&str>| -> CaseLine {
            let line = serde_json::json!({
                "schema": 1, "id": "0", "benchmark": "x", "parameters": {}, "status": "ok", "ranks": 2, "runtime": "native",
                "backend": "shm", "device": "cpu", "mode": "streaming", "caveats": [], "simulated": false,
            });
            let limit = Limit { why_not: why.map(str::to_owned), ..Limit::default() };
            CaseLine { limit: Some(Box::new(limit)), ..serde_json::from_value(line).unwrap() }
        };
        let said = |whys: &[Option<&str>]| {
            refused_limits(&Run { cases: whys.iter().map(|why| case(*why)).collect(), ..Run::default() })
        };
        assert_eq!(said(&[None]), None);
        let two = said(&[Some("too fast"), None, Some("too fast")]).unwrap();
        assert_eq!(two, "No limit is shown for 2 cases: too fast.");
        let many = said(&["a", "b", "c", "d", "e"].map(Some)).unwrap();
        assert_eq!(many, "No limit is shown for 5 cases: a; b; c; 2 more reasons like these.");
    }
}

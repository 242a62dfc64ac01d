//! Ceilings of neighbouring sizes: a call that moves less has no slower one.

use std::collections::HashMap;

use contract::Relations;
use record::CaseLine;
use serde_json::{Map, Value};

use crate::declared::{BUSBW_GBS, LIMIT_BUSBW_GBS, LIMIT_SHARE};

/// The parameter that neighbours differ in.
const BYTES: &str = "bytes";

/// Where the ceiling of a larger size is below the interval of a line's own, that one counts: what probed the small size was
/// disturbed, which slows a probe and never makes it faster.
pub(super) fn relations<'a>(all: &[&'a CaseLine]) -> Relations<'a> {
    let mut like: HashMap<String, Vec<(u64, f64)>> = HashMap::new();
    for line in all {
        let possible = line.limit.as_ref().filter(|limit| limit.why_not.is_none());
        if let (Some(limit), Some(bytes)) = (possible, line.bytes) {
            like.entry(key(line)).or_default().push((bytes, limit.time_s));
        }
    }
    Box::new(move |line| of_line(line, like.get(&key(line)).map_or(&[], Vec::as_slice)).unwrap_or_default())
}

/// All parameters but the size.
fn key(line: &CaseLine) -> String {
    let others = line.parameters.iter().filter(|(name, _)| *name != BYTES);
    others.map(|(name, value)| format!("{name}={value}\n")).collect()
}

fn of_line(line: &CaseLine, like: &[(u64, f64)]) -> Option<Map<String, Value>> {
    let (limit, own, time) = (line.limit.as_ref()?, line.bytes?, line.time_s.as_ref()?.median);
    LIMIT_SHARE.of(line)?;
    let larger = like.iter().filter(|(bytes, _)| *bytes > own).map(|(_, ceiling)| *ceiling);
    let ceiling =
        larger.min_by(f64::total_cmp).filter(|ceiling| *ceiling < limit.ci95.map_or(limit.time_s, |ends| ends[0]))?;
    let (mut found, share) = (Map::new(), (ceiling / time).min(1.0));
    LIMIT_SHARE.put(&mut found, share);
    let busbw = BUSBW_GBS.of(line).flatten();
    LIMIT_BUSBW_GBS.put(&mut found, busbw.map(|busbw| busbw / share));
    Some(found)
}

#[cfg(test)]
mod tests {
    use record::{Limit, TimeSummary};
    use serde_json::json;
    use terms::Status;

    use super::*;

    /// A line of a megabyte per microsecond that reaches half of its ceiling of 0.5 us, times `disturbed`.
    fn line(megabytes: u64, disturbed: f64) -> CaseLine {
        let bytes = megabytes << 20;
        let case = json!({"id": megabytes.to_string(), "benchmark": "collective", "settings": {}, "world": {},
            "parameters": {"op": "all_reduce", "ranks": 2, "bytes": bytes}, "caveats": [], "bytes_requested": null,
            "skip": null});
        let mut line = CaseLine::unmeasured(&serde_json::from_value(case).unwrap(), Status::Ok, "");
        line.bytes = Some(bytes);
        let time = 1e-6 * megabytes as f64;
        line.time_s = Some(TimeSummary { median: time, ..TimeSummary::default() });
        let ceiling = 0.5 * time * disturbed;
        let share = ceiling / time;
        let ci95 = Some([ceiling * 0.98, ceiling * 1.04]);
        line.limit = Some(Box::new(Limit { time_s: ceiling, ci95, share, ..Limit::default() }));
        LIMIT_SHARE.put(&mut line.metrics, share);
        BUSBW_GBS.put(&mut line.metrics, Some(100.0));
        line
    }

    #[test]
    fn a_small_size_has_no_slower_ceiling_than_a_large_one() {
        let lines = [line(1, 4.0), line(2, 1.01), line(4, 1.0)];
        let all: Vec<&CaseLine> = lines.iter().collect();
        let related = relations(&all);
        let found = related(&lines[0]);
        // 2 us by its own probes, where twice the bytes take 1.01 us: longer than its calls, which reach their limit.
        let number = |name: &str| found[name].as_f64().unwrap();
        assert_eq!(found.len(), 2);
        assert!((number("limit_share") - 1.0).abs() < 1e-9, "{found:?}");
        assert!((number("limit_busbw_gbs") - 100.0).abs() < 1e-9, "no limit is below what was measured: {found:?}");
        assert!(related(&lines[1]).is_empty() && related(&lines[2]).is_empty(), "what agrees stays");
        let alone = relations(&all[..1]);
        assert!(alone(&lines[0]).is_empty());
    }

    #[test]
    fn an_impossible_ceiling_bounds_no_smaller_size() {
        let mut lines = [line(1, 1.0), line(2, 0.001)];
        lines[1].limit.as_mut().unwrap().why_not = Some("too fast".to_owned());
        let all: Vec<&CaseLine> = lines.iter().collect();
        assert!(relations(&all)(&lines[0]).is_empty());
    }
}

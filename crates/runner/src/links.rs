//! The limit of a case whose ranks are on several hosts: what their links can carry, and not what memory of one host can.

use benchmarks::{Host, ParsedCase, is_in_process};
use measure::{APART, CaseRun, limit_share};
use record::{Case, CaseLine, Caveat, Limit};
use serde_json::Value;

/// Below so many bytes the way counts, and not the rate.
const LEAST_BYTES: f64 = 65_536.0;

/// Whether calls of the case go between hosts.
fn goes_between_hosts(case: &Case, host: &Host) -> bool {
    let of = host.spread.as_ref().map(|spread| &spread.of[..spread.of.len().min(case.ranks() as usize)]);
    let is_spread = of.is_some_and(|of| of.iter().any(|host| *host != of[0]));
    is_spread && !is_in_process(case) && case.world.get(APART) != Some(&Value::Bool(true))
}

/// Gives a case across hosts the limit by their links, if it was to have one. Where the speed of a link is not known it has none.
pub(crate) fn place(run: &CaseRun, parsed: &dyn ParsedCase, host: &Host, line: &mut CaseLine) {
    if run.simulated || !goes_between_hosts(&run.case, host) {
        return;
    }
    line.limit = None;
    line.caveats.retain(|caveat| *caveat != Caveat::LimitNotFound);
    if run.case.limits() == Some("false") {
        return;
    }
    let Some((time, spread)) = line.time_s.as_ref().zip(host.spread.as_ref()) else { return };
    let hosts = &spread.of[..spread.of.len().min(run.case.ranks() as usize)];
    let Some(carried) = parsed.between_hosts(hosts).filter(|bytes| *bytes >= LEAST_BYTES) else { return };
    let Some(link) = &spread.link else {
        line.caveats.push(Caveat::LinkSpeedUnknown);
        return;
    };
    let seconds = carried / link.bytes_per_s;
    let share = |time: f64| seconds / time;
    let limit = Limit {
        variant: format!("link {}", link.label),
        time_s: seconds,
        share: share(time.median),
        share_ci95: time.ci95.map(|[low, high]| [share(high), share(low)]),
        ..Limit::default()
    };
    if limit_share(Some(&limit)).is_none() {
        line.caveats.push(Caveat::LimitNotFound);
    }
    line.limit = Some(Box::new(limit));
}

#[cfg(test)]
mod tests {
    use benchmarks::Spread;
    use record::{Link, TimeSummary};
    use terms::Status;

    use super::*;

    const GIGABIT: f64 = 125e6;

    /// A collective of two ranks on two hosts that takes 2 ms, with a limit of memory; `link`: bytes a second.
    fn placed(fields: &[(&str, &str)], link: Option<f64>, hosts: [u32; 2], apart: bool) -> CaseLine {
        let usual = [("op", "all_reduce"), ("ranks", "2"), ("backend", "mpi"), ("bytes", "125000")];
        let is_given = |name: &str| fields.iter().any(|(given, _)| *given == name);
        let given = usual.iter().filter(|(name, _)| !is_given(name)).chain(fields);
        let given: Vec<_> = given.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let mut case = record::plan::from_flags(benchmarks::abouts()[0], &given, &[]).unwrap().cases.remove(0);
        if apart {
            case.world.insert(APART.to_owned(), true.into());
        }
        let link = link.map(|bytes_per_s| Link { label: "eth0 (1 Gbit/s)".to_owned(), bytes_per_s });
        let spread = Some(Spread { hosts: 2, most: 1, of: hosts.to_vec(), link });
        let host = Host { spread, cores: 2, available_memory: || None, virtualised: false, launched: None };
        let mut line = CaseLine::unmeasured(&case, Status::Ok, "");
        line.time_s = Some(TimeSummary { median: 2e-3, ci95: Some([1.6e-3, 2.5e-3]), ..TimeSummary::default() });
        line.limit = Some(Box::new(Limit { variant: "memory".to_owned(), ..Limit::default() }));
        let parsed = benchmarks::parse(&case).unwrap();
        let run = CaseRun::new(&case, crate::settings_of(&case, parsed.trial_cost()), false);
        place(&run, &*parsed, &host, &mut line);
        line
    }

    #[test]
    fn a_case_across_hosts_is_a_share_of_its_link() {
        let line = placed(&[], Some(GIGABIT), [0, 1], false);
        let limit = line.limit.unwrap();
        // 125 kB each way by two hosts: 1 ms.
        assert_eq!((limit.variant.as_str(), limit.time_s), ("link eth0 (1 Gbit/s)", 1e-3));
        assert!((limit.share - 0.5).abs() < 1e-12, "{limit:?}");
        let [low, high] = limit.share_ci95.unwrap();
        assert!((low - 0.4).abs() < 1e-12 && (high - 0.625).abs() < 1e-12, "{limit:?}");
        assert!(line.caveats.is_empty());
        let beyond = placed(&[], Some(GIGABIT / 4.0), [0, 1], false);
        assert_eq!(beyond.caveats, [Caveat::LimitNotFound], "other links carried it");
    }

    #[test]
    fn a_case_across_hosts_has_no_limit_of_memory() {
        let unknown = placed(&[], None, [0, 1], false);
        assert_eq!((unknown.limit, unknown.caveats), (None, vec![Caveat::LinkSpeedUnknown]));
        for (fields, why) in [
            (&[("bytes", "32KiB")][..], "the way counts, and not the rate"),
            (&[("op", "gather")], "its bytes depend on the root's host"),
            (&[("limits", "false")], "nobody asked for one"),
        ] {
            let line = placed(fields, Some(GIGABIT), [0, 1], false);
            assert_eq!((line.limit, line.caveats), (None, Vec::new()), "{why}");
        }
    }

    #[test]
    fn memory_bounds_what_stays_within_hosts() {
        for (hosts, apart) in [([0, 0], false), ([0, 1], true)] {
            let line = placed(&[], Some(GIGABIT), hosts, apart);
            assert_eq!(line.limit.unwrap().variant, "memory", "{hosts:?}");
        }
    }
}

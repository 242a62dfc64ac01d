//! What to measure after a collective: another backend as well, the other form, more ranks.

use std::collections::BTreeSet;

use ::view::study::Operation;
use ::view::{Next, View};
use contract::fields::MOST_MODELLED;
use record::CaseLine;

/// See the module's documentation.
pub(super) struct CollectiveView;

/// Values of a parameter, in order and each once.
fn values(cases: &[&CaseLine], name: &str) -> Vec<String> {
    let found: BTreeSet<String> =
        cases.iter().filter_map(|case| case.parameters.get(name)).map(::view::plain).collect();
    found.into_iter().collect()
}

/// A backend that is ready, measures, and has not been asked.
fn another<'r>(asked: &[String], ready: &[&'r str]) -> Option<&'r str> {
    let real = |name: &str| {
        comm::backends().any(|backend| {
            let about = backend.about();
            about.name == name && !about.simulated && !about.in_process
        })
    };
    ready.iter().copied().find(|name| real(name) && !asked.iter().any(|known| known == name))
}

/// A model takes no cores: its open question is how the operation scales. None where it was asked.
fn of_a_model(cases: &[&CaseLine]) -> Option<Next> {
    let ranks = cases.first()?.ranks.max(2);
    let one = cases.iter().all(|case| case.simulated && case.ranks == cases[0].ranks);
    let more = [1, 2, 4, 8].map(|factor| (ranks * factor).to_string()).join(",");
    (one && ranks <= MOST_MODELLED / 8).then(|| {
        let next = Next::changing("ranks", more, "how the model's time grows with ranks");
        next.keeping("backend", values(cases, "backend").join(","))
    })
}

impl View for CollectiveView {
    fn same(&self, cases: &[&CaseLine]) -> Option<Vec<String>> {
        let text = |case: &CaseLine, name: &str| case.parameters.get(name).map(::view::plain);
        let first = cases.first()?;
        let is_like = |case: &&&CaseLine| {
            let same = |name: &&str| text(case, name) == text(first, name);
            case.ranks == first.ranks && ["op", "backend", "dtype", "reduce"].iter().all(same)
        };
        let sizes: BTreeSet<u64> = cases.iter().filter(is_like).filter_map(|case| case.bytes).collect();
        let mut words = vec!["comm".to_owned(), text(first, "op")?, "--ranks".to_owned(), first.ranks.to_string()];
        for name in ["backend", "dtype", "reduce"] {
            words.extend(text(first, name).into_iter().flat_map(|value| [format!("--{name}"), value]));
        }
        if !sizes.is_empty() {
            let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
            words.extend(["--bytes".to_owned(), sizes.join(",")]);
        }
        Some(words)
    }

    fn next(&self, section: &Operation, ready: &[&str]) -> Option<Next> {
        let cases: Vec<&CaseLine> = section.points().map(|point| point.case).collect();
        let native = |case: &&CaseLine| case.runtime == "native" || case.runtime.is_empty();
        if cases.is_empty() || !cases.iter().all(native) {
            return None;
        }
        if cases.iter().any(|case| case.simulated) {
            return of_a_model(&cases);
        }
        let mut ranks: Vec<u32> = cases.iter().map(|case| case.ranks).collect();
        ranks.sort_unstable();
        ranks.dedup();
        let ranks = ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        // Also what was skipped: here it would be skipped again.
        let all: Vec<&CaseLine> = section.configurations.iter().flat_map(|c| c.cases.iter().copied()).collect();
        let asked = values(&all, "backend");
        if let Some(other) = another(&asked, ready) {
            let backends = format!("{},{other}", asked.join(","));
            return Some(Next::changing("backend", backends, format!("{other} is ready, too")).keeping("ranks", ranks));
        }
        if values(&cases, "in_place").len() == 1 && super::about::works_both_ways(&section.name) {
            let next = Next::changing("in_place", "true,false", "in place and out of place");
            return Some(next.keeping("ranks", ranks));
        }
        (!ranks.contains(',')).then(|| Next::changing("ranks", "2,4", "how time grows with ranks"))
    }
}

#[cfg(test)]
mod tests {
    use record::{Declared, TimeSummary};
    use terms::Status;

    use super::*;

    fn next(flags: &[(&str, &str)], ready: &[&str]) -> Option<Next> {
        let plan = record::plan::from_flags(&super::super::about::ABOUT, flags, &[]).unwrap();
        let measured = |case: &record::Case| CaseLine {
            time_s: Some(TimeSummary { median: 1e-6, ..TimeSummary::default() }),
            wrong: Some(0),
            simulated: case.text("backend") == Some("sim"),
            ..CaseLine::unmeasured(case, Status::Ok, "")
        };
        let lines: Vec<CaseLine> = plan.cases.iter().map(measured).collect();
        let declared = [Declared::of(&super::super::about::ABOUT)];
        CollectiveView.next(&::view::study::operations(&lines, &declared)[0], ready)
    }

    #[test]
    fn what_is_next_follows_from_what_was_measured() {
        let changes = |next: Option<Next>| next.map(|next| next.changes[0].clone());
        let pair = |name: &str, value: &str| Some((name.to_owned(), value.to_owned()));
        let ready = ["sim", "shm", "mpi"];
        assert_eq!(changes(next(&[], &ready)), pair("backend", "shm,mpi"));
        assert_eq!(changes(next(&[], &["sim", "shm"])), pair("in_place", "true,false"), "a model measures nothing");
        assert_eq!(changes(next(&[("op", "barrier")], &["shm"])), pair("ranks", "2,4"));
        assert_eq!(changes(next(&[("in_place", "true,false")], &["shm"])), pair("ranks", "2,4"));
        assert_eq!(next(&[("in_place", "true,false"), ("ranks", "2,4")], &["shm"]), None);
        let modelled = next(&[("backend", "sim"), ("ranks", "4")], &ready);
        assert_eq!(changes(modelled), pair("ranks", "4,8,16,32"));
        assert_eq!(next(&[("backend", "sim"), ("ranks", "4,8")], &ready), None, "how it scales is known");
        assert_eq!(next(&[("backend", "sim"), ("ranks", "16384")], &ready), None, "a model has 65536 ranks at most");
    }
}

//! The states of a machine, as `validate` says what it saw of them.

use std::path::Path;
use std::time::Duration;

use measure::{StatesAsked, machine};
use record::store::RESULTS;
use record::{CanaryKind, MachineState, PlanErrors};
use survey::Finding;

use crate::known_answers::{KnownAnswers, by_shared_memory};

/// How long the machine is observed.
const LASTING: Duration = Duration::from_millis(1_500);
/// The most ranks that look.
const MOST_RANKS: usize = 64;

/// The row of the machine's states during the check, and of those that earlier runs saw.
pub fn row(asker: &KnownAnswers<'_>) -> Finding {
    let named = |finding: Finding| finding.group("system");
    // Neighbours look in pairs.
    let ranks = asker.host.cores.min(MOST_RANKS) / 2 * 2;
    if ranks == 0 {
        return named(Finding::missing("states", "not looked at: that needs two cores"));
    }
    let known = runner::earlier::earlier(Some(Path::new(RESULTS)), (&machine::detect(), &[]), &[]);
    let asked = StatesAsked { known: known.clone(), ..StatesAsked::default() };
    let one_line =
        |wrong: PlanErrors| wrong.errors.iter().map(|placed| placed.error.on_one_line()).collect::<Vec<_>>().join("; ");
    let seen = by_shared_memory(ranks).map_err(one_line).and_then(|case| {
        let look = runner::look_at_states(&case, asker.host, &mut (asker.starter)(), asked, LASTING);
        look.map_err(|verdict| verdict.error.on_one_line())
    });
    named(match seen {
        Ok(seen) => finding(&seen, &known, LASTING),
        Err(why) => Finding::missing("states", format!("not looked at: {why}")),
    })
}

/// What was seen in so much time, and what earlier runs add.
fn finding(seen: &[MachineState], known: &[MachineState], lasting: Duration) -> Finding {
    let own: Vec<&str> = seen.iter().filter_map(|state| state.name.as_deref()).collect();
    let others = known.iter().filter_map(|state| state.name.as_deref()).filter(|name| !own.contains(name));
    let others: Vec<&str> = others.collect();
    let trip = seen.iter().flat_map(|state| &state.canaries).find(|level| level.canary == CanaryKind::RoundTripNs);
    let trip = trip.map_or(String::new(), |level| format!("; {:.0} ns from a core to the next and back", level.median));
    let lasting = lasting.as_secs_f64();
    let now = match own.as_slice() {
        [] => format!("one in {lasting} s{trip}"),
        [only] => format!("{only} for {lasting} s{trip}"),
        several => format!("{} in {lasting} s", several.join(" and ")),
    };
    let earlier =
        if others.is_empty() { String::new() } else { format!("; earlier runs saw {}", others.join(" and ")) };
    let finding_text = format!("{now}{earlier}");
    let all: Vec<&str> = own.iter().copied().chain(others).collect();
    if all.len() < 2 {
        return Finding::ready("states", finding_text);
    }
    Finding::slow("states", finding_text)
        .impact("equal runs differ: each state of the machine has times of its own")
        .fix(report::state_remedy(&all, false))
}

#[cfg(test)]
mod tests {
    use record::CanaryLevel;

    use super::*;

    fn state(name: Option<&str>, trip: f64) -> MachineState {
        let canaries = vec![CanaryLevel { canary: CanaryKind::RoundTripNs, ranks: 2, host: None, median: trip }];
        MachineState { name: name.map(str::to_owned), share: 1.0, trials: 9, canaries }
    }

    #[test]
    fn states_of_now_and_of_earlier_runs_are_reported() {
        let lasting = Duration::from_millis(1_500);
        let (near, far) = (state(Some("near cores"), 60.0), state(Some("far cores"), 290.0));
        let quiet = finding(&[state(None, 60.0)], &[], lasting);
        assert_eq!((quiet.found.as_str(), quiet.fix), ("one in 1.5 s; 60 ns from a core to the next and back", None));
        let known = finding(std::slice::from_ref(&far), &[near.clone(), far.clone()], lasting);
        assert!(known.found.ends_with("; earlier runs saw near cores") && known.fix.is_some(), "{}", known.found);
        let both = finding(&[near, far], &[], lasting);
        assert_eq!(both.found, "near cores and far cores in 1.5 s");
        assert!(both.fix.unwrap().contains("--bind core"));
    }
}

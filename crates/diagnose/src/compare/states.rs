//! Like state with like: a machine that is now at one speed and now at another is compared with itself at one of them.

use record::{CanaryKind, CaseLine, CaseState, MachineState, Record, likest};

use super::differs::other_machine;
use super::matching::declared;
use super::quantity::Quantity;

/// The state of a machine, as a run saw it.
#[derive(Clone, Debug, PartialEq)]
pub struct StateSeen {
    /// Name of the state, where the run saw several.
    pub name: Option<String>,
    /// Nanoseconds of a round trip of a cache line between cores.
    pub round_trip_ns: Option<f64>,
}

/// The state in which a line's times were taken; None where nobody knows.
pub(super) fn state<'r>(record: &'r Record, line: &CaseLine) -> Option<&'r MachineState> {
    match (&line.state, record.file.states.as_slice()) {
        (Some(name), states) => states.iter().find(|state| state.name.as_ref() == Some(name)),
        // A line of a run that saw several, and that has none, is a mixture.
        (None, [only]) => Some(only),
        (None, _) => None,
    }
}

/// Whether two lines were taken in different states of one machine. Where that is not known, they were not.
pub(super) fn unlike(base: &Record, base_line: &CaseLine, new: &Record, new_line: &CaseLine) -> bool {
    let both = state(base, base_line).zip(state(new, new_line));
    both.is_some_and(|(a, b)| !other_machine(&base.file, &new.file) && !same(a, &base.file.states, b, &new.file.states))
}

/// Whether a state of one run is that of another. A run that saw several says which of them it is like most.
fn same(a: &MachineState, of_a: &[MachineState], b: &MachineState, of_b: &[MachineState]) -> bool {
    let is_it = |one: &MachineState, own: &[MachineState], other: &MachineState| {
        own.len() < 2 || likest(other, own).is_none_or(|nearest| nearest == one)
    };
    a.may_be(b) && is_it(a, of_a, b) && is_it(b, of_b, a)
}

/// The times of another run's line in the state of this one: None where it shows them itself. The outer None: it has none.
pub(super) fn times_alike<'r>(
    own: &Record,
    own_line: &CaseLine,
    other: &'r Record,
    line: &'r CaseLine,
) -> Option<Option<&'r CaseState>> {
    if !unlike(own, own_line, other, line) {
        return Some(None);
    }
    let wanted = state(own, own_line)?;
    let is_same = |times: &&CaseState| {
        let named = other.file.states.iter().find(|state| state.name.as_ref() == Some(&times.name));
        named.is_some_and(|state| same(wanted, &own.file.states, state, &other.file.states))
    };
    line.states.iter().find(is_same).map(Some)
}

/// Gives lines of cases that both records have the times of a state that both saw, where those that they show are of different
/// ones. `base_too`: lines of the base may change as well; else only those of the new record.
pub fn in_common_states(base: &mut Record, new: &mut Record, base_too: bool) {
    let places: std::collections::HashMap<String, usize> =
        new.cases.iter().enumerate().map(|(at, line)| (line.id.clone(), at)).collect();
    for at in 0..base.cases.len() {
        let Some(partner) = places.get(&base.cases[at].id).copied() else { continue };
        let is_time = Quantity::from_declared(declared(base, &base.cases[at])).is_time();
        if !is_time || !unlike(base, &base.cases[at], new, &new.cases[partner]) {
            continue;
        }
        let Some([of_base, of_new]) = common(base, &base.cases[at], new, &new.cases[partner], base_too) else {
            continue;
        };
        show(&mut base.cases[at], of_base.as_ref());
        show(&mut new.cases[partner], of_new.as_ref());
    }
}

/// The times of the state that both lines have most trials in; None for a side that has no other.
fn common(
    base: &Record,
    base_line: &CaseLine,
    new: &Record,
    new_line: &CaseLine,
    base_too: bool,
) -> Option<[Option<CaseState>; 2]> {
    let states_of = |record: &Record, line: &CaseLine, any: bool| -> Vec<(MachineState, Option<CaseState>, u32)> {
        let own = state(record, line).map(|state| (state.clone(), None, line.trial_median_s.len() as u32));
        let named = |times: &CaseState| {
            let state = record.file.states.iter().find(|state| state.name.as_ref() == Some(&times.name))?;
            Some((state.clone(), Some(times.clone()), times.trials))
        };
        let others =
            line.states.iter().filter(|times| any && line.state.as_ref() != Some(&times.name)).filter_map(named);
        own.into_iter().chain(others).collect()
    };
    let (of_base, of_new) = (states_of(base, base_line, base_too), states_of(new, new_line, true));
    let pairs = of_base.iter().flat_map(|a| of_new.iter().map(move |b| (a, b)));
    let alike = pairs.filter(|(a, b)| same(&a.0, &base.file.states, &b.0, &new.file.states));
    // The first of equals: what the base shows.
    let (a, b) =
        alike.reduce(|best, next| if next.0.2.min(next.1.2) > best.0.2.min(best.1.2) { next } else { best })?;
    Some([a.1.clone(), b.1.clone()])
}

/// Gives a line the times of another of its states.
fn show(line: &mut CaseLine, times: Option<&CaseState>) {
    let (Some(times), Some(time)) = (times, line.time_s.as_mut()) else { return };
    (time.median, time.ci95, time.ci95_again) = (times.median_s, times.ci95_s, None);
    line.trial_median_s.clone_from(&times.trial_median_s);
    line.state = Some(times.name.clone());
    // Rounds and metrics are those of the other state.
    line.trial_round.clear();
    line.metrics.clear();
}

/// A clock that differs by less is the same: bins of clocks are 3% apart.
const SAME_CLOCK: f64 = 0.02;
/// A time may change by so many times what the clock does, on logarithms: caches and the ways between cores slow down with
/// cores. Measured: 2.1 for the smallest message, where a clock of 7% changed its time by 15%.
const CLOCK_EXPLAINS: f64 = 2.5;

/// How many times as long a loop took on the same machine, where that may be all of a change of this ratio.
pub(super) fn by_clock(
    base: &Record,
    base_line: &CaseLine,
    new: &Record,
    new_line: &CaseLine,
    ratio: f64,
) -> Option<f64> {
    let (old, now) = (state(base, base_line)?, state(new, new_line)?);
    let clocks =
        now.canaries.iter().filter(|level| level.canary == CanaryKind::ClockNs && level.ranks == new_line.ranks);
    let ratios = clocks.filter_map(|level| {
        let before = old.canaries.iter().find(|other| other.is_like(level))?;
        Some(level.median / before.median)
    });
    // Of several hosts the one that explains most: all ranks wait for the slowest.
    let slower = ratios.max_by(|a, b| (a.ln() * ratio.ln()).total_cmp(&(b.ln() * ratio.ln())))?;
    let (clock, change) = (slower.ln(), ratio.ln());
    let may_explain = clock.abs() > SAME_CLOCK && clock * change > 0.0 && change.abs() <= CLOCK_EXPLAINS * clock.abs();
    (may_explain && !other_machine(&base.file, &new.file)).then_some(slower)
}

/// What both runs saw, where the lines were taken in different states.
pub(super) fn seen(base: &Record, base_line: &CaseLine, new: &Record, new_line: &CaseLine) -> Option<[StateSeen; 2]> {
    let state_seen = |record: &Record, line: &CaseLine| {
        let state = state(record, line)?;
        let trip =
            state.canaries.iter().find(|level| level.canary == CanaryKind::RoundTripNs && level.ranks == line.ranks);
        Some(StateSeen { name: state.name.clone(), round_trip_ns: trip.map(|level| level.median) })
    };
    let both = [state_seen(base, base_line)?, state_seen(new, new_line)?];
    unlike(base, base_line, new, new_line).then_some(both)
}

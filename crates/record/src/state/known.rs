//! What several runs together tell of a machine's states: which of them are one, and what each is called.

use super::{CanaryKind, CanaryLevel, MachineState, likest};

/// The most states that a machine is said to have.
const MOST: usize = 3;
/// Within a state, a clock and shared units stay within these factors.
const SAME_CLOCK: f64 = 1.02;
const SAME_UNITS: f64 = 1.2;

impl MachineState {
    /// Whether all that both saw is alike: [`Self::may_be`], and with the same clock.
    pub fn is_same(&self, other: &Self) -> bool {
        let alike = |own: &CanaryLevel, theirs: &CanaryLevel| {
            let ratio = (own.median / theirs.median).ln().abs();
            match own.canary {
                CanaryKind::RoundTripNs => true,
                CanaryKind::UnitsShared => ratio <= SAME_UNITS.ln(),
                CanaryKind::ClockNs => ratio <= SAME_CLOCK.ln(),
            }
        };
        self.may_be(other) && common(self, other).all(|(own, theirs)| alike(own, theirs))
    }
}

/// Levels of two states that can be compared.
fn common<'s>(a: &'s MachineState, b: &'s MachineState) -> impl Iterator<Item = (&'s CanaryLevel, &'s CanaryLevel)> {
    a.canaries.iter().filter_map(|own| Some((own, b.canaries.iter().find(|level| level.is_like(own))?)))
}

/// The states that these runs saw of one machine, each once: the runs that count most first. A run that saw one state does not
/// name it; it is named here where several runs show that there are more.
pub fn known_states<'s>(runs: impl IntoIterator<Item = &'s [MachineState]>) -> Vec<MachineState> {
    let mut known: Vec<MachineState> = Vec::new();
    for state in runs.into_iter().flatten() {
        let place = match place_of(state, &known) {
            Some(place) => place,
            // What shares no look with the others is placed by its name only.
            None => {
                let is_news = known.is_empty()
                    || state.name.is_some()
                    || known.iter().any(|one| common(one, state).next().is_some());
                if is_news && known.len() < MOST {
                    known.push(state.clone());
                }
                continue;
            }
        };
        let one = &mut known[place];
        one.name = one.name.take().or_else(|| state.name.clone());
        let new = state.canaries.iter().filter(|level| !one.canaries.iter().any(|own| own.is_like(level)));
        let new: Vec<CanaryLevel> = new.copied().collect();
        one.canaries.extend(new);
    }
    name(&mut known);
    known
}

/// Where a state stands among the known ones: by its name, else by what was seen.
fn place_of(state: &MachineState, known: &[MachineState]) -> Option<usize> {
    let by_name = known.iter().position(|one| one.name.is_some() && one.name == state.name && one.may_be(state));
    by_name.or_else(|| {
        let may_have_one_name = |other: &&MachineState| other.name.is_none() || state.name.is_none();
        let candidates: Vec<MachineState> = known.iter().filter(may_have_one_name).cloned().collect();
        let found = likest(state, &candidates)?;
        known.iter().position(|one| one == found)
    })
}
/// Names states that no run could name, by how far apart cores were.
fn name(known: &mut Vec<MachineState>) {
    if known.len() < 2 || known.iter().all(|state| state.name.is_some()) {
        return;
    }
    let trip = |state: &MachineState| {
        let one = known[0].canaries.iter().filter(|level| level.canary == CanaryKind::RoundTripNs);
        one.filter_map(|own| state.canaries.iter().find(|level| level.is_like(own))).map(|level| level.median).next()
    };
    let Some(trips) = known.iter().map(trip).collect::<Option<Vec<f64>>>() else {
        // What cannot be put in order has no name that would be the same in later runs.
        known.retain(|state| state.name.is_some());
        return;
    };
    let mut order: Vec<usize> = (0..known.len()).collect();
    order.sort_by(|a, b| trips[*a].total_cmp(&trips[*b]));
    let apart = order.windows(2).all(|pair| trips[pair[1]] > trips[pair[0]] * super::APART);
    if !apart {
        known.retain(|state| state.name.is_some());
        return;
    }
    let words = CanaryKind::RoundTripNs.state_names();
    for (place, at) in order.iter().enumerate() {
        let word = if place > 0 && place + 1 == order.len() { words[2] } else { words[place.min(1)] };
        known[*at].name = Some(word.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(name: Option<&str>, trip: f64, clock: f64) -> MachineState {
        let level = |canary, median| CanaryLevel { canary, ranks: 2, host: None, median };
        let canaries = vec![level(CanaryKind::RoundTripNs, trip), level(CanaryKind::ClockNs, clock)];
        MachineState { name: name.map(str::to_owned), share: 1.0, trials: 9, canaries }
    }

    fn names(runs: &[Vec<MachineState>]) -> Vec<(Option<String>, f64)> {
        let known = known_states(runs.iter().map(Vec::as_slice));
        known.into_iter().map(|state| (state.name, state.canaries[0].median)).collect()
    }

    #[test]
    fn states_of_several_runs_are_found_once_and_named() {
        let (near, far) = (Some("near cores"), Some("far cores"));
        // One state in each run.
        let alone = [vec![state(None, 290.0, 5e3)], vec![state(None, 62.0, 5e3)], vec![state(None, 60.0, 5e3)]];
        let expected = [(far.map(str::to_owned), 290.0), (near.map(str::to_owned), 62.0)];
        assert_eq!(names(&alone), expected);
        // A run that saw both.
        let both = [vec![state(None, 290.0, 5e3)], vec![state(near, 60.0, 5e3), state(far, 280.0, 5e3)]];
        assert_eq!(names(&both), [(far.map(str::to_owned), 290.0), (near.map(str::to_owned), 60.0)]);
        // Only a run that saw both clocks distinguishes them.
        let clocks = [vec![state(None, 60.0, 5.4e3)], vec![state(None, 60.0, 5e3)]];
        assert_eq!(names(&clocks), [(None, 60.0)]);
        let seen = [
            vec![state(None, 60.0, 5.4e3)],
            vec![state(Some("fast clock"), 61.0, 5e3), state(Some("slow clock"), 61.0, 5.4e3)],
        ];
        assert_eq!(names(&seen).len(), 2);
        // Other numbers of ranks show other levels: of one state by its name, of none without.
        let of_four = |mut state: MachineState| {
            state.canaries.iter_mut().for_each(|level| level.ranks = 4);
            state
        };
        let more = [
            vec![state(near, 60.0, 5e3), state(far, 290.0, 5e3)],
            vec![of_four(state(near, 90.0, 5e3)), of_four(state(far, 400.0, 5e3))],
            vec![of_four(state(None, 95.0, 5e3))],
        ];
        let known = known_states(more.iter().map(Vec::as_slice));
        assert_eq!((known.len(), known[0].canaries.len()), (2, 4));
        assert_eq!(likest(&more[2][0], &known).unwrap().name.as_deref(), near);
        let alone = [vec![state(near, 60.0, 5e3), state(far, 290.0, 5e3)], vec![of_four(state(None, 400.0, 5e3))]];
        assert_eq!(names(&alone).len(), 2);
        assert_eq!(names(&[]), []);
    }

    #[test]
    fn states_are_the_same_where_their_clock_is() {
        assert!(state(None, 60.0, 5e3).is_same(&state(None, 63.0, 5.05e3)));
        assert!(!state(None, 60.0, 5e3).is_same(&state(None, 60.0, 5.4e3)));
        assert!(!state(None, 60.0, 5e3).is_same(&state(None, 290.0, 5e3)));
    }
}

//! The machine's states in the trials of a case.

use record::CaseState;
use stats::{median, sign_interval};

/// The states of a case's trials, where the run saw several.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Labels {
    /// Names of the run's states.
    pub names: Vec<String>,
    /// The state of each trial; None where it changed within the trial, or is not known.
    pub of: Vec<Option<usize>>,
    /// The state that stands for the run: that of most of its trials, or the one that was asked for; None where that was not seen.
    pub main: Option<usize>,
    /// Whether trials in other states do not count: `main` was asked for.
    pub only: bool,
    /// Whether the case's ranks cannot look at the machine, so that the state that was asked for cannot be seen.
    pub blind: bool,
}

impl Labels {
    /// Trials of a state, by their places.
    pub fn trials(&self, state: usize) -> Vec<usize> {
        (0..self.of.len()).filter(|at| self.of[*at] == Some(state)).collect()
    }

    /// The state that stands for the case: the run's, or where the case has no trial in it and none was asked for, the one with most
    /// of its trials. None where no trial is in a state.
    pub fn shown(&self) -> Option<usize> {
        let number = |state: &usize| self.trials(*state).len();
        let main = self.main.filter(|main| number(main) > 0);
        if main.is_some() || self.only {
            return main;
        }
        (0..self.names.len()).filter(|state| number(state) > 0).max_by_key(number)
    }

    /// Whether trials in one state count, and none of these is.
    pub fn lacks_state(&self) -> bool {
        self.only && self.shown().is_none()
    }

    /// Times in each state that has trials, from the medians of all trials.
    pub fn times(&self, medians: &[f64], interval: bool) -> Vec<CaseState> {
        let state = |(at, name): (usize, &String)| {
            let trials = self.trials(at);
            let own: Vec<f64> =
                trials.iter().filter_map(|at| medians.get(*at).copied()).filter(|m| m.is_finite()).collect();
            (!own.is_empty()).then(|| CaseState {
                name: name.clone(),
                share: trials.len() as f64 / medians.len().max(1) as f64,
                trials: trials.len() as u32,
                median_s: median(&own),
                ci95_s: sign_interval(&own).filter(|_| interval),
                trial_median_s: own,
            })
        };
        self.names.iter().enumerate().filter_map(state).collect()
    }
}

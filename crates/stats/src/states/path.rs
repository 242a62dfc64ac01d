//! The state of each moment, from all channels at once.

use super::FEWEST_IN_STATE;
use crate::quantile::{quantile, sorted};

/// Rounds of estimation; paths stay the same after two or three.
const ROUNDS: usize = 10;
/// The smallest spread of a level, on logarithms.
const FLOOR: f64 = 0.01;
/// Deviations beyond which a value says no more: a spike must not decide.
const LIMIT: f64 = 4.0;
/// The least chance of a change between neighbouring moments.
const LEAST_CHANGE: f64 = 0.01;

/// What a channel shows in a state.
#[derive(Clone, Copy, Debug)]
struct StateLevel {
    middle: f64,
    spread: f64,
}

/// States with their levels, and how often they change.
pub(super) struct StateModel {
    /// State by state, channel by channel; None where the state never saw the channel.
    levels: Vec<Vec<Option<StateLevel>>>,
    change: f64,
}

impl StateModel {
    /// The states of all moments, from those that are known already. None where a state does not last: it lost its moments.
    pub(super) fn refined(logs: &[Vec<Option<f64>>], seeds: &[Option<usize>], count: usize) -> Option<Vec<usize>> {
        let mut model = Self::estimated(logs, seeds, count);
        let mut path = model.path(logs);
        for _ in 0..ROUNDS {
            let known: Vec<Option<usize>> = path.iter().copied().map(Some).collect();
            model = Self::estimated(logs, &known, count);
            let next = model.path(logs);
            if next == path {
                break;
            }
            path = next;
        }
        let members = |state: usize| path.iter().filter(|of| **of == state).count();
        (0..count).all(|state| members(state) >= FEWEST_IN_STATE).then_some(path)
    }

    fn estimated(logs: &[Vec<Option<f64>>], of: &[Option<usize>], count: usize) -> Self {
        let channels = logs.first().map_or(0, Vec::len);
        let level = |state: usize, channel: usize| {
            let members = logs.iter().zip(of).filter(|(_, of)| **of == Some(state));
            let values = sorted(&members.filter_map(|(moment, _)| moment[channel]).collect::<Vec<f64>>());
            if values.is_empty() {
                return None;
            }
            let spread = (quantile(&values, 0.75) - quantile(&values, 0.25)) / 1.349;
            Some(StateLevel { middle: quantile(&values, 0.5), spread: spread.max(FLOOR) })
        };
        let levels = (0..count).map(|state| (0..channels).map(|channel| level(state, channel)).collect()).collect();
        let known: Vec<usize> = of.iter().copied().flatten().collect();
        let changes = known.windows(2).filter(|pair| pair[0] != pair[1]).count();
        // As if one more change had been seen in twice as many moments: none at all would forbid the next one.
        let change = (changes as f64 + 1.0) / (known.len() as f64 + 2.0);
        Self { levels, change: change.clamp(LEAST_CHANGE, 0.5) }
    }

    /// What it costs that a moment was in a state: half the squared deviation of each channel, and the logarithm of its spread.
    fn cost(&self, state: usize, moment: &[Option<f64>]) -> f64 {
        let of = |(channel, value): (usize, &Option<f64>)| {
            let value = (*value)?;
            // A state that never saw the channel neither gains nor loses by it.
            if self.levels.iter().any(|levels| levels[channel].is_none()) {
                return None;
            }
            let level = self.levels[state][channel]?;
            let deviation = ((value - level.middle) / level.spread).abs();
            // Beyond the limit the cost goes on as a logarithm does: the nearer level still wins.
            let excess = (deviation / LIMIT).max(1.0).ln();
            Some(0.5 * deviation.min(LIMIT).powi(2) + excess + level.spread.ln())
        };
        moment.iter().enumerate().filter_map(of).sum()
    }

    /// The path of least cost.
    fn path(&self, logs: &[Vec<Option<f64>>]) -> Vec<usize> {
        let count = self.levels.len();
        let leave = -(self.change / (count as f64 - 1.0).max(1.0)).ln();
        let stay = -(1.0 - self.change).ln();
        let mut costs = vec![0.0; count];
        let mut came: Vec<Vec<usize>> = Vec::with_capacity(logs.len());
        for moment in logs {
            let from = |state: usize| {
                let step = |before: usize| costs[before] + if before == state { stay } else { leave };
                let best = (0..count).min_by(|a, b| step(*a).total_cmp(&step(*b))).unwrap_or(state);
                (best, step(best) + self.cost(state, moment))
            };
            let (origins, next): (Vec<usize>, Vec<f64>) = (0..count).map(from).unzip();
            came.push(origins);
            costs = next;
        }
        let mut state = (0..count).min_by(|a, b| costs[*a].total_cmp(&costs[*b])).unwrap_or(0);
        let mut path = vec![0; logs.len()];
        for at in (0..logs.len()).rev() {
            path[at] = state;
            state = came[at][state];
        }
        path
    }
}

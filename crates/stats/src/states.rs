//! States of a machine: levels between which all that is measured changes at the same moments.
//!
//! On a virtual machine the hypervisor may put two cores on one physical core or on two: the machine then has two speeds,
//! each for seconds to minutes. A median over both is one of a mixture. Here the moments of a run are divided into states by what several
//! channels (canaries, or cases) showed at each of them.
//!
//! 1. Two levels are believed where one channel shows them ([`split`]). Its values form two groups that lie further apart, in
//!    units of their own spread, than groups of equally spread values do by chance: among distributions of one mode the
//!    uniform one is the least favourable to such a test (Hartigan and Hartigan, Annals of Statistics 13, 1985), and a drift
//!    looks like it. And values change between the groups more rarely than in random order, which independent values of any
//!    distribution do by chance alone. Values that resemble their predecessors count for fewer.
//! 2. Each moment is then given the state that explains all channels at once, where a change of state between neighbours
//!    has a cost: the path of least cost of a hidden Markov model (Viterbi, IEEE Transactions on Information Theory 13,
//!    1967), estimated again from its own path until that stays.
//! 3. A state may be split once more, so that there are three at most.
//!
//! Rejected: a mixture chosen by an information criterion, which takes heavy tails and drifts for states.

mod path;
mod split;

use path::StateModel;
use split::best_split;

/// The most states of a machine.
pub const MOST_STATES: usize = 3;
/// The chance that a machine of one state is said to have more.
pub const STATE_LEVEL: f64 = 0.01;
/// Moments of a state, at least: what was seen once or twice may be an accident.
pub const FEWEST_IN_STATE: usize = 3;

/// States of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct States {
    /// The state of each moment.
    pub of: Vec<usize>,
    /// The median of each channel in each state, state by state; None where the state never saw the channel.
    pub levels: Vec<Vec<Option<f64>>>,
    /// The channel that shows the states most clearly; None where there is one state. States ascend by its level.
    pub channel: Option<usize>,
}

impl States {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.levels.len()
    }

    /// The share of the moments that were in a state.
    pub fn share(&self, state: usize) -> f64 {
        self.of.iter().filter(|of| **of == state).count() as f64 / self.of.len().max(1) as f64
    }
}

/// The states of these moments, in order of time: at each of them what every channel showed, a positive value, or None where
/// it was not looked at.
pub fn states(moments: &[Vec<Option<f64>>]) -> States {
    let channels = moments.iter().map(Vec::len).max().unwrap_or(0);
    let logs: Vec<Vec<Option<f64>>> = moments.iter().map(|moment| in_logs(moment, channels)).collect();
    let mut of = vec![0; moments.len()];
    let (mut count, mut shown_by) = (1, None);
    while count < MOST_STATES {
        let tests = channels * count;
        let Some((state, split)) = (0..count)
            .filter_map(|state| {
                let members: Vec<usize> = (0..of.len()).filter(|at| of[*at] == state).collect();
                Some((state, best_split(&logs, &members, STATE_LEVEL / tests.max(1) as f64)?))
            })
            .max_by(|(_, a), (_, b)| a.excess.total_cmp(&b.excess))
        else {
            break;
        };
        let mut divided = of.clone();
        for at in (0..of.len()).filter(|at| of[*at] == state) {
            if logs[at][split.channel].is_some_and(|value| value > split.border) {
                divided[at] = count;
            }
        }
        // Moments of the state in which the channel was not looked at are decided by their neighbours.
        let seeds = |at: usize| (of[at] != state || logs[at][split.channel].is_some()).then_some(divided[at]);
        let seeds: Vec<Option<usize>> = (0..of.len()).map(seeds).collect();
        let Some(refined) = StateModel::refined(&logs, &seeds, count + 1) else { break };
        of = refined;
        count += 1;
        shown_by = shown_by.or(Some(split.channel));
    }
    in_order(&logs, of, count, shown_by)
}

fn in_logs(moment: &[Option<f64>], channels: usize) -> Vec<Option<f64>> {
    let log = |value: Option<f64>| value.filter(|value| value.is_finite() && *value > 0.0).map(f64::ln);
    (0..channels).map(|channel| log(moment.get(channel).copied().flatten())).collect()
}

/// States are numbered by the level of the channel that shows them.
fn in_order(logs: &[Vec<Option<f64>>], of: Vec<usize>, count: usize, channel: Option<usize>) -> States {
    let channels = logs.first().map_or(0, Vec::len);
    let level = |state: usize, channel: usize| {
        let members = logs.iter().zip(&of).filter(|(_, of)| **of == state);
        let values: Vec<f64> = members.filter_map(|(moment, _)| moment[channel]).collect();
        (!values.is_empty()).then(|| crate::median(&values).exp())
    };
    let mut order: Vec<usize> = (0..count).collect();
    if let Some(channel) = channel {
        let key = |state: &usize| level(*state, channel).unwrap_or(f64::INFINITY);
        order.sort_by(|a, b| key(a).total_cmp(&key(b)));
    }
    let levels = order.iter().map(|state| (0..channels).map(|channel| level(*state, channel)).collect()).collect();
    let place = |state: &usize| order.iter().position(|one| one == state).unwrap_or(0);
    States { of: of.iter().map(place).collect(), levels, channel }
}

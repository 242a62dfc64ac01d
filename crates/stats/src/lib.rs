//! Medians, intervals over trials and over samples, ratios and tests for series of timings: pure functions of their arguments.
//!
//! Timings are positive, skewed to the right, correlated from one sample to the next and sometimes quantised by a
//! clock, so everything here rests on ranks: no outlier is dropped and no distribution is assumed. There are no clocks,
//! no input or output and no hidden randomness: whatever draws random numbers takes a seed.
//!
//! What cannot be said is `None`, never a NaN or an infinity: an interval from three samples does not exist.
//!
//! Inputs must be finite; a debug build asserts it.

#![forbid(unsafe_code)]

mod between_runs;
mod blocks;
mod ceiling;
mod change_points;
mod dependence;
mod distribution;
mod drift;
mod equal_run;
mod family;
mod fleet;
mod groups;
mod interval;
mod levels;
mod links;
mod moderated;
mod pairs;
mod quantile;
mod racks;
mod run_band;
pub mod samples;
mod sequential;
#[cfg(test)]
#[path = "../../../tests/skip.rs"]
mod skip;
mod states;
mod trials;
mod warm_up;

pub use between_runs::{BetweenRuns, FEWEST_RUNS, between_runs};
pub use blocks::blocks;
pub use ceiling::{FEWEST_PROBES, ceiling, share_of_ceiling};
pub use change_points::{CHANGE_LEVEL, ChangePoint, FEWEST_FOR_A_CHANGE, MOST_FOR_A_CHANGE, change_points};
pub use dependence::{Dependence, dependence, effective_samples};
pub use drift::{Drift, Kendall, drift, kendall, theil_sen, trend, trial_drift};
pub use equal_run::{FEWEST_EARLIER, equal_run_interval};
pub use family::{Held, holm};
pub use fleet::{FEWEST_MEMBERS, Fleet, LEAST_DEFICIT, Level, Member, Standing, fleet};
pub use groups::{Groups, groups};
pub use interval::{Interval, Method, median_interval};
pub use levels::{MedianLaw, Reach, SMALLEST_LEVEL, student_two_sided, trials_needed};
pub use links::{FEWEST_LINKED, Links, PairTimes, links};
pub use moderated::{Variance, moderated};
pub use pairs::{FEWEST_RANKS, PairVerdict, slow_pairs};
pub use quantile::{median, quantile, sorted, standard_deviation};
pub use run_band::noise_around;
pub use sequential::{FEWEST_PAIRS, Looks, MOST_PAIRS, PairedRatio};
pub use states::{FEWEST_IN_STATE, MOST_STATES, STATE_LEVEL, States, states};
pub use trials::{
    FEWEST_TRIALS, LOOKS, MOST_TRIALS, Ratio, RunMedian, again_interval, paired_ratio, pooled_correlation,
    relative_half_width, run_ratio, sign_interval,
};
pub use warm_up::steady;

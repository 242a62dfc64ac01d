//! Which members of a fleet are slower than their peers.
//!
//! Members of one kind do the same work, so their times differ by chance alone unless something is wrong. The healthy level and
//! its scatter are learned from the fleet itself by the generalised extreme Studentised deviate test (Rosner, Technometrics 25,
//! 1983): the most extreme member is taken away again and again, up to a third of them, and those up to the last step that chance
//! does not explain are outliers. So a cluster of equally slow members does not hide itself. Its critical values assume normal
//! logarithms; where the healthy members scatter further to the fast side than a slow one lies from them, none is named, because
//! their scatter is then not normal.
//!
//! A member whose own trials vary much more than those of others takes no part in the level: it is judged by it, as a member
//! that comes later is. Half of the members that are slower than the others would not be outliers: they are found as a group
//! ([`crate::groups`]), and the faster group then tells what is healthy.

use crate::distribution::student_quantile;
use crate::groups::{Groups, groups};
use crate::levels::MedianLaw;
use crate::quantile::{median, standard_deviation};

/// Fewer members do not tell what is healthy.
pub const FEWEST_MEMBERS: usize = 5;

/// A smaller deficit is not named, however certain: healthy members differ by as much.
pub const LEAST_DEFICIT: f64 = 0.02;

/// The scatter of healthy members is taken to be at least this, on logarithms: no fleet is known better.
pub(crate) const LEAST_SCATTER: f64 = 0.002;

/// A member whose variance is larger than the typical one by this factor takes no part in the level: three times the deviation.
const VARIES: f64 = 9.0;

/// A variance of six trials is larger than the true one by this factor in one of a hundred cases.
const CHANCE: f64 = 3.0;

/// One member, by the natural logarithm of its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Member {
    /// The logarithm of its time.
    pub value: f64,
    /// The variance of that, as its own trials tell it; 0 where nothing does.
    pub variance: f64,
    /// The degrees of freedom of the variance.
    pub degrees: f64,
}

impl Member {
    /// The median of a member's trials. Its variance is the larger of two estimates: few trials may hide their spread from either.
    pub fn from_trials(trials: &[f64]) -> Self {
        let logs: Vec<f64> = trials.iter().map(|trial| trial.ln()).collect();
        let of_median = |variance: f64| variance * std::f64::consts::FRAC_PI_2 / trials.len() as f64;
        let plain = standard_deviation(&logs).map_or(0.0, |deviation| of_median(deviation.powi(2)));
        let quartiles = MedianLaw::new(trials, 0.0).map_or(0.0, |law| law.error().powi(2));
        let degrees = trials.len().saturating_sub(1) as f64;
        Self { value: median(trials).ln(), variance: plain.max(quartiles), degrees }
    }
}

/// What the healthy members of a fleet are like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// The mean logarithm of their times.
    pub centre: f64,
    /// The standard deviation of their logarithms.
    pub scatter: f64,
    /// How many there are.
    pub members: usize,
    /// The typical variance of their values, as their own trials tell it: the part of the scatter that is chance.
    pub own_variance: f64,
}

/// Where a member stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// Logarithm of the member's value above that of the healthy level.
    pub deviation: f64,
    /// The 95% interval of the deviation.
    pub interval: [f64; 2],
    /// Whether it is slower than chance explains.
    pub slow: bool,
    /// Whether it would be, if its own trials did not vary more than those of others.
    pub unsettled: bool,
}

/// A fleet, judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Fleet {
    /// What is healthy.
    pub level: Level,
    /// The deviation that is found in nine of ten tries.
    pub smallest: f64,
    /// The members, in their order.
    pub standings: Vec<Standing>,
    /// Where members form two groups: whether each is in the slower one, and the distance.
    pub groups: Option<Groups>,
}

/// Judges members of one kind. `level`: the chance that any healthy member is called slow. None below [`FEWEST_MEMBERS`], and
/// where so few trials agree that no level can be told.
pub fn fleet(members: &[Member], level: f64) -> Option<Fleet> {
    let usable = |member: &Member| member.value.is_finite() && member.variance.is_finite() && member.variance >= 0.0;
    if members.len() < FEWEST_MEMBERS || !members.iter().all(usable) {
        return None;
    }
    let typical = median(&members.iter().map(|member| member.variance).collect::<Vec<f64>>());
    let most = VARIES * typical.max(LEAST_SCATTER.powi(2));
    let steady: Vec<usize> = (0..members.len()).filter(|at| members[*at].variance <= most).collect();
    let values: Vec<f64> = steady.iter().map(|at| members[*at].value).collect();
    let slower_of = |found: &Groups| found.slower.iter().filter(|slower| **slower).count();
    // The level is that of the faster group, unless it is the smaller one: then a few are fast, and nobody is slow.
    let is_slower_larger = |found: &Groups| 2 * slower_of(found) > values.len();
    let healthy = |found: &Groups| slower_of(found).max(values.len() - slower_of(found));
    let found = groups(&values, LEAST_DEFICIT.ln_1p()).filter(|found| healthy(found) >= FEWEST_MEMBERS);
    let is_slower_healthy = found.as_ref().is_some_and(is_slower_larger);
    let is_peer = |place: usize| found.as_ref().is_none_or(|found| found.slower[place] == is_slower_healthy);
    let peers: Vec<usize> = (0..steady.len()).filter(|place| is_peer(*place)).map(|place| steady[place]).collect();
    if peers.len() < FEWEST_MEMBERS {
        return None;
    }
    let of_peers = judge_peers(&peers.iter().map(|at| members[*at]).collect::<Vec<_>>(), typical, level)?;
    let learned = of_peers.level;
    let standings = members.iter().enumerate().map(|(at, member)| {
        let peer = peers.iter().position(|peer| *peer == at);
        peer.map_or_else(|| learned.judge(member, level / members.len() as f64), |peer| of_peers.standings[peer])
    });
    let mut standings: Vec<Standing> = standings.collect();
    let groups = found.map(|found| {
        let slower = |at: usize| steady.iter().position(|own| *own == at).is_some_and(|place| found.slower[place]);
        Groups { slower: (0..members.len()).map(slower).collect(), distance: found.distance }
    });
    if let Some(found) = groups.as_ref().filter(|_| !is_slower_healthy) {
        // The test of the group stands for a test of each of its members.
        for (standing, _) in standings.iter_mut().zip(&found.slower).filter(|(_, slower)| **slower) {
            standing.slow = standing.interval[0] > 0.0 && standing.deviation >= LEAST_DEFICIT.ln_1p();
            standing.unsettled = !standing.slow;
        }
    }
    Some(Fleet { standings, groups, ..of_peers })
}

/// Judges members without groups, of which none varies much more than others.
fn judge_peers(members: &[Member], typical: f64, level: f64) -> Option<Fleet> {
    let removed = extremes(members, typical);
    let last = |adjusted: bool| {
        let beyond = |step: &Extreme| step.statistic(adjusted) > critical(step.left, level);
        removed.iter().rposition(beyond).map_or(0, |at| at + 1)
    };
    // What its own trials explain is not called slow, and is not healthy either.
    let (outliers, raw) = (&removed[..last(true)], &removed[..last(false).max(last(true))]);
    let is_in = |steps: &[Extreme], at: usize| steps.iter().any(|step| step.member == at);
    let healthy: Vec<f64> = (0..members.len()).filter(|at| !is_in(raw, *at)).map(|at| members[at].value).collect();
    let found = level_of(&healthy, typical)?;
    let fastest = healthy.iter().copied().fold(f64::INFINITY, f64::min);
    let standing = |(at, member): (usize, &Member)| {
        let (deviation, interval) = (member.value - found.centre, found.interval(member));
        let is_far = deviation >= LEAST_DEFICIT.ln_1p() && deviation > found.centre - fastest;
        let slow = is_in(outliers, at) && is_far && interval[0] >= LEAST_DEFICIT.ln_1p();
        Standing { deviation, interval, slow, unsettled: !slow && is_in(raw, at) && is_far }
    };
    let standings = members.iter().enumerate().map(standing).collect();
    Some(Fleet { level: found, smallest: found.smallest(level), standings, groups: None })
}

impl Level {
    /// The deviation of a member that took no part in learning this level: its interval, and whether it is slow. `level`: the
    /// chance that a healthy member is called slow. Its own trials may vary more than those of others, which widens the limit.
    pub fn judge(&self, member: &Member, level: f64) -> Standing {
        let (deviation, interval) = (member.value - self.centre, self.interval(member));
        let (degrees, around) = self.around(member);
        let beyond = |reach: f64| deviation > reach && deviation >= LEAST_DEFICIT.ln_1p();
        let slow = beyond(student_quantile(1.0 - level, degrees) * around) && interval[0] >= LEAST_DEFICIT.ln_1p();
        let unsettled = !slow && beyond(student_quantile(1.0 - level, self.degrees()) * self.spread());
        Standing { deviation, interval, slow, unsettled }
    }

    /// The deviation that is found in nine of ten tries, where any false alarm of a fleet has the chance `level`.
    pub fn smallest(&self, level: f64) -> f64 {
        // The slow member would be one of these, and take no part in their level.
        let others = Self { members: self.members.saturating_sub(1).max(2), ..*self };
        let per_member = level / (2.0 * self.members as f64);
        let quantiles = student_quantile(1.0 - per_member, others.degrees()) + student_quantile(0.9, others.degrees());
        (quantiles * others.spread()).max(LEAST_DEFICIT.ln_1p())
    }

    /// The deviation of this member that is found in nine of ten tries; it takes no part in the level, and any false alarm about
    /// it has the chance `level`.
    pub fn smallest_of_one(&self, level: f64, member: &Member) -> f64 {
        // Of few trials the variance is known badly: an excess counts where chance does not explain it.
        let is_beyond_chance = member.variance > CHANCE * self.own_variance;
        let variance = if is_beyond_chance { member.variance } else { 0.0 };
        let (degrees, deviation) = self.around(&Member { variance, ..*member });
        let quantiles = student_quantile(1.0 - level, degrees) + student_quantile(0.9, degrees);
        (quantiles * deviation).max(LEAST_DEFICIT.ln_1p())
    }

    /// The standard deviation of this further member around the level, with its degrees of freedom by Welch and Satterthwaite:
    /// what its own trials vary beyond those of others comes on top.
    fn around(&self, member: &Member) -> (f64, f64) {
        let (common, excess) = (self.spread().powi(2), (member.variance - self.own_variance).max(0.0));
        let variance = common + excess;
        let degrees = variance.powi(2) / (common.powi(2) / self.degrees() + excess.powi(2) / member.degrees.max(1.0));
        (degrees, variance.sqrt())
    }

    fn degrees(&self) -> f64 {
        (self.members.max(2) - 1) as f64
    }

    /// The standard deviation of a further member around the level as it is known.
    fn spread(&self) -> f64 {
        self.scatter * (1.0 + 1.0 / self.members as f64).sqrt()
    }

    fn interval(&self, member: &Member) -> [f64; 2] {
        let (own, degrees) = if member.variance > self.own_variance && member.degrees >= 1.0 {
            (member.variance, member.degrees)
        } else {
            (member.variance.max(self.scatter.powi(2)), self.degrees())
        };
        let error = (own + self.scatter.powi(2) / self.members as f64).sqrt();
        let reach = student_quantile(0.975, degrees) * error;
        [-reach, reach].map(|end| member.value - self.centre + end)
    }
}

fn level_of(healthy: &[f64], own_variance: f64) -> Option<Level> {
    let scatter = standard_deviation(healthy)?.max(LEAST_SCATTER);
    let centre = healthy.iter().sum::<f64>() / healthy.len() as f64;
    Some(Level { centre, scatter, members: healthy.len(), own_variance })
}

/// A step of the test: the most extreme of those that are left.
struct Extreme {
    member: usize,
    /// How many were left, with it.
    left: usize,
    distance: f64,
    deviation: f64,
    /// What its own trials vary more than those of others.
    excess: f64,
}

impl Extreme {
    fn statistic(&self, adjusted: bool) -> f64 {
        let excess = if adjusted { self.excess } else { 0.0 };
        self.distance / (self.deviation.max(LEAST_SCATTER).powi(2) + excess).sqrt()
    }
}

/// Takes the most extreme member away, up to a third of them.
fn extremes(members: &[Member], typical: f64) -> Vec<Extreme> {
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by(|a, b| members[*a].value.total_cmp(&members[*b].value));
    // Around the middle value, sums of squares keep their digits.
    let middle = members[order[order.len() / 2]].value;
    let value = |at: usize| members[order[at]].value - middle;
    let (mut low, mut high) = (0, order.len() - 1);
    let mut sum: f64 = (low..=high).map(value).sum();
    let mut squares: f64 = (low..=high).map(|at| value(at).powi(2)).sum();
    let mut removed = Vec::new();
    for _ in 0..members.len() / 3 {
        let left = high - low + 1;
        let mean = sum / left as f64;
        let deviation = ((squares - sum * mean).max(0.0) / (left - 1) as f64).sqrt();
        let at = if value(high) - mean >= mean - value(low) { high } else { low };
        let member = order[at];
        let excess = (members[member].variance - typical).max(0.0);
        removed.push(Extreme { member, left, distance: (value(at) - mean).abs(), deviation, excess });
        sum -= value(at);
        squares -= value(at).powi(2);
        if at == high { high -= 1 } else { low += 1 }
    }
    removed
}

/// The critical value of the most extreme of so many.
fn critical(left: usize, level: f64) -> f64 {
    let n = left as f64;
    if left < 3 {
        return f64::INFINITY;
    }
    let t = student_quantile(1.0 - level / (2.0 * n), n - 2.0);
    (n - 1.0) * t / ((n - 2.0 + t * t) * n).sqrt()
}

#[cfg(test)]
#[path = "fleet/tests.rs"]
mod tests;

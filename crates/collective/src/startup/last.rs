//! Which rank came last. A stage ends on all ranks at about the same time, so the rank that began last took the shortest
//! time, and the others waited for it: no clock of another host is needed.

use measure::Trial;

use super::declared::Last;

/// A rank is named where chance would make any one come last that often in less than this share of runs.
const CHANCE: f64 = 0.05;

/// What a trial shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Look {
    /// The rank with the shortest time in most samples.
    rank: u32,
    /// Seconds between the longest and the shortest time of a rank: the median of its samples.
    wait_s: f64,
}

/// What each trial of several ranks shows.
pub(super) fn looks(trials: &[Trial]) -> Vec<Look> {
    trials.iter().filter_map(look).collect()
}

fn look(trial: &Trial) -> Option<Look> {
    let ranks = &trial.samples;
    let samples = ranks.iter().map(Vec::len).min().filter(|samples| *samples > 0 && ranks.len() > 1)?;
    let mut last = vec![0_u32; ranks.len()];
    let mut waits = Vec::with_capacity(samples);
    for sample in 0..samples {
        let times = || ranks.iter().map(|rank| rank[sample]);
        let (shortest, longest) = (times().min()?, times().max()?);
        last[times().position(|time| time == shortest)?] += 1;
        waits.push((longest - shortest) as f64 / 1e9);
    }
    let most = last.iter().max()?;
    let rank = last.iter().position(|times| times == most)? as u32;
    Some(Look { rank, wait_s: stats::median(&waits) })
}

/// How long the first rank waits for the last one: the median over trials.
pub(super) fn wait_s(looks: &[Look]) -> Option<f64> {
    let waits: Vec<f64> = looks.iter().map(|look| look.wait_s).collect();
    (!waits.is_empty()).then(|| stats::median(&waits))
}

/// The rank that came last in more trials than chance explains. None without trials of several ranks.
pub(super) fn judge(looks: &[Look], ranks: u32) -> Option<Last> {
    let mut trials = vec![0_u32; ranks as usize];
    for look in looks {
        *trials.get_mut(look.rank as usize)? += 1;
    }
    let (of, most) = (looks.len() as u32, *trials.iter().max()?);
    let rank = trials.iter().position(|own| *own == most)? as u32;
    if of == 0 {
        return None;
    }
    // Any of the ranks could have been the one.
    let chance = f64::from(ranks) * at_least(most, of, 1.0 / f64::from(ranks));
    let is_named = chance < CHANCE;
    let word = if is_named { format!("{rank} ({most} of {of})") } else { "varies".to_owned() };
    Some(Last { rank: is_named.then_some(rank), trials: most, of, word })
}

/// The probability of `count` or more successes in `of` tries of probability `p` each.
fn at_least(count: u32, of: u32, p: f64) -> f64 {
    // The term of k, from that of k - 1.
    let mut term = (1.0 - p).powi(of as i32);
    let mut below = 0.0;
    for k in 0..count {
        below += term;
        term *= f64::from(of - k) / f64::from(k + 1) * p / (1.0 - p);
    }
    (1.0 - below).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(ranks: &[&[u64]]) -> Trial {
        Trial { samples: ranks.iter().map(|ns| ns.to_vec()).collect(), calls: 1, ..Trial::default() }
    }

    #[test]
    fn the_rank_that_waits_least_came_last() {
        let look = look(&trial(&[&[900, 500, 700], &[400, 600, 100], &[800, 800, 800]])).unwrap();
        assert_eq!(look, Look { rank: 1, wait_s: 500e-9 });
        assert_eq!(super::look(&trial(&[&[900, 500]])), None, "one rank waits for nobody");
        assert_eq!(super::look(&trial(&[&[], &[]])), None);
    }

    fn judged(last: &[u32], ranks: u32) -> Last {
        let looks: Vec<Look> = last.iter().map(|rank| Look { rank: *rank, wait_s: 1e-3 }).collect();
        judge(&looks, ranks).unwrap()
    }

    #[test]
    fn a_rank_is_named_where_chance_does_not_explain_it() {
        // Of two ranks, the same one in all of five trials happens in one of 16 runs, in all of six in one of 32.
        assert_eq!(judged(&[1; 5], 2).rank, None);
        assert_eq!(judged(&[1; 6], 2), Last { rank: Some(1), trials: 6, of: 6, word: "1 (6 of 6)".to_owned() });
        assert_eq!(judged(&[1, 1, 1, 1, 1, 0], 2).word, "varies");
        // Of eight ranks, three of three: one of 64.
        assert_eq!(judged(&[3; 3], 8).rank, Some(3));
        assert_eq!(judged(&[3, 3, 5], 8).rank, None);
        assert_eq!(judge(&[], 2), None);
    }

    #[test]
    fn tails_are_those_of_the_binomial_distribution() {
        for (count, of, p, expected) in
            [(0, 5, 0.5, 1.0), (5, 5, 0.5, 1.0 / 32.0), (4, 5, 0.5, 6.0 / 32.0), (2, 3, 0.25, 10.0 / 64.0)]
        {
            assert!((at_least(count, of, p) - expected).abs() < 1e-12, "{count} of {of}");
        }
    }

    #[test]
    fn waits_are_the_median_over_trials() {
        let looks = looks(&[trial(&[&[900], &[400]]), trial(&[&[100], &[200]]), trial(&[&[10], &[1010]])]);
        assert_eq!(wait_s(&looks), Some(500e-9));
        assert_eq!(wait_s(&[]), None);
    }
}

//! How many tokens each expert gets.
//!
//! A token goes to `top_k` different experts, so that the copies of a rank's tokens are `top_k` times its tokens, and no
//! expert gets more of them than the rank has tokens.

use contract::fields::problem;
use serde_json::{Map, Value};
use terms::{Field, FieldError, Kind, Variant, next_splitmix64};

const EXPONENT: Field = Field::new(Kind::Ratio, Some("1"), "exponent of the power law").named("exponent");
const SIGMA: Field = Field::new(Kind::Ratio, Some("1"), "standard deviation of the logarithm").named("sigma");
const SHARE: Field = Field::new(Kind::Ratio, Some("50%"), "share of the tokens that the expert gets").named("share");

/// The variants of the field `tokens`.
pub(crate) static TOKENS: &[Variant] = &[
    Variant { name: "uniform", doc: "every expert gets equally many", options: &[] },
    Variant { name: "skewed", doc: "each expert gets half as many as the one before it", options: &[] },
    Variant { name: "zipf", doc: "the i-th expert by popularity gets a share of i^-exponent", options: &[EXPONENT] },
    Variant {
        name: "lognormal",
        doc: "an expert's share is e^(sigma z), z of a normal distribution",
        options: &[SIGMA],
    },
    Variant { name: "hot", doc: "one expert gets this share of all tokens", options: &[SHARE] },
    Variant { name: "rotating", doc: "like hot, but each call has another hot expert", options: &[SHARE] },
    Variant { name: "file", doc: "each expert gets its count in `tokens_file`", options: &[] },
];

/// How tokens are spread over experts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Load {
    /// Every expert gets equally many.
    Uniform,
    /// Each expert gets half as many as the one before it, down to 1/1024.
    Skewed,
    /// The i-th expert by popularity gets a share of i^-exponent. The seed says which expert is the i-th.
    Zipf {
        /// What i is raised to.
        exponent: f64,
    },
    /// An expert gets a share of e^(sigma z), where its z is drawn from a normal distribution by the seed.
    LogNormal {
        /// Standard deviation of the share's logarithm.
        sigma: f64,
    },
    /// Expert 0 gets this share of the tokens, and the others equally many of what is left.
    Hot {
        /// Share of each rank's tokens, at most 1.
        share: f64,
        /// Whether each call has another hot expert ([`Load::turns`]).
        rotates: bool,
    },
    /// Expert by expert, over all ranks.
    Counts(Vec<usize>),
}

fn refused(message: String, hint: &str) -> FieldError {
    problem("tokens", message, hint)
}

impl Load {
    /// The load of a variant and its options; `counts` are those of a file.
    ///
    /// # Errors
    /// When the options have no meaning.
    pub(crate) fn new(
        name: &str,
        options: &Map<String, Value>,
        counts: Option<Vec<usize>>,
    ) -> Result<Self, FieldError> {
        let number = |field: &Field, default: f64| options.get(field.name).and_then(Value::as_f64).unwrap_or(default);
        match name {
            "skewed" => Ok(Self::Skewed),
            "zipf" => match number(&EXPONENT, 1.0) {
                exponent if exponent <= 16.0 => Ok(Self::Zipf { exponent }),
                exponent => Err(refused(format!("exponent = {exponent} gives all tokens to one expert"), "at most 16")),
            },
            "lognormal" => match number(&SIGMA, 1.0) {
                sigma if sigma <= MOST_SIGMA => Ok(Self::LogNormal { sigma }),
                sigma => Err(refused(format!("sigma = {sigma} gives all tokens to one expert"), "at most 4")),
            },
            "hot" | "rotating" => match number(&SHARE, 0.5) {
                share if share <= 1.0 => Ok(Self::Hot { share, rotates: name == "rotating" }),
                share => {
                    Err(refused(format!("an expert cannot get {share} times all tokens"), "a share of at most 100%"))
                }
            },
            "file" => counts
                .map(Self::Counts)
                .ok_or_else(|| problem("tokens_file", "tokens=file needs a file", "`tokens_file: PATH`")),
            _ => Ok(Self::Uniform),
        }
    }

    /// By how many experts each call in turn displaces the load; one entry, 0, where all calls are alike. Hot experts of calls in
    /// a row lie far apart, so that a few calls pass through all ranks.
    pub(crate) fn turns(&self, experts: usize) -> Vec<usize> {
        let turns = if matches!(self, Self::Hot { rotates: true, .. }) { experts.min(MOST_TURNS) } else { 1 };
        (0..turns).map(|turn| turn * experts / turns).collect()
    }

    /// How many tokens of all ranks each of `experts` gets, where each rank has `rows` tokens. But for counts of a file, the
    /// ranks' parts are equal.
    ///
    /// # Errors
    /// When the experts cannot take so many, each token once; and when counts of a file are of other sizes.
    pub(crate) fn counts(
        &self,
        (experts, top_k): (usize, usize),
        (ranks, rows): (usize, usize),
        seed: u64,
    ) -> Result<Vec<usize>, FieldError> {
        let copies = rows.saturating_mul(top_k);
        let of_a_rank = match self {
            Self::Uniform => spread(copies, rows, &vec![1; experts]),
            Self::Skewed => {
                spread(copies, rows, &(0..experts).map(|expert| 1024 >> expert.min(10)).collect::<Vec<_>>())
            }
            Self::Zipf { exponent } => spread(copies, rows, &zipf(experts, *exponent, seed)),
            Self::LogNormal { sigma } => spread(copies, rows, &log_normal(experts, *sigma, seed)),
            Self::Hot { share, .. } => hot(copies, rows, experts, *share)?,
            Self::Counts(counts) => return checked(counts, experts, (rows.saturating_mul(ranks), top_k)),
        };
        Ok(of_a_rank.into_iter().map(|count| count.saturating_mul(ranks)).collect())
    }
}

/// Largest standard deviation of a logarithm.
const MOST_SIGMA: f64 = 4.0;
/// Experts that are hot one after the other, at most: each is a routing of its own, with its own buffers.
const MOST_TURNS: usize = 8;

/// Weights of a log-normal distribution, in whole numbers as those of [`zipf`]. Box and Muller, "A note on the generation of
/// random normal deviates", 1958.
fn log_normal(experts: usize, sigma: f64, seed: u64) -> Vec<u64> {
    let mut state = seed ^ 0x4C4F_474E;
    let mut uniform = || ((next_splitmix64(&mut state) >> 11) + 1) as f64 / 2.0_f64.powi(53);
    let mut weight = || {
        let (radius, angle) = ((-2.0 * uniform().ln()).sqrt(), std::f64::consts::TAU * uniform());
        ((2.0_f64.powi(20) * (sigma * radius * angle.cos()).exp()).round() as u64).max(1)
    };
    (0..experts).map(|_| weight()).collect()
}

/// Weights of a power law, in an order that the seed chooses: popular experts lie anywhere. Whole numbers, so that hosts
/// with different mathematical libraries agree.
fn zipf(experts: usize, exponent: f64, seed: u64) -> Vec<u64> {
    let weight = |place: usize| ((2.0_f64.powi(32) * ((place + 1) as f64).powf(-exponent)).round() as u64).max(1);
    let mut weights: Vec<u64> = (0..experts).map(weight).collect();
    let mut state = seed ^ 0x5A49_5046;
    // Fisher and Yates.
    for last in (1..experts).rev() {
        weights.swap(last, (next_splitmix64(&mut state) % (last as u64 + 1)) as usize);
    }
    weights
}

fn hot(copies: usize, rows: usize, experts: usize, share: f64) -> Result<Vec<usize>, FieldError> {
    let hot = ((rows as f64 * share).round() as usize).min(rows).min(copies);
    let (rest, others) = (copies - hot, experts - 1);
    if rest > rows.saturating_mul(others) {
        let message = format!(
            "share = {share} leaves {rest} copies of a rank's {rows} tokens, but the {others} other experts take at most {}",
            rows * others
        );
        return Err(refused(message, "use a larger share, more experts, or a smaller `top_k`"));
    }
    Ok(std::iter::once(hot).chain(spread(rest, rows, &vec![1; others])).collect())
}

/// Parts of `total` in proportion to weights. A part of more than `most` becomes `most`, and the others share what is left.
fn spread(total: usize, most: usize, weights: &[u64]) -> Vec<usize> {
    let mut full = vec![false; weights.len()];
    loop {
        let taken = full.iter().filter(|full| **full).count().saturating_mul(most);
        let rest = total.saturating_sub(taken) as u128;
        let open = weights.iter().zip(&full).filter(|(_, full)| !**full);
        let all: u128 = open.map(|(weight, _)| u128::from(*weight)).sum();
        let exceeds = |weight: u64| rest * u128::from(weight) > most as u128 * all;
        let over: Vec<usize> = (0..weights.len()).filter(|at| !full[*at] && exceeds(weights[*at])).collect();
        if over.is_empty() {
            return parts(rest, most, weights, &full);
        }
        over.into_iter().for_each(|at| full[at] = true);
    }
}

/// Where each part ends is rounded down, so that all parts together are the whole.
fn parts(rest: u128, most: usize, weights: &[u64], full: &[bool]) -> Vec<usize> {
    let open = |at: usize| if full[at] { 0 } else { u128::from(weights[at]) };
    let all = (0..weights.len()).map(open).sum::<u128>().max(1);
    let mut before = 0;
    let part = |at: usize| {
        let begin = rest * before / all;
        before += open(at);
        if full[at] { most } else { (rest * before / all - begin) as usize }
    };
    (0..weights.len()).map(part).collect()
}

/// Counts of a file, if these tokens can have them.
fn checked(counts: &[usize], experts: usize, (tokens, top_k): (usize, usize)) -> Result<Vec<usize>, FieldError> {
    let refused = |message: String, hint: String| Err(problem("tokens_file", message, hint));
    if counts.len() != experts {
        let message = format!("the file has counts of {} experts, but experts = {experts}", counts.len());
        return refused(message, format!("`experts: {}`, or a count for each expert", counts.len()));
    }
    let sum = counts.iter().fold(0_usize, |sum, count| sum.saturating_add(*count));
    let wanted = tokens.saturating_mul(top_k);
    if sum != wanted {
        let message = format!("the counts of the file add up to {sum}, but m x top_k = {tokens} x {top_k} = {wanted}");
        return refused(message, "give counts of as many tokens, or the `m` and `top_k` of these counts".to_owned());
    }
    if let Some(expert) = counts.iter().position(|count| *count > tokens) {
        let message = format!("expert {expert} gets {} copies of {tokens} tokens", counts[expert]);
        return refused(message, "a token goes to an expert at most once".to_owned());
    }
    Ok(counts.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(load: &Load, experts: usize, top_k: usize, rows: usize) -> Vec<usize> {
        load.counts((experts, top_k), (2, rows), 3).unwrap()
    }

    #[test]
    fn every_load_gives_all_tokens_away_and_no_expert_more_than_there_are() {
        let loads = [
            Load::Uniform,
            Load::Skewed,
            Load::Zipf { exponent: 1.2 },
            Load::Zipf { exponent: 0.0 },
            Load::Zipf { exponent: 16.0 },
            Load::LogNormal { sigma: 0.0 },
            Load::LogNormal { sigma: 4.0 },
            Load::Hot { share: 0.9, rotates: false },
        ];
        for load in &loads {
            for (experts, top_k, rows) in [(2, 1, 7), (8, 2, 10), (16, 8, 33), (256, 8, 128), (512, 10, 5)] {
                let found = counts(load, experts, top_k, rows);
                let what = format!("{load:?} {experts} {top_k} {rows}: {found:?}");
                assert_eq!(found.iter().sum::<usize>(), 2 * rows * top_k, "{what}");
                assert!(found.iter().all(|count| *count <= 2 * rows), "{what}");
            }
        }
    }

    #[test]
    fn loads_are_what_their_names_say() {
        assert_eq!(counts(&Load::Uniform, 4, 2, 8), [8; 4]);
        assert_eq!(counts(&Load::Skewed, 3, 1, 7), [8, 4, 2]);
        // One expert has half of the tokens of each rank; the other three share the copies that are left.
        assert_eq!(counts(&Load::Hot { share: 0.5, rotates: false }, 4, 2, 12), [12, 12, 12, 12]);
        assert_eq!(counts(&Load::Hot { share: 1.0, rotates: false }, 4, 2, 12), [24, 8, 8, 8]);
        let mut found = counts(&Load::Zipf { exponent: 1.0 }, 4, 1, 2500);
        assert_ne!(found, counts(&Load::Zipf { exponent: 1.0 }, 4, 1, 2500).iter().rev().copied().collect::<Vec<_>>());
        found.sort_unstable();
        // 1, 1/2, 1/3 and 1/4 of 12/25, where each of two ranks rounds.
        let near = |(found, wanted): (&usize, usize)| found.abs_diff(wanted) <= 2;
        assert!(found.iter().zip([600, 800, 1200, 2400]).all(near), "{found:?}");
    }

    #[test]
    fn shares_of_a_log_normal_load_have_the_logarithms_that_were_asked_for() {
        let found = Load::LogNormal { sigma: 1.0 }.counts((4096, 1), (1, 1 << 30), 7).unwrap();
        let logs: Vec<f64> = found.iter().map(|count| (*count as f64).ln()).collect();
        let mean = logs.iter().sum::<f64>() / 4096.0;
        let deviation = (logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / 4096.0).sqrt();
        assert!((deviation - 1.0).abs() < 0.05, "{deviation}");
    }

    #[test]
    fn a_rotating_load_is_hot_on_every_rank_in_turn() {
        let turns = |rotates, experts| Load::Hot { share: 0.5, rotates }.turns(experts);
        assert_eq!((turns(false, 16), turns(true, 4)), (vec![0], vec![0, 1, 2, 3]));
        assert_eq!(turns(true, 16), [0, 2, 4, 6, 8, 10, 12, 14]);
    }

    #[test]
    fn popular_experts_lie_where_the_seed_says() {
        let hottest = |seed| {
            let found = Load::Zipf { exponent: 1.0 }.counts((64, 1), (2, 4096), seed).unwrap();
            (0..64).max_by_key(|expert| found[*expert]).unwrap()
        };
        let all: std::collections::HashSet<usize> = (1..9).map(hottest).collect();
        assert!(all.len() > 3, "{all:?}");
    }

    #[test]
    fn what_experts_cannot_take_is_refused_with_both_numbers() {
        let why = |load: Load, experts, top_k| {
            load.counts((experts, top_k), (2, 10), 1).map_err(|refused| refused.error.what).unwrap_err()
        };
        assert!(why(Load::Hot { share: 0.5, rotates: false }, 2, 2).contains("leaves 15 copies of a rank's 10 tokens"));
        let file = |counts: &[usize]| why(Load::Counts(counts.to_vec()), 3, 2);
        assert!(file(&[20, 10, 9]).contains("add up to 39, but m x top_k = 20 x 2 = 40"), "{}", file(&[20, 10, 9]));
        assert!(file(&[20, 10, 5, 5]).contains("counts of 4 experts, but experts = 3"));
        assert!(file(&[21, 10, 9]).contains("expert 0 gets 21 copies of 20 tokens"));
        assert!(file(&[usize::MAX, usize::MAX, 1]).contains("add up to"));
    }
}

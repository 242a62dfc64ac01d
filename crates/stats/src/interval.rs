//! The 95% interval of the median of one correlated, stationary series of samples: for charts of one long series. What a
//! case's line says rests on trials (`trials`).
//!
//! The number of samples below the true median has mean n/2 and variance n F / 4, F being the dependence's inflation.
//! So the order statistics at ranks `(n+1)/2 +- t sqrt(n F) / 2` bracket the true median with 95%: for F = 1 this is the
//! classical sign-test interval with its continuity correction (David and Nagaraja, Order Statistics, section 7.1),
//! interpolated between order statistics so that small samples do not jump from 93% to 97%. `t` is Student's, with the
//! degrees of freedom to which F is known.

use crate::dependence::{Dependence, ascending, of_order};
use crate::distribution::student_quantile;
use crate::quantile::at_rank;

/// How an interval came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Order statistics, widened by a Gaussian copula autoregression.
    Autoregression,
    /// Order statistics, widened by batch means, because these showed more dependence than the autoregression explains.
    BatchMeans,
}

impl Method {
    /// The name in records and reports.
    pub fn name(self) -> &'static str {
        match self {
            Method::Autoregression => "autoregression",
            Method::BatchMeans => "batch_means",
        }
    }
}

/// A 95% confidence interval, in the unit of the samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The number of independent samples that would give the same precision.
    pub effective_samples: f64,
    /// How it came about.
    pub method: Method,
}

impl Interval {
    /// Half the width relative to `center`: 0.02 reads "within 2%".
    pub fn relative_half_width(&self, center: f64) -> f64 {
        if self.high > self.low { 0.5 * (self.high - self.low) / center.abs() } else { 0.0 }
    }

    /// Whether `value` lies inside, the ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// The law of the median's rank in one series.
struct RankLaw {
    sorted: Vec<f64>,
    inflation: f64,
    degrees: f64,
    method: Method,
}

impl RankLaw {
    fn from_series(series: &[f64]) -> RankLaw {
        let order = ascending(series);
        let model = of_order(&order);
        let sorted: Vec<f64> = order.iter().map(|(x, _)| *x).collect();
        let (inflation, degrees, method) = checked(series, &sorted, &model);
        RankLaw { sorted, inflation, degrees, method }
    }

    /// The rank of the median.
    fn center(&self) -> f64 {
        0.5 * (self.sorted.len() + 1) as f64
    }

    /// The standard deviation of the rank of the true median.
    fn sd(&self) -> f64 {
        0.5 * (self.sorted.len() as f64 * self.inflation).sqrt()
    }

    /// Half the width of the interval, in ranks.
    fn reach(&self) -> f64 {
        student_quantile(0.975, self.degrees) * self.sd()
    }

    fn interval(&self) -> Option<Interval> {
        let (center, reach) = (self.center(), self.reach());
        if center - reach < 1.0 {
            return None;
        }
        Some(Interval {
            low: at_rank(&self.sorted, center - reach),
            high: at_rank(&self.sorted, center + reach),
            effective_samples: self.sorted.len() as f64 / self.inflation,
            method: self.method,
        })
    }
}

/// The 95% confidence interval of the median of a correlated, stationary series, in the order in which the samples were
/// taken. `None` when the samples cannot bound the median at this confidence (under about 10 samples, more if they are
/// strongly correlated).
///
/// It always contains the sample median, scales with its input, and is a point for a constant series.
pub fn median_interval(series: &[f64]) -> Option<Interval> {
    if series.is_empty() {
        return None;
    }
    RankLaw::from_series(series).interval()
}

/// The inflation is taken this many of its own standard errors (of its logarithm, `sqrt(2 / degrees)`) above its
/// estimate, because a stop rule stops where the estimate happens to be low. Calibrated by simulation, 10,000
/// runs a cell: at the worst place, a series that becomes precise at a few hundred samples with phi = 0.8 (noise 0.07),
/// coverage with the stop rule is 93.4% for 0, 94.3% for 1/3 and 94.5% for 1/2; without any stop rule, 60 independent
/// samples then give 96.2% instead of 95.4%. It vanishes as samples accumulate.
const SELECTION: f64 = 0.5;

/// Batches in the check of the model; 16 leave 15 degrees of freedom should they have to serve as the estimate.
const BATCHES: usize = 16;

/// The model's inflation, unless the batches contradict it.
///
/// The count of samples below the median in batches of n/16 has a variance that estimates F without any model, with 15
/// degrees of freedom. The test compares logarithms, with variances of 2/degrees, one-sided at 0.1%. If the batches
/// exceed the model by more than chance allows, the model misses dependence, such as regimes or a drift. The batches
/// are then believed. The test is strict because taking the larger of two noisy estimates would widen every interval.
fn checked(series: &[f64], sorted: &[f64], model: &Dependence) -> (f64, f64, Method) {
    let caution = (SELECTION * (2.0 / model.degrees).sqrt()).exp();
    let from_model = (model.inflation * caution, model.degrees, Method::Autoregression);
    let size = series.len() / BATCHES;
    if size < 4 {
        return from_model;
    }
    let median = at_rank(sorted, 0.5 * (sorted.len() + 1) as f64);
    // The first samples are left out when the length does not divide, never the last: these tell of a drift.
    let batches = series[series.len() - size * BATCHES..].chunks_exact(size);
    let shares: Vec<f64> = batches.map(|batch| share_below(batch, median)).collect();
    let mean = shares.iter().sum::<f64>() / BATCHES as f64;
    let degrees = (BATCHES - 1) as f64;
    let variance = shares.iter().map(|p| (p - mean).powi(2)).sum::<f64>() / degrees;
    let inflation = 4.0 * size as f64 * variance;
    let excess = (inflation / model.inflation).ln() / (2.0 / degrees + 2.0 / model.degrees).sqrt();
    if excess > 3.09 { (inflation, degrees, Method::BatchMeans) } else { from_model }
}

/// The share of samples below `median`, ties counting half.
fn share_below(batch: &[f64], median: f64) -> f64 {
    let weight = |x: &f64| if *x < median { 1.0 } else { 0.5 * f64::from(u8::from(*x == median)) };
    batch.iter().map(weight).sum::<f64>() / batch.len() as f64
}

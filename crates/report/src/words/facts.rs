//! What the points of one configuration show: latency floor, time model, peak, saturation, share of the limit.
//!
//! Every fact has a premise and is `None` where the data do not bear it. The words for them are in `sentences`.

use crate::number::percent;
use crate::study::{Configuration, Estimate, Measured};

/// Times of small sizes that do not depend on bytes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Floor {
    /// Median of their medians, in seconds.
    pub(crate) seconds: f64,
    /// The smallest and largest size of the floor.
    pub(crate) bytes: [u64; 2],
}

/// Times within this factor do not depend on bytes.
const FLAT: f64 = 1.25;
/// A floor must span at least this factor of sizes: closer sizes would look flat even where time follows bytes.
const FLOOR_SPAN: u64 = 4;

/// The latency floor: the longest run of sizes from the smallest up that keeps times within a factor of 1.25 while
/// bytes grow at least fourfold.
pub(crate) fn floor(configuration: &Configuration) -> Option<Floor> {
    let sized: Vec<(u64, f64)> = configuration.sized().map(|(bytes, point)| (bytes, point.time.mid)).collect();
    let (mut low, mut high, mut length) = (f64::INFINITY, 0.0f64, 0);
    for (_, time) in &sized {
        (low, high) = (low.min(*time), high.max(*time));
        if high > FLAT * low {
            break;
        }
        length += 1;
    }
    let flat = &sized[..length];
    let ((first, _), (last, _)) = (flat.first()?, flat.last()?);
    let times: Vec<f64> = flat.iter().map(|(_, time)| *time).collect();
    let seconds = (last / first >= FLOOR_SPAN).then(|| stats::median(&times))?;
    Some(Floor { seconds, bytes: [*first, *last] })
}

/// `t = alpha + bytes / beta` (Hockney's model), and how far it is from the worst point.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FittedLine {
    /// Seconds.
    pub(crate) alpha: f64,
    /// Bytes a second.
    pub(crate) beta: f64,
    /// Largest relative distance of a measured time from the model.
    pub(crate) worst: f64,
}

impl FittedLine {
    /// The size at which half of the model's rate is reached, n_1/2 = alpha beta. None where time starts at zero.
    pub(crate) fn half_peak(&self) -> Option<u64> {
        let size = (self.alpha * self.beta).round();
        (size >= 1.0).then_some(size as u64)
    }
}

/// Fits the time model by least squares with weights 1/t^2, that is, on relative errors: sizes are spread
/// logarithmically, and without weights the largest alone would decide. Neither parameter may be negative. None under
/// four sizes, under a factor of 16 between them, or where time does not grow with bytes.
pub(crate) fn line(configuration: &Configuration) -> Option<FittedLine> {
    let points: Vec<(f64, f64)> = configuration.sized().map(|(bytes, point)| (bytes as f64, point.time.mid)).collect();
    let ((smallest, _), (largest, _)) = (points.first()?, points.last()?);
    if points.len() < 4 || largest / smallest < 16.0 {
        return None;
    }
    let sum = |term: &dyn Fn(f64, f64) -> f64| points.iter().map(|(bytes, time)| term(*bytes, *time)).sum::<f64>();
    let (one, size) = (sum(&|_, t| 1.0 / (t * t)), sum(&|s, t| s / (t * t)));
    let (size2, time, cross) = (sum(&|s, t| s * s / (t * t)), sum(&|_, t| 1.0 / t), sum(&|s, t| s / t));
    let determinant = one * size2 - size * size;
    let alpha = (time * size2 - cross * size) / determinant;
    // A negative start means that the best allowed line goes through zero.
    let (alpha, per_byte) =
        if alpha > 0.0 { (alpha, (one * cross - size * time) / determinant) } else { (0.0, cross / size2) };
    if !(alpha.is_finite() && per_byte.is_finite() && per_byte > 0.0) {
        return None;
    }
    let miss = |(bytes, time): &(f64, f64)| ((alpha + bytes * per_byte) / time - 1.0).abs();
    let worst = points.iter().map(miss).fold(0.0, f64::max);
    Some(FittedLine { alpha, beta: 1.0 / per_byte, worst })
}

/// Sizes with a busbw, and its mean over them. None under two sizes.
pub(crate) fn average(configuration: &Configuration) -> Option<(usize, f64)> {
    let rates: Vec<f64> = configuration.sized().filter_map(|(_, point)| Some(point.busbw?.mid)).collect();
    (rates.len() > 1).then(|| (rates.len(), rates.iter().sum::<f64>() / rates.len() as f64))
}

/// The highest busbw. None of one rank: it sends nothing, and its bytes over its time can be any number.
pub(crate) fn peak<'c>(configuration: &'c Configuration) -> Option<(u64, Estimate, &'c Measured<'c>)> {
    if configuration.ranks < 2 {
        return None;
    }
    let rated = configuration.sized().filter_map(|(bytes, point)| Some((bytes, point.busbw?, point)));
    rated.max_by(|(_, a, _), (_, b, _)| a.mid.total_cmp(&b.mid))
}

/// From which size on busbw is near its peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Saturation {
    /// From this size.
    From(u64),
    /// Already at the smallest size measured.
    AtSmallest(u64),
    /// Only the largest size reaches it, so busbw may rise further.
    StillRising(u64),
}

/// Near the peak.
const NEAR: f64 = 0.9;
/// An interval wider than this (half width) reaches everything and so shows nothing.
const TELLING: f64 = 0.1;

/// The smallest size from which every busbw up to the peak is at least 90% of it: by its median, or by its interval when
/// that is telling. None under three sizes.
pub(crate) fn saturation(configuration: &Configuration) -> Option<Saturation> {
    let (peak_at, peak, _) = peak(configuration)?;
    let sizes: Vec<(u64, Estimate)> = configuration.sized().filter_map(|(bytes, p)| Some((bytes, p.busbw?))).collect();
    if sizes.len() < 3 {
        return None;
    }
    let reaches = |busbw: &Estimate| {
        let telling = busbw.relative_half_width().is_some_and(|width| width <= TELLING);
        busbw.mid >= NEAR * peak.mid || (telling && busbw.high >= NEAR * peak.mid)
    };
    // A library may change its protocol between two sizes: what smaller ones reach then does not hold from there up.
    let rising = &sizes[..sizes.partition_point(|(bytes, _)| *bytes < peak_at)];
    let at = rising.iter().rposition(|(_, busbw)| !reaches(busbw)).map_or(0, |below| below + 1);
    let bytes = sizes[at].0;
    Some(match at {
        0 => Saturation::AtSmallest(bytes),
        at if at + 1 == sizes.len() => Saturation::StillRising(bytes),
        _ => Saturation::From(bytes),
    })
}

/// The largest size, where its busbw is clearly below the peak: intervals apart and under 90% of it.
pub(crate) fn decline(configuration: &Configuration) -> Option<(u64, Estimate)> {
    let (at, peak, _) = peak(configuration)?;
    let (bytes, last) = configuration.sized().rev().find_map(|(bytes, point)| Some((bytes, point.busbw?)))?;
    (bytes > at && peak.known && last.is_below(peak.low) && last.mid < NEAR * peak.mid).then_some((bytes, last))
}

/// How near the limit it comes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Limit {
    /// From `bytes` to the largest size, at least 80% of the limit; the lowest and highest share there.
    Bound { bytes: u64, shares: [f64; 2] },
    /// Nowhere; the highest share, and where.
    Below { bytes: u64, share: f64 },
    /// At some sizes but not from there up; the highest share, and where.
    InPlaces { bytes: u64, share: f64 },
}

/// Share of the limit from which the limit binds.
const BOUND: f64 = 0.8;

/// None where no point has a limit.
pub(crate) fn limit(configuration: &Configuration) -> Option<Limit> {
    let shares: Vec<(u64, f64)> =
        configuration.sized().filter_map(|(b, point)| Some((b, point.limit_share?))).collect();
    let (bytes, share) = shares.iter().copied().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    if share < BOUND {
        return Some(Limit::Below { bytes, share });
    }
    let below = shares.iter().rposition(|(_, share)| *share < BOUND);
    let bound = &shares[below.map_or(0, |at| at + 1)..];
    let Some((from, _)) = bound.first() else {
        return Some(Limit::InPlaces { bytes, share });
    };
    let low = bound.iter().map(|(_, share)| *share).fold(f64::INFINITY, f64::min);
    let high = bound.iter().map(|(_, share)| *share).fold(0.0, f64::max);
    Some(Limit::Bound { bytes: *from, shares: [low, high] })
}

// A limit exceeded by more than this factor limits nothing.
pub(crate) use view::number::EXCEEDED;

/// `84% to 96%`. What reaches more than its limit, within the noise of both, reaches all of it; what exceeds it by more has no
/// limit there, and shows so.
pub(crate) fn shares(shares: [f64; 2]) -> String {
    let [low, high] = shares.map(|share| percent(if share > EXCEEDED { share } else { share.min(1.0) }));
    if low == high { low } else { format!("{low} to {high}") }
}

/// What the bytes of a call come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BytesFrom {
    /// More than the caches hold.
    Dram,
    /// The buffers of all ranks fit into the caches.
    Caches,
    /// The size of the caches is not known.
    Unknown,
}

impl BytesFrom {
    /// The bandwidth of what, at the beginning of a sentence.
    pub(crate) fn limits(self) -> &'static str {
        match self {
            Self::Caches => "Cache bandwidth",
            Self::Dram => "Memory bandwidth",
            Self::Unknown => "Bandwidth of memory or caches",
        }
    }

    /// What is said of a case at this limit.
    pub(crate) fn bound(self) -> &'static str {
        match self {
            Self::Caches => "bound by the bandwidth of caches",
            Self::Dram => "bound by memory bandwidth",
            Self::Unknown => "bound by the bandwidth of memory or caches",
        }
    }
}

/// Where the buffers of so many ranks are, each of so many bytes.
pub(crate) fn memory(cache_bytes: Option<u64>, ranks: u32, bytes: u64) -> BytesFrom {
    match cache_bytes {
        Some(cache) if bytes.saturating_mul(u64::from(ranks)) > cache => BytesFrom::Dram,
        Some(_) => BytesFrom::Caches,
        None => BytesFrom::Unknown,
    }
}

/// The caches that hold so many bytes of so many threads, by their level; None past all of them.
pub(crate) fn cache_level(caches: &[record::Cache], bytes: u64, threads: u32) -> Option<u32> {
    let holds = |cache: &&record::Cache| {
        let number = u64::from(threads.max(1).div_ceil(cache.shared_by.max(1)));
        cache.kind != "instruction" && cache.bytes.saturating_mul(number) >= bytes
    };
    caches.iter().filter(holds).map(|cache| cache.level).min()
}

//! How the clock of another host runs against this one's: offset and slope from round trips, with a bound of the error.
//!
//! Pure: who sends the round trips, and when, is the caller's. A round trip says for certain that the other clock was read
//! between sending and receiving, however its time was shared between the two ways. So each gives an interval that the
//! offset was in, half as wide as the round trip; of those sent together the shortest is kept (Cristian, 1989). A line is
//! fitted to what is kept over time. Both clocks are taken to run evenly between the first and the last of these, against
//! each other by no more than [`LARGEST_DRIFT`].

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Two clocks that nobody disciplines differ by no more: what NTP tolerates (RFC 5905, MAXFREQ: 500 ppm).
pub const LARGEST_DRIFT: f64 = 500e-6;
/// Readings that are kept of a host.
const KEPT: usize = 32;
/// Readings that are less certain than the best one by more than this factor are not fitted.
const AS_GOOD: f64 = 2.0;

/// One round trip, in nanoseconds: sent and received by this host's clock, and the other clock in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrip {
    /// When it left.
    pub sent_ns: u64,
    /// What the other clock showed.
    pub remote_ns: u64,
    /// When it was back.
    pub received_ns: u64,
}

impl RoundTrip {
    fn length(&self) -> u64 {
        self.received_ns.saturating_sub(self.sent_ns)
    }
}

/// Why a clock cannot be converted to this one's.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ClockCaveat {
    /// No round trip came back.
    #[error("it was not answered")]
    Unanswered,
    /// No two clocks that run evenly show this.
    #[error("it jumped by {} us or more, or drifts by more than {} ppm", (.by_ns / 1e3).ceil(), LARGEST_DRIFT * 1e6)]
    Jumped {
        /// By which it was off, at least.
        by_ns: f64,
    },
}

/// The offset at one instant, from the shortest of some round trips.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reading {
    at_ns: u64,
    offset_ns: i64,
    /// The offset differs from that by no more.
    half_ns: f64,
}

impl Reading {
    fn from_trip(trip: RoundTrip) -> Self {
        let at_ns = trip.sent_ns + trip.length() / 2;
        // Rounding, and what the offset itself changes within the round trip.
        let half_ns = trip.length() as f64 / 2.0 * (1.0 + LARGEST_DRIFT) + 1.0;
        Self { at_ns, offset_ns: trip.remote_ns.wrapping_sub(at_ns) as i64, half_ns }
    }

    /// By how much no even clock shows both.
    fn contradicts(&self, later: &Self) -> f64 {
        let between = later.at_ns.saturating_sub(self.at_ns) as f64;
        let change = (later.offset_ns.wrapping_sub(self.offset_ns) as f64).abs();
        change - self.half_ns - later.half_ns - LARGEST_DRIFT * between
    }
}

/// What was read of one host's clock so far, over the last readings.
#[derive(Clone, Debug, Default)]
pub struct ClockReadings {
    readings: VecDeque<Reading>,
    answered: bool,
}

impl ClockReadings {
    /// Round trips that were made one after the other, just now: the shortest counts. None of them: nobody answered.
    pub fn add(&mut self, trips: &[RoundTrip]) {
        let shortest = trips.iter().min_by_key(|trip| trip.length());
        self.answered = shortest.is_some();
        self.readings.extend(shortest.map(|trip| Reading::from_trip(*trip)));
        while self.readings.len() > KEPT {
            self.readings.pop_front();
        }
    }

    /// How the clock runs. One that jumped is reported once: from then on only later readings count.
    ///
    /// # Errors
    /// When nobody answered the last time, or the readings contradict each other.
    pub fn fit(&mut self) -> Result<ClockFit, ClockCaveat> {
        let newest = *self.readings.back().filter(|_| self.answered).ok_or(ClockCaveat::Unanswered)?;
        let by_ns = self.readings.iter().map(|reading| reading.contradicts(&newest)).fold(0.0, f64::max);
        if by_ns > 0.0 {
            self.readings = VecDeque::from([newest]);
            return Err(ClockCaveat::Jumped { by_ns });
        }
        let best = self.readings.iter().map(|reading| reading.half_ns).fold(f64::INFINITY, f64::min);
        let good: Vec<Reading> =
            self.readings.iter().copied().filter(|reading| reading.half_ns <= AS_GOOD * best).collect();
        Ok(line(&good).unwrap_or_else(|| alone(good.last().copied().unwrap_or(newest))))
    }
}

/// One reading says nothing of the slope.
fn alone(reading: Reading) -> ClockFit {
    ClockFit {
        from_ns: reading.at_ns,
        until_ns: reading.at_ns,
        offset_ns: reading.offset_ns,
        slope: 0.0,
        residual_ns: reading.half_ns,
        growth: LARGEST_DRIFT,
    }
}

/// Least squares. None where readings lie so close together that they say less of the slope than [`LARGEST_DRIFT`] does.
///
/// The true offset is a straight line, too, and at each reading it is no farther from this one than the reading's own
/// bound and its distance: hence nowhere between the first and the last, and beyond them by no more than a line through
/// the worst at both ends.
fn line(readings: &[Reading]) -> Option<ClockFit> {
    let (first, last) = (readings.first()?, readings.last()?);
    let span = last.at_ns.saturating_sub(first.at_ns) as f64;
    let since = |reading: &Reading| reading.at_ns.saturating_sub(first.at_ns) as f64;
    let change = |reading: &Reading| reading.offset_ns.wrapping_sub(first.offset_ns) as f64;
    let count = readings.len() as f64;
    let mean_since = readings.iter().map(since).sum::<f64>() / count;
    let mean_change = readings.iter().map(change).sum::<f64>() / count;
    let squares: f64 = readings.iter().map(|reading| (since(reading) - mean_since).powi(2)).sum();
    if squares <= 0.0 {
        return None;
    }
    let products = |reading: &Reading| (since(reading) - mean_since) * (change(reading) - mean_change);
    let slope = readings.iter().map(products).sum::<f64>() / squares;
    let start = (mean_change - slope * mean_since).round();
    let off = |reading: &Reading| (change(reading) - start - slope * since(reading)).abs() + reading.half_ns;
    let residual_ns = readings.iter().map(off).fold(0.0, f64::max);
    let growth = 2.0 * residual_ns / span;
    (growth <= LARGEST_DRIFT).then_some(ClockFit {
        from_ns: first.at_ns,
        until_ns: last.at_ns,
        offset_ns: first.offset_ns.wrapping_add(start as i64),
        slope,
        residual_ns,
        growth,
    })
}

/// How another host's clock runs against this one's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClockFit {
    /// By this host's clock: the first instant that it rests on.
    pub from_ns: u64,
    /// By this host's clock: the last instant that it rests on.
    pub until_ns: u64,
    /// What the other clock shows more, at the first of these.
    pub offset_ns: i64,
    /// By which it runs faster: 1e-6 is a microsecond in each second.
    pub slope: f64,
    /// Between these instants the error is no larger.
    pub residual_ns: f64,
    /// By which the error may grow before and after, in ns for each ns.
    pub growth: f64,
}

impl ClockFit {
    /// What the other clock shows when this host's shows `here_ns`.
    pub fn there(&self, here_ns: u64) -> u64 {
        let since = i128::from(here_ns) - i128::from(self.from_ns);
        let drifted = (self.slope * since as f64).round() as i128;
        clamped(i128::from(here_ns) + i128::from(self.offset_ns) + drifted)
    }

    /// What this host's clock shows when the other one shows `there_ns`.
    pub fn here(&self, there_ns: u64) -> u64 {
        let even = i128::from(there_ns) - i128::from(self.offset_ns);
        let since = even - i128::from(self.from_ns);
        let drifted = (self.slope * since as f64 / (1.0 + self.slope)).round() as i128;
        clamped(even - drifted)
    }

    /// The largest error of either when this host's clock shows `here_ns`, in ns.
    pub fn residual_at(&self, here_ns: u64) -> f64 {
        let beyond = here_ns.saturating_sub(self.until_ns).max(self.from_ns.saturating_sub(here_ns));
        self.residual_ns + self.growth * beyond as f64
    }
}

fn clamped(ns: i128) -> u64 {
    ns.clamp(0, i128::from(u64::MAX)) as u64
}

/// One host's clock against that of rank 0's host, as far as it is known.
#[derive(Clone, Debug, PartialEq)]
pub struct HostClock {
    /// The host.
    pub host: String,
    /// How it runs.
    pub fit: Result<ClockFit, ClockCaveat>,
}

/// The clocks of a world on several hosts. That of rank 0's host, which is also the coordinator's, is what the others are
/// compared with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clocks {
    /// Clocks of the other hosts.
    pub hosts: Vec<HostClock>,
    /// Which of these each rank is on, by rank; None: with rank 0.
    pub of: Vec<Option<usize>>,
}

impl Clocks {
    /// The clock of each rank, by rank; None where it is that of rank 0.
    ///
    /// # Errors
    /// Which host's clock is not known, and why.
    pub fn fits(&self) -> Result<Vec<Option<ClockFit>>, String> {
        let fit_of = |index: &Option<usize>| -> Result<Option<ClockFit>, String> {
            let Some(clock) = index.and_then(|index| self.hosts.get(index)) else { return Ok(None) };
            clock.fit.map(Some).map_err(|why| format!("the clock of {}: {why}", clock.host))
        };
        self.of.iter().map(fit_of).collect()
    }

    /// What the record keeps.
    pub fn recorded(&self) -> Vec<record::HostClock> {
        let recorded = |clock: &HostClock| {
            let fit = clock.fit.ok();
            record::HostClock {
                host: clock.host.clone(),
                offset_ns: fit.map(|fit| fit.offset_ns),
                drift_ppm: fit.map(|fit| fit.slope * 1e6),
                residual_ns: fit.map(|fit| fit.residual_ns),
                why: clock.fit.err().map(|why| why.to_string()),
            }
        };
        self.hosts.iter().map(recorded).collect()
    }
}

/// The largest error, in ns, of the time between events on two of these ranks, when rank 0's clock shows `here_ns`: of hosts
/// with rank 0 nothing is off. `fits` by rank, as [`Clocks::fits`].
pub fn apart_ns(fits: &[Option<ClockFit>], here_ns: u64) -> f64 {
    let mut hosts: Vec<ClockFit> = Vec::new();
    for fit in fits.iter().flatten() {
        if !hosts.contains(fit) {
            hosts.push(*fit);
        }
    }
    let mut residuals: Vec<f64> = hosts.iter().map(|fit| fit.residual_at(here_ns)).collect();
    residuals.sort_unstable_by(|a, b| b.total_cmp(a));
    residuals.iter().take(2).sum()
}

#[cfg(test)]
mod tests;

//! One visit to a case, and what it gave.

use record::found::DeviceTimes;
use serde_json::{Map, Value};
use trace::timeline::Timeline;

use crate::barrier::Exits;
use crate::canary::Canary;
use crate::device_times;
use crate::{DeviceLook, Ready, Samples, Sensors, WrongReport};

/// Time of one variant of the case's limit in one trial.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitTime {
    /// Which loop, as the ranks name it.
    pub variant: String,
    /// Seconds of one call's traffic: the median over rounds, the slowest rank of each.
    pub seconds: f64,
    /// These of each round.
    pub rounds: Vec<f64>,
}

/// What one trial of a case gave.
#[derive(Clone, Debug, Default)]
pub struct Trial {
    /// Which round of the run it belongs to, from 0.
    pub round: u32,
    /// When it began, in seconds since 1970.
    pub begun_s: f64,
    /// Seconds from the begin of the case's first trial to the end of this one.
    pub span_s: f64,
    /// Whether its ranks were started for this round; else they are those of an earlier trial.
    pub fresh: bool,
    /// `[rank][sample]` nanoseconds.
    pub samples: Samples,
    /// What each sample's time is divided by: its calls, times what a call has of messages or operations where one of
    /// those counts.
    pub calls: u32,
    /// Whether times had become steady before sampling; None where too few calls were made to tell.
    pub steady: Option<bool>,
    /// Wrong elements, before, during and after sampling.
    pub wrong: Vec<WrongReport>,
    /// What each rank said when it was ready.
    pub ready: Vec<Ready>,
    /// Times of the case's limit, where this trial measured them.
    pub limits: Vec<LimitTime>,
    /// Machine before and after.
    pub canaries: Option<(Canary, Canary)>,
    /// Looks at the machine's sensors between its samples.
    pub sensors: Vec<Sensors>,
    /// Looks at devices while it ran; none where its ranks used none.
    pub devices: Vec<DeviceLook>,
    /// `[rank]`: entry and exit times of consecutive operations, in ns of rank 0's clock: [begin, end, begin, end, ...].
    pub arrivals: Vec<Vec<f64>>,
    /// The largest error of the time between two of these on different ranks, in ns; 0 where they have one clock.
    pub arrivals_apart_ns: f64,
    /// Spans of steps that were recorded in addition to the samples; None where that was not wanted.
    pub timeline: Option<Timeline>,
    /// Whether ranks left a barrier before the last had entered.
    pub exits: Exits,
    /// How clocks of other hosts ran; empty where ranks have one clock.
    pub clocks: Vec<record::HostClock>,
    /// Isolated, over several hosts: the largest error of the agreed instant between two ranks, in ns.
    pub starts_apart_ns: Option<f64>,
    /// Samples that a rank began late (isolated mode), the most of any rank.
    pub missed_starts: u64,
    /// Seconds in which a call was given to a device, of the rank that took longest; None without devices.
    pub launch_s: Option<f64>,
    /// Times of a call by the device's clock, of the rank with the longest; None without devices.
    pub device_s: Option<DeviceTimes>,
    /// The most bytes of a device that the communication library took.
    pub library_bytes: Option<u64>,
    /// The most memory that any rank held.
    pub peak_bytes: u64,
    /// What the benchmark noted on each rank.
    pub details: Vec<Map<String, Value>>,
    /// Seconds that its samples took.
    pub sampling_s: f64,
    /// Seconds that it took in all.
    pub wall_s: f64,
}

/// Between samples, sensors are read this often.
const LOOK_SECONDS: f64 = 0.5;

impl Trial {
    /// Reads the sensors between samples, now and then: ranks wait meanwhile, and are not disturbed.
    pub(crate) fn look_at_sensors(&mut self) {
        let before = self.canaries.as_ref().map(|(before, _)| before.system.sensors);
        let last = self.sensors.last().copied().or(before);
        if last.and_then(|look| look.age_s()).is_some_and(|age| age >= LOOK_SECONDS) {
            self.sensors.push(Sensors::read());
        }
    }

    /// This trial and a later one of the same case in the same ranks, as one.
    #[must_use]
    pub fn joined(mut self, later: Self) -> Self {
        self.samples.append(later.samples);
        self.steady = self.steady.or(later.steady);
        self.wrong.extend(later.wrong);
        self.limits.extend(later.limits);
        // What the machine did between both looks counts, whichever looked. Programs on its cores do not count while this side of
        // a comparison paused: ranks of the other side are among them.
        self.canaries = match (self.canaries, later.canaries) {
            (Some((before, paused)), Some((resumed, after))) => Some((before, after.without_pause(&paused, &resumed))),
            (one, other) => one.or(other),
        };
        if self.arrivals.iter().all(Vec::is_empty) {
            self.arrivals = later.arrivals;
        }
        self.timeline = self.timeline.or(later.timeline);
        self.arrivals_apart_ns = self.arrivals_apart_ns.max(later.arrivals_apart_ns);
        self.exits = crate::barrier::together([&self.exits, &later.exits].into_iter());
        self.starts_apart_ns = self.starts_apart_ns.into_iter().chain(later.starts_apart_ns).reduce(f64::max);
        self.missed_starts = self.missed_starts.max(later.missed_starts);
        self.launch_s = self.launch_s.into_iter().chain(later.launch_s).reduce(f64::max);
        self.device_s = device_times::longest(self.device_s.into_iter().chain(later.device_s));
        self.library_bytes = self.library_bytes.max(later.library_bytes);
        self.peak_bytes = self.peak_bytes.max(later.peak_bytes);
        self.sampling_s += later.sampling_s;
        self.wall_s += later.wall_s;
        // What was noted from the first call on: losses begin with it.
        if self.details.iter().all(Map::is_empty) {
            self.details = later.details;
        }
        Self { span_s: later.span_s, clocks: later.clocks, ..self }
    }

    /// Seconds of one call, for each sample: the maximum over ranks.
    pub fn series(&self) -> Vec<f64> {
        self.samples.slowest().iter().map(|ns| ns / 1e9 / f64::from(self.calls.max(1))).collect()
    }

    /// Median of its samples; None where it has none.
    pub fn median(&self) -> Option<f64> {
        let series = self.series();
        (!series.is_empty()).then(|| stats::median(&series))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CoreTime, SystemCounters};
    use record::WrongElement;

    #[test]
    fn two_slices_are_one_trial() {
        let slice = |ns: [u64; 2], wrong: u64| Trial {
            round: 3,
            begun_s: 7.0,
            samples: vec![vec![ns[0]], vec![ns[1]]].into(),
            calls: 1,
            wrong: vec![WrongReport { count: wrong, compared: 5, first: Vec::<WrongElement>::new() }],
            sampling_s: 0.5,
            span_s: 1.0 + wrong as f64,
            ..Trial::default()
        };
        let trial = slice([10, 20], 0).joined(slice([40, 30], 1));
        assert_eq!(trial.samples, vec![vec![10, 40], vec![20, 30]].into());
        let median = trial.median().unwrap();
        assert!((median - 30e-9).abs() < 1e-18, "{median}: of 20 and 40, the maxima over ranks");
        assert_eq!(trial.wrong.iter().map(|report| report.count).sum::<u64>(), 1);
        assert_eq!((trial.round, trial.begun_s, trial.sampling_s, trial.span_s), (3, 7.0, 1.0, 2.0));
    }

    /// Between the slices of one side of a comparison, ranks of the other side work.
    #[test]
    fn what_cores_do_between_two_slices_is_not_that_of_other_programs() {
        let at = |busy_s, all_s, used_s| {
            let cores = Some(CoreTime { busy_s, all_s, own_s: 0.5 });
            Canary {
                used_s: Some(used_s),
                system: SystemCounters { cores, ..SystemCounters::default() },
                ..Canary::default()
            }
        };
        let slice = |before, after| Trial { canaries: Some((before, after)), ..Trial::default() };
        let others = |busy_s: f64| {
            // Two cores, of which the ranks of this side use one for a second in each slice.
            let first = slice(at(10.0, 20.0, 1.0), at(11.0, 22.0, 2.0));
            let second = slice(at(11.0 + busy_s, 30.0, 2.0), at(12.0 + busy_s, 32.0, 3.0));
            let (before, after) = first.joined(second).canaries.unwrap();
            before.others(&after).unwrap()
        };
        assert!(others(8.0).abs() < 1e-9 && others(0.0).abs() < 1e-9, "{} {}", others(8.0), others(0.0));
        let blind = slice(Canary::default(), Canary::default());
        let (before, after) = slice(at(10.0, 20.0, 1.0), at(11.0, 22.0, 2.0)).joined(blind).canaries.unwrap();
        assert_eq!(before.others(&after), None);
    }
}

//! Noise canaries: barrier latency, stolen time, context switches and clocks, before and after each case.

use std::fs;

use record::{CanaryKind, Caveat};

use crate::{Sensors, machine};

/// What the machine looked like at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Canary {
    /// Median latency of a barrier among the case's ranks, in ns: the slowest rank's.
    pub barrier_ns: f64,
    /// Involuntary context switches of all ranks so far.
    pub involuntary_switches: f64,
    /// What tells states apart, host by host.
    pub hosts: Vec<HostLevels>,
    /// Whether all ranks of a host, of several, could run on one core only, though the host has more.
    pub one_core: bool,
    /// Seconds of processor time that ranks of the coordinator's host used so far; None where one did not say.
    pub used_s: Option<f64>,
    /// Counters of the whole machine.
    pub system: SystemCounters,
}

/// What the ranks of one host showed of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostLevels {
    /// Round trip of a cache line between the cores of neighbouring ranks, in ns: the median over pairs; None where there is no
    /// pair on this host, or none answered.
    pub round_trip_ns: Option<f64>,
    /// A loop of dependent steps, in ns: the median over ranks. None of ranks that cannot tell (Python).
    pub clock_ns: Option<f64>,
    /// A loop that fills a core's units over the same, with all ranks at once: the median over ranks.
    pub units_shared: Option<f64>,
}

impl HostLevels {
    /// From what these ranks answered.
    fn new(ranks: &[&Vec<f64>]) -> Self {
        let median = |values: Vec<f64>| (!values.is_empty()).then(|| stats::median(&values));
        let readings =
            |i: usize| ranks.iter().filter_map(|rank| rank.get(i).copied()).filter(|value| *value > 0.0).collect();
        let shared = ranks.iter().filter_map(|rank| Some(rank.get(5)? / rank.get(4)?));
        Self {
            round_trip_ns: median(readings(3)),
            clock_ns: median(readings(4)),
            units_shared: median(shared.filter(|ratio| ratio.is_finite() && *ratio > 0.0).collect()),
        }
    }
}

/// Counters of the whole machine so far; what the system does not tell is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SystemCounters {
    /// Time that the hypervisor gave to others, in ticks over all cores (/proc/stat).
    pub stolen_ticks: Option<f64>,
    /// All ticks over all cores.
    pub total_ticks: Option<f64>,
    /// Throttle events of all cores (Intel's thermal_throttle).
    pub throttles: Option<f64>,
    /// Periods in which the control group's quota of processor time stopped its processes.
    pub quota_stops: Option<f64>,
    /// Time of the cores that this process may use.
    pub cores: Option<CoreTime>,
    /// Temperature, clocks, power, utilization.
    pub sensors: Sensors,
}

impl SystemCounters {
    /// Reads them.
    pub fn read() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let (stolen_ticks, total_ticks) = parse_stat(&stat).unzip();
        Self {
            stolen_ticks,
            total_ticks,
            throttles: throttles(),
            quota_stops: machine::quota_stops(),
            cores: CoreTime::read(&stat),
            sensors: Sensors::read(),
        }
    }
}

/// Seconds so far of the cores that this process may use.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CoreTime {
    /// In which programs ran: what interrupts took, which may be on behalf of ranks, is left out.
    pub busy_s: f64,
    /// Seconds of these cores in all.
    pub all_s: f64,
    /// Seconds of this process.
    pub own_s: f64,
}

impl CoreTime {
    fn read(stat: &str) -> Option<Self> {
        let own = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        Self::parse(stat, &machine::allowed_cpus(), &own)
    }

    /// From /proc/stat and /proc/self/stat (proc(5)), whose ticks are a hundredth of a second on Linux.
    fn parse(stat: &str, allowed: &[u32], own: &str) -> Option<Self> {
        const TICKS: f64 = 100.0;
        let mut found = Self::default();
        for line in stat.lines() {
            let mut words = line.split_whitespace();
            let number = words.next()?.strip_prefix("cpu").and_then(|number| number.parse::<u32>().ok());
            if number.is_some_and(|number| allowed.contains(&number)) {
                let ticks: Vec<f64> = words.take(8).map_while(|word| word.parse().ok()).collect();
                let [user, nice, system, ..] = ticks[..] else { return None };
                found.busy_s += (user + nice + system) / TICKS;
                found.all_s += ticks.iter().sum::<f64>() / TICKS;
            }
        }
        // Behind the name, which may hold anything: state, then 10 more, then user and system time.
        let (_, rest) = own.rsplit_once(')')?;
        let times: Vec<f64> = rest.split_whitespace().skip(11).take(2).map_while(|word| word.parse().ok()).collect();
        found.own_s = times.iter().sum::<f64>() / TICKS;
        (found.all_s > 0.0 && times.len() == 2).then_some(found)
    }
}

/// Stolen and total ticks of the line `cpu` of /proc/stat (proc(5): user nice system idle iowait irq softirq steal).
fn parse_stat(stat: &str) -> Option<(f64, f64)> {
    let line = stat.lines().find(|line| line.starts_with("cpu "))?;
    let ticks: Vec<f64> = line.split_whitespace().skip(1).take(8).map_while(|word| word.parse().ok()).collect();
    (ticks.len() == 8).then(|| (ticks[7], ticks.iter().sum()))
}

fn throttles() -> Option<f64> {
    let cores = fs::read_dir("/sys/devices/system/cpu").ok()?;
    let counts = cores.flatten().filter_map(|core| {
        let path = core.path().join("thermal_throttle/core_throttle_count");
        fs::read_to_string(path).ok()?.trim().parse::<f64>().ok()
    });
    counts.reduce(|a, b| a + b)
}

/// Whether these ranks, of one host, all have the same only core.
fn is_one_core(ranks: impl Iterator<Item = f64>) -> bool {
    let cores: Vec<f64> = ranks.collect();
    cores.len() > 1 && cores[0] > 0.0 && cores.iter().all(|core| *core == cores[0])
}

/// A barrier must have become this much slower or faster, ...
const BARRIER_FACTOR: f64 = 2.0;
/// ... and by this many ns, before it counts: below, it is the resolution.
const BARRIER_NS: f64 = 2_000.0;
/// Share of all cores' time.
const STOLEN: f64 = 0.01;
/// Share of the time of all cores that other programs use.
const OTHERS: f64 = 0.1;
/// Seconds of all cores from which that share can be computed: the kernel counts in ticks of 10 ms.
const FEWEST_CORE_S: f64 = 1.0;
/// Involuntary switches a second and rank.
const SWITCHES: f64 = 100.0;

impl Canary {
    /// From what the ranks answered (`[barrier ns, voluntary, involuntary, round trip ns, clock ns, filled ns, used ns, only
    /// core]` each, the last as [`machine::only_core`] has it; of Python, what tells states apart is 0), the host of each by rank (empty: all are on one), and the machine's counters.
    pub fn new(ranks: &[Vec<f64>], host_of: &[u32], system: SystemCounters) -> Self {
        let column = |i: usize| ranks.iter().filter_map(move |rank| rank.get(i).copied());
        let host = |rank: usize| host_of.get(rank).copied().unwrap_or(0);
        let most = (0..ranks.len()).map(host).max().unwrap_or(0);
        let of_host = |number: u32| {
            HostLevels::new(
                &(0..ranks.len()).filter(|rank| host(*rank) == number).map(|rank| &ranks[rank]).collect::<Vec<_>>(),
            )
        };
        Self {
            barrier_ns: column(0).fold(0.0, f64::max),
            involuntary_switches: column(2).sum(),
            hosts: (0..=most).map(of_host).collect(),
            one_core: (0..=most).any(|number| {
                let of = |rank: &usize| host(*rank) == number;
                is_one_core((0..ranks.len()).filter(of).map(|rank| ranks[rank].get(7).copied().unwrap_or(0.0)))
            }),
            used_s: (0..ranks.len())
                .filter(|rank| host(*rank) == 0)
                .map(|rank| ranks[rank].get(6).map(|ns| ns / 1e9))
                .sum(),
            system,
        }
    }

    /// This look without what cores did while the case's ranks paused, between these two looks before it.
    #[must_use]
    pub(crate) fn without_pause(mut self, paused: &Self, resumed: &Self) -> Self {
        let cores = self.system.cores.zip(paused.system.cores).zip(resumed.system.cores);
        self.system.cores = cores.map(|((own, from), to)| CoreTime {
            busy_s: own.busy_s - (to.busy_s - from.busy_s),
            all_s: own.all_s - (to.all_s - from.all_s),
            own_s: own.own_s - (to.own_s - from.own_s),
        });
        let used = self.used_s.zip(paused.used_s).zip(resumed.used_s);
        self.used_s = used.map(|((own, from), to)| own - (to - from));
        self
    }

    /// What tells states of the machine apart: the host's number, what was looked at, and what was seen.
    pub fn levels(&self) -> impl Iterator<Item = (u32, CanaryKind, Option<f64>)> {
        (0..).zip(&self.hosts).flat_map(|(host, seen)| {
            [
                (host, CanaryKind::RoundTripNs, seen.round_trip_ns),
                (host, CanaryKind::UnitsShared, seen.units_shared),
                (host, CanaryKind::ClockNs, seen.clock_ns),
            ]
        })
    }

    /// What moved between `self` and `after`, `seconds` later, for `ranks` ranks, more than cores or not.
    pub fn caveats(&self, after: &Canary, seconds: f64, ranks: u32, oversubscribed: bool) -> Vec<Caveat> {
        let mut caveats = Vec::new();
        let one_core = self.one_core || after.one_core;
        if one_core {
            caveats.push(Caveat::OneCore);
        }
        let oversubscribed = oversubscribed || one_core;
        let (low, high) = (self.barrier_ns.min(after.barrier_ns), self.barrier_ns.max(after.barrier_ns));
        // Ranks that share cores wait for each other: their barriers and switches say nothing about the machine.
        if !oversubscribed && high > BARRIER_FACTOR * low && high - low > BARRIER_NS {
            caveats.push(Caveat::Noisy);
        }
        if self.stolen(after).is_some_and(|share| share > STOLEN) {
            caveats.push(Caveat::StolenTime);
        }
        let switches = (after.involuntary_switches - self.involuntary_switches) / f64::from(ranks);
        if !oversubscribed && seconds > 0.0 && switches > 10.0 && switches / seconds > SWITCHES {
            caveats.push(Caveat::ContextSwitches);
        }
        if grown(self.system.throttles, after.system.throttles).is_some_and(|events| events > 0.0) {
            caveats.push(Caveat::Throttled);
        }
        if grown(self.system.quota_stops, after.system.quota_stops).is_some_and(|periods| periods > 0.0) {
            caveats.push(Caveat::QuotaReached);
        }
        if self.others(after).is_some_and(|share| share > OTHERS) {
            caveats.push(Caveat::OtherPrograms);
        }
        caveats
    }

    /// Share of the time of all cores, between `self` and `after`, that the hypervisor gave to others.
    pub fn stolen(&self, after: &Canary) -> Option<f64> {
        let stolen = grown(self.system.stolen_ticks, after.system.stolen_ticks)?;
        let total = grown(self.system.total_ticks, after.system.total_ticks)?;
        // Under fifty ticks, one stolen tick is already two percent.
        (total >= 50.0).then(|| stolen / total)
    }

    /// Share of the time of the cores, between `self` and `after`, that neither ranks nor this process used. None where too
    /// little is known of it.
    pub fn others(&self, after: &Canary) -> Option<f64> {
        let (from, to) = (self.system.cores?, after.system.cores?);
        let (busy_s, all_s) = (to.busy_s - from.busy_s, to.all_s - from.all_s);
        let own_s = (after.used_s? - self.used_s?) + (to.own_s - from.own_s);
        (all_s >= FEWEST_CORE_S).then(|| (busy_s - own_s) / all_s)
    }
}

/// By how much a counter has grown.
fn grown(before: Option<f64>, after: Option<f64>) -> Option<f64> {
    Some((after? - before?).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canary(barrier_ns: f64, switches: f64, stolen: f64) -> Canary {
        let system = SystemCounters {
            stolen_ticks: Some(stolen),
            total_ticks: Some(1000.0 + switches + stolen),
            throttles: Some(0.0),
            ..SystemCounters::default()
        };
        Canary { barrier_ns, involuntary_switches: switches, system, ..Canary::default() }
    }

    #[test]
    fn quiet_machines_raise_no_caveat() {
        assert_eq!(canary(200.0, 5.0, 0.0).caveats(&canary(900.0, 9.0, 0.0), 1.0, 2, false), []);
    }

    #[test]
    fn each_caveat_has_its_cause() {
        let before = canary(200.0, 0.0, 0.0);
        assert_eq!(before.caveats(&canary(20_000.0, 0.0, 0.0), 1.0, 2, false), [Caveat::Noisy]);
        assert_eq!(before.caveats(&canary(20_000.0, 0.0, 0.0), 1.0, 2, true), []);
        assert_eq!(before.caveats(&canary(200.0, 900.0, 0.0), 1.0, 2, false), [Caveat::ContextSwitches]);
        assert_eq!(before.caveats(&canary(200.0, 0.0, 90.0), 1.0, 2, false), [Caveat::StolenTime]);
        let mut throttled = before.clone();
        throttled.system.throttles = Some(3.0);
        assert_eq!(before.caveats(&throttled, 1.0, 2, false), [Caveat::Throttled]);
        let (mut before, mut stopped) = (before.clone(), before);
        (before.system.quota_stops, stopped.system.quota_stops) = (Some(1.0), Some(2.0));
        assert_eq!(before.caveats(&stopped, 1.0, 2, false), [Caveat::QuotaReached]);
    }

    #[test]
    fn ranks_that_share_one_core_of_several_are_noticed() {
        let rank = |core: f64| vec![200.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, core];
        let of = |cores: &[f64], hosts: &[u32]| {
            let ranks: Vec<Vec<f64>> = cores.iter().map(|core| rank(*core)).collect();
            Canary::new(&ranks, hosts, SystemCounters::default()).one_core
        };
        assert!(of(&[4.0, 4.0], &[]) && of(&[1.0, 2.0, 7.0, 7.0], &[0, 0, 1, 1]));
        assert!(!of(&[4.0], &[]), "a single rank needs no more");
        assert!(!of(&[1.0, 2.0], &[]) && !of(&[0.0, 0.0], &[]) && !of(&[3.0, 0.0], &[]) && !of(&[3.0, 3.0], &[0, 1]));
        assert!(!Canary::new(&[vec![200.0; 7], vec![200.0; 7]], &[], SystemCounters::default()).one_core);
        let (apart, together) = (canary(200.0, 0.0, 0.0), Canary { one_core: true, ..canary(90_000.0, 9_000.0, 0.0) });
        assert_eq!(
            apart.caveats(&together, 1.0, 2, false),
            [Caveat::OneCore],
            "its effects are not caveats of their own"
        );
    }

    #[test]
    fn time_that_no_rank_used_is_that_of_other_programs() {
        let at = |busy_s, all_s, used_s| {
            let cores = Some(CoreTime { busy_s, all_s, own_s: 0.5 });
            Canary { used_s, system: SystemCounters { cores, ..SystemCounters::default() }, ..Canary::default() }
        };
        let caveats = |after: &Canary| at(10.0, 20.0, Some(1.0)).caveats(after, 1.0, 2, true);
        assert_eq!(caveats(&at(12.0, 22.0, Some(2.9))), [], "ranks used it");
        assert_eq!(caveats(&at(12.0, 22.0, Some(2.0))), [Caveat::OtherPrograms]);
        assert_eq!(caveats(&at(10.9, 20.9, Some(1.0))), [], "too short to tell");
        assert_eq!(caveats(&at(12.0, 22.0, None)), [], "a rank does not say what it used");
    }

    #[test]
    fn core_time_is_that_of_the_allowed_cores() {
        let stat =
            "cpu  9 9 9 9 9 9 9 9\ncpu0 100 20 30 40 5 3 2 0 0 0\ncpu1 1 1 1 1 1 1 1 1\ncpu2 50 0 0 50 0 0 0 0\n";
        let own = "42 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0";
        let found = CoreTime::parse(stat, &[0, 2], own).unwrap();
        assert_eq!(found, CoreTime { busy_s: 2.0, all_s: 3.0, own_s: 2.0 });
        assert_eq!(CoreTime::parse(stat, &[7], own), None);
        assert_eq!(CoreTime::parse(stat, &[0], ""), None);
    }

    #[test]
    fn proc_stat_is_read_as_the_manual_says() {
        let stat = "cpu  10 20 30 40 50 60 70 80 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n";
        assert_eq!(parse_stat(stat), Some((80.0, 360.0)));
        assert_eq!(parse_stat("cpu  1 2"), None);
    }
}

//! What others take of this machine while a job runs: looked at from outside, as canaries do around the trials of a case.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use diagnose::profile::Disturbance;
use measure::{Canary, SystemCounters};
use record::Caveat;

/// Where it is noted, next to the traces.
pub(crate) const MACHINE: &str = "machine.json";
/// How often somebody looks, at first.
const EVERY: Duration = Duration::from_secs(1);
/// Looks that are kept: of a longer job each second one, and then fewer are made.
const MOST: usize = 2048;

/// Looks at the machine while a job runs.
pub(crate) struct MachineWatch {
    looks: Vec<(f64, Canary)>,
    every: Duration,
    due: Instant,
}

impl MachineWatch {
    /// Takes the first look.
    pub(crate) fn new() -> Self {
        let mut watch = Self { looks: Vec::new(), every: EVERY, due: Instant::now() };
        watch.look();
        watch
    }

    /// To be called several times a second.
    pub(crate) fn look(&mut self) {
        if Instant::now() < self.due {
            return;
        }
        self.due = Instant::now() + self.every;
        if self.looks.len() >= MOST {
            let mut at = 0;
            self.looks.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.every *= 2;
        }
        self.looks.push((now_s(), look()));
    }

    /// Takes the last look, and says what others took in a window of time, in seconds since 1970, or while the job ran.
    pub(crate) fn disturbance(mut self, window: Option<[f64; 2]>) -> Option<Disturbance> {
        self.looks.push((now_s(), look()));
        let (from, to) = around(&self.looks, window)?;
        let mut found = between(&self.looks[from], &self.looks[to]);
        found.of_window = window.is_some();
        Some(found)
    }
}

/// Seconds since 1970.
fn now_s() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

fn look() -> Canary {
    Canary { used_s: process::processor_time_below(), system: SystemCounters::read(), ..Canary::default() }
}

/// The last look before a window and the first one after it; without one, the first and the last.
fn around(looks: &[(f64, Canary)], window: Option<[f64; 2]>) -> Option<(usize, usize)> {
    let last = looks.len().checked_sub(1)?;
    let [begin, end] = window.unwrap_or([f64::NEG_INFINITY, f64::INFINITY]);
    let from = looks.iter().rposition(|(at, _)| *at <= begin).unwrap_or(0);
    let to = looks.iter().position(|(at, _)| *at >= end).unwrap_or(last);
    (from < to).then_some((from, to))
}

fn between((begin, before): &(f64, Canary), (end, after): &(f64, Canary)) -> Disturbance {
    let cores = measure::machine::allowed_cpus().len();
    Disturbance {
        // Barriers and switches are those of ranks, which nobody asks here.
        caveats: before.caveats(after, end - begin, 1, true),
        cores: cores as u32,
        other_cores: before.others(after).map(|share| share.max(0.0) * cores as f64),
        stolen_share: before.stolen(after),
        of_window: false,
    }
}

/// The window in which all of these ranks recorded; None where one does not say.
pub(crate) fn common_window(windows: &[Option<[f64; 2]>]) -> Option<[f64; 2]> {
    let all: Vec<[f64; 2]> = windows.iter().copied().collect::<Option<_>>()?;
    let begin = all.iter().map(|[begin, _]| *begin).reduce(f64::min)?;
    let end = all.iter().map(|[_, end]| *end).reduce(f64::max)?;
    (begin.is_finite() && end > begin).then_some([begin, end])
}

/// What was noted next to the traces.
pub(crate) fn noted(traces: &Path) -> Option<Disturbance> {
    use std::io::Read;

    use record::file::FileName;
    let mut text = String::new();
    record::file::open_inside(traces, &FileName::literal(MACHINE)).ok()?.take(4096).read_to_string(&mut text).ok()?;
    record::from_json(&text).ok()
}

/// What others took while Rankmark measured a case, which has these caveats; None if nothing. A case may have several hosts.
pub(crate) fn of_case(caveats: &[Caveat]) -> Option<Disturbance> {
    const BY_OTHERS: [Caveat; 4] = [Caveat::OtherPrograms, Caveat::StolenTime, Caveat::Throttled, Caveat::QuotaReached];
    let caveats: Vec<Caveat> = BY_OTHERS.into_iter().filter(|caveat| caveats.contains(caveat)).collect();
    (!caveats.is_empty()).then(|| Disturbance { caveats, ..Disturbance::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: f64, busy_s: f64, stolen: f64) -> (f64, Canary) {
        let cores = Some(measure::CoreTime { busy_s, all_s: 2.0 * second, own_s: 0.0 });
        let (stolen_ticks, total_ticks) = (Some(stolen), Some(200.0 * second));
        let system = SystemCounters { cores, stolen_ticks, total_ticks, ..SystemCounters::default() };
        (second, Canary { used_s: Some(second), system, ..Canary::default() })
    }

    #[test]
    fn a_neighbour_counts_while_steps_are_recorded() {
        // The job uses one of two cores all the time; from second 4 to 8 a neighbour uses the other one.
        let busy = |second: f64| second + (second - 4.0).clamp(0.0, 4.0);
        let looks: Vec<(f64, Canary)> = (0..12).map(|i| at(f64::from(i), busy(f64::from(i)), 0.0)).collect();
        let of = |window| {
            let (from, to) = around(&looks, window).unwrap();
            between(&looks[from], &looks[to])
        };
        let cores = measure::machine::allowed_cpus().len() as f64;
        let (quiet, during, whole) = (of(Some([8.5, 10.2])), of(Some([4.5, 6.5])), of(None));
        assert_eq!((quiet.caveats.as_slice(), quiet.other_cores), (&[][..], Some(0.0)));
        assert_eq!((during.caveats.as_slice(), during.other_cores), (&[Caveat::OtherPrograms][..], Some(0.5 * cores)));
        assert!(whole.other_cores.unwrap() < 0.5 * cores && whole.is_felt(), "{whole:?}");
        assert_eq!(report::disturbed(&quiet), None);
        let said =
            report::disturbed(&Disturbance { cores: 2, other_cores: Some(1.0), of_window: true, ..during }).unwrap();
        assert!(
            said.starts_with("While the steps were recorded, other programs used 1.0 of 2 cores on this host"),
            "{said}"
        );
    }

    #[test]
    fn stolen_time_is_said_too() {
        let found = between(&at(0.0, 0.0, 0.0), &at(2.0, 2.0, 40.0));
        assert_eq!(found.caveats, [Caveat::StolenTime]);
        assert!(
            report::disturbed(&found).unwrap().contains("the hypervisor gave 10% of their time to others"),
            "{found:?}"
        );
    }

    #[test]
    fn what_disturbed_a_case_disturbs_its_explanation() {
        assert_eq!(of_case(&[Caveat::Oversubscribed]), None);
        let found = of_case(&[Caveat::Oversubscribed, Caveat::StolenTime, Caveat::OtherPrograms]).unwrap();
        assert_eq!(found.caveats, [Caveat::OtherPrograms, Caveat::StolenTime]);
        let said = report::disturbed(&found).unwrap();
        let words = "While the job ran, other programs used cores and the hypervisor gave time to others: ";
        assert!(said.starts_with(words), "{said}");
    }

    #[test]
    fn the_window_is_that_of_all_ranks() {
        assert_eq!(common_window(&[Some([2.0, 5.0]), Some([1.0, 4.0])]), Some([1.0, 5.0]));
        assert_eq!((common_window(&[Some([2.0, 5.0]), None]), common_window(&[])), (None, None));
        assert_eq!(common_window(&[Some([5.0, 5.0])]), None);
    }
}

//! What other programs do on this machine before ranks start.

use std::time::Duration;

use measure::machine;
use record::{Machine, Plan};
use view::number::count;

/// Readings of how many programs run, once the first found some.
const READINGS: usize = 5;
/// Between two of them.
const BETWEEN: Duration = Duration::from_millis(20);

/// A note that other programs leave too few cores to the ranks of this plan; None where there is room, or nothing is known.
pub(super) fn note(plan: &Plan, about: &Machine) -> Option<String> {
    let measured = plan.cases.iter().filter(|case| !benchmarks::is_simulated(case));
    let ranks = measured.map(record::Case::ranks).max()?;
    let cores = machine::allowed_cpus().len();
    // The kernel counts programs of the whole machine. Those on cores that are not ours do not matter.
    about.threads.filter(|threads| *threads as usize == cores)?;
    let first = machine::other_running().filter(|running| *running > 0)?;
    let later = (0..READINGS).filter_map(|_| {
        std::thread::sleep(BETWEEN);
        machine::other_running()
    });
    let running: Vec<f64> = std::iter::once(first).chain(later).map(f64::from).collect();
    words(stats::median(&running), cores, ranks)
}

fn words(running: f64, cores: usize, ranks: u32) -> Option<String> {
    let used = running.min(cores as f64);
    let is_crowded = used >= 0.5 && used + f64::from(ranks) > cores as f64;
    is_crowded.then(|| {
        let cores = count(cores, "core", "cores");
        let verb = if ranks == 1 { "is" } else { "are" };
        let ranks = view::study::ranks(ranks);
        format!(
            "other programs use {used:.0} of {cores}, and {ranks} {verb} to run: times will be disturbed; stop them, use fewer \
             ranks, or compare versions with `rankmark compare --interleave`"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_machine_without_room_is_worth_a_note() {
        assert_eq!((words(0.0, 2, 2), words(3.0, 64, 8)), (None, None));
        let note = words(5.0, 2, 2).unwrap();
        assert!(note.starts_with("other programs use 2 of 2 cores, and 2 ranks are to run"), "{note}");
        assert!(words(1.0, 2, 2).is_some() && words(60.0, 64, 8).is_some());
    }
}

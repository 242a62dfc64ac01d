//! What other programs do on this machine before ranks start.

use std::time::Duration;

use measure::machine;
use record::{Case, Machine, Plan};
use terms::number::count;

/// Readings of how many programs run, once the first found some.
const READINGS: usize = 5;
/// Between two of them.
const BETWEEN: Duration = Duration::from_millis(20);

/// A note that all ranks of this plan may run on one core only, though the machine has more: by what, and how to change it.
pub fn one_core(plan: &Plan) -> Option<String> {
    let measured = plan.cases.iter().filter(|case| !benchmarks::is_simulated(case));
    let ranks = measured.map(record::Case::ranks).max().filter(|ranks| *ranks > 1)?;
    let allowed = machine::allowed_cpus();
    let [only] = allowed.as_slice() else { return None };
    bound_words(ranks, *only, machine::online_cpus(), machine::cgroup_cpus())
}

fn bound_words(ranks: u32, only: u32, cores: u32, of_group: Option<u32>) -> Option<String> {
    let (by, how) = match of_group {
        Some(1) => (
            "the control group (cgroup cpuset)",
            "ask the scheduler or the container for more (--cpus-per-task, --cpuset-cpus)",
        ),
        _ => ("the affinity of this process (taskset)", "run without taskset; under a scheduler, ask for more cores"),
    };
    (cores > 1).then(|| {
        format!(
            "all {ranks} ranks have to share core {only} of {cores} because of {by}: times include waiting for it; \
             {how}"
        )
    })
}

/// A note that other programs leave too few cores to the ranks of this plan; None where there is room, or nothing is known.
pub fn note(plan: &Plan, about: &Machine, is_computed: impl Fn(&Case) -> bool) -> Option<String> {
    let measured = plan.cases.iter().filter(|case| !is_computed(case));
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
        // A median of 0.5 is one program in half of the looks.
        let used = used.max(1.0);
        let cores = count(cores, "core", "cores");
        let verb = if ranks == 1 { "is" } else { "are" };
        let ranks = count(ranks as usize, "rank", "ranks");
        format!(
            "other programs use {used:.0} of {cores}, and {ranks} {verb} to run, so times will be disturbed. Stop \
             them, use fewer ranks, or compare versions with `rankmark compare --interleave`"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_binds_all_ranks_to_one_core_is_said() {
        assert_eq!(bound_words(2, 0, 1, None), None, "the machine has no other");
        let note = bound_words(2, 5, 64, Some(64)).unwrap();
        assert!(note.starts_with("all 2 ranks have to share core 5 of 64 because of the affinity"), "{note}");
        assert!(bound_words(2, 0, 64, Some(1)).unwrap().contains("--cpuset-cpus"));
    }

    #[test]
    fn only_a_machine_without_room_is_worth_a_note() {
        assert_eq!((words(0.0, 2, 2), words(3.0, 64, 8)), (None, None));
        let note = words(5.0, 2, 2).unwrap();
        assert!(note.starts_with("other programs use 2 of 2 cores, and 2 ranks are to run"), "{note}");
        assert!(words(1.0, 2, 2).is_some() && words(60.0, 64, 8).is_some());
        let note = words(0.5, 2, 2).unwrap();
        assert!(note.starts_with("other programs use 1 of 2 cores"), "{note}");
    }
}

//! How long each test took: a report, longest first, and the budget of one test.
//!
//! Nextest writes the times (profile `default` of .config/nextest.toml). A time depends on what else the machine does, so a
//! test over its limit is run once more, by itself, and the limit is stretched by how much this machine is slowed down then.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What a test of the gate may take, in seconds of a machine that does nothing else.
pub(crate) const BUDGET: f64 = 10.0;
/// How many times its limit a test may take by itself: processors differ.
pub(crate) const MARGIN: f64 = 2.0;
/// A machine that is slowed down by more than this is busy. Times are not judged then: ranks that wait for each other by turns are
/// slowed down far more than a computation is, and by no factor that is known.
pub(crate) const BUSY: f64 = 1.25;
/// Tests and modules with a limit of their own, each with the reason.
static LONGER: &[(&str, f64, &str)] = &[
    (
        "pytorch::the_packages_own_tests_pass",
        120.0,
        "all tests of the Python package, which import torch several times",
    ),
    ("pytorch::", 30.0, "each Python imports torch, which takes 2 s of a processor"),
    ("promises::allreduce_study::its_flags_run_and_write_its_csv", 30.0, "24 worlds of PyTorch ranks"),
    ("readiness::a_torch_answers_what_is_known_and_says_why_nccl_does_not", 30.0, "imports torch six times"),
    ("external::torchrun_starts_ranks", 30.0, "each rank imports torch"),
    ("faults::a_rank_that_hangs_alive_is_named_with_its_stack_within_15_s", 30.0, "waits 10 s for a stall"),
    ("validate::libraries_that_break_are_rows_and_not_our_end", 30.0, "waits 10 s for a library that hangs"),
    (
        "mpi::blocking_calls_of_four_ranks_conform",
        30.0,
        "each MPI library starts four ranks, more than many machines have cores",
    ),
    (
        "profile::a_training_of_low_efficiency_is_explained_with_its_results",
        30.0,
        "six trials, and four seconds of recording",
    ),
    (
        "matrix::every_admitted_case_is_right_on_the_reference",
        30.0,
        "ranks wait for each other on sockets, each time as long as an idle core takes to wake up",
    ),
    ("hardware::a_slow_rank_is_named", 30.0, "delays of 20 ms, larger than what a busy machine adds"),
    (
        "slurm::sbatch_takes_the_file_of_gen_job",
        30.0,
        "starts a Slurm cluster, and Slurm looks for work every few seconds",
    ),
];
/// How many of the longest tests are printed; the file has all.
const PRINTED: usize = 10;

/// A test and its time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Timed {
    /// The test binary as nextest names it: `rankmark-comm::all`.
    pub(crate) binary: String,
    pub(crate) name: String,
    pub(crate) seconds: f64,
}

/// The file that nextest writes, in the repository wherever cargo builds.
pub(crate) fn junit(root: &Path) -> PathBuf {
    root.join("target/nextest/default/tests.xml")
}

/// The tests of a JUnit file of nextest, longest first.
pub(crate) fn read(xml: &str) -> Vec<Timed> {
    let mut tests: Vec<Timed> = xml.split("<testcase ").skip(1).filter_map(test_case).collect();
    tests.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    tests
}

fn test_case(text: &str) -> Option<Timed> {
    let tag = &text[..text.find('>')?];
    let attribute = |name: &str| {
        let rest = tag.split_once(&format!("{name}=\""))?.1;
        Some(rest.split_once('"')?.0.to_owned())
    };
    let seconds = attribute("time")?.parse().ok()?;
    // `name` would also be found at the end of `classname`.
    let name = tag.strip_prefix("name=\"")?.split_once('"')?.0.to_owned();
    Some(Timed { binary: attribute("classname")?, name, seconds })
}

/// All tests as lines `SECONDS<TAB>BINARY<TAB>NAME`, longest first.
pub(crate) fn file(tests: &[Timed]) -> String {
    tests.iter().fold(String::from("seconds\tbinary\ttest\n"), |mut text, test| {
        let _ = writeln!(text, "{:.3}\t{}\t{}", test.seconds, test.binary, test.name);
        text
    })
}

/// The longest tests and what share of the sum they are.
pub(crate) fn summary(tests: &[Timed], file: &Path) -> String {
    let sum = |tests: &[Timed]| tests.iter().map(|test| test.seconds).sum::<f64>();
    let (all, longest) = (sum(tests), &tests[..tests.len().min(PRINTED)]);
    let share = if all > 0.0 { sum(longest) / all * 100.0 } else { 0.0 };
    let mut text = format!(
        "{} tests take {all:.0} s together; the longest {} take {share:.0}% ({}):\n",
        tests.len(),
        longest.len(),
        file.display()
    );
    for test in longest {
        let _ = writeln!(text, "  {:>7.1} s  {} {}", test.seconds, test.binary, test.name);
    }
    text
}

/// What the test may take at most, in seconds.
pub(crate) fn limit(test: &Timed) -> f64 {
    let own = LONGER.iter().find(|(name, ..)| match name.strip_suffix("::") {
        Some(module) => test.name.split_once("::").is_some_and(|(first, _)| first == module),
        None => *name == test.name,
    });
    own.map_or(BUDGET, |(_, seconds, _)| *seconds)
}

/// The tests that are over their limit.
pub(crate) fn over(tests: &[Timed]) -> Vec<&Timed> {
    tests.iter().filter(|test| test.seconds > limit(test)).collect()
}

/// The filter by which nextest runs just this test.
pub(crate) fn filter(test: &Timed) -> String {
    format!("binary_id(={}) & test(={})", test.binary, test.name)
}

/// How many times as long as its processor time a computation takes here now, with a thread on each processor; 1 where the
/// machine does nothing else. The larger of this and 1.
pub(crate) fn slowdown() -> f64 {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..processors).map(|_| scope.spawn(stretch)).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).fold(1.0, f64::max)
    })
}

/// The clock's time of a computation in units of its processor time.
fn stretch() -> f64 {
    let Some(begin) = processor_seconds() else { return 1.0 };
    let clock = Instant::now();
    // Long enough for the scheduler to give each of its neighbours a turn or ten.
    let mut state = 1u64;
    loop {
        for _ in 0..1_000_000 {
            state = std::hint::black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
        let Some(used) = processor_seconds().map(|now| now - begin) else { return 1.0 };
        if used >= 0.2 {
            return clock.elapsed().as_secs_f64() / used;
        }
    }
}

/// Processor time of this thread, from the scheduler; None where the kernel does not say.
fn processor_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds: u64 = text.split_whitespace().next()?.parse().ok()?;
    Some(nanoseconds as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    const XML: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="2" failures="0" errors="0" uuid="1" timestamp="2026-11-26T09:03:00" time="12.5">
    <testsuite name="rankmark-comm::all" tests="2" disabled="0" errors="0" failures="0">
        <testcase name="worlds::quick" classname="rankmark-comm::all" timestamp="2026-11-26T09:03:00.1" time="0.250">
        </testcase>
        <testcase name="worlds::a_name=&quot;x&quot;" classname="rankmark-comm::all" timestamp="2026-11-26T09:03:00.1" time="12.250">
            <system-out>time="99"</system-out>
        </testcase>
    </testsuite>
</testsuites>"#;

    #[test]
    fn times_are_read_longest_first() {
        let tests = read(XML);
        let names_and_seconds: Vec<(&str, f64)> = tests.iter().map(|test| (test.name.as_str(), test.seconds)).collect();
        assert_eq!(names_and_seconds, [("worlds::a_name=&quot;x&quot;", 12.25), ("worlds::quick", 0.25)]);
        assert_eq!(tests[1].binary, "rankmark-comm::all");
        assert_eq!(file(&tests).lines().nth(2), Some("0.250\trankmark-comm::all\tworlds::quick"));
        let summary = summary(&tests, Path::new("times.tsv"));
        assert!(summary.starts_with("2 tests take 12 s together; the longest 2 take 100% (times.tsv):\n"), "{summary}");
        assert_eq!(over(&tests), [&tests[0]]);
        let timed =
            |name: &str, seconds| Timed { binary: "rankmark-launch::all".to_owned(), name: name.to_owned(), seconds };
        let slow = [
            timed("pytorch::the_packages_own_tests_pass", 119.0),
            timed("pytorch::forked::one", 29.0),
            timed("pytorch::forked::two", 31.0),
            timed("pytorches::one", 11.0),
        ];
        assert_eq!(over(&slow), [&slow[2], &slow[3]], "some have a limit of their own");
        assert_eq!(filter(&tests[1]), "binary_id(=rankmark-comm::all) & test(=worlds::quick)");
    }

    #[test]
    fn a_file_that_is_no_junit_has_no_tests() {
        assert_eq!(read("<testcase name=\"cut"), []);
        assert_eq!(read(""), []);
    }

    #[test]
    fn this_machine_is_not_faster_than_its_processors() {
        assert!(slowdown() >= 1.0);
    }
}

//! How many tests ran, read from what the test runners print.

use std::ops::AddAssign;

/// Tests of one or several runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// Ignored: what a filter leaves out is not meant to run and does not count.
    pub(crate) skipped: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// The summary line of `cargo nextest run`: `Summary [ 1.2s] 5/6 tests run: 3 passed (1 slow), 1 failed, 1 timed out,
/// 2 skipped`. None without such a line: then nothing counts as passed.
pub(crate) fn of_nextest(text: &str) -> Option<Counts> {
    let line = text.lines().rev().find(|line| line.trim_start().starts_with("Summary ["))?;
    let (_, parts) = line.split_once(" run: ")?;
    let mut counts = Counts::default();
    // "(1 slow, 1 leaky)" holds commas of its own and says nothing about the outcome.
    for part in without_parentheses(parts).split(',') {
        let (number, word) = part.trim().split_once(' ')?;
        let number: u64 = number.parse().ok()?;
        match word.trim() {
            "passed" => counts.passed += number,
            "skipped" => counts.skipped += number,
            "failed" | "timed out" | "exec failed" => counts.failed += number,
            _ => return None,
        }
    }
    Some(counts)
}

fn without_parentheses(text: &str) -> String {
    let mut depth = 0u32;
    text.chars()
        .filter(|character| {
            match character {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => return depth == 0,
            }
            false
        })
        .collect()
}

/// The sum of the `test result: ok. 3 passed; 0 failed; 1 ignored; ...` lines of `cargo test`. None where there is none.
pub(crate) fn of_libtest(text: &str) -> Option<Counts> {
    let mut sum = None;
    for line in text.lines() {
        let Some((_, parts)) = line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". ")) else {
            continue;
        };
        let sum = sum.get_or_insert_with(Counts::default);
        for part in parts.split(';') {
            let (number, word) = part.trim().split_once(' ').unwrap_or_default();
            let Ok(number) = number.parse::<u64>() else { continue };
            match word {
                "passed" => sum.passed += number,
                "failed" => sum.failed += number,
                "ignored" => sum.skipped += number,
                _ => {}
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(passed: u64, failed: u64, skipped: u64) -> Option<Counts> {
        Some(Counts { passed, failed, skipped })
    }

    #[test]
    fn nextest_summaries_are_read() {
        let all = "     Summary [   0.011s] 12 tests run: 12 passed, 0 skipped\n";
        assert_eq!(of_nextest(all), counts(12, 0, 0));
        let mixed = "noise\n     Summary [  61.2s] 9/12 tests run: 5 passed (1 slow, 1 leaky), 2 failed, 1 timed out, \
                     1 exec failed, 3 skipped\n        FAIL [0.1s] rankmark-comm::all a\nerror: test run failed\n";
        assert_eq!(of_nextest(mixed), counts(5, 4, 3));
    }

    #[test]
    fn what_is_not_understood_is_not_counted_as_passed() {
        assert_eq!(of_nextest("error: could not compile `comm`"), None);
        assert_eq!(of_nextest("Summary [ 1s] 3 tests run: 3 vanished"), None);
        assert_eq!(of_libtest("error: could not compile `comm`"), None);
    }

    #[test]
    fn libtest_results_are_summed_over_binaries() {
        let text = "running 3 tests\ntest a ... ok\n\
                    test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.00s\n\
                    test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s\n";
        assert_eq!(of_libtest(text), counts(4, 2, 1));
        assert_eq!(of_libtest("a test printed `test result: ok. 9 passed; 0 failed`"), None);
        assert_eq!(of_libtest("test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured"), counts(0, 0, 0));
    }
}

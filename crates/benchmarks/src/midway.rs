//! Which batches in the middle of a case are compared, outside the timed part: so many that this takes a small share of
//! the time. All ranks compare the same ones, because rank 0 says after how many calls the next one is due.

use measure::WrongReport;

/// Comparing takes at most about this share of the time between two comparisons.
const SHARE: f64 = 0.03;
/// Calls between two comparisons where time is computed and comparing takes none of it.
const SIMULATED: u64 = 64;
/// How many wrong elements are reported; all are counted.
const MOST_REPORTED: usize = 8;

/// What is known of a case's middle, on one rank.
#[derive(Debug, Default)]
pub(crate) struct Midway {
    /// Calls since the last comparison, up to the last refill.
    calls: u64,
    /// Calls after which the next comparison is due.
    next: u64,
    /// When the last comparison ended, in ns.
    ended_ns: Option<u64>,
    report: WrongReport,
}

impl Midway {
    /// A refill ends a series of `calls`.
    pub(crate) fn refilled(&mut self, calls: u64) {
        self.calls += calls;
    }

    /// Whether what `calls` calls since the last refill left is to be compared now.
    pub(crate) fn due(&self, calls: u64) -> bool {
        calls > 0 && self.calls + calls >= self.next
    }

    /// What a comparison found.
    pub(crate) fn found(&mut self, report: WrongReport) {
        add(&mut self.report, report);
    }

    /// Calls until the next comparison, after one that took from `begun_ns` to `now_ns`: as many as last so long that it
    /// is a small share of their time. None is known before the first.
    pub(crate) fn until_next(&self, begun_ns: u64, now_ns: u64) -> u64 {
        let cost = now_ns.saturating_sub(begun_ns) as f64;
        let between = begun_ns.saturating_sub(self.ended_ns.unwrap_or(begun_ns)) as f64;
        let calls = self.calls as f64 * cost / SHARE / between.max(1.0);
        // Before the first comparison no time is known; a call of 100 ns is as short as they come.
        if self.ended_ns.is_none() { (cost / SHARE / 100.0) as u64 } else { calls.ceil() as u64 }
    }

    /// Begins to count calls: the next comparison is due after so many; None: as many as suit computed times.
    pub(crate) fn begin(&mut self, next: Option<u64>, now_ns: u64) {
        (self.calls, self.next, self.ended_ns) = (0, next.unwrap_or(SIMULATED), Some(now_ns));
    }

    /// What was found since this was asked for the last time.
    pub(crate) fn take(&mut self) -> WrongReport {
        std::mem::take(&mut self.report)
    }
}

/// Adds what another comparison found.
pub(crate) fn add(sum: &mut WrongReport, more: WrongReport) {
    sum.count += more.count;
    sum.compared += more.compared;
    let room = MOST_REPORTED.saturating_sub(sum.first.len());
    sum.first.extend(more.first.into_iter().take(room));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparing_takes_a_small_share_of_the_time() {
        let mut midway = Midway::default();
        assert!(!midway.due(0), "nothing was called");
        assert!(midway.due(1), "the first chance is taken");
        midway.refilled(1);
        midway.begin(Some(midway.until_next(0, 1_000)), 1_000);
        assert!(!midway.due(300));
        midway.refilled(100);
        assert!(midway.due(300));
        // 400 calls took 100 us, and a comparison takes 6: 3% of the time of 800 calls.
        midway.refilled(300);
        assert_eq!(midway.until_next(101_000, 107_000), 800);
        midway.begin(Some(800), 107_000);
        assert!(!midway.due(799) && midway.due(800));
    }

    /// The documentation promises what is compared; the report says the same below its tables.
    #[test]
    fn pages_say_how_much_is_compared() {
        let share = format!("as many as take {:.0}% of the time", 100.0 * SHARE);
        let flat = |text: &str| text.split_whitespace().filter(|word| *word != "\\").collect::<Vec<_>>().join(" ");
        for page in
            [include_str!("../../../docs/explanation/checks.md"), include_str!("../../report/src/page/method.rs")]
        {
            assert!(flat(page).contains(&share), "`{share}` is not said");
        }
    }

    #[test]
    fn all_wrong_elements_count_and_a_few_are_told() {
        let element = record::WrongElement { rank: 0, index: 1, expected: "1".into(), got: "2".into() };
        let report = WrongReport { count: 6, compared: 10, first: vec![element; 6] };
        let mut midway = Midway::default();
        midway.found(report.clone());
        midway.found(report);
        let sum = midway.take();
        assert_eq!((sum.count, sum.compared, sum.first.len()), (12, 20, MOST_REPORTED));
        assert_eq!(midway.take(), WrongReport::default());
    }
}

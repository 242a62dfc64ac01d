//! When to print progress into a pipe or a file, which cannot show a table that is redrawn.

use std::time::{Duration, Instant};

/// From the start to the first line: a waiting user wants to see soon that something is measured.
const FIRST: Duration = Duration::from_secs(2);
/// From one line to the next, at least.
const NEXT: Duration = Duration::from_secs(5);

/// See the module's documentation.
pub(super) struct ProgressPause {
    last: Instant,
    pause: Duration,
}

impl ProgressPause {
    pub(super) fn new(begun: Instant) -> Self {
        Self { last: begun, pause: FIRST }
    }

    /// Whether a line is due, which is then taken to be written.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let due = now.duration_since(self.last) >= self.pause;
        if due {
            (self.last, self.pause) = (now, NEXT);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_comes_soon_and_others_now_and_then() {
        let begun = Instant::now();
        let mut pause = ProgressPause::new(begun);
        let asked = [0.5, 1.9, 2.1, 2.2, 7.0, 7.2, 9.0, 12.3];
        let due: Vec<f64> = asked.into_iter().filter(|at| pause.is_due(begun + Duration::from_secs_f64(*at))).collect();
        assert_eq!(due, [2.1, 7.2, 12.3]);
    }
}

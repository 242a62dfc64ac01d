//! Rows that are drawn again in place on a terminal.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use view::terminal;

/// Drawn no more often than this.
const REDRAW: Duration = Duration::from_millis(150);

/// Something else was written to the terminal since rows were drawn.
static WRITTEN_BELOW: AtomicBool = AtomicBool::new(false);

/// Leaves the rows that were drawn as they stand: something is written below them, and the next ones follow that.
pub(super) fn begin_below() {
    WRITTEN_BELOW.store(true, Ordering::Relaxed);
}

/// What stands on the terminal and is to be drawn again.
#[derive(Default)]
pub(super) struct Live {
    /// Lines that were drawn, the cursor being at the end of the last.
    drawn: usize,
    at: Option<Instant>,
}

impl Live {
    pub(super) fn is_due(&self) -> bool {
        self.at.is_none_or(|at| at.elapsed() >= REDRAW)
    }

    /// What takes away the lines that were drawn.
    pub(super) fn clear(&mut self) -> String {
        if WRITTEN_BELOW.swap(false, Ordering::Relaxed) {
            self.drawn = 0;
        }
        match std::mem::take(&mut self.drawn) {
            0 => String::new(),
            lines => terminal::clear_above(lines - 1),
        }
    }

    /// What draws these rows and the line of progress in place of those before: the last rows that the terminal has room
    /// for, since a line that has left the screen cannot be drawn again.
    pub(super) fn draw(&mut self, rows: &[String], progress: Option<&str>) -> String {
        let (columns, height) = terminal_size::terminal_size()
            .map_or((100, 24), |(width, height)| (usize::from(width.0), usize::from(height.0)));
        let room = height.saturating_sub(3).max(4);
        let left_out = rows.len().saturating_sub(room);
        let mut lines: Vec<String> = Vec::new();
        if left_out > 0 {
            lines.push(format!("  ... {left_out} lines above are in the table at the end"));
        }
        lines.extend(rows.iter().skip(left_out).map(|row| terminal::cut(row, columns)));
        lines.extend(progress.map(|progress| terminal::cut(progress, columns)));
        let text = format!("{}{}", self.clear(), lines.join("\n"));
        (self.drawn, self.at) = (lines.len(), Some(Instant::now()));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_drawn_is_taken_away_line_by_line() {
        let mut live = Live::default();
        assert_eq!(live.clear(), "");
        let rows = ["a".to_owned(), "b".to_owned()];
        assert_eq!(live.draw(&rows, Some("p")), "a\nb\np");
        assert_eq!(live.draw(&rows, None), format!("{}a\nb", terminal::clear_above(2)));
        assert_eq!(live.clear(), terminal::clear_above(1));
    }
}

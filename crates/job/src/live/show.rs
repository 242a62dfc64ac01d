//! A verdict on a job that runs, as text.

use launch::attach::Doing;
use terms::text::sentence;
use view::terminal::{Cell, Column, Row, Style, Table, hanging, wrap};

use super::verdict::{Seen, Verdict, call_text};
use crate::hangs::is_own;

/// Ranks that the table lists.
const LISTED: usize = 64;

impl Verdict {
    /// As a person reads it, in lines of so many columns.
    pub fn text(&self, width: usize) -> String {
        let mut sentences = self.sentences.iter();
        let first = sentences.next().map_or(String::new(), |first| sentence(&view::one_line(first)));
        let mut out = format!("{}\n", Style::Bold.paint(&wrap(&first, width)));
        for more in sentences {
            out += &format!("{}\n", wrap(&sentence(&view::one_line(more)), width));
        }
        out += &format!("\n{}", table(&self.ranks, width));
        for note in &self.notes {
            out += &format!("{}\n", hanging("note: ", &view::one_line(note), width));
        }
        out
    }
}

fn table(ranks: &[Seen], width: usize) -> String {
    let mut table = Table::new([
        Column::right("rank"),
        Column::left("host"),
        Column::right("pid"),
        Column::left("state"),
        Column::left("call"),
        Column::left("at").wraps(60, 24),
    ]);
    for one in ranks.iter().take(LISTED) {
        let seen = &one.observed;
        table.push(Row::new([
            Cell::from(one.rank.to_string()),
            Cell::from(view::one_line(&seen.host)),
            Cell::from(seen.pid.to_string()),
            Cell::styled(state(seen.doing), style(seen.doing)),
            Cell::from(seen.call.as_ref().map_or("-".to_owned(), |call| view::one_line(&call_text(call)))),
            Cell::from(view::one_line(&at(one))),
        ]));
    }
    let more = ranks.len().saturating_sub(LISTED);
    let more = if more > 0 { format!("... and {more} more ranks: --json lists all\n") } else { String::new() };
    table.text(width) + &more
}

/// The innermost frame of the job's own files, else the innermost of all.
fn at(one: &Seen) -> String {
    let stack = &one.live.stack;
    let Some(frame) = stack.iter().find(|frame| is_own(frame)).or(stack.first()) else { return "-".to_owned() };
    match frame.line {
        0 => format!("{} ({})", frame.name, frame.file),
        line => format!("{} ({}:{line})", frame.name, frame.file),
    }
}

fn state(doing: Doing) -> &'static str {
    match doing {
        Doing::Waits => "waits",
        Doing::Sleeps => "sleeps",
        Doing::Computes => "computes",
        Doing::Moves => "moves",
        Doing::Stopped => "stopped",
        Doing::Ended => "ended",
    }
}

fn style(doing: Doing) -> Style {
    match doing {
        Doing::Stopped | Doing::Ended => Style::Red,
        Doing::Sleeps | Doing::Computes => Style::Yellow,
        Doing::Waits | Doing::Moves => Style::Plain,
    }
}

//! Communication call by call, where a trace has no steps: as a table, and who is last.

use diagnose::profile::{Analysis, CallTotals};
use record::ExplainedTable;
use serde_json::{Value, json};
use terms::{Bytes, Seconds};
use view::number::NONE;

use crate::document::{Block, Column, Table};

/// Rows that the terminal shows; the record has all.
const ROWS: usize = 8;

/// The first calls, and how many there are more.
pub(super) fn blocks(analysis: &Analysis) -> Vec<Block> {
    let calls = &analysis.calls;
    if calls.is_empty() {
        return Vec::new();
    }
    let numbers = ["bytes", "calls", "time", "transfer", "wait"].map(Column::right);
    let words = ["operation", "communicator"].map(|title| Column::left(title).wraps(16, 12));
    let mut table = Table::new(words.into_iter().chain(numbers).chain([Column::left("last rank")]));
    let shown = |seconds: Option<f64>| seconds.map_or(NONE.to_owned(), |seconds| Seconds(seconds).to_string());
    for one in calls.iter().take(ROWS) {
        table.row([
            one.operation.clone(),
            one.group.clone(),
            one.bytes.map_or(NONE.to_owned(), |bytes| Bytes(bytes).about().to_string()),
            one.calls.to_string(),
            shown(Some(one.time_s)),
            shown(one.transfer_s),
            shown(one.wait_s),
            one.last.map_or(NONE.to_owned(), |(rank, count)| format!("{rank} in {count} of {}", one.judged)),
        ]);
    }
    let more = calls.len().saturating_sub(ROWS) + analysis.calls_left_out;
    let more = if more > 0 { format!("... {more} more; ") } else { String::new() };
    let below = format!("{more}per call: time of a mean rank, and how long ranks wait for the last one");
    vec![Block::Table(table), Block::Paragraph(below.into())]
}

/// The table for the record.
pub(super) fn table(analysis: &Analysis) -> ExplainedTable {
    let row = |one: &CallTotals| -> Vec<Value> {
        vec![
            json!(one.operation),
            json!(one.group),
            json!(one.bytes),
            json!(one.calls),
            json!(one.time_s),
            json!(one.transfer_s),
            json!(one.wait_s),
            json!(one.last.map(|(rank, _)| rank)),
            json!(one.last.map(|(_, count)| count)),
            json!(one.judged),
        ]
    };
    let columns =
        ["operation", "communicator", "bytes", "calls", "time s", "transfer s", "wait s", "last rank", "last in", "of"];
    ExplainedTable {
        name: "calls".to_owned(),
        title: "Communication by operation and size, medians over calls".to_owned(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: analysis.calls.iter().map(row).collect(),
    }
}

/// Who is last, of a trace without steps. None where it has no calls.
pub(super) fn verdict(analysis: &Analysis) -> Option<String> {
    let first = analysis.calls.first()?;
    let late = analysis.calls.iter().find(|one| one.is_last_by_more_than_chance);
    let Some(late) = late else {
        return Some(match analysis.calls.iter().find(|one| one.judged > 0) {
            Some(one) => format!("no rank is last in {} more often than chance makes it", one.operation),
            None => {
                format!("the trace has calls of {} and no steps, and does not show which rank is last", first.operation)
            }
        });
    };
    let (rank, count) = late.last?;
    let size = late.bytes.map_or(String::new(), |bytes| format!(" of {}", Bytes(bytes).about()));
    Some(format!(
        "rank {rank} is the last to enter {}{size} in {count} of {} calls: the others wait {} for it, and moving the bytes takes \
         {}",
        late.operation,
        late.judged,
        Seconds(late.wait_s?),
        Seconds(late.transfer_s?)
    ))
}

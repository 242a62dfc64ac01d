//! Tables of the Intel MPI Benchmarks: their names, their columns, and the figures of a row.
//!
//! `src_c/IMB_output.c` writes them (`IMB_print_header`, `IMB_display_times`).

use terms::{Collective, Error};

use super::nccl::plain;
use super::osu_table::{percent, time, whole};
use super::versions::unknown_column;
use crate::{Details, Figures, Source, collective};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImbColumn {
    Bytes,
    Repetitions,
    Time,
    Min,
    Max,
    Average,
    Defects,
    Rate,
    /// In percent.
    Overlap,
    /// Times of a call that overlaps with computation.
    Unread,
}

const KNOWN: &str = "#bytes #repetitions t[usec] t_min[usec] t_max[usec] t_avg[usec] Mbytes/sec Msg/sec defects \
                     t_ovrl[usec] t_pure[usec] t_CPU[usec] overlap[%]";

/// What a table is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timed {
    /// Calls that end when the operation has.
    Blocking,
    /// Non-blocking calls and their waits, by the mean over ranks.
    NonBlocking,
    /// Non-blocking calls and their waits, by the rank whose overlapped call takes longest.
    OfTheSlowest,
}

impl Timed {
    /// What a time is.
    pub(super) fn statistic(self) -> &'static str {
        match self {
            Self::Blocking => "mean over iterations of the mean over ranks",
            Self::NonBlocking => {
                "mean over iterations of the mean over ranks, of a non-blocking call and its wait without computation"
            }
            Self::OfTheSlowest => {
                "mean over iterations, of a non-blocking call and its wait without computation, of the rank whose call \
                 with computation takes longest"
            }
        }
    }
}

/// The operation of a table, and what is timed: `Allreduce`, `Iallreduce`, `Iallreduce_pure`. None where it has no
/// counterpart here.
pub(super) fn measured(name: &str) -> Option<(Collective, Timed)> {
    let op = |word: &str| collective::op(word).filter(|op| *op != Collective::AllToAllV && !word.contains("_block"));
    if let Some(op) = op(name) {
        return Some((op, Timed::Blocking));
    }
    let rest = name.strip_prefix('I').filter(|rest| rest.starts_with(|first: char| first.is_ascii_lowercase()))?;
    match rest.strip_suffix("_pure") {
        Some(word) => Some((op(word)?, Timed::NonBlocking)),
        None => Some((op(rest)?, Timed::OfTheSlowest)),
    }
}

/// Columns by a header. A table without a counterpart here may have others.
///
/// # Errors
/// When a column is unknown.
pub(super) fn columns(
    source: &Source,
    number: usize,
    tool: &str,
    text: &str,
    is_known: bool,
) -> Result<Vec<ImbColumn>, Error> {
    let mut columns = Vec::new();
    for word in text.split_ascii_whitespace() {
        columns.push(match word {
            "#bytes" => ImbColumn::Bytes,
            "#repetitions" => ImbColumn::Repetitions,
            "t[usec]" | "t_pure[usec]" => ImbColumn::Time,
            "t_min[usec]" => ImbColumn::Min,
            "t_max[usec]" => ImbColumn::Max,
            "t_avg[usec]" => ImbColumn::Average,
            "defects" => ImbColumn::Defects,
            "Mbytes/sec" | "Msg/sec" => ImbColumn::Rate,
            "overlap[%]" => ImbColumn::Overlap,
            "t_ovrl[usec]" | "t_CPU[usec]" => ImbColumn::Unread,
            // Tables of other suites have columns of their own.
            _ if !is_known => continue,
            _ => return Err(unknown_column(source, number, tool, word, KNOWN)),
        });
    }
    Ok(columns)
}

/// What is said of columns that no case has.
pub(super) fn unread(columns: &[ImbColumn]) -> Option<&'static str> {
    let what = "the columns `t_ovrl[usec]` and `t_CPU[usec]`: a case has the time of the communication alone";
    columns.contains(&ImbColumn::Unread).then_some(what)
}

/// The size and the figures of a line, and how much overlaps, in percent.
///
/// # Errors
/// What is wrong with it.
pub(super) fn row(columns: &[ImbColumn], text: &str) -> Result<(u64, Figures, Option<f64>), String> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    if words.len() != columns.len() {
        return Err(format!("expected {} columns, found {}", columns.len(), words.len()));
    }
    let (mut bytes, mut found, mut details, mut overlap) = (0, Figures::default(), Details::default(), None);
    for (column, word) in columns.iter().zip(words) {
        let seconds = || time(word, 1e-6);
        match column {
            ImbColumn::Bytes => bytes = whole(word)?,
            ImbColumn::Repetitions => found.iterations = Some(whole(word)?),
            ImbColumn::Time | ImbColumn::Average => found.time_s = seconds()?,
            ImbColumn::Min => details.min = Some(seconds()?),
            ImbColumn::Max => details.max = Some(seconds()?),
            ImbColumn::Overlap => overlap = Some(percent(word)?),
            ImbColumn::Defects => {
                let share: f64 = word.parse().map_err(|_| format!("expected defects, found `{}`", plain(word)))?;
                if share != 0.0 {
                    return Err("its own check failed".to_owned());
                }
                found.wrong = Some(0);
            }
            ImbColumn::Rate | ImbColumn::Unread => {}
        }
    }
    if found.time_s <= 0.0 {
        return Err("expected the column t_avg[usec], t[usec] or t_pure[usec]".to_owned());
    }
    if details != Details::default() {
        found.details = Some(Box::new(details));
    }
    Ok((bytes, found, overlap))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_is_timed() {
        for (name, found) in [
            ("Allreduce", Some((Collective::AllReduce, Timed::Blocking))),
            ("allreduce", Some((Collective::AllReduce, Timed::Blocking))),
            ("Iallreduce", Some((Collective::AllReduce, Timed::OfTheSlowest))),
            ("Ireduce_scatter_pure", Some((Collective::ReduceScatter, Timed::NonBlocking))),
            ("Ibarrier", Some((Collective::Barrier, Timed::OfTheSlowest))),
            ("Ialltoallv", None),
            ("Reduce_scatter_block", None),
            ("Multi-Allreduce", None),
            ("S_IWrite_Indv", None),
        ] {
            assert_eq!(measured(name), found, "{name}");
        }
    }
}

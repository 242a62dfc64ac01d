//! What rows of the OSU Micro-Benchmarks measured: cases with their figures, and how they were read.

use std::borrow::Cow;

use terms::{Collective, Dtype};

use super::osu_table::{self, OsuColumn};
use super::osu_title::{Buffers, Launched, Test};
use super::sizes::Sizes;
use crate::collective::MeasuredCall;
use crate::{Details, Figures, Results, Shape};

/// A table that is being read.
pub(super) struct OsuTable {
    /// The line of its title.
    pub(super) line: usize,
    /// What its title says, for messages.
    pub(super) name: String,
    /// The program with its version.
    pub(super) tool: String,
    /// None where it has no counterpart here.
    pub(super) test: Option<Test>,
    pub(super) backend: &'static str,
    /// Device that the title names.
    pub(super) device: &'static str,
    pub(super) ranks: u32,
    /// Whether the ranks are those of the command line.
    pub(super) is_launched: bool,
    pub(super) launched: Option<Launched>,
    /// Buffers that the table's own line names, else the command line.
    pub(super) buffers: Option<Buffers>,
    pub(super) dtype: Option<Dtype>,
    pub(super) columns: Vec<OsuColumn>,
    pub(super) sizes: Sizes,
    pub(super) rows: Vec<(Shape, Figures)>,
    /// Rows that tell how much overlaps.
    pub(super) overlaps: usize,
    /// Notes that its version is new.
    pub(super) unseen: Option<String>,
    /// Whether its results have begun.
    pub(super) has_begun: bool,
}

/// Messages that are under way at once unless the command line says otherwise.
const WINDOW: u32 = 64;

impl OsuTable {
    /// What a time is.
    pub(super) fn statistic(&self) -> String {
        let window = self.launched.as_ref().and_then(|launched| launched.window).unwrap_or(WINDOW);
        let mut statistic = match self.test {
            Some(Test::OneWay | Test::BothWays) => {
                format!("mean over messages, of which {window} were under way at once")
            }
            Some(Test::Call { is_non_blocking: true, .. }) => {
                "mean over iterations of the mean over ranks, of a non-blocking call and its wait without computation"
                    .to_owned()
            }
            _ => "mean over iterations of the mean over ranks".to_owned(),
        };
        let differ = self.buffers.as_ref().filter(|_| self.test.is_some_and(Test::is_of_two)).and_then(Buffers::differ);
        if let Some(differ) = differ {
            statistic += &format!("; {differ}");
        }
        statistic
    }

    /// What results say at their begin.
    pub(super) fn tell(&self, results: &mut Results) {
        let (line, Some(test)) = (self.line, self.test) else { return };
        results.tell([("table".to_owned(), format!("OSU {}, line {line}", self.name))]);
        if self.is_launched && !test.is_of_two() {
            results.quote(format!("line {line}: {} ranks, by the command line above", self.ranks));
        }
        if test.is_of_two() && self.buffers.is_none() && self.device != "cpu" && self.backend == "mpi" {
            results.note(format!(
                "line {line}: the file does not say where the buffers were: they are taken to be in memory of GPUs, as \
                 the title has them"
            ));
        }
    }

    /// Where the buffers were.
    fn device(&self) -> &'static str {
        let are_of_host = self.buffers.as_ref().is_some_and(Buffers::are_of_host);
        if are_of_host && self.test.is_some_and(Test::is_of_two) { "cpu" } else { self.device }
    }

    /// What a row measured.
    pub(super) fn measured(&self, test: Test, row: osu_table::OsuRow) -> Result<(Shape, Figures), String> {
        let Test::Call { op, is_block, .. } = test else { return self.rate(test, row) };
        let call = MeasuredCall::new(op, self.ranks, self.backend, self.device());
        let dtype = self.dtype.unwrap_or(default_dtype(op));
        let blocks = if per_rank(op) { u64::from(self.ranks) } else { 1 };
        let mut bytes = row.bytes.checked_mul(blocks).ok_or("its size is too large")?;
        if is_block {
            // Each rank has so many whole elements.
            bytes -= bytes % dtype.bytes().saturating_mul(u64::from(self.ranks)).max(1);
        }
        if bytes == 0 && op != Collective::Barrier {
            return Err("0 bytes: nothing moves".to_owned());
        }
        if row.figures.time_s <= 0.0 {
            return Err("the table has no time".to_owned());
        }
        let call = MeasuredCall { bytes, dtype, in_place: in_place(op), isolated: is_isolated(op), ..call };
        Ok((call.shape(), row.figures))
    }

    /// What a row of bandwidths measured.
    fn rate(&self, test: Test, row: osu_table::OsuRow) -> Result<(Shape, Figures), String> {
        let bandwidth = row.bandwidth.ok_or("the table has no bandwidth")?;
        if row.bytes == 0 {
            return Err("0 bytes: nothing moves".to_owned());
        }
        // Both directions count in that of both ways.
        let (name, ways) = if test == Test::OneWay { ("bandwidth", 1.0) } else { ("both_ways", 2.0) };
        let mut fields: Vec<(&'static str, Cow<'static, str>)> = vec![
            ("test", name.into()),
            ("ranks", "2".into()),
            ("backend", self.backend.into()),
            ("bytes", row.bytes.to_string().into()),
        ];
        let device = self.device();
        if device != "cpu" {
            fields.push(("device", "cuda".into()));
        }
        let one_way = bandwidth / ways;
        let details = Details { metrics: vec![("gbs", one_way / 1e9)], ..Details::default() };
        let time_s = row.bytes as f64 / one_way;
        if !(time_s.is_finite() && time_s > 0.0) {
            return Err(format!("a bandwidth of {bandwidth} bytes/s is not one"));
        }
        let shape = Shape { benchmark: "hardware", fields, device, implementation: None };
        Ok((shape, Figures { time_s, details: Some(Box::new(details)), ..row.figures }))
    }

    /// How rows were read.
    pub(super) fn notes(&self, rows: &[(Shape, Figures)]) -> Vec<String> {
        let mut notes = Vec::new();
        match self.test {
            None => {}
            Some(Test::Call { op, is_non_blocking, .. }) => self.notes_of_calls(op, is_non_blocking, rows, &mut notes),
            Some(test) => {
                let sum = if test == Test::OneWay { "" } else { "; half of it, because OSU adds both directions" };
                notes.push(format!(
                    "line {}: the program prints a bandwidth in 1e6 bytes/s{sum}: a message takes its bytes / that",
                    self.line
                ));
                if self.launched.is_none() {
                    notes.push(format!(
                        "the file has no command line: {WINDOW} messages are taken to be under way at once, the default"
                    ));
                }
                notes.push(
                    "many messages were under way at once, so short ones take less than their latency: rankmark's own \
                     tests send one after the other"
                        .to_owned(),
                );
            }
        }
        notes
    }

    fn notes_of_calls(
        &self,
        op: Collective,
        is_non_blocking: bool,
        rows: &[(Shape, Figures)],
        notes: &mut Vec<String>,
    ) {
        if per_rank(op) {
            notes.push(PER_RANK.to_owned());
        }
        // Before 7.1, reductions are of MPI_FLOAT and the rest is of MPI_CHAR, and the file does not say so.
        if self.dtype.is_none() && op != Collective::Barrier {
            let dtype = default_dtype(op);
            notes.push(format!("the file does not tell the element type: {op} is read as {dtype}, its default"));
        }
        if rows.iter().any(|(_, figures)| figures.details.is_some()) {
            notes.push("smallest and largest are over ranks".to_owned());
        }
        if is_non_blocking {
            notes.push(format!(
                "line {}: {op} is non-blocking: its time is that of the communication alone, `Pure Comm.(us)`",
                self.line
            ));
        }
        if self.ranks == 1 {
            notes.push(ONE_RANK.to_owned());
        }
    }
}

/// What is said of operations whose size is that of a part.
pub(super) const PER_RANK: &str =
    "bytes of all_gather, all_to_all, gather and scatter are the printed size x ranks: it counts one rank's part";

/// What is said of a program with one process.
pub(super) const ONE_RANK: &str = "one rank: nothing was communicated";

fn default_dtype(op: Collective) -> Dtype {
    if op.reduces() { Dtype::F32 } else { Dtype::U8 }
}

/// Whether the printed size is that of one rank's part.
pub(super) fn per_rank(op: Collective) -> bool {
    matches!(op, Collective::AllGather | Collective::AllToAll | Collective::Gather | Collective::Scatter)
}

fn in_place(op: Collective) -> Option<bool> {
    (!matches!(op, Collective::PingPong | Collective::Barrier)).then_some(false)
}

/// Whether ranks meet in a barrier, untimed, after each call.
fn is_isolated(op: Collective) -> bool {
    !matches!(op, Collective::PingPong | Collective::Barrier)
}

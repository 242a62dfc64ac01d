//! The text of the OSU Micro-Benchmarks, 5 to 7: blocking collectives, and the ping-pong of `osu_latency`.

use terms::{Collective, Dtype, Error};

use super::command;
use super::nccl::plain;
use super::row_like::{self, Words};
use super::runs::Runs;
use super::versions::{self, unknown_column};
use crate::collective::{self, Call};
use crate::{Content, Details, Figures, Format, Line, Results, Source};

/// The format.
pub(super) struct Osu;

impl Format for Osu {
    fn name(&self) -> &'static str {
        "osu"
    }

    fn doc(&self) -> &'static str {
        "OSU Micro-Benchmarks: what osu_allreduce and its like print (give --ranks)"
    }

    fn begins(&self, line: &str) -> bool {
        title(line).is_some()
    }

    fn marks(&self) -> &'static [&'static str] {
        &["# OSU ", " Test", "# Size"]
    }

    fn recognises(&self, source: &Source) -> bool {
        source.text().contains("OSU ") && source.lines().any(|line| title(line.text).is_some())
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let given = collective::given_ranks(source)?;
        let mut reader = Reader { source, given, launched: None, table: None, results: Runs::default() };
        for line in source.lines() {
            reader.line(line)?;
        }
        Ok(Content::Results(reader.results.finish(source)?))
    }
}

/// `# OSU MPI-CUDA Allreduce Latency Test v7.3` as library, what is tested, and version.
fn title(text: &str) -> Option<(&str, &str, &str)> {
    let rest = text.trim_start_matches(['#', ' ', '\t']).strip_prefix("OSU ")?;
    let (library, rest) = rest.split_once(' ')?;
    let (test, version) = rest.split_once(" Test")?;
    Some((library, test, version.trim().trim_start_matches('v')))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Bytes,
    Average,
    Min,
    Max,
    P50,
    P90,
    P99,
    Iterations,
    Validation,
}

/// A table that is being read.
struct Table {
    /// None where it has no counterpart here.
    op: Option<Collective>,
    backend: &'static str,
    device: &'static str,
    ranks: u32,
    dtype: Option<Dtype>,
    columns: Vec<Column>,
    /// The program with its version.
    tool: String,
}

struct Reader<'s> {
    source: &'s Source,
    given: Option<u32>,
    /// The last command line: it is that of the table that begins next.
    launched: Option<Launched>,
    table: Option<Table>,
    results: Runs,
}

/// What a command line says.
struct Launched {
    ranks: Option<u32>,
    /// What decides how calls are timed.
    method: String,
    /// All of it, without the shell's part.
    text: String,
}

/// Options that tell what is measured, or that do not change how calls run.
const NO_METHOD: &[&str] = &[
    "-m",
    "--message-size",
    "-M",
    "--mem-limit",
    "-c",
    "--validation",
    "-f",
    "--full",
    "-T",
    "--type",
    "-z",
    "--tail-lat",
    "-h",
];

impl Reader<'_> {
    fn line(&mut self, line: Line<'_>) -> Result<(), Error> {
        let text = line.text.trim();
        if let Some((library, test, version)) = title(text) {
            return self.begin(line.number, library, test, version);
        }
        let Some(table) = &mut self.table else {
            match launched(text) {
                Some(launched) => self.launched = Some(launched),
                None => self.results.headings.add(line.number, text),
            }
            return Ok(());
        };
        if let Some(bare) = text.strip_prefix('#') {
            let bare = bare.trim();
            if let Some(name) = bare.strip_prefix("Datatype:") {
                let name = name.trim().trim_end_matches('.');
                table.dtype = collective::dtype(name);
                if table.dtype.is_none() && table.op.take().is_some() {
                    self.omit(line.number, format!("there is no element type `{}`", plain(name)));
                }
            } else if table.op.is_some() && (bare.starts_with("Size ") || bare.starts_with("Avg Latency")) {
                table.columns = columns(self.source, line.number, &table.tool, bare)?;
                if let Some(results) = self.results.current().filter(|_| table.columns.contains(&Column::P90)) {
                    results.leave_unread(
                        "the column `P90 Tail Lat(us)`: the record has the percentiles 5, 50, 95, 99".to_owned(),
                    );
                }
            }
        } else if row_like::begins_with_number(text) {
            self.row(line.number, text);
        } else if let Some(launched) = launched(text) {
            self.launched = Some(launched);
        } else if Words::count(text).may_be(table.columns.len()) {
            self.row(line.number, text);
        } else if let Some(results) = self.results.current().filter(|_| row_like::is_ending(text)) {
            results.quote(format!("line {}: {}", line.number, plain(text)));
        } else {
            self.results.headings.add(line.number, text);
        }
        Ok(())
    }

    fn omit(&mut self, line: usize, why: impl std::fmt::Display) {
        if let Some(results) = self.results.current() {
            results.omit(line, why);
        }
    }

    fn begin(&mut self, number: usize, library: &str, test: &str, version: &str) -> Result<(), Error> {
        let tool = format!("OSU Micro-Benchmarks {}", plain(version));
        let launched = self.launched.take();
        let (method, text) = launched.as_ref().map_or(("", ""), |launched| (&launched.method, &launched.text));
        let mut results = Results::new(tool.clone(), "mean over iterations of the mean over ranks");
        versions::OSU.unseen(number, version).into_iter().for_each(|note| results.note(note));
        if !method.is_empty() {
            results.facts.insert("settings of the command line".to_owned(), method.to_owned());
        }
        self.results.begin(format!("{tool}: {method}"), text, results);
        let launched = launched.and_then(|launched| launched.ranks);
        let (family, accelerator) = library.split_once('-').unwrap_or((library, ""));
        let backend = match family {
            "MPI" => Some("mpi"),
            "NCCL" | "RCCL" => Some("nccl"),
            _ => None,
        };
        let op = backend.and_then(|_| operation(test));
        let ranks = match (op, self.given.or(launched)) {
            (Some(Collective::PingPong) | None, _) => 2,
            (Some(_), Some(ranks)) => ranks,
            (Some(_), None) => return Err(collective::no_ranks(self.source, number)),
        };
        let device = match accelerator {
            "" => "cpu",
            // Level Zero, and SYCL, which is above it: GPUs of Intel, by PyTorch's word.
            "ZE" | "SYCL" => "xpu",
            _ => "cuda",
        };
        self.table = Some(Table {
            op,
            backend: backend.unwrap_or("mpi"),
            device,
            ranks,
            dtype: None,
            columns: Vec::new(),
            tool,
        });
        let launched = launched.filter(|_| self.given.is_none());
        let Some(results) = self.results.current() else { return Ok(()) };
        match op {
            None => {
                results.omit(number, format!("`{} {}` has no counterpart here", plain(library), plain(test)));
            }
            Some(op) => {
                results.tell([("table".to_owned(), format!("OSU {} {}, line {number}", plain(library), plain(test)))]);
                if per_rank(op) {
                    results.note("bytes of all_gather, all_to_all, gather and scatter are the printed size x ranks: it counts one rank's part");
                }
                if let Some(ranks) = launched.filter(|_| op != Collective::PingPong) {
                    results.quote(format!("line {number}: {ranks} ranks, by the command line above"));
                }
            }
        }
        Ok(())
    }

    fn row(&mut self, number: usize, text: &str) {
        let Some(table) = self.table.as_mut() else { return };
        let Some(op) = table.op else { return };
        if table.columns.is_empty() {
            if Words::count(text).are_a_row() {
                self.omit(number, "no header of a table stands above this line");
            }
            return;
        }
        let (call, dtype_is_told) = (Call::new(op, table.ranks, table.backend, table.device), table.dtype.is_some());
        // Before 7.1, reductions are of MPI_FLOAT and the rest is of MPI_CHAR, and the file does not say so.
        let dtype = table.dtype.unwrap_or(if op.reduces() { Dtype::F32 } else { Dtype::U8 });
        let call = Call { dtype, in_place: in_place(op), isolated: is_isolated(op), ..call };
        let read = figures(&table.columns, text).and_then(|(bytes, figures)| {
            let blocks = if per_rank(op) { u64::from(call.ranks) } else { 1 };
            let bytes = bytes.checked_mul(blocks).ok_or("its size is too large")?;
            if bytes == 0 && op != Collective::Barrier {
                return Err("0 bytes: nothing moves".to_owned());
            }
            Ok((Call { bytes, ..call }, figures))
        });
        let Some(results) = self.results.current() else { return };
        match read {
            Err(why) => results.omit(number, why),
            Ok((call, figures)) => {
                if !dtype_is_told && op != Collective::Barrier {
                    results
                        .note(format!("the file does not tell the element type: {op} is read as {dtype}, its default"));
                }
                if figures.details.is_some() {
                    results.note("smallest and largest are over ranks");
                }
                let place = results.place(call.shape());
                results.add_at(place, figures);
            }
        }
    }
}

/// What is tested, as a collective of rankmark.
fn operation(test: &str) -> Option<Collective> {
    Some(match test {
        "Latency" => Collective::PingPong,
        "All-to-All Personalized Exchange Latency" => Collective::AllToAll,
        _ => return collective::op(test.strip_suffix(" Latency")?).filter(|op| *op != Collective::AllToAllV),
    })
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

/// Columns by a header: `Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations`.
fn columns(source: &Source, number: usize, tool: &str, bare: &str) -> Result<Vec<Column>, Error> {
    let mut columns = Vec::new();
    let mut name = String::new();
    for word in bare.split_ascii_whitespace() {
        if !name.is_empty() {
            name.push(' ');
        }
        name.push_str(word);
        let column = match name.as_str() {
            "Size" => Column::Bytes,
            "Avg Latency(us)" | "Avg Latency (us)" | "Latency (us)" | "Latency(us)" => Column::Average,
            "Min Latency(us)" => Column::Min,
            "Max Latency(us)" => Column::Max,
            "P50 Tail Lat(us)" => Column::P50,
            "P99 Tail Lat(us)" => Column::P99,
            "P90 Tail Lat(us)" => Column::P90,
            "Iterations" => Column::Iterations,
            "Validation" => Column::Validation,
            _ => continue,
        };
        columns.push(column);
        name.clear();
    }
    if !name.is_empty() || !columns.contains(&Column::Average) {
        let known = "Size, Avg Latency(us), Latency (us), Min Latency(us), Max Latency(us), P50/P90/P99 Tail Lat(us), \
                     Iterations, Validation";
        return Err(unknown_column(source, number, tool, &name, known));
    }
    Ok(columns)
}

/// The size and the figures of a line.
fn figures(columns: &[Column], text: &str) -> Result<(u64, Figures), String> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    if words.len() != columns.len() {
        return Err(format!("expected {} columns, found {}", columns.len(), words.len()));
    }
    let (mut bytes, mut found, mut details) = (0, Figures::default(), Details::default());
    for (column, word) in columns.iter().zip(words) {
        let seconds = || time(word, 1e-6);
        let whole = || word.parse::<u64>().map_err(|_| format!("expected a whole number, found `{}`", plain(word)));
        match column {
            Column::Bytes => bytes = whole()?,
            Column::Average => found.time_s = seconds()?,
            Column::Min => details.min = Some(seconds()?),
            Column::Max => details.max = Some(seconds()?),
            Column::P50 => details.p50 = Some(seconds()?),
            Column::P99 => details.p99 = Some(seconds()?),
            Column::Iterations => found.iterations = Some(whole()?),
            Column::Validation if word == "Pass" => found.wrong = Some(0),
            Column::Validation if word == "Fail" => return Err("its own check failed".to_owned()),
            Column::Validation | Column::P90 => {}
        }
    }
    if details != Details::default() {
        found.details = Some(Box::new(details));
    }
    Ok((bytes, found))
}

/// A time in units of so many seconds.
pub(super) fn time(word: &str, unit: f64) -> Result<f64, String> {
    let value: Option<f64> = word.parse().ok();
    let value = value.filter(|value| value.is_finite() && *value > 0.0);
    value.map(|value| value * unit).ok_or_else(|| format!("expected a time, found `{}`", plain(word)))
}

/// What a command line says: `mpirun -np 4 ... osu_allreduce -d cuda`.
fn launched(text: &str) -> Option<Launched> {
    if text.contains(" : ") {
        return None;
    }
    // The last one: folders have such names, too.
    let (before, program) = text.split_at(text.rfind("osu_")?);
    let options = program.split_once(' ').map_or("", |(_, options)| options);
    let method = command::method(before, options, NO_METHOD);
    Some(Launched { ranks: command::processes(before), method, text: command::plain(text) })
}

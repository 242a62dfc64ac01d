//! The tables of DeepSpeed's communication benchmarks (`benchmarks/communication` of DeepSpeedExamples, which
//! `ds_bench` and `run_all.py` start): `print_header` of its `utils.py`, and a row for each size.
//!
//! The description is elements x bytes of one, so sizes are exact. Durations are means over trials without waiting
//! between them, measured on rank 0.

mod rows;

use terms::{Bytes, Collective, Dtype, Error, Seconds};

use super::command;
use super::deepspeed_tables::{self, behind};
use super::nccl::plain;
use super::row_like;
use super::runs::Runs;
use crate::collective::{self, MeasuredCall};
use crate::{Content, Figures, Format, Line, Results, Source};
use rows::{DsBenchRow, Units};

/// The format.
pub(super) struct DsBench;

/// How the line above a table begins.
const TITLE: &str = "---- Performance of ";
/// Programs of a command line.
const PROGRAMS: &[&str] =
    &["all_reduce.py", "all_gather.py", "all_to_all.py", "broadcast.py", "pt2pt.py", "run_all.py", "ds_bench"];
/// Options that tell what is measured, and not how.
const NO_METHOD: &[&str] = &[
    "--all-reduce",
    "--all-gather",
    "--all-to-all",
    "--pt2pt",
    "--broadcast",
    "--scan",
    "--maxsize",
    "--raw",
    "--bw-unit",
    "--dtype",
    "--mem-factor",
    "--debug",
    "--backend",
    "--device",
    "--local_rank",
];

impl Format for DsBench {
    fn about(&self) -> (&'static str, &'static str) {
        ("ds_bench", "DeepSpeed's communication benchmarks (ds_bench, run_all.py): a table for each operation")
    }

    fn begins(&self, line: &str) -> bool {
        title(line).is_some()
    }

    fn marks(&self) -> &'static [&'static str] {
        &["---- Performance of ", "Size (Bytes)", "Duration", "Throughput (Gbps)"]
    }

    fn recognises(&self, source: &Source) -> bool {
        source.text().contains(TITLE) && source.lines().any(|line| title(line.text).is_some())
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let mut reader = DsBenchReader {
            source,
            runs: Runs::default(),
            table: None,
            command: String::new(),
            backend: None,
            seen: false,
            between: false,
        };
        for line in source.lines() {
            reader.line(line)?;
        }
        if !reader.seen {
            let what = format!("{} holds no line of results", source.name());
            return Err(Error::new(what).hint("the program ended before its first size, or the table is cut off"));
        }
        Ok(Content::Results(reader.runs.finish(source)?))
    }
}

/// `---- Performance of all_reduce on 8 devices ----` as what stands before it, operation and ranks.
fn title(text: &str) -> Option<(&str, &str, u32)> {
    let at = text.find(TITLE)?;
    let (op, rest) = text[at + TITLE.len()..].split_once(" on ")?;
    let (ranks, rule) = rest.split_once(" devices ")?;
    let ranks = ranks.parse().ok().filter(|ranks| *ranks > 0)?;
    rule.starts_with("---").then_some((&text[..at], op, ranks))
}

/// A table that is being read.
struct DsBenchTable {
    line: usize,
    prefix: String,
    op: String,
    ranks: u32,
    units: Option<Units>,
    last: Option<u64>,
}

struct DsBenchReader<'s> {
    source: &'s Source,
    runs: Runs,
    table: Option<DsBenchTable>,
    /// The last command line; empty where none was seen.
    command: String,
    backend: Option<String>,
    /// Whether a table had a row.
    seen: bool,
    /// Whether somebody else wrote since the last title.
    between: bool,
}

impl DsBenchReader<'_> {
    fn line(&mut self, line: Line<'_>) -> Result<(), Error> {
        if let Some((prefix, op, ranks)) = title(line.text) {
            return self.begin(line.number, prefix, op, ranks);
        }
        let bare = self.table.as_ref().and_then(|table| behind(line.text, &table.prefix)).map(str::trim);
        match (&mut self.table, bare) {
            (Some(table), Some(text)) if text.starts_with("Size (Bytes)") => {
                table.units = Some(rows::units(self.source, line.number, text)?);
            }
            (Some(table), Some(text)) if rows::is_row(text) => {
                let Some(units) = table.units else {
                    let what = "a row without the head of its table: `Size (Bytes)  Description  Duration ...`";
                    return Err(self.source.error(line.number, what));
                };
                self.seen = true;
                match rows::row(text, units) {
                    Ok(row) => {
                        table.next(self.source, line.number, &row)?;
                        self.add(line.number, &row, units);
                    }
                    Err(why) => {
                        self.between = true;
                        self.results().omit(line.number, why);
                    }
                }
            }
            (Some(_), None) if rows::is_row_within(line.text) => {
                self.results().omit(line.number, "a row behind another prefix than that of the table above");
            }
            (_, _) => self.other(line),
        }
        Ok(())
    }

    /// A line of somebody else.
    fn other(&mut self, line: Line<'_>) {
        let text = line.text.trim();
        if let Some(backend) = deepspeed_tables::backend(text) {
            self.backend = Some(backend);
        }
        let is_command = PROGRAMS.iter().any(|program| {
            text.split_once(program).is_some_and(|(before, rest)| {
                before.ends_with([' ', '/']) && (rest.is_empty() || rest.starts_with(' ')) && !before.contains("pdsh")
            })
        });
        let is_rule = !text.is_empty() && text.bytes().all(|byte| byte == b'-');
        if is_command {
            self.command = text.to_owned();
        } else if text.contains("Ran out of GPU memory") || row_like::is_ending(text) {
            if let Some(results) = self.runs.current() {
                results.quote(format!("line {}: {}", line.number, plain(text)));
            }
        } else if !is_rule && !text.contains("[INFO]") {
            self.between |= !text.is_empty();
            self.runs.headings.add(line.number, text);
        }
    }

    fn begin(&mut self, line: usize, prefix: &str, op: &str, ranks: u32) -> Result<(), Error> {
        if let Some(last) = self.table.as_ref().filter(|last| last.units.is_none()) {
            let what = format!("a second table begins before the head of that of line {}: {MIXED}", last.line);
            return Err(self.source.error(line, what));
        }
        let is_again = |last: &&DsBenchTable| last.last.is_none() && last.op == op && !self.between;
        if let Some(last) = self.table.as_ref().filter(is_again) {
            let what =
                format!("a second table of {}, and that of line {} has no row yet: {MIXED}", plain(op), last.line);
            return Err(self.source.error(line, what));
        }
        self.between = false;
        let (before, options) = split(&self.command);
        let method = command::method(before, options, NO_METHOD);
        let mut results = Results::new("ds_bench", "mean over trials, on rank 0");
        if !method.is_empty() {
            results.facts.insert("settings of the command line".to_owned(), method.clone());
        }
        self.runs.begin(method, &command::plain(&self.command), results);
        let (prefix, op) = (prefix.to_owned(), op.to_owned());
        self.table = Some(DsBenchTable { line, prefix, op, ranks, units: None, last: None });
        Ok(())
    }

    fn results(&mut self) -> &mut Results {
        self.runs.current_or(|| Results::new("ds_bench", "mean over trials, on rank 0"))
    }

    fn add(&mut self, line: usize, row: &DsBenchRow, units: Units) {
        let Some(table) = &self.table else { return };
        let (_, options) = split(&self.command);
        let call = call(table, row, options, self.backend.as_deref());
        let trials = match (option(options, "--trials"), self.command.is_empty()) {
            (Some(word), _) => word.parse().ok(),
            (None, false) => Some(50),
            (None, true) => None,
        };
        let backend_is_told = self.backend.is_some() || option(options, "--backend").is_some();
        let dtype_is_told = option(options, "--dtype").is_some();
        let odd = call.as_ref().ok().and_then(|call| disagreement(call, row, units));
        let results = self.results();
        let call = match call {
            Ok(call) => call,
            Err(why) => return results.omit(line, why),
        };
        if let Some(odd) = odd {
            results.quote(format!("line {line}: {odd}"));
        }
        if !dtype_is_told {
            let read = match call.dtype {
                Dtype::F32 => "elements of 4 bytes are read as f32, the default of the program".to_owned(),
                dtype => format!("elements of {} bytes are read as {dtype}: bytes are alike", row.element),
            };
            results.note(format!("the file does not tell the element type: {read}"));
        }
        if !backend_is_told {
            results.note("the file does not tell the backend: it is read as nccl, DeepSpeed's for GPUs");
        }
        let figures = Figures { time_s: row.time_s, iterations: trials, ..Figures::default() };
        let place = results.place(call.shape());
        results.add_at(place, figures);
    }
}

/// What lines of two programs in one table mean.
const MIXED: &str = "separate programs wrote here at once, and their lines are mixed";

impl DsBenchTable {
    /// Sizes of a table grow.
    fn next(&mut self, source: &Source, line: usize, row: &DsBenchRow) -> Result<(), Error> {
        if self.last.is_some_and(|last| last >= row.bytes) {
            let what =
                format!("the size is not larger than the one before in the table of line {}: {MIXED}", self.line);
            return Err(source.error(line, what));
        }
        self.last = Some(row.bytes);
        Ok(())
    }
}

/// The words before the program of a command line, and those behind it.
fn split(command: &str) -> (&str, &str) {
    let at = PROGRAMS.iter().filter_map(|program| Some((command.rfind(program)?, program.len()))).max();
    at.map_or((command, ""), |(at, length)| (&command[..at], &command[at + length..]))
}

/// The value of an option: `--dtype half`, `--dtype=half`.
fn option<'o>(options: &'o str, name: &str) -> Option<&'o str> {
    let mut words = options.split_ascii_whitespace();
    while let Some(word) = words.next() {
        match word.strip_prefix(name) {
            Some("") => return words.next(),
            Some(rest) if rest.starts_with('=') => return Some(rest[1..].trim_matches(['"', '\''])),
            _ => {}
        }
    }
    None
}

/// What a row measured, or why nothing here measures the same.
fn call(table: &DsBenchTable, row: &DsBenchRow, options: &str, backend: Option<&str>) -> Result<MeasuredCall, String> {
    let (op, is_part) = match table.op.as_str() {
        "all_reduce" => (Collective::AllReduce, false),
        "all_gather" => (Collective::AllGather, true),
        "all_to_all" => (Collective::AllToAll, false),
        "broadcast" => (Collective::Broadcast, false),
        "pt2pt" => {
            return Err("pt2pt sends one way, from rank 0 to rank 1: nothing here measures the same".to_owned());
        }
        other => return Err(format!("`{}` has no counterpart here", plain(other))),
    };
    let dtype = dtype(op, row, option(options, "--dtype"))?;
    let factor = if is_part { u64::from(table.ranks) } else { 1 };
    let bytes = row.bytes.checked_mul(factor).ok_or("its size times ranks is larger than any memory")?;
    let (backend, device) = deepspeed_tables::counterpart(option(options, "--backend").or(backend))?;
    let device = match option(options, "--device") {
        Some("xpu") => "xpu",
        Some("cpu") => "cpu",
        _ => device,
    };
    let in_place = Some(matches!(op, Collective::AllReduce | Collective::Broadcast));
    let call = MeasuredCall::new(op, table.ranks, backend, device);
    Ok(MeasuredCall { by_pytorch: true, dtype, bytes, in_place, ..call })
}

/// The element type: as the command line says, else the default of the program. Where only its size is known, it
/// matters to operations that compute.
fn dtype(op: Collective, row: &DsBenchRow, named: Option<&str>) -> Result<Dtype, String> {
    let Some(named) = named else {
        return match row.element {
            4 => Ok(Dtype::F32),
            _ if !op.reduces() => Ok(Dtype::U8),
            bytes => Err(format!("the file does not tell which element type of {bytes} bytes is reduced")),
        };
    };
    let dtype = collective::dtype(named).ok_or_else(|| format!("there is no element type `{}`", plain(named)))?;
    match dtype.bytes() == row.element {
        true => Ok(dtype),
        false => Err(format!("{} elements of {} bytes are not of type `{}`", row.elements, row.element, plain(named))),
    }
}

/// What to note where the printed busbw does not follow from size, ranks and time.
fn disagreement(call: &MeasuredCall, row: &DsBenchRow, units: Units) -> Option<String> {
    let ours = call.op.busbw_gbs(Bytes(call.bytes), call.ranks, Seconds(row.time_s))?;
    let (unit, ours) = if units.bits { ("Gb/s", ours * 8.0) } else { ("GB/s", ours) };
    let within = 0.0006 + ours * row.time_within * 1.1;
    let is_odd = (ours - row.busbw).abs() > within;
    is_odd.then(|| {
        format!("the program printed a busbw of {} {unit}, and size, ranks and time give {ours:.3}", row.busbw)
    })
}

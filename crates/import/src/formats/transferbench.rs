//! The text of AMD's TransferBench, 1.40 to 1.67: transfers of a configuration file. Written by `ReportResults` of its
//! `TransferBench.cpp`, later by its client: rates in 1e9 bytes a second, means over iterations.
//!
//! A test is read with its last line, `Aggregate (CPU)`. Only copies by the copy engine (DMA) that run alone measure
//! what tests of `hardware` do.

use terms::Error;

use super::command;
use super::gpu_copies::Copy;
use super::nccl::plain;
use super::row_like;
use super::runs::Runs;
use crate::numbers::{self, NotANumber};
use crate::{Content, Format, Line, Results, Source};

/// The format.
pub(super) struct TransferBench;

impl Format for TransferBench {
    fn about(&self) -> (&'static str, &'static str) {
        ("transferbench", "TransferBench: its text, transfers of a configuration file")
    }

    fn begins(&self, line: &str) -> bool {
        line.trim().starts_with(VERSION)
    }

    fn marks(&self) -> &'static [&'static str] {
        &["TransferBench v", "Executor:", "Transfer "]
    }

    fn recognises(&self, source: &Source) -> bool {
        source.text().contains(VERSION) && source.lines().any(|line| line.text.trim().starts_with(VERSION))
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let mut reader = TransferbenchReader {
            source,
            command: String::new(),
            results: Runs::default(),
            pending: Vec::new(),
            test: None,
            last: None,
        };
        for line in source.lines() {
            reader.line(line)?;
        }
        reader.leave_open();
        Ok(Content::Results(reader.results.finish(source)?))
    }
}

/// How a run begins.
const VERSION: &str = "TransferBench v";

/// A test that is being read.
struct TransferTest {
    number: u64,
    transfers: Vec<Transfer>,
}

/// One line of a test.
struct Transfer {
    line: usize,
    /// Rate in 1e9 bytes a second, milliseconds, bytes, and the rest of the line; or why it is damaged.
    values: Result<(f64, f64, u64, String), String>,
}

struct TransferbenchReader<'s> {
    source: &'s Source,
    command: String,
    results: Runs,
    /// Lines behind the last test: of the program, or of what stands between two runs.
    pending: Vec<(usize, String)>,
    test: Option<TransferTest>,
    /// The number of the last test.
    last: Option<u64>,
}

impl TransferbenchReader<'_> {
    fn line(&mut self, line: Line<'_>) -> Result<(), Error> {
        let text = line.text.trim();
        if let Some(version) = text.strip_prefix(VERSION) {
            self.leave_open();
            self.begin(version);
            return Ok(());
        }
        if self.results.is_empty() {
            self.between(line.number, text);
            return Ok(());
        }
        if let Some(test) = text.strip_prefix("Test ").and_then(|rest| rest.strip_suffix(':')?.parse().ok()) {
            self.leave_open();
            if let Some(last) = self.last.filter(|last| *last >= test) {
                return Err(self.mixed(line.number, &format!("test {test} stands behind test {last}")));
            }
            self.pending.clear();
            self.last = Some(test);
            self.test = Some(TransferTest { number: test, transfers: Vec::new() });
        } else if let Some((at, rest)) = transfer(text) {
            let Some(test) = self.test.as_mut() else { return Ok(()) };
            if at < test.transfers.len() {
                let what = format!("transfer {at} of test {} stands twice", test.number);
                return Err(self.mixed(line.number, &what));
            }
            let values = values(rest).map_err(|bad| match bad {
                Bad::Comma(why) => Err(self.source.error(line.number, why)),
                Bad::Damaged(why) => Ok(why),
            });
            let values = match values {
                Ok(values) => Ok(values),
                Err(Ok(why)) => Err(why),
                Err(Err(refused)) => return Err(refused),
            };
            test.transfers.push(Transfer { line: line.number, values });
        } else if text.starts_with("Aggregate (CPU)") {
            self.end(line.number, text);
        } else {
            self.between(line.number, text);
        }
        Ok(())
    }

    fn mixed(&self, number: usize, why: &str) -> Error {
        let what = format!("separate programs wrote here at once: {why}; their lines are mixed");
        self.source.error(number, what).hint("write the output of each program to a file of its own")
    }

    fn begin(&mut self, version: &str) {
        for (number, text) in std::mem::take(&mut self.pending) {
            self.results.headings.add(number, &text);
        }
        let command = std::mem::take(&mut self.command);
        let (before, options) = split(&command).unwrap_or_default();
        let method = command::method(before, options, &[]);
        let version = version.split_ascii_whitespace().next().unwrap_or_default();
        let tool = format!("TransferBench {}", plain(version));
        let mut results = Results::new(&tool, "mean over iterations of one transfer, as bytes / rate");
        if !method.is_empty() {
            results.facts.insert("settings of the command line".to_owned(), method.clone());
        }
        results.note("rates are printed in 1e9 bytes a second: the time of a transfer is its bytes / its rate");
        self.last = None;
        self.results.begin(format!("{tool}: {method}"), &command::plain(&command), results);
    }

    /// The last line of a test.
    fn end(&mut self, number: usize, text: &str) {
        let (Some(test), Some(results)) = (self.test.take(), self.results.current()) else { return };
        let is_whole = text.split_once("Overhead: ").is_some_and(|(_, rest)| {
            rest.strip_suffix(" ms").is_some_and(|value| super::gpu_copies::cell(value).is_ok())
        });
        if !is_whole {
            results.omit(number, format!("test {}: its last line is cut", test.number));
            return;
        }
        match &test.transfers[..] {
            [only] => {
                let added = only.values.as_ref().map_err(Clone::clone).and_then(|values| add(results, values));
                if let Err(why) = added {
                    results.omit(only.line, format!("test {}: {why}", test.number));
                }
            }
            several => {
                let what =
                    format!("test {}: {} transfers at once have no counterpart here", test.number, several.len());
                results.omit(number, what);
            }
        }
    }

    /// Says of a test without an end that it has none.
    fn leave_open(&mut self) {
        let (Some(test), Some(results)) = (self.test.take(), self.results.current()) else { return };
        results.cut = true;
        let line = test.transfers.last().map_or(0, |transfer| transfer.line);
        results.leave_out(format!(
            "test {}: its last line, `Aggregate (CPU)`, is missing behind line {line}",
            test.number
        ));
    }

    /// A line of no test.
    fn between(&mut self, number: usize, text: &str) {
        if split(text).is_some() {
            text.clone_into(&mut self.command);
            return;
        }
        let Some(results) = self.results.current() else {
            self.results.headings.add(number, text);
            return;
        };
        if let Some((name, value)) = setting(text).filter(|_| self.last.is_none()) {
            results.tell([(name.to_owned(), plain(value))]);
        } else if is_table(text) {
            let what = "a table of a preset is not read: its copies run at once, or by kernels unless it says so";
            results.omit(number, what);
        } else if row_like::is_ending(text) {
            results.quote(format!("line {number}: {}", plain(text)));
        } else if self.test.is_none() && !text.is_empty() {
            self.pending.push((number, text.to_owned()));
            if self.pending.len() > 40 {
                self.pending.remove(0);
            }
        }
    }
}

/// `Transfer 00  | ...` as its number and the rest.
fn transfer(text: &str) -> Option<(usize, &str)> {
    let (head, rest) = text.split_once(['|', '│'])?;
    Some((head.strip_prefix("Transfer ")?.trim().parse().ok()?, rest))
}

enum Bad {
    Comma(String),
    Damaged(String),
}

/// `60.973 GB/s | 4.403 ms | 268435456 bytes | G0 -> D000:001 -> G1`, whose rate and time must be of these bytes.
fn values(text: &str) -> Result<(f64, f64, u64, String), Bad> {
    let parts: Vec<&str> = text.split(['|', '│']).map(str::trim).filter(|part| !part.is_empty()).collect();
    let &[rate, time, bytes, path] = &parts[..] else {
        return Err(Bad::Damaged(format!("expected 4 values of a transfer, found {}", parts.len())));
    };
    let value = |text: &str, unit: &str| {
        let word = text.strip_suffix(unit).map(str::trim_end);
        let word = word.ok_or_else(|| Bad::Damaged(format!("expected a value in{unit}, found `{}`", plain(text))))?;
        numbers::plain(word).map_err(|why| match why {
            NotANumber::Comma => Bad::Comma(format!("expected a number, {}", why.found(word))),
            NotANumber::Other => Bad::Damaged(format!("expected a number, {}", why.found(word))),
        })
    };
    let (rate, ms) = (value(rate, " GB/s")?, value(time, " ms")?);
    let whole =
        bytes.strip_suffix(" bytes").and_then(|word| word.trim().parse::<u64>().ok()).filter(|bytes| *bytes > 0);
    let bytes = whole.ok_or_else(|| Bad::Damaged(format!("expected bytes, found `{}`", plain(bytes))))?;
    let by_rate = bytes as f64 / rate / 1e6;
    // Three decimals of each.
    let rounding = 0.001 + by_rate * 0.001 / rate;
    if !(rate > 0.0 && by_rate.is_finite() && (by_rate - ms).abs() <= rounding) {
        return Err(Bad::Damaged(format!("{bytes} bytes at {rate} GB/s do not take {ms} ms: a number is cut")));
    }
    Ok((rate, ms, bytes, path.to_owned()))
}

/// Adds a transfer that ran alone.
fn add(results: &mut Results, (rate, _, bytes, path): &(f64, f64, u64, String)) -> Result<(), String> {
    let places: Vec<&str> = path.split(" -> ").collect();
    let &[from, by, to] = &places[..] else {
        return Err(format!("expected source, executor and destination, found `{}`", plain(path)));
    };
    let damaged = || format!("expected a memory or an executor, found `{}`", plain(path));
    let memory = |place: &str| -> Option<(char, u32)> {
        let kind = place.chars().next().filter(char::is_ascii_uppercase)?;
        Some((kind, place[1..].parse().ok()?))
    };
    if from == "N" || to == "N" {
        return Err("reads or writes alone have no counterpart here".to_owned());
    }
    let executor = by.split([':', '.']).next().and_then(memory).ok_or_else(damaged)?;
    let ends = memory(from).zip(memory(to)).ok_or_else(damaged)?;
    match executor.0 {
        'D' => {}
        'G' => return Err("it copies by kernels, and tests of this kind here copy by the copy engine".to_owned()),
        _ => return Err(format!("copies by `{}` have no counterpart here", plain(by))),
    }
    let (test, counted) = match ends {
        (('C', _), ('G', _)) => ("host_to_device", 1),
        (('G', _), ('C', _)) => ("device_to_host", 1),
        (('G', a), ('G', b)) if a == b => ("device_copy", 2),
        (('G', _), ('G', _)) => ("peer_copy", 1),
        _ => return Err(format!("`{}`: memory of this kind has no counterpart here", plain(path))),
    };
    if counted == 2 {
        results.note("device_copy: TransferBench counts each byte once; `gbs` counts what is read and written, twice");
    }
    // A native run of one rank has the first GPU and the memory of the host that is nearest to it.
    let ((_, from), (_, to)) = ends;
    let is_first = from == 0 && to == 0 && executor.1 == 0;
    let implementation = (!is_first || test == "peer_copy").then_some(path.as_str());
    if let Some(path) = implementation {
        results
            .note(format!("{path}: the case keeps these places; a native run has the first GPU, or all pairs of GPUs"));
    }
    let copy = Copy { test, bytes: *bytes, implementation, counted };
    copy.add_one(results, if test == "peer_copy" { 2 } else { 1 }, *bytes as f64 / rate / 1e9);
    Ok(())
}

/// Whether a line is the header of a table of a preset: `a2a`, `p2p`, `scaling`.
fn is_table(text: &str) -> bool {
    let first = text.split_ascii_whitespace().next().unwrap_or_default();
    first == "NumCUs" || (first.starts_with("SRC") && first.ends_with("\\DST"))
}

/// A command line, before its program and behind it.
fn split(text: &str) -> Option<(&str, &str)> {
    const NAME: &str = "TransferBench";
    let at = text.find(NAME)?;
    let (before, rest) = (&text[..at], &text[at + NAME.len()..]);
    let begins = before.is_empty() || before.ends_with([' ', '/']);
    (begins && rest.starts_with(' ') && !rest.starts_with(" v")).then_some((before, rest))
}

/// `NUM_ITERATIONS = 10 : Running 10 timed iterations` as name and value.
fn setting(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = text.split_once('=')?;
    let (name, value) = (name.trim(), rest.split_once(" : ")?.0.trim());
    let is_name = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    (!name.is_empty() && name.bytes().all(is_name)).then_some((name, value))
}

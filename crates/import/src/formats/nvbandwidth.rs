//! The text of NVIDIA's nvbandwidth, 0.1 to 0.10. Written by its `nvbandwidth.cpp`, `output.cpp` and the `operator<<`
//! of `PeerValueMatrix` (`inline_common.h`, before 0.5 `common.h`): rates in 1e9 bytes a second, times in
//! nanoseconds.
//!
//! A table ends with its sum, which must be that of its values: a table that was cut at the width of a terminal has
//! another.

use terms::Error;

use super::command;
use super::gpu_copies::{BadRow, Cells, columns};
use super::nccl::plain;
use super::nvbandwidth_lines::{is_description, is_failure, is_own, sum, told};
use super::nvbandwidth_tests::{MeasuredBuffers, Testcase, add, without_counterpart};
use super::row_like;
use super::runs::Runs;
use crate::{Content, Format, Line, Results, Source};

/// The format.
pub(super) struct Nvbandwidth;

/// How a run begins.
const VERSION: &str = "nvbandwidth Version: ";
/// What a time is.
const STATISTIC: &str = "median over GPUs or pairs of the median over samples of one copy, as bytes / rate";
const OF_MEANS: &str = "median over GPUs or pairs of the mean over samples of one copy, as bytes / rate";

impl Format for Nvbandwidth {
    fn about(&self) -> (&'static str, &'static str) {
        ("nvbandwidth", "nvbandwidth: its text, copies between hosts and GPUs")
    }

    fn begins(&self, line: &str) -> bool {
        version(line).is_some() || is_begin(line.trim())
    }

    fn marks(&self) -> &'static [&'static str] {
        &["nvbandwidth Version: ", "Running ", "memcpy", "SUM "]
    }

    fn recognises(&self, source: &Source) -> bool {
        let text = source.text();
        (text.contains("nvbandwidth") || text.contains("memcpy"))
            && source.lines().any(|line| version(line.text).is_some() || is_begin(line.text.trim()))
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let mut reader = NvbandwidthReader::new(source);
        for line in source.lines() {
            reader.line(line)?;
        }
        reader.leave_open("the file ends before its sum");
        Ok(Content::Results(reader.results.finish(source)?))
    }
}

/// `nvbandwidth Version: v0.8` as `v0.8`. Quotes of spreadsheets may stand before it.
fn version(text: &str) -> Option<&str> {
    text.trim().trim_start_matches('"').strip_prefix(VERSION).map(str::trim)
}

/// Whether a line begins a testcase whose names no other program has: `Running host_to_device_memcpy_ce.`
fn is_begin(text: &str) -> bool {
    let name = text.strip_prefix("Running ").and_then(|rest| rest.strip_suffix('.'));
    name.is_some_and(|name| {
        name.contains("_memcpy_") || name == "device_local_copy" || name == "host_device_latency_sm"
    })
}

/// `v0.10.0` as 0 and 10.
pub(super) fn parsed(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.trim_start_matches('v').split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// What a testcase lacks.
#[derive(Clone, Debug, PartialEq)]
enum MissingPlace {
    /// Between testcases.
    Outside,
    /// Behind `Running NAME.`, before the table.
    Begun,
    /// Behind what the table holds, before its header.
    Described,
    /// In its rows.
    Rows,
    /// Nothing more is read of the testcase: it has no counterpart, or a line of it was wrong.
    Skipped,
}

struct NvbandwidthReader<'s> {
    source: &'s Source,
    /// The last command line: that of the run that begins next.
    command: Option<String>,
    results: Runs,
    buffers: Option<MeasuredBuffers>,
    version: Option<(u32, u32)>,
    place: MissingPlace,
    testcase: Testcase,
    /// A line of one word and its number: a host, if devices stand below it.
    word: Option<(usize, String)>,
}

impl<'s> NvbandwidthReader<'s> {
    fn new(source: &'s Source) -> Self {
        Self {
            source,
            command: None,
            results: Runs::default(),
            buffers: None,
            version: None,
            place: MissingPlace::Outside,
            testcase: Testcase::default(),
            word: None,
        }
    }

    fn line(&mut self, line: Line<'_>) -> Result<(), Error> {
        let text = line.text.trim();
        if let Some(version) = version(text) {
            self.leave_open("another run begins before its sum");
            if let Some((at, word)) = self.word.take() {
                self.results.headings.add(at, &word);
            }
            self.begin(line.number, version);
            return Ok(());
        }
        if self.buffers.is_none() && is_begin(text) {
            // Who quotes a result may leave its head out.
            self.begin(line.number, "");
        }
        if self.buffers.is_none() {
            self.outside(line.number, text);
            return Ok(());
        }
        if let Some(name) = text.strip_prefix("Running ").and_then(|rest| rest.strip_suffix('.')) {
            self.leave_open("another testcase begins before its sum");
            self.testcase = Testcase { name: name.to_owned(), line: line.number, ..Testcase::default() };
            self.place = MissingPlace::Begun;
            if let Some(why) = without_counterpart(name) {
                self.skip(line.number, why);
            }
            return Ok(());
        }
        if let Some((name, sum)) = sum(text) {
            return self.end(line.number, name, sum);
        }
        match self.place {
            // Who quotes a result may leave the first line out: its sum names the testcase.
            MissingPlace::Begun | MissingPlace::Outside if is_description(text) => {
                if self.place == MissingPlace::Outside {
                    self.testcase = Testcase { line: line.number, ..Testcase::default() };
                }
                self.testcase.description = text.to_owned();
                self.place = MissingPlace::Described;
            }
            MissingPlace::Described if !text.is_empty() => match columns(text, None) {
                Some(columns) => {
                    self.testcase.cells = Cells::new(columns);
                    self.place = MissingPlace::Rows;
                }
                None => self.skip(line.number, "expected a header with the numbers of GPUs"),
            },
            MissingPlace::Rows if row_like::begins_with_number(text) => self.row(line.number, text)?,
            MissingPlace::Rows if is_description(text) => {
                return Err(self.mixed(line.number, "a second table begins before the sum of the first"));
            }
            MissingPlace::Begun | MissingPlace::Rows if is_failure(text) => self.skip(line.number, text),
            _ => self.outside(line.number, text),
        }
        Ok(())
    }

    fn row(&mut self, number: usize, text: &str) -> Result<(), Error> {
        match self.testcase.cells.add(text) {
            Ok(()) => Ok(()),
            Err(BadRow::Comma(why)) => Err(self.source.error(number, why)),
            Err(BadRow::Mixed(why)) => Err(self.mixed(number, &why)),
            Err(BadRow::Damaged(why)) => {
                self.skip(number, &why);
                Ok(())
            }
        }
    }

    fn mixed(&self, number: usize, why: &str) -> Error {
        let what = format!("separate programs wrote here at once: {why}; their lines are mixed");
        self.source.error(number, what).hint("write the output of each program to a file of its own")
    }

    /// The sum of a table.
    fn end(&mut self, number: usize, name: &str, sum: &str) -> Result<(), Error> {
        if self.place == MissingPlace::Outside {
            return Ok(());
        }
        if self.testcase.name.is_empty() {
            name.clone_into(&mut self.testcase.name);
        }
        let own = self.testcase.name.as_str();
        // A testcase of both ways has three tables: `_read1`, `_read2`, `_total`.
        let is_part =
            self.place == MissingPlace::Skipped && name.strip_prefix(own).is_some_and(|rest| rest.starts_with('_'));
        if name != own && !is_part {
            let what = format!("the sum of `{}` stands in the table of `{}`", plain(name), plain(own));
            return Err(self.mixed(number, &what));
        }
        let value = crate::numbers::plain(sum);
        let sum = value
            .map_err(|why| self.source.error(number, format!("expected the sum of a table, {}", why.found(sum))))?;
        if is_part {
            return Ok(());
        }
        let place = std::mem::replace(&mut self.place, MissingPlace::Outside);
        let (Some(buffers), Some(results)) = (self.buffers, self.results.current()) else { return Ok(()) };
        match place {
            MissingPlace::Rows => {
                // Values and sum are printed with two decimals.
                let rounding = 0.005 * (self.testcase.cells.values().count() + 1) as f64 + 1e-6;
                add(results, &self.testcase, buffers, sum, rounding);
            }
            MissingPlace::Skipped | MissingPlace::Outside => {}
            MissingPlace::Begun | MissingPlace::Described => {
                results.omit(self.testcase.line, format!("`{}`: no table stands above its sum", plain(own)));
            }
        }
        Ok(())
    }

    /// Reads nothing more of a testcase, and says why.
    fn skip(&mut self, number: usize, why: &str) {
        self.place = MissingPlace::Skipped;
        let name = if self.testcase.name.is_empty() { "a table" } else { &self.testcase.name };
        if let Some(results) = self.results.current() {
            results.omit(number, format!("`{}`: {}", plain(name), plain(why)));
        }
    }

    /// Says of a testcase without an end that it has none.
    fn leave_open(&mut self, why: &str) {
        let place = std::mem::replace(&mut self.place, MissingPlace::Outside);
        let Some(results) = self.results.current() else { return };
        if !matches!(place, MissingPlace::Outside | MissingPlace::Skipped) {
            results.cut = true;
            results.omit(self.testcase.line, format!("`{}`: {why}", plain(&self.testcase.name)));
        }
    }

    fn begin(&mut self, line: usize, version: &str) {
        let command = self.command.take().unwrap_or_default();
        let (before, options) = split(&command).unwrap_or_default();
        let method = command::method(before, options, NO_METHOD);
        let is_mean = options.split_ascii_whitespace().any(|word| matches!(word, "-m" | "--useMean"));
        let tool = format!("nvbandwidth {}", plain(version.trim_start_matches('v')));
        let tool = tool.trim();
        let mut results = Results::new(tool, if is_mean { OF_MEANS } else { STATISTIC });
        if !method.is_empty() {
            results.facts.insert("settings of the command line".to_owned(), method.clone());
        }
        results.note("nvbandwidth prints rates in 1e9 bytes a second: the time of a copy is its bytes / its rate");
        self.version = parsed(version);
        let given = value(options, &["-b", "--bufferSize"]);
        let buffers = MeasuredBuffers::new(self.version, given, false);
        if let Some(bytes) = buffers.copy.filter(|_| given.is_none()) {
            results.note(format!(
                "line {line}: the file does not say how large buffers are: they are read as {} MiB, the default {}",
                bytes >> 20,
                if self.version.is_some() { "of this version" } else { "since 0.7 (before: 64 MiB)" }
            ));
        }
        let iterations = value(options, &["-i", "--testSamples"]);
        self.buffers = Some(MeasuredBuffers { iterations, ..buffers });
        self.results.begin(format!("{tool}: {method} {is_mean}"), &command::plain(&command), results);
    }

    /// A line of no table.
    fn outside(&mut self, number: usize, text: &str) {
        if self.command.as_ref().is_some_and(|command| command.ends_with('\\')) {
            self.command = self.command.take().map(|command| format!("{} {text}", command.trim_end_matches('\\')));
            return;
        }
        if split(text).is_some() {
            self.command = Some(text.to_owned());
            return;
        }
        let word = self.word.take();
        if let Some((at, word)) = word.as_ref().filter(|_| !text.starts_with("Device 0: ")) {
            self.results.headings.add(*at, word);
        }
        let Some(results) = self.results.current() else {
            self.results.headings.add(number, text);
            return;
        };
        if let Some((name, value)) = told(text) {
            results.tell([(name.to_owned(), plain(value))]);
            if let Some((_, host)) = word.filter(|(_, host)| name == "Device 0" && !results.hosts.contains(host)) {
                results.hosts.push(host);
            }
        } else if text.starts_with("NOTE: You have chosen a buffer size that is smaller") {
            if let Some(buffers) =
                self.buffers.as_mut().filter(|_| results.notes.iter().any(|n| n.contains("are read as")))
            {
                results.notes.retain(|note| !note.contains("are read as"));
                let iterations = buffers.iterations;
                *buffers = MeasuredBuffers { iterations, ..MeasuredBuffers::new(self.version, None, true) };
            }
        } else if row_like::is_ending(text) {
            results.quote(format!("line {number}: {}", plain(text)));
        } else if !is_own(text) && !text.contains(char::is_whitespace) {
            self.word = Some((number, text.to_owned()));
        } else if !is_own(text) {
            self.results.headings.add(number, text);
        }
    }
}

/// Options that say what is measured, or that change nothing of it.
const NO_METHOD: &[&str] = &[
    "-t",
    "--testcase",
    "-p",
    "--testcasePrefixes",
    "-b",
    "--bufferSize",
    "-v",
    "--verbose",
    "-j",
    "--json",
    "-s",
    "--skipVerification",
];

/// A command line, before its program and behind it.
fn split(text: &str) -> Option<(&str, &str)> {
    let at = text.rfind("nvbandwidth")?;
    let (before, rest) = (&text[..at], &text[at + "nvbandwidth".len()..]);
    let begins = before.is_empty() || before.ends_with([' ', '/', '\t']);
    let ends = rest.is_empty() || (rest.starts_with(' ') && !rest.starts_with(" Version"));
    (begins && ends).then_some((before, rest))
}

/// The whole number behind a flag.
fn value(options: &str, flags: &[&str]) -> Option<u64> {
    let words: Vec<&str> = options.split_ascii_whitespace().collect();
    let of = |(at, word): (usize, &&str)| -> Option<u64> {
        let (flag, value) = word.split_once('=').map_or((*word, None), |(flag, value)| (flag, Some(value)));
        if flags.contains(&flag) {
            return value.or(words.get(at + 1).copied())?.parse().ok();
        }
        let short = flags.iter().find(|flag| flag.len() == 2)?;
        word.strip_prefix(short)?.parse().ok()
    };
    words.iter().enumerate().filter_map(of).next_back()
}

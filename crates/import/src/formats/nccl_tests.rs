//! The text that nccl-tests and rccl-tests print, from 2.0 on. The table's own header says which columns it has.

use terms::Error;

use super::nccl::{Collector, Half, Printed, REDUCTION, Raw, Run, plain, version_of_code};
use crate::{Content, Format, Line, Source};

/// The format.
pub(super) struct NcclTests;

impl Format for NcclTests {
    fn name(&self) -> &'static str {
        "nccl_tests"
    }

    fn doc(&self) -> &'static str {
        "nccl-tests and rccl-tests: what all_reduce_perf and its like print"
    }

    fn recognises(&self, source: &Source) -> bool {
        source.text().contains("algbw") && source.lines().any(|line| is_header(line.text))
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let collector = Collector::new(source)?;
        let mut reader = Reader { source, collector, run: Run::default(), columns: None, split: 0, command: None };
        for line in source.lines() {
            reader.line(line)?;
        }
        reader.end_run()?;
        if reader.columns.is_none() {
            return Err(Error::new(format!("{} has no table of nccl-tests", source.name()))
                .hint("the header that names size, count, type, time, algbw and busbw is needed"));
        }
        Ok(Content::Results(reader.collector.finish()?))
    }
}

/// What a column holds; 0 is out of place, 1 in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Bytes,
    Count,
    Type,
    Reduction,
    Root,
    Time(usize),
    Algbw(usize),
    Busbw(usize),
    /// Wrong elements.
    Wrong(usize),
    /// The largest difference, in versions before 2.13.
    Difference(usize),
    Min(usize),
    Max(usize),
    P99(usize),
    Variation,
    /// Two words: date and time.
    Timestamp,
}

/// The most words of a line.
const WORDS: usize = 32;

fn is_header(text: &str) -> bool {
    let mut words = text.trim_start_matches(['#', ' ', '\t']).split_ascii_whitespace();
    words.next() == Some("size") && words.next() == Some("count") && words.any(|word| word == "algbw")
}

struct Reader<'s> {
    source: &'s Source,
    collector: Collector<'s>,
    run: Run<'s>,
    columns: Option<Vec<Column>>,
    /// The group of the first rank, under NCCL_TESTS_SPLIT.
    split: u32,
    /// The program of the last command line, and its `-a`: of the run that begins next.
    command: Option<(&'s str, &'s str)>,
}

impl<'s> Reader<'s> {
    fn line(&mut self, line: Line<'s>) -> Result<(), Error> {
        let text = line.text.trim();
        let first = text.as_bytes().first().copied().unwrap_or(b' ');
        if first.is_ascii_digit() {
            self.row(line.number, text);
            return Ok(());
        }
        let bare = text.trim_start_matches('#').trim_start();
        if is_header(text) {
            self.columns = Some(self.header(line.number, bare)?);
        } else if bare.starts_with("nThread ") {
            self.options(line.number, bare)?;
        } else if bare.starts_with("Rank ") {
            self.rank(bare);
        } else if let Some(program) = bare.strip_prefix("Collective test starting:") {
            self.begin(line.number)?;
            (self.run.program, self.run.program_is_from_command) = (Some(program.trim()), false);
        } else if bare.starts_with("nccl-tests version ") || bare.starts_with("rccl-tests version ") {
            self.begin(line.number)?;
            self.version(bare);
        } else {
            self.other(line.number, text, bare);
        }
        Ok(())
    }

    /// Begins the next run where this one has its table.
    fn begin(&mut self, number: usize) -> Result<(), Error> {
        if !self.run.rows.is_empty() {
            self.end_run()?;
        }
        if self.run.line == 0 {
            self.run.line = number;
        }
        Ok(())
    }

    fn end_run(&mut self) -> Result<(), Error> {
        let mut run = std::mem::take(&mut self.run);
        if run.tool.is_empty() {
            "nccl-tests".clone_into(&mut run.tool);
        }
        self.collector.add(&run)?;
        // The next run needs as much room.
        run.rows.clear();
        self.run.rows = run.rows;
        Ok(())
    }

    fn version(&mut self, bare: &str) {
        for (at, word) in bare.split_ascii_whitespace().enumerate() {
            match word.split_once('=') {
                Some(("nccl-library", code)) => self.library("nccl", code),
                Some(("rccl-library", code)) => self.library("rccl", code),
                None if at == 2 => self.run.tool = format!("{} {}", &bare[..10], plain(word)),
                _ => {}
            }
        }
    }

    fn library(&mut self, name: &str, code: &str) {
        let version = version_of_code(code).unwrap_or_else(|| plain(code));
        self.run.versions.insert(name.to_owned(), version);
    }

    /// `nThread 1 nGpus 8 minBytes 8 ... iters: 20 agg iters: 1 validation: 1 graph: 0`.
    fn options(&mut self, number: usize, bare: &'s str) -> Result<(), Error> {
        self.begin(number)?;
        self.take_command();
        let after = |name: &str| {
            let rest = bare.split(name).nth(1)?;
            rest.split_ascii_whitespace().next()?.parse::<u64>().ok()
        };
        let aggregated = after("agg iters: ").unwrap_or(1);
        // `warmup iters:` stands before `iters:`.
        let timed = bare.split(" iters: ").nth(2).and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok());
        self.run.iterations = timed.map(|iters: u64| iters.saturating_mul(aggregated));
        if self.run.ranks.is_some() {
            // Several programs of one rank each wrote into one file.
            self.run.ranks = None;
            self.run.hosts.clear();
        }
        self.run.facts.retain(|(name, _)| *name != "options");
        self.run.facts.push(("options", plain(bare)));
        Ok(())
    }

    /// `Rank  0 Group  0 Pid 272738 on HOST device  0 [0x01] NAME`.
    fn rank(&mut self, bare: &str) {
        let mut words = bare.split_ascii_whitespace();
        let mut next_after = |name: &str| words.by_ref().find(|word| *word == name).and_then(|_| words.next());
        let number: Option<u32> = next_after("Rank").and_then(|word| word.parse().ok());
        let Some(number) = number.filter(|number| *number < 1 << 20) else { return };
        let group = bare.split_once(" Group ").and_then(|(_, rest)| rest.split_ascii_whitespace().next()?.parse().ok());
        let group: u32 = group.unwrap_or(0);
        if self.run.ranks.is_none() {
            self.split = group;
        }
        if group != self.split {
            return;
        }
        if number == 0 && self.run.ranks.is_some() {
            self.run.notes.push("several programs wrote into this file, each with a rank 0".to_owned());
        }
        self.run.ranks = Some(self.run.ranks.unwrap_or(0).max(number + 1));
        if let Some(host) = bare.split_once(" on ").and_then(|(_, rest)| rest.split_ascii_whitespace().next()) {
            let host = plain(host);
            if !self.run.hosts.contains(&host) {
                self.run.hosts.push(host);
            }
        }
        let device = bare.split_once(']').map_or("", |(_, name)| name.trim());
        if !device.is_empty()
            && !self.run.facts.iter().any(|(name, value)| *name == "device" && *value == plain(device))
        {
            self.run.facts.push(("device", plain(device)));
        }
    }

    /// Everything else: footers, failures, command lines, and what other programs wrote.
    fn other(&mut self, number: usize, text: &'s str, bare: &'s str) {
        let value = |text: &str| text.split_once(':').map_or(String::new(), |(_, value)| plain(value));
        if bare.starts_with("Avg bus bandwidth") {
            self.run.facts.push(("average bus bandwidth, GB/s", value(bare)));
        } else if bare.starts_with("Out of bounds values") {
            if bare.contains("FAILED") {
                self.run.notes.push(format!("line {number}: {}", plain(bare)));
            }
            self.run.facts.push(("out of bounds values", value(bare)));
        } else if bare.starts_with("Blocking Enabled") {
            self.run.blocking = true;
            self.run.notes.push(plain(bare));
        } else if let Some(version) = bare.strip_prefix("NCCL version ").or(bare.strip_prefix("RCCL version :")) {
            let name = if bare.starts_with('R') { "rccl" } else { "nccl" };
            self.run.versions.entry(name.to_owned()).or_insert_with(|| plain(version));
        } else if let Some(version) = bare.strip_prefix("rccl-tests: Version ") {
            self.run.tool = format!("rccl-tests {}", plain(version));
        } else if text.contains("NCCL failure") || text.contains("CUDA failure") || text.contains("Test failure") {
            self.run.notes.push(format!("line {number}: {}", plain(text)));
        } else if text.contains("_perf") && !text.contains(".o ") && !text.contains("concluded") {
            self.command(text);
        }
    }

    /// A command line: `mpirun ... ./build/all_reduce_perf -b 8 -a 3`.
    fn command(&mut self, text: &'s str) {
        let mut words = text.split_ascii_whitespace();
        let named = words.by_ref().find_map(|word| {
            let name = word.rsplit('/').next()?;
            let op = name.split_once("_perf").filter(|(_, rest)| matches!(*rest, "" | "_mpi"))?.0;
            (crate::collective::op(op).is_some() || op == "hypercube").then_some(name)
        });
        if let Some(program) = named {
            let average = words.find(|word| matches!(*word, "-a" | "--average")).and_then(|_| words.next());
            self.command = Some((program, average.unwrap_or("1")));
        }
    }

    /// The command line above a run is its own.
    fn take_command(&mut self) {
        if let Some((program, average)) = self.command.take() {
            self.run.average = Some(average);
            if self.run.program.is_none() {
                (self.run.program, self.run.program_is_from_command) = (Some(program), true);
            }
        }
    }

    fn header(&mut self, number: usize, bare: &str) -> Result<Vec<Column>, Error> {
        if self.command.is_some() || self.run.line == 0 {
            self.begin(number)?;
            self.take_command();
        }
        let mut columns = Vec::new();
        for word in bare.split_ascii_whitespace() {
            let half = |of: fn(usize) -> Column| of(usize::from(columns.contains(&of(0))));
            columns.push(match word {
                "size" => Column::Bytes,
                "count" => Column::Count,
                "type" => Column::Type,
                REDUCTION => Column::Reduction,
                "root" => Column::Root,
                "time" => half(Column::Time),
                "algbw" => half(Column::Algbw),
                "busbw" => half(Column::Busbw),
                "#wrong" => half(Column::Wrong),
                "error" => half(Column::Difference),
                "i_min" => half(Column::Min),
                "i_max" => half(Column::Max),
                "i_p99" => half(Column::P99),
                "i_cv%" => Column::Variation,
                "timestamp" => Column::Timestamp,
                "cputime" => {
                    let what = "the column `cputime` is the time until a call returns, not the time that it takes";
                    return Err(self.source.error(number, what).hint("measure without `-C 1`"));
                }
                _ => {
                    let what = format!("the table has a column `{}` that this reader does not know", plain(word));
                    return Err(self.source.error(number, what).hint(
                        format!(
                            "known columns: size count type {REDUCTION} root time algbw busbw #wrong error i_min i_max i_p99 \
                             i_cv% timestamp"
                        ),
                    ));
                }
            });
        }
        if columns.len() > WORDS - 2
            || [Column::Type, Column::Time(0), Column::Busbw(0)].iter().any(|of| !columns.contains(of))
        {
            return Err(self.source.error(number, "the table's header is cut off: type, time and busbw are needed"));
        }
        if columns.contains(&Column::Difference(0)) {
            let note = "the column `error` is the largest difference: it does not count wrong elements";
            self.run.notes.push(note.to_owned());
        }
        Ok(columns)
    }

    fn row(&mut self, number: usize, text: &'s str) {
        let Some(columns) = &self.columns else { return };
        let mut words = [""; WORDS + 1];
        let mut count = 0;
        for word in text.split_ascii_whitespace() {
            if count == WORDS {
                return;
            }
            words[count] = word;
            count += 1;
        }
        let expected = columns.len() + usize::from(columns.contains(&Column::Timestamp));
        // Other programs' lines begin with numbers, too.
        if count < 2 || words[..2].iter().any(|word| !word.bytes().all(|byte| byte.is_ascii_digit())) {
            return;
        }
        // Before 2.13, alltoall names this column and leaves it blank.
        let blank = columns.iter().position(|column| *column == Column::Reduction);
        let blank = blank.filter(|at| count + 1 == expected && words[*at].parse::<f64>().is_ok());
        if let Some(at) = blank {
            words.copy_within(at..count, at + 1);
            words[at] = "none";
            count += 1;
        }
        let read = if count == expected {
            row(columns, &words[..count], number)
        } else {
            Err(format!("expected {expected} columns, found {count}"))
        };
        match read {
            Ok(row) => self.run.rows.push(row),
            Err(why) => self.run.omitted.push((number, why)),
        }
    }
}

/// Reads a line of the table.
fn row<'s>(columns: &[Column], words: &[&'s str], line: usize) -> Result<Raw<'s>, String> {
    const NONE: Printed = Printed { value: f64::NAN, within: 0.0 };
    let empty = Half { time_us: NONE, algbw: NONE, busbw: NONE, wrong: None, spread_us: None };
    let mut halves = [empty; 2];
    let mut raw = Raw { line, bytes: 0, dtype: "", reduction: None, root: None, halves: [None; 2] };
    for (column, word) in columns.iter().zip(words) {
        let word = *word;
        let number =
            |what: &str| Printed::parse(word).ok_or_else(|| format!("expected {what}, found `{}`", plain(word)));
        let mut spread = |half: usize, at: usize| {
            let us = number("a time")?.value;
            halves[half].spread_us.get_or_insert([f64::NAN; 5])[at] = us;
            Ok::<(), String>(())
        };
        match *column {
            Column::Bytes => {
                raw.bytes = word.parse().map_err(|_| format!("expected a size, found `{}`", plain(word)))?
            }
            Column::Type => raw.dtype = word,
            Column::Reduction => raw.reduction = Some(word).filter(|word| !matches!(*word, "none" | "-" | "N/A")),
            Column::Root => {
                raw.root = Some(word.parse().map_err(|_| format!("expected a root, found `{}`", plain(word)))?);
            }
            Column::Time(half) => halves[half].time_us = number("a time")?,
            Column::Algbw(half) => halves[half].algbw = number("a bandwidth")?,
            Column::Busbw(half) => halves[half].busbw = number("a bandwidth")?,
            Column::Wrong(half) if word != "N/A" => {
                let count = word.trim_end_matches('*').parse::<f64>().ok();
                let count = count.filter(|count| *count >= 0.0);
                let none = || format!("expected a count of wrong elements, found `{}`", plain(word));
                halves[half].wrong = Some(count.ok_or_else(none)? as u64);
            }
            Column::Min(half) => spread(half, 0)?,
            Column::Max(half) => spread(half, 1)?,
            Column::P99(half) => spread(half, 2)?,
            Column::Count | Column::Wrong(_) | Column::Difference(_) | Column::Variation | Column::Timestamp => {}
        }
    }
    raw.halves[0] = Some(halves[0]);
    raw.halves[1] = columns.contains(&Column::Time(1)).then_some(halves[1]);
    Ok(raw)
}

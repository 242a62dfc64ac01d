//! The text that nccl-tests and rccl-tests print, from 2.0 on. The table's own header says which columns it has.

use terms::Error;

use super::command::{Commands, JoinedLine};
use super::nccl::{Blocking, NcclRun, REDUCTION, fact, of_graph, plain, version_of_code};
use super::nccl_collector::Collector;
use super::nccl_debug;
use super::nccl_lines::{ProgramRun, Ranks, begins_run, is_header, is_own};
use super::nccl_row::{NcclColumn, UNREAD, has_type, is_damaged, row};
use super::row_like::{self, WordCount};
use super::runs::Headings;
use super::versions::{NCCL_TESTS, RCCL_TESTS, unknown_column};
use crate::{Content, Format, Line, Source};

/// The format.
pub(super) struct NcclTests;

impl Format for NcclTests {
    fn about(&self) -> (&'static str, &'static str) {
        ("nccl_tests", "nccl-tests and rccl-tests: what all_reduce_perf and its like print")
    }

    fn begins(&self, line: &str) -> bool {
        begins_run(line)
    }

    fn marks(&self) -> &'static [&'static str] {
        &["# nThread ", "algbw", "busbw", "#wrong"]
    }

    fn recognises(&self, source: &Source) -> bool {
        let text = source.text();
        // A run that failed has no table.
        (text.contains("algbw") && source.lines().any(|line| is_header(line.text)))
            || (text.contains("# nThread ") && source.lines().any(|line| line.text.starts_with("# nThread ")))
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let mut reader = Reader {
            source,
            collector: Collector::new(source)?,
            run: NcclRun::default(),
            columns: None,
            titled_in_place: false,
            is_in_place: false,
            in_table: false,
            times: None,
            ranks: Ranks::default(),
            footers: 0,
            headings: Headings::default(),
            processes: None,
            command: None,
            commands: Commands::default(),
            nvls: None,
            nvls_of_next: None,
        };
        for line in source.lines() {
            reader.line(line)?;
        }
        reader.end_run()?;
        let (has_table, collector) = (reader.columns.is_some(), reader.collector);
        let found = collector.finish();
        if found.is_err() && !has_table && !source.text().contains("# nThread ") {
            return Err(Error::new(format!("{} has no table of nccl-tests", source.name()))
                .hint("the header that names size, count, type, time, algbw and busbw is needed"));
        }
        Ok(Content::Results(found?))
    }
}

/// The most words of a line.
const WORDS: usize = 32;

struct Reader<'s> {
    source: &'s Source,
    collector: Collector<'s>,
    run: NcclRun<'s>,
    columns: Option<Vec<NcclColumn>>,
    /// Whether the line above the header names in-place columns alone, and whether the table has no others.
    titled_in_place: bool,
    is_in_place: bool,
    /// Whether the lines that follow are those of a table.
    in_table: bool,
    /// Date and time of the first and the last row, where rows tell them.
    times: Option<[[&'s str; 2]; 2]>,
    /// The ranks that the run lists.
    ranks: Ranks,
    /// Last lines that tables have, since the run's begin.
    footers: usize,
    /// Lines that no run wrote.
    headings: Headings,
    /// Processes that the run's launcher starts.
    processes: Option<u32>,
    /// The last command line: it is that of the run that begins next.
    command: Option<ProgramRun>,
    commands: Commands,
    /// Whether NVLS was on in this run and in the next one, each with the line that says it.
    nvls: Option<(usize, bool)>,
    nvls_of_next: Option<(usize, bool)>,
}

impl<'s> Reader<'s> {
    fn line(&mut self, line: Line<'s>) -> Result<(), Error> {
        let text = line.text.trim();
        let first = text.as_bytes().first().copied().unwrap_or(b' ');
        // Rows first: a long log has hardly anything else.
        if first.is_ascii_digit() && !row_like::is_heading(text) {
            self.row(line.number, text);
            return Ok(());
        }
        if let Some(is_on) = nccl_debug::nvls(text) {
            self.nvls(line.number, is_on);
        }
        match self.commands.join(text) {
            JoinedLine::Line(_) => {}
            JoinedLine::GoesOn => return Ok(()),
            JoinedLine::Whole(whole) => {
                if !self.command(&whole) {
                    self.headings.add(line.number, &whole);
                }
                return Ok(());
            }
        }
        let bare = text.trim_start_matches('#').trim_start();
        if is_header(text) {
            self.columns = Some(self.header(line.number, bare)?);
            self.in_table = true;
        } else if bare.starts_with("nThread ") {
            self.options(line.number, bare)?;
        } else if bare.starts_with("Rank ") {
            self.rank(bare);
        } else if text.starts_with('#') && bare.starts_with("in-place") {
            self.titled_in_place = true;
        } else if let Some(program) = bare.strip_prefix("Collective test starting:") {
            self.begin(line.number)?;
            (self.run.program, self.run.program_is_from_command) = (Some(program.trim()), false);
        } else if bare.starts_with("nccl-tests version ") || bare.starts_with("rccl-tests version ") {
            self.begin(line.number)?;
            self.version(line.number, bare);
        } else if !self.other(line.number, text, bare)? {
            if self.in_table && !text.starts_with('#') && is_damaged(text) {
                self.run.omitted.push((line.number, self.expected(text)));
            } else {
                self.foreign(line.number, text);
            }
        }
        Ok(())
    }

    /// Whether NVLS was on. Ranks may differ: one without it is enough, because all of them need it.
    fn nvls(&mut self, number: usize, is_on: bool) {
        // Behind the last lines of a table, a command line is that of the next run.
        let of = if self.footers > 0 { &mut self.nvls_of_next } else { &mut self.nvls };
        if of.is_none_or(|(_, was_on)| was_on && !is_on) {
            *of = Some((number, is_on));
        }
    }

    /// A line that nccl-tests did not write.
    fn foreign(&mut self, number: usize, text: &str) {
        if row_like::is_ending(text) && self.run.line > 0 {
            let what = format!("line {number}: {}", plain(text));
            self.run.failure.get_or_insert_with(|| what.clone());
            self.run.notes.push(what);
        } else {
            self.headings.add(number, text);
        }
    }

    /// Begins the next run where this one has its table, or ended before it. Heads that follow each other are those of several
    /// programs that wrote at once.
    fn begin(&mut self, number: usize) -> Result<(), Error> {
        let has_ended = self.run.failure.is_some() || self.command.is_some() || self.in_table;
        if !self.run.rows.is_empty() || (self.run.line > 0 && !self.ranks.groups.is_empty() && has_ended) {
            self.end_run()?;
        }
        if self.run.line == 0 {
            self.run.line = number;
            self.run.origin = self.headings.begin("");
        }
        Ok(())
    }

    fn end_run(&mut self) -> Result<(), Error> {
        let mut run = std::mem::take(&mut self.run);
        self.in_table = false;
        if let Some(times) = self.times.take() {
            let [first, last] = times.map(|[date, time]| plain(&format!("{date} {time}")));
            run.facts.extend([("first row, local time", first), ("last row, local time", last)]);
        }
        if run.tool.is_empty() {
            "nccl-tests".clone_into(&mut run.tool);
        }
        let nvls = std::mem::replace(&mut self.nvls, self.nvls_of_next.take());
        if let Some((line, is_on)) = nvls {
            run.facts.push(("NVLS", format!("{} (line {line})", if is_on { "on" } else { "off" })));
        }
        let (ranks, footers) = (std::mem::take(&mut self.ranks), std::mem::take(&mut self.footers));
        run.ranks = ranks.of_communicator();
        run.programs = ranks.zeros.max(footers);
        run.split(ranks.groups.len());
        if footers == 0 && !run.rows.is_empty() {
            let first = run.line;
            run.cut = true;
            run.notes.push(format!(
                "line {first}: this run has no last lines (`Avg bus bandwidth`): it was ended, or the file is cut"
            ));
        }
        self.collector.add(&run)?;
        // The next run needs as much room.
        run.rows.clear();
        self.run.rows = run.rows;
        Ok(())
    }

    fn version(&mut self, number: usize, bare: &str) {
        for (at, word) in bare.split_ascii_whitespace().enumerate() {
            match word.split_once('=') {
                Some((name @ ("nccl-library" | "rccl-library"), code)) => {
                    let version = version_of_code(code).unwrap_or_else(|| plain(code));
                    self.run.versions.insert(name[..4].to_owned(), version);
                }
                None if at == 2 => {
                    let known = if bare.starts_with('r') { RCCL_TESTS } else { NCCL_TESTS };
                    self.run.notes.extend(known.unseen(number, word));
                    self.run.tool = format!("{} {}", known.tool, plain(word));
                }
                _ => {}
            }
        }
    }

    /// `nThread 1 nGpus 8 minBytes 8 ... iters: 20 agg iters: 1 validation: 1 graph: 0`.
    fn options(&mut self, number: usize, bare: &'s str) -> Result<(), Error> {
        self.begin(number)?;
        self.take_command();
        let after = |name: &str| {
            let rest = bare.split(name).nth(1)?;
            rest.split_ascii_whitespace().next()?.parse::<u64>().ok()
        };
        // `warmup iters:` stands before `iters:`.
        let timed = bare.split(" iters: ").nth(2).and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok());
        let graph = after(" graph: ").filter(|launches| *launches > 0);
        let repeats = after("agg iters: ").unwrap_or(1).saturating_mul(graph.unwrap_or(1));
        self.run.iterations = timed.map(|iters: u64| iters.saturating_mul(repeats));
        self.run.notes.extend(graph.map(of_graph));
        let of_process = after("nThread ").unwrap_or(1).saturating_mul(after(" nGpus ").unwrap_or(1));
        let launched = u64::from(self.processes.take().unwrap_or(0)).saturating_mul(of_process);
        self.run.launched = u32::try_from(launched).ok().filter(|ranks| *ranks > 0).or(self.run.launched);
        self.run.facts.retain(|(name, _)| *name != "options");
        self.run.facts.push(("options", fact(bare)));
        // What is before is sizes, threads and devices; a check follows the timed calls.
        let method = bare.split_once("warmup iters:").map_or("", |(_, method)| method);
        let mut words = method.split_ascii_whitespace();
        let mut kept = String::from("warmup");
        while let Some(word) = words.next() {
            if word == "validation:" {
                words.next();
            } else {
                kept += " ";
                kept += word;
            }
        }
        self.method(&kept);
        Ok(())
    }

    /// Adds to what decides how calls are timed.
    fn method(&mut self, what: &str) {
        if !what.is_empty() && !self.run.method.contains(what) {
            self.run.method += &format!("{what}; ");
        }
    }

    /// `Rank  0 Group  0 Pid 272738 on HOST device  0 [0x01] NAME`.
    fn rank(&mut self, bare: &str) {
        let mut words = bare.split_ascii_whitespace();
        let mut next_after = |name: &str| words.by_ref().find(|word| *word == name).and_then(|_| words.next());
        let number: Option<u32> = next_after("Rank").and_then(|word| word.parse().ok());
        let Some(number) = number.filter(|number| *number < 1 << 20) else { return };
        let group = bare.split_once(" Group ").and_then(|(_, rest)| rest.split_ascii_whitespace().next()?.parse().ok());
        let group: u32 = group.unwrap_or(0);
        self.ranks.add(number, group);
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

    /// Everything else: footers, failures, command lines. Whether it is one of these.
    fn other(&mut self, number: usize, text: &'s str, bare: &'s str) -> Result<bool, Error> {
        let value = |text: &str| text.split_once(':').map_or(String::new(), |(_, value)| plain(value));
        if bare.starts_with("Avg bus bandwidth") {
            self.in_table = false;
            self.footers += 1;
            self.run.facts.push(("average bus bandwidth, GB/s", value(bare)));
        } else if bare.starts_with("Out of bounds values") {
            self.in_table = false;
            if bare.contains("FAILED") {
                self.run.notes.push(format!("line {number}: {}", plain(bare)));
            }
            self.run.facts.push(("out of bounds values", value(bare)));
        } else if bare.starts_with("Bitwise mismatches") {
            if bare.contains("FAILED") {
                self.run.notes.push(format!("line {number}: {}", plain(bare)));
            }
        } else if bare.starts_with("Blocking Enabled") {
            self.run.blocking = Blocking::from_line(bare);
            self.method(bare);
            self.run.notes.push(plain(bare));
        } else if bare.starts_with("Per-Iteration Report") {
            self.method("per-iteration report");
            self.run.facts.push(("per-iteration report", value(bare)));
        } else if let Some(version) = bare.strip_prefix("NCCL version ").or(bare.strip_prefix("RCCL version :")) {
            let name = if bare.starts_with('R') { "rccl" } else { "nccl" };
            self.run.versions.entry(name.to_owned()).or_insert_with(|| plain(version));
        } else if let Some(version) = bare.strip_prefix("rccl-tests: Version ") {
            self.begin(number)?;
            // Early ones name a commit alone: `develop:2596ca5f71`.
            if version.starts_with(|first: char| first.is_ascii_digit()) {
                self.run.notes.extend(RCCL_TESTS.unseen(number, version));
            }
            self.run.tool = format!("rccl-tests {}", plain(version));
        } else if let Some(error) = bare.strip_prefix("error: ").filter(|_| text.starts_with("# ")) {
            self.run.notes.push(format!("line {number}: error: {}", plain(error)));
        } else if text.contains("NCCL failure") || text.contains("CUDA failure") || text.contains("Test failure") {
            let what = format!("line {number}: {}", plain(text));
            self.run.failure.get_or_insert_with(|| what.clone());
            self.run.notes.push(what);
        } else if text.contains("_perf") && !text.contains(".o ") && !text.contains("concluded") {
            self.command(text);
        } else {
            return Ok(text.is_empty() || is_own(text, bare));
        }
        Ok(true)
    }

    /// Keeps a command line. Whether it is one.
    fn command(&mut self, text: &str) -> bool {
        let Some(run) = ProgramRun::parse(text) else { return false };
        self.command = Some(run);
        true
    }

    /// The command line above a run is its own.
    fn take_command(&mut self) {
        if let Some(ProgramRun { program, average, method, processes, of_process, text }) = self.command.take() {
            self.run.average = Some(average);
            self.run.origin = self.headings.begin(&text);
            self.processes = processes;
            // Until the program prints its options, those of the command line count.
            let launched = processes.and_then(|processes| processes.checked_mul(of_process));
            self.run.launched = launched.filter(|ranks| *ranks > 0);
            self.method(&method);
            if !method.is_empty() {
                self.run.facts.push(("settings of the command line", fact(&method)));
            }
            if self.run.program.is_none() {
                (self.run.program, self.run.program_is_from_command) = (Some(program), true);
            }
        }
    }

    fn header(&mut self, number: usize, bare: &str) -> Result<Vec<NcclColumn>, Error> {
        if self.command.is_some() || self.run.line == 0 || !self.run.rows.is_empty() {
            self.begin(number)?;
            self.take_command();
        }
        let mut columns = Vec::new();
        for word in bare.split_ascii_whitespace() {
            let half = |of: fn(usize) -> NcclColumn| of(usize::from(columns.contains(&of(0))));
            columns.push(match word {
                "size" => NcclColumn::Bytes,
                "count" => NcclColumn::Count,
                "type" => NcclColumn::Type,
                REDUCTION => NcclColumn::Reduction,
                "root" => NcclColumn::Root,
                "time" => half(NcclColumn::Time),
                "algbw" => half(NcclColumn::Algbw),
                "busbw" => half(NcclColumn::Busbw),
                "#wrong" => half(NcclColumn::Wrong),
                "error" => half(NcclColumn::Difference),
                "#bitdiff" => half(NcclColumn::BitDifference),
                "i_min" => half(NcclColumn::Min),
                "i_max" => half(NcclColumn::Max),
                "i_p99" => half(NcclColumn::P99),
                "i_cv%" => NcclColumn::Variation,
                "timestamp" => NcclColumn::Timestamp,
                "cputime" => {
                    let what = "the column `cputime` is the time until a call returns, not the time that it takes";
                    return Err(self.source.error(number, what).hint("measure without `-C 1`"));
                }
                _ => {
                    let tool = match self.run.tool.as_str() {
                        "" => "nccl-tests, of a version that the file does not tell,",
                        tool => tool,
                    };
                    let known = format!(
                        "size count type {REDUCTION} root time algbw busbw #wrong error #bitdiff i_min i_max i_p99 \
                         i_cv% timestamp"
                    );
                    return Err(unknown_column(self.source, number, tool, word, &known));
                }
            });
        }
        if columns.len() > WORDS - 2
            || [NcclColumn::Type, NcclColumn::Time(0), NcclColumn::Busbw(0)].iter().any(|of| !columns.contains(of))
        {
            return Err(self.source.error(number, "the table's header is cut off: type, time and busbw are needed"));
        }
        if columns.contains(&NcclColumn::Time(1)) && !columns.contains(&NcclColumn::Busbw(1)) {
            return Err(self.source.error(number, "the table's header is cut off within its in-place columns"));
        }
        let is_single = !columns.contains(&NcclColumn::Time(1));
        // `-O 0` of rccl-tests.
        self.is_in_place = std::mem::take(&mut self.titled_in_place) && is_single;
        if is_single && !self.is_in_place {
            let what = "a table has no in-place columns: the program was told to leave them out, or its lines are cut";
            self.run.notes.push(what.to_owned());
        }
        for (column, what) in UNREAD {
            if columns.contains(column) {
                self.run.unread.push((*what).to_owned());
            }
        }
        Ok(columns)
    }

    fn row(&mut self, number: usize, text: &'s str) {
        let Some(columns) = &self.columns else {
            if has_type(text) && WordCount::count(text).are_a_row() {
                self.run.omitted.push((number, "no header of a table stands above this line".to_owned()));
            }
            return;
        };
        let mut words = [""; WORDS + 1];
        let mut count = 0;
        for word in text.split_ascii_whitespace() {
            if count < WORDS {
                words[count] = word;
            }
            count += 1;
        }
        let expected = columns.len() + usize::from(columns.contains(&NcclColumn::Timestamp));
        // Other programs' lines begin with numbers, too.
        if count < 2 || words[..2].iter().any(|word| !word.bytes().all(|byte| byte.is_ascii_digit())) {
            if self.in_table && is_damaged(text) {
                self.run.omitted.push((number, self.expected(text)));
            }
            return;
        }
        // Before 2.13, alltoall names this column and leaves it blank.
        let blank = columns.iter().position(|column| *column == NcclColumn::Reduction);
        let blank = blank.filter(|at| count + 1 == expected && words[*at].parse::<f64>().is_ok());
        if let Some(at) = blank {
            words.copy_within(at..count, at + 1);
            words[at] = "none";
            count += 1;
        }
        let read = if count == expected { row(columns, &words[..count], number) } else { Err(self.expected(text)) };
        match read {
            Ok(mut row) => {
                if self.is_in_place {
                    row.halves.swap(0, 1);
                }
                if expected > columns.len() {
                    let time = [words[count - 2], words[count - 1]];
                    self.times.get_or_insert([time, time])[1] = time;
                }
                self.run.rows.push(row);
            }
            Err(why) => self.run.omitted.push((number, why)),
        }
    }

    /// What was expected of a line that is not a row.
    fn expected(&self, text: &str) -> String {
        let columns = self.columns.as_deref().unwrap_or_default();
        let expected = columns.len() + usize::from(columns.contains(&NcclColumn::Timestamp));
        let found = text.split_ascii_whitespace().count();
        if found != expected {
            return format!("expected {expected} columns, found {found}");
        }
        let front: Vec<&str> = text.split_ascii_whitespace().take(2).collect();
        format!("expected a size and a count, found `{}`", plain(&front.join(" ")))
    }
}

//! The text of perftest: `ib_write_bw`, `ib_read_bw`, `ib_send_bw`, `ib_write_lat`, `ib_read_lat`, `ib_send_lat`, 4.1
//! to 26. Written by its `perftest_parameters.c` (`ctx_print_test_info`, `print_full_bw_report`, `print_report_lat`)
//! with the formats of `perftest_parameters.h`.
//!
//! `MB/sec` and `MiB/sec` are both 2^20 bytes a second, `Gb/sec` is 1e9 bits a second. Latencies of writes and sends
//! are half of a round trip, those of reads the whole.

use std::borrow::Cow;

use terms::Error;

use super::command;
use super::nccl::plain;
use super::perftest_rows::{Bad, rates, times};
use super::rdma::ABOUT;
use super::row_like;
use super::runs::Runs;
use crate::{Content, Format, Line, Results, Row, Shape, Source};

/// The format.
pub(super) struct Perftest;

impl Format for Perftest {
    fn about(&self) -> (&'static str, &'static str) {
        ("perftest", "perftest: what ib_write_bw, ib_write_lat and their like print")
    }

    fn begins(&self, line: &str) -> bool {
        PerftestTest::parse(line).is_some()
    }

    fn marks(&self) -> &'static [&'static str] {
        &["#bytes", "#iterations", "BW average"]
    }

    fn recognises(&self, source: &Source) -> bool {
        source.text().contains("#iterations") && source.lines().any(|line| PerftestTest::parse(line.text).is_some())
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let mut reader = PerftestReader {
            source,
            command: None,
            results: Runs::default(),
            memory: None,
            test: None,
            headers: 0,
            table: None,
        };
        for line in source.lines() {
            reader.line(line)?;
        }
        Ok(Content::Results(reader.results.finish(source)?))
    }
}

/// What a run measures, by its title: `RDMA_Write Bidirectional BW Test`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PerftestTest {
    /// None where it has no counterpart here.
    name: Option<&'static str>,
    title: String,
    both_ways: bool,
    /// Where the buffers are, if the command line or a line of the program says it.
    memory: Option<&'static str>,
    /// Fields that stand below the title.
    fields: Vec<(&'static str, String)>,
}

impl PerftestTest {
    fn parse(text: &str) -> Option<Self> {
        let title = text.trim().strip_suffix(" Test")?;
        let words: Vec<&str> = title.split_ascii_whitespace().collect();
        let (verb, rest) = words.split_first()?;
        // With `--post_list` or without: how many messages one call posts is a field.
        let rest: Vec<&str> = rest.iter().copied().filter(|word| !matches!(*word, "Post" | "List")).collect();
        let name = match (*verb, rest.as_slice()) {
            ("RDMA_Write", ["BW"] | ["Bidirectional", "BW"]) => Some("write_bw"),
            ("RDMA_Read", ["BW"] | ["Bidirectional", "BW"]) => Some("read_bw"),
            ("Send", ["BW"] | ["Bidirectional", "BW"]) => Some("send_bw"),
            ("RDMA_Write", ["Latency"]) => Some("write_lat"),
            ("RDMA_Read", ["Latency"]) => Some("read_lat"),
            ("Send", ["Latency"]) => Some("send_lat"),
            ("RDMA_Write" | "RDMA_Read" | "Send" | "RDMA_Write_imm" | "Send_imm" | "Atomic", rest)
                if rest.contains(&"BW") || rest.contains(&"Latency") =>
            {
                None
            }
            _ => return None,
        };
        Some(Self {
            name,
            title: title.to_owned(),
            both_ways: rest.first() == Some(&"Bidirectional"),
            memory: None,
            fields: Vec::new(),
        })
    }

    fn is_latency(&self) -> bool {
        self.name.is_some_and(|name| name.ends_with("_lat"))
    }

    fn shape(&self, name: &'static str, bytes: u64) -> Shape {
        let mut fields: Vec<(&'static str, Cow<'static, str>)> =
            vec![("test", name.into()), ("ranks", "2".into()), ("bytes", bytes.to_string().into())];
        if !self.is_latency() {
            fields.push(("direction", if self.both_ways { "both_ways" } else { "one_way" }.into()));
        }
        fields.extend(self.fields.iter().map(|(name, value)| (*name, Cow::from(value.clone()))));
        let memory = self.memory.filter(|memory| *memory != HOST);
        fields.extend(memory.map(|memory| ("memory", Cow::from(memory))));
        let device = match memory {
            None => "cpu",
            Some("cuda") => "cuda",
            Some(_) => "gpu",
        };
        Shape { benchmark: ABOUT.name, fields, device, implementation: None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PerftestColumns {
    /// Bytes a second of one of the unit.
    Rates(u32),
    Times,
}

const MIB: u32 = 1 << 20;
const GIGABIT: u32 = 125_000_000;

/// Columns by a header; the last may be the load of the processor. None where a line is not a header.
fn columns(text: &str) -> Option<Result<(PerftestColumns, bool), String>> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    if words.first() != Some(&"#bytes") {
        return None;
    }
    let has_load = words.last().is_some_and(|word| word.starts_with("CPU_Util["));
    let words = words[..words.len() - usize::from(has_load)].join(" ");
    let rates = |unit: &str| format!("#bytes #iterations BW peak[{unit}] BW average[{unit}] MsgRate[Mpps]");
    let times = "#bytes #iterations t_min[usec] t_max[usec] t_typical[usec] t_avg[usec] t_stdev[usec] \
                 99% percentile[usec] 99.9% percentile[usec]";
    let found =
        [("MB/sec", MIB), ("MiB/sec", MIB), ("Gb/sec", GIGABIT)].into_iter().find(|(unit, _)| words == rates(unit));
    Some(match found {
        Some((_, unit)) => Ok((PerftestColumns::Rates(unit), has_load)),
        None if words == times => Ok((PerftestColumns::Times, has_load)),
        None => Err(format!("this reader does not know the columns `{}`", plain(&words))),
    })
}

#[derive(Clone, Copy, Debug)]
struct PerftestTable {
    columns: PerftestColumns,
    has_load: bool,
    /// Headers since the last row, with its own: two if two programs wrote their heads at once.
    headers: usize,
    /// The size of the last row; 0 before the first.
    last: u64,
    /// Whether a size was above the one before.
    rises: bool,
    /// Whether a size was that of the row before, as with `--run_infinitely`.
    repeats: bool,
}

impl PerftestTable {
    fn new(columns: PerftestColumns, has_load: bool, headers: usize) -> Self {
        Self { columns, has_load, headers, last: 0, rises: false, repeats: false }
    }

    /// The table behind a row of so many bytes. None where one program would not print such a row: it measures sizes that
    /// rise, or one size again and again.
    fn after(self, bytes: u64) -> Option<Self> {
        let rises = self.rises || (self.last > 0 && bytes > self.last);
        let repeats = self.repeats || bytes == self.last;
        let fits = bytes >= self.last && !(rises && repeats) && !(repeats && self.headers > 1);
        fits.then_some(Self { last: bytes, rises, repeats, ..self })
    }
}

struct PerftestReader<'s> {
    source: &'s Source,
    /// The last command line: that of the run that begins next.
    command: Option<String>,
    results: Runs,
    /// Where the buffers are, as lines since the last header say: they stand above the title or below it.
    memory: Option<&'static str>,
    test: Option<PerftestTest>,
    /// Headers of tables since the last row.
    headers: usize,
    table: Option<PerftestTable>,
}

const STATISTIC: &str = "latency: median over iterations; bandwidth: bytes of a message / average rate";
/// Options that say what is measured and stand in the fields of cases, or that change nothing.
const NO_METHOD: &[&str] =
    &["-s", "--size", "-a", "--all", "-q", "--qp", "--report_gbits", "-F", "-p", "--port", "-b", "-c", "-m"];

impl PerftestReader<'_> {
    fn line(&mut self, line: Line<'_>) -> Result<(), Error> {
        let text = line.text.trim();
        if let Some(test) = PerftestTest::parse(text) {
            self.begin(line.number, test);
            return Ok(());
        }
        if let Some(found) = columns(text) {
            self.header(line.number, found);
            return Ok(());
        }
        if let Some(test) = self.test.as_mut().filter(|_| self.table.is_none()) {
            for (key, name) in FIELDS.iter().filter(|_| !text.starts_with("Recv Post List")) {
                test.fields.extend(told(text, key).map(|value| (*name, value)));
            }
            if let Some(device) = told(text, "Device") {
                self.results
                    .current()
                    .into_iter()
                    .for_each(|results| results.tell([("device".to_owned(), device.clone())]));
            }
        }
        self.memory = memory(text).or(self.memory);
        match self.table {
            Some(table) if row_like::begins_with_number(text) && !row_like::is_heading(text) => {
                return self.row(line.number, text, table);
            }
            Some(_) if text.starts_with("-----") => (self.table, self.headers) = (None, 0),
            _ => self.outside(line.number, text),
        }
        Ok(())
    }

    fn begin(&mut self, number: usize, test: PerftestTest) {
        let command = self.command.take().unwrap_or_default();
        let (before, options) = split(&command).unwrap_or_default();
        let method = command::method(before, options, NO_METHOD);
        let mut results = Results::new("perftest", STATISTIC);
        if !method.is_empty() {
            results.facts.insert("settings of the command line".to_owned(), method.clone());
        }
        match test.name {
            None => results.omit(number, format!("`{}` has no counterpart here", plain(&test.title))),
            Some("read_lat") => results.note("read_lat: times are whole round trips, as ib_read_lat prints them"),
            Some(name) if test.is_latency() => {
                results.note(format!("{name}: times are half of a round trip, as ib_{name} prints them"));
            }
            Some(name) => {
                results
                    .note(format!("{name}: the time of a message is its bytes / the average rate; messages overlap"));
            }
        }
        self.table = None;
        self.test = Some(PerftestTest { memory: memory_by(options), ..test });
        self.results.begin(format!("perftest: {method}"), &command::plain(&command), results);
    }

    fn header(&mut self, number: usize, found: Result<(PerftestColumns, bool), String>) {
        self.table = None;
        let memory = self.memory.take();
        let (Some(test), Some(results)) = (self.test.as_mut(), self.results.current()) else { return };
        test.memory = memory.or(test.memory);
        if test.name.is_none() {
            return;
        }
        match found {
            Err(why) => results.omit(number, format!("`{}`: {why}", plain(&test.title))),
            Ok((columns, _)) if test.is_latency() != (columns == PerftestColumns::Times) => {
                results.omit(number, format!("`{}`: the columns are those of another test", plain(&test.title)));
            }
            Ok((columns, has_load)) => {
                if columns == PerftestColumns::Times {
                    results.leave_unread(
                        "the columns `t_stdev` and `99.9% percentile`: the record has no place".to_owned(),
                    );
                }
                if has_load {
                    results.leave_unread("the column `CPU_Util`: the record has no place".to_owned());
                }
                self.headers += 1;
                self.table = Some(PerftestTable::new(columns, has_load, self.headers));
            }
        }
    }

    fn row(&mut self, line: usize, text: &str, table: PerftestTable) -> Result<(), Error> {
        self.headers = 0;
        let Some((test, name)) = self.test.as_ref().and_then(|test| Some((test, test.name?))) else { return Ok(()) };
        let read = match table.columns {
            PerftestColumns::Rates(unit) => rates(text, table.has_load, unit),
            PerftestColumns::Times => times(text, table.has_load),
        };
        let (bytes, figures) = match read {
            Ok(read) => read,
            Err(Bad::Comma(why)) => return Err(self.source.error(line, why)),
            Err(Bad::Damaged(why)) => {
                self.results.current().into_iter().for_each(|results| results.omit(line, &why));
                return Ok(());
            }
        };
        let Some(after) = table.after(bytes) else {
            let what = format!(
                "separate programs wrote here at once: {bytes} bytes stand behind {} in one table; \
                 their lines are mixed",
                table.last
            );
            return Err(self.source.error(line, what).hint("write the output of each program to a file of its own"));
        };
        let row = Row { shape: test.shape(name, bytes), figures };
        if let Some(results) = self.results.current() {
            results.add(row);
            if after.repeats {
                results.note("rows of one size are trials: the program measured it again and again");
            }
        }
        self.table = Some(after);
        Ok(())
    }

    fn outside(&mut self, number: usize, text: &str) {
        if split(text).is_some() {
            self.command = Some(text.to_owned());
            self.memory = None;
        } else if let Some(results) = self.results.current().filter(|_| row_like::is_ending(text)) {
            results.quote(format!("line {number}: {}", plain(text)));
        } else if !is_own(text) {
            self.results.headings.add(number, text);
        }
    }
}

/// What stands below a title, and the field that it is.
const FIELDS: &[(&str, &str)] = &[
    ("Connection type", "connection"),
    ("Number of qps", "queue_pairs"),
    ("TX depth", "tx_depth"),
    ("Post List", "post_list"),
    ("Mtu", "mtu"),
    ("Link type", "link"),
];

/// The memory of the host, where buffers are if nothing says otherwise.
const HOST: &str = "host";

/// Where the buffers are by a line that perftest writes, if it says so.
fn memory(text: &str) -> Option<&'static str> {
    const LINES: &[(&str, &str)] = &[
        ("initializing CUDA", "cuda"),
        ("creating CUDA Ctx", "cuda"),
        ("making it the current CUDA Ctx", "cuda"),
        ("cuMemAlloc() of a", "cuda"),
        ("Using ROCm Device with ID", "rocm"),
        // With CUDA, and yet none of it (`--cuda_mem_type=4`).
        ("Host allocation selected", HOST),
    ];
    let found = LINES.iter().find(|(first, _)| text.starts_with(first)).map(|(_, memory)| *memory);
    let is_rocm = || told(text, "Use ROCm memory").is_some_and(|value| value == "ON");
    found.or_else(|| is_rocm().then_some("rocm"))
}

/// Where the buffers are by the options of a command line.
fn memory_by(options: &str) -> Option<&'static str> {
    const FLAGS: &[(&str, &str)] = &[
        ("--use_cuda", "cuda"),
        ("--use_rocm", "rocm"),
        ("--use_neuron", "neuron"),
        ("--use_hl", "hl"),
        ("--use_mlu", "mlu"),
        ("--use_opencl", "opencl"),
    ];
    FLAGS.iter().find(|(flag, _)| command::has_flag(options, flag)).map(|(_, memory)| *memory)
}

/// Whether a line is one that perftest writes of a GPU and its memory. Such lines have addresses and numbers of processes,
/// which are others in each run.
fn is_of_gpu(text: &str) -> bool {
    const FIRST: &[&str] = &[
        "Perftest doesn't supports CUDA tests",
        "Listing all CUDA devices",
        "CUDA device ",
        "CUDA VMM allocation",
        "There is 1 device supporting CUDA",
        "Finding PCIe BUS",
        "Picking device No.",
        "Picking GPU number",
        "[pid = ",
        "using DMA-BUF for GPU buffer",
        "dmabuf export addr",
        "Calling ibv_reg_dmabuf_mr",
        "deallocating ",
        "destroying current CUDA Ctx",
        "Starting GPU touching",
        "stopping CUDA gpu touch",
        "Use ROCm memory",
    ];
    memory(text).is_some()
        || FIRST.iter().any(|first| text.starts_with(first))
        || (text.starts_with("allocated ") && text.contains("GPU buffer"))
        || (text.starts_with("There are ") && text.contains(" devices supporting CUDA"))
}

/// The value behind a key: of `Number of qps   : 1`, which another may stand behind, or of `Mtu : 4096[B]`.
fn told(text: &str, key: &str) -> Option<String> {
    let behind = text.split_once(key)?.1.trim_start().strip_prefix(':')?;
    let word = behind.split_ascii_whitespace().next()?;
    let word = word.strip_suffix("[B]").unwrap_or(word);
    // Commas separate values of a field.
    (!word.contains(',')).then(|| plain(word))
}

/// A command line, before its program and behind it.
fn split(text: &str) -> Option<(&str, &str)> {
    let names = ["ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_write_lat", "ib_read_lat", "ib_send_lat"];
    let found = |name: &str| {
        let at = text.rfind(name)?;
        let (before, rest) = (&text[..at], &text[at + name.len()..]);
        let begins = before.is_empty() || before.ends_with([' ', '/', '\t', '(']);
        (begins && (rest.is_empty() || rest.starts_with(' '))).then_some((before, rest))
    };
    names.iter().find_map(|name| found(name))
}

/// Whether a line is one that every run writes.
fn is_own(text: &str) -> bool {
    const OWN: &[&str] = &[
        "Dual-port",
        "Number of qps",
        "Connection type",
        "PCIe relax order",
        "ibv_wr* API",
        "TX depth",
        "RX depth",
        "Post List",
        "Recv Post List",
        "Using DDP",
        "CQ Moderation",
        "CQE Poll Batch",
        "Mtu ",
        "Link type",
        "GID",
        "Max inline data",
        "Outstand reads",
        "rdma_cm QPs",
        "Data ex. method",
        "local address",
        "remote address",
        "Conflicting CPU frequency",
        "Disabling dynamic polling",
        "Using sampled CPU speed",
        "CPU freq",
        "Connected:",
        "* Waiting for client",
        "WARNING:",
    ];
    text.chars().all(|letter| matches!(letter, '-' | '*' | ' '))
        || OWN.iter().any(|first| text.starts_with(first))
        || is_of_gpu(text)
}

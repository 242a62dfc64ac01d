//! The text of `p2pBandwidthLatencyTest`, one of NVIDIA's cuda-samples, 10.0 to 13.0. Written by its
//! `p2pBandwidthLatencyTest.cu`: rates in 1e9 bytes a second, times in microseconds, a row and a column for each GPU.
//! The GPU of the row copies: it writes to the GPU of the column, or with `--p2p_read` reads from it.
//!
//! A table has as many rows as columns. One with other rows was cut.

use terms::Error;

use super::command;
use super::gpu_copies::{BadRow, Cells, Copy, columns, seconds};
use super::nccl::plain;
use super::row_like;
use super::runs::Runs;
use crate::{Content, Format, Line, Results, Source};

/// The format.
pub(super) struct P2pBandwidth;

impl Format for P2pBandwidth {
    fn about(&self) -> (&'static str, &'static str) {
        ("p2p_bandwidth", "p2pBandwidthLatencyTest of cuda-samples: copies between GPUs")
    }

    fn begins(&self, line: &str) -> bool {
        Title::parse(line).is_some()
    }

    fn marks(&self) -> &'static [&'static str] {
        &["P2P=", "Bandwidth Matrix (GB/s)", "D\\D"]
    }

    fn recognises(&self, source: &Source) -> bool {
        source.text().contains("P2P=")
            && source.lines().any(|line| Title::parse(line.text).is_some_and(|of| of.is_copy()))
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let mut reader = PeerReader {
            source,
            command: String::new(),
            results: Runs::default(),
            run: PeerRun::default(),
            table: None,
            is_foreign: false,
        };
        for line in source.lines() {
            reader.line(line)?;
        }
        reader.close();
        Ok(Content::Results(reader.results.finish(source)?))
    }
}

/// The first line of the program.
const START: &str = "[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]";
const NAME: &str = "p2pBandwidthLatencyTest";

/// How GPUs reach each other's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PeerAccess {
    /// By the host's memory.
    Disabled,
    Writes,
    Reads,
}

impl PeerAccess {
    fn name(self) -> &'static str {
        match self {
            Self::Disabled => "P2P=Disabled",
            Self::Writes => "P2P=Enabled (P2P Writes)",
            Self::Reads => "P2P=Enabled (P2P Reads)",
        }
    }
}

/// What stands above a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Title {
    Connectivity,
    Rates(PeerAccess),
    BothWays,
    Times(PeerAccess),
    /// The title of a table of an older or newer version.
    Unknown,
}

impl Title {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text == "P2P Connectivity Matrix" {
            return Some(Self::Connectivity);
        }
        let begins = ["Unidirectional P2P=", "Bidirectional P2P=", "P2P="].iter().any(|first| text.starts_with(first));
        if !begins || !text.contains(" Matrix") {
            return None;
        }
        Some(match text {
            "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)" => Self::Rates(PeerAccess::Disabled),
            "Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)" => Self::Rates(PeerAccess::Writes),
            "Unidirectional P2P=Enabled Bandwidth (P2P Reads) Matrix (GB/s)" => Self::Rates(PeerAccess::Reads),
            "Bidirectional P2P=Disabled Bandwidth Matrix (GB/s)"
            | "Bidirectional P2P=Enabled Bandwidth Matrix (GB/s)" => Self::BothWays,
            "P2P=Disabled Latency Matrix (us)" => Self::Times(PeerAccess::Disabled),
            "P2P=Enabled Latency (P2P Writes) Matrix (us)" => Self::Times(PeerAccess::Writes),
            "P2P=Enabled Latency (P2P Reads) Matrix (us)" => Self::Times(PeerAccess::Reads),
            _ => Self::Unknown,
        })
    }

    fn is_copy(self) -> bool {
        self != Self::Connectivity
    }
}

/// A table that is being read.
struct PeerTable {
    title: Title,
    /// What stands above it.
    text: String,
    line: usize,
    /// None before its header.
    cells: Option<Cells>,
    /// Times of the host, which only enqueues.
    is_of_host: bool,
}

/// What is known of a run.
#[derive(Default)]
struct PeerRun {
    /// What stood above its tables.
    titles: Vec<String>,
    /// Whether the GPU of a row has access to that of a column.
    access: Option<Cells>,
    bytes: u64,
    by_kernels: bool,
}

struct PeerReader<'s> {
    source: &'s Source,
    command: String,
    results: Runs,
    run: PeerRun,
    table: Option<PeerTable>,
    /// Whether a line of no run stands behind the last table.
    is_foreign: bool,
}

impl PeerReader<'_> {
    fn line(&mut self, line: Line<'_>) -> Result<(), Error> {
        let text = line.text.trim().trim_start_matches('"');
        if text == START {
            self.close();
            self.begin();
            return Ok(());
        }
        if let Some(title) = Title::parse(text) {
            return self.open(line.number, title, text);
        }
        // A title that is cut at the width of a terminal names no table.
        if text.contains("P2P=") && (text.starts_with("P2P=") || text.contains("directional ")) {
            self.close();
            if let Some(results) = self.results.current() {
                results.omit(line.number, "the title of a table is cut, so its rows are left out");
            }
            return Ok(());
        }
        let corner = ["D\\D", "GPU", "CPU"].into_iter().find(|corner| text.starts_with(*corner));
        if corner.is_some_and(|corner| self.header(corner, text)) {
            return Ok(());
        }
        if row_like::begins_with_number(text)
            && !row_like::is_heading(text)
            && self.table.as_ref().is_some_and(|table| table.cells.is_some())
        {
            return self.row(line.number, text);
        }
        if !text.is_empty() {
            self.close();
        }
        self.outside(line.number, text);
        Ok(())
    }

    fn begin(&mut self) {
        let command = std::mem::take(&mut self.command);
        let options = command.split_once(NAME).map_or("", |(_, options)| options);
        let elements = options.split_ascii_whitespace().find_map(|word| word.strip_prefix("--numElems="));
        let elements: Option<u64> = elements.and_then(|number| number.parse().ok()).filter(|number| *number > 0);
        let bytes = elements.and_then(|elements| elements.checked_mul(4));
        let by_kernels = options.contains("--sm_copy");
        let statistic = "median over GPUs or pairs of the mean of 5 copies (of 16 bytes: 100)";
        let mut results = Results::new(NAME, statistic);
        results.note("rates are printed in 1e9 bytes a second: the time of a copy is its bytes / its rate");
        if bytes.is_none() {
            results.note(
                "the file does not say how large copies are: they are read as 160000000 bytes, the default since \
                 CUDA 11.1 (before: 40000000)",
            );
        }
        self.run = PeerRun { bytes: bytes.unwrap_or(160_000_000), by_kernels, ..PeerRun::default() };
        self.is_foreign = false;
        self.results.begin(format!("{NAME}{options}"), &command::plain(&command), results);
    }

    fn open(&mut self, number: usize, title: Title, text: &str) -> Result<(), Error> {
        self.close();
        let is_again = self.run.titles.iter().any(|known| known == text);
        if is_again && !self.is_foreign {
            return Err(self.mixed(number, &format!("`{}` begins twice in one run", plain(text))));
        }
        if self.results.is_empty() || is_again {
            self.begin();
        }
        self.run.titles.push(text.to_owned());
        self.table = Some(PeerTable { title, text: text.to_owned(), line: number, cells: None, is_of_host: false });
        Ok(())
    }

    fn mixed(&self, number: usize, why: &str) -> Error {
        let what = format!("separate programs wrote here at once: {why}; their lines are mixed");
        self.source.error(number, what).hint("write the output of each program to a file of its own")
    }

    /// A header begins the rows of a table; that of times has a second one, of the host. Gives whether it is one.
    fn header(&mut self, corner: &str, text: &str) -> bool {
        let Some(found) = columns(text, Some(corner)) else { return false };
        if corner == "CPU" {
            self.close();
            let line = self.run.titles.len();
            self.table = Some(PeerTable {
                title: Title::Unknown,
                text: String::new(),
                line,
                cells: Some(Cells::new(found)),
                is_of_host: true,
            });
            return true;
        }
        let Some(table) = self.table.as_mut().filter(|table| table.cells.is_none()) else { return false };
        table.cells = Some(Cells::new(found));
        true
    }

    fn row(&mut self, number: usize, text: &str) -> Result<(), Error> {
        let Some((table, cells)) = self.table.as_mut().and_then(|table| {
            let cells = table.cells.take()?;
            Some((table, cells))
        }) else {
            return Ok(());
        };
        let mut cells = cells;
        let is_rounded = |word: &str| word.split_once('.').is_some_and(|(_, decimals)| decimals.len() == 2);
        let is_whole = table.title == Title::Connectivity || text.split_ascii_whitespace().skip(1).all(is_rounded);
        let added = cells.add(text);
        table.cells = Some(cells);
        match added {
            Ok(()) if is_whole => return Ok(()),
            Err(BadRow::Comma(why)) => return Err(self.source.error(number, why)),
            Err(BadRow::Mixed(why)) => return Err(self.mixed(number, &why)),
            Ok(()) | Err(BadRow::Damaged(_)) => {}
        }
        let why = match added {
            Err(BadRow::Damaged(why)) => why,
            _ => "expected two decimals of each number".to_owned(),
        };
        let what = format!("`{}`: {why}", plain(&table.text));
        let is_of_host = table.is_of_host;
        self.table = None;
        if let Some(results) = self.results.current().filter(|_| !is_of_host) {
            results.omit(number, what);
        }
        Ok(())
    }

    /// Ends the table.
    fn close(&mut self) {
        let Some(table) = self.table.take() else { return };
        let Some(results) = self.results.current() else { return };
        if table.is_of_host {
            results.leave_unread("the tables `CPU`: the time in which the host enqueues a copy".to_owned());
            return;
        }
        let why = match table.cells.as_ref() {
            None => Err("no table stands below it".to_owned()),
            Some(cells) if !cells.is_square() => {
                results.cut = true;
                Err(format!("expected {} rows, found {}", cells.columns, cells.rows.len()))
            }
            Some(cells) if table.title == Title::Connectivity => {
                self.run.access = Some(cells.clone());
                Ok(())
            }
            Some(cells) => self.run.add(results, table.title, cells),
        };
        if let Err(why) = why {
            results.omit(table.line, format!("`{}`: {why}", plain(&table.text)));
        }
    }

    fn outside(&mut self, number: usize, text: &str) {
        if text.contains(NAME) && !text.starts_with('[') {
            text.clone_into(&mut self.command);
            self.is_foreign = true;
        } else if let Some((device, name)) = told(text) {
            if let Some(results) = self.results.current() {
                results.tell([(format!("Device {device}"), plain(name))]);
            }
        } else if !is_own(text) {
            self.is_foreign = true;
            self.results.headings.add(number, text);
        }
    }
}

impl PeerRun {
    /// Adds the cases of a table.
    fn add(&self, results: &mut Results, title: Title, cells: &Cells) -> Result<(), String> {
        let (way, bytes, times) = match title {
            Title::Rates(way) => (way, self.bytes, seconds(cells, self.bytes as f64)),
            Title::Times(way) => (way, 16, microseconds(cells)),
            Title::BothWays => {
                return Err("copies both ways at once, by the copy engine, have no counterpart here".to_owned());
            }
            Title::Connectivity | Title::Unknown => return Err("this reader does not know it".to_owned()),
        };
        let is_rate = matches!(title, Title::Rates(_));
        let times = |row: usize, column: usize| times.rows[row][column];
        // Rates within a GPU count what is read and what is written.
        let own = |at: usize| if is_rate { 2.0 * times(at, at) } else { times(at, at) };
        let alone: Vec<f64> = (0..cells.columns).map(own).filter(|time| time.is_finite()).collect();
        if self.by_kernels && way != PeerAccess::Disabled {
            return Err("`--sm_copy` copies by kernels, and tests of this kind here copy by the copy engine".to_owned());
        }
        let copy = Copy { test: "device_copy", bytes, implementation: None, counted: 2 };
        copy.add_alone(results, &alone, None);
        if !is_rate {
            results.note(
                "latencies are times of copies of 16 bytes (before CUDA 10.1 update 2: 4 bytes), enqueued together",
            );
        }
        if cells.columns > 1 {
            results.note(format!("{}: {}", way.name(), note(way)));
        }
        let without_access = |row: usize, column: usize| {
            let has = |access: &Cells| {
                access.rows.get(row).and_then(|row| row.get(column)).is_some_and(|value| *value == 1.0)
            };
            way != PeerAccess::Disabled && row != column && self.access.as_ref().is_some_and(|access| !has(access))
        };
        let rows =
            (0..cells.columns).map(|row| (0..cells.columns).map(|column| times(row, column)).collect()).collect();
        let pairs = Cells { columns: cells.columns, rows }.without(without_access);
        let copy = Copy { test: "peer_copy", bytes, implementation: Some(way.name()), counted: 1 };
        if copy.add_pairs(results, &pairs, None) || cells.columns == 1 {
            return Ok(());
        }
        Err("the file says that no GPU has access to another: the host copied".to_owned())
    }
}

/// Times in seconds; a time of zero is not one.
fn microseconds(cells: &Cells) -> Cells {
    let time = |us: &f64| if *us > 0.0 { us * 1e-6 } else { f64::NAN };
    Cells { columns: cells.columns, rows: cells.rows.iter().map(|row| row.iter().map(time).collect()).collect() }
}

fn note(way: PeerAccess) -> &'static str {
    match way {
        PeerAccess::Disabled => {
            "copies between GPUs go by the host's memory, so this case is another than peer_copy of a native run"
        }
        PeerAccess::Writes => "the GPU of the row writes to the GPU of the column; peer_copy of a native run reads",
        PeerAccess::Reads => {
            "the GPU of the row reads from the GPU of the column; peer_copy of a native run times all pairs together"
        }
    }
}

/// `Device: 0, NVIDIA H100 80GB HBM3, pciBusID: 19, ...` as number and name.
fn told(text: &str) -> Option<(&str, &str)> {
    let (number, rest) = text.strip_prefix("Device: ")?.split_once(", ")?;
    Some((number, rest.split(", pciBusID").next()?))
}

/// Whether a line is one that every run writes.
fn is_own(text: &str) -> bool {
    text.is_empty()
        || text.starts_with("Device=")
        || text.starts_with("***NOTE: In case a device")
        || text.starts_with("So you can see lesser Bandwidth")
        || text.starts_with("NOTE: The CUDA Samples are not meant")
}

//! The text of `all_reduce_bench.py` (stas00/ml-engineering): a table by payload, and its first form with one payload.

use std::collections::BTreeMap;

use terms::{Collective, Dtype, Error};

use super::command;
use super::nccl::plain;
use super::runs::Runs;
use super::versions::unknown_column;
use crate::collective::{self, MeasuredCall};
use crate::{Content, Figures, Format, Line, Results, Source};

/// The format.
pub(super) struct AllReduceBench;

impl Format for AllReduceBench {
    fn about(&self) -> (&'static str, &'static str) {
        ("all_reduce_bench", "all_reduce_bench.py of ml-engineering: bandwidth by payload")
    }

    fn begins(&self, line: &str) -> bool {
        is_header(line)
    }

    fn marks(&self) -> &'static [&'static str] {
        &["| payload ", "busbw", "average bandwidth of all_reduce"]
    }

    fn recognises(&self, source: &Source) -> bool {
        let text = source.text();
        // Two searches take less of a long log of another program than its lines do. The standard library searches for up to
        // 32 bytes with SIMD.
        text.contains("average bandwidth of all_reduce")
            || (text.contains("payload") && source.lines().any(|line| is_header(line.text)))
    }

    fn read(&self, source: &Source) -> Result<Content, Error> {
        let given = collective::given_ranks(source)?;
        let mut reader = AllReduceBenchReader {
            source,
            results: Runs::default(),
            head: Head::default(),
            ranks: None,
            given,
            trials: None,
            payload: None,
            in_table: false,
            command: None,
            launched: None,
        };
        for line in source.lines() {
            reader.line(line)?;
        }
        Ok(Content::Results(reader.results.finish(source)?))
    }
}

fn cells(text: &str) -> Option<Vec<&str>> {
    let inside = text.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(inside.split('|').map(str::trim).collect())
}

fn is_header(text: &str) -> bool {
    cells(text).is_some_and(|cells| cells.first() == Some(&"payload") && cells.contains(&"algbw"))
}

/// The program of a command line.
const SCRIPT: &str = "all_reduce_bench.py";
/// How lines of the script begin that become nothing.
const OWN: &[&str] = &["Environment:", "Legend:", "busbw:", "algbw:", "payload", "|", "- ", "duration:"];

fn is_own(text: &str) -> bool {
    OWN.iter().any(|first| text.starts_with(first))
}

/// What stands above a table.
#[derive(Default)]
struct Head {
    versions: BTreeMap<String, String>,
    hardware: Option<String>,
}

struct AllReduceBenchReader<'s> {
    source: &'s Source,
    /// Apart by environment and method.
    results: Runs,
    head: Head,
    ranks: Option<u32>,
    given: Option<u32>,
    trials: Option<u64>,
    /// For the first form: the payload of the lines that follow, or why it is none.
    payload: Option<Result<u64, String>>,
    in_table: bool,
    /// The last command line: it is that of the run that begins next.
    command: Option<String>,
    /// Ranks that the run's command line starts.
    launched: Option<u32>,
}

impl AllReduceBenchReader<'_> {
    fn line(&mut self, line: Line<'_>) -> Result<(), Error> {
        let text = line.text.trim();
        if let Some((_, rest)) = text.split_once("The average bandwidth of all_reduce ") {
            self.begin(rest);
        } else if text.contains("|    busbw   |    algbw   |") && !is_header(text) {
            self.results().omit(line.number, "a profile of single iterations: only averages are read");
            self.in_table = false;
        } else if is_header(text) {
            let names = cells(text).unwrap_or_default();
            if let Some(odd) = names.iter().find(|name| !["payload", "busbw", "algbw"].contains(name)) {
                let tool = "all_reduce_bench.py, which names no version,";
                return Err(unknown_column(self.source, line.number, tool, odd, "payload, busbw, algbw"));
            }
            // A table that nothing announces, below another one.
            if self.results.current().is_none_or(|results| !results.is_empty()) {
                (self.ranks, self.trials) = (None, None);
                self.open("");
            }
            self.in_table = true;
        } else if let Some(cells) = cells(text).filter(|cells| self.in_table && !cells[0].starts_with('-')) {
            self.row(line.number, &cells)?;
        } else if self.in_table && !text.starts_with("| -") && (text.contains('|') || text.contains("GBps")) {
            let found = text.trim_matches('|').split('|').count();
            self.results().omit(line.number, format!("expected 3 columns between `|`, found {found}"));
        } else if let (true, Some((_, rate))) = (self.payload.is_some(), text.split_once("algbw:")) {
            let rate = rate.trim().split_once(" GBps").map_or("", |(rate, _)| rate);
            if let Some(payload) = self.payload.take() {
                self.add(line.number, payload, rate)?;
            }
        } else if let Some(software) = text.strip_prefix("- software:") {
            self.head = Head { versions: versions(software), ..Head::default() };
            if let Some(results) = self.results.current().filter(|results| results.versions.is_empty()) {
                results.versions.clone_from(&self.head.versions);
            }
        } else if let Some(hardware) = text.strip_prefix("- hardware:") {
            self.head.hardware = Some(plain(hardware));
        } else {
            self.in_table &= !text.is_empty() && !text.starts_with("Legend");
            if text.contains(SCRIPT) {
                self.command = Some(text.to_owned());
            } else if !self.in_table && !is_own(text) {
                self.results.headings.add(line.number, text);
            }
        }
        Ok(())
    }

    /// The results of the table that is read. A table may stand without the line above it.
    fn results(&mut self) -> &mut Results {
        match self.results.is_empty() {
            true => self.open(""),
            false => self.results.current_or(empty),
        }
    }

    /// `over 8 ranks (5 warmups / 20 trials):`, or `with a 4.0GB payload (5 trials, 16 ranks):`.
    fn begin(&mut self, rest: &str) {
        self.open(rest);
        let words: Vec<&str> = rest.split([' ', '(', ')', ',', ':']).filter(|word| !word.is_empty()).collect();
        let before = |name: &str| words.windows(2).find(|pair| pair[1] == name).map(|pair| pair[0]);
        self.ranks = before("ranks").and_then(|word| word.parse().ok()).filter(|ranks| *ranks > 0);
        self.trials = before("trials").and_then(|word| word.parse().ok());
        let wrong = |word: &str| format!("expected a payload, found `{}`", plain(word));
        self.payload = before("payload").map(|word| gigabytes(word).ok_or_else(|| wrong(word)));
        self.in_table = false;
    }

    /// Begins a run. Runs with other warm-ups, calls or software are not trials of one case.
    fn open(&mut self, about: &str) -> &mut Results {
        let options = about.split(['(', ')', ',', '/']).map(str::trim).skip(1);
        let method: Vec<&str> = options.filter(|option| !option.is_empty() && !option.ends_with(" ranks")).collect();
        let Head { versions, hardware } = &self.head;
        let key = format!("{method:?} {versions:?} {hardware:?}");
        let mut results = empty();
        results.versions.clone_from(versions);
        let hardware = hardware.clone().map(|hardware| ("hardware".to_owned(), hardware));
        let command = self.command.take().unwrap_or_default();
        self.launched = command::processes(command.split(SCRIPT).next().unwrap_or_default());
        let results = self.results.begin(key, &command::plain(&command), results);
        results.tell([("table".to_owned(), plain(about))].into_iter().chain(hardware));
        results
    }

    fn row(&mut self, number: usize, cells: &[&str]) -> Result<(), Error> {
        let &[payload, _, algbw] = cells else {
            self.results().omit(number, format!("expected 3 columns, found {}", cells.len()));
            return Ok(());
        };
        let bytes = size(payload).ok_or_else(|| format!("expected a payload, found `{}`", plain(payload)));
        self.add(number, bytes, algbw.trim_end_matches("GBps"))
    }

    fn add(&mut self, number: usize, bytes: Result<u64, String>, rate: &str) -> Result<(), Error> {
        let ranks =
            self.ranks.or(self.given).or(self.launched).ok_or_else(|| collective::no_ranks(self.source, number))?;
        let value: Option<f64> = rate.trim().parse().ok().filter(|rate: &f64| (rate * 1e9).is_finite() && *rate > 0.0);
        let rate = value.ok_or_else(|| format!("expected a bandwidth above 0, found `{}`", plain(rate)));
        match bytes.and_then(|bytes| Ok((bytes, rate?))) {
            Err(why) => self.results().omit(number, why),
            Ok((bytes, rate)) => {
                let call = MeasuredCall::new(Collective::AllReduce, ranks, "nccl", "cuda");
                let call = MeasuredCall { by_pytorch: true, dtype: Dtype::F32, bytes, in_place: Some(true), ..call };
                let figures =
                    Figures { time_s: bytes as f64 / (rate * 1e9), iterations: self.trials, ..Figures::default() };
                let results = self.results();
                let place = results.place(call.shape());
                results.add_at(place, figures);
            }
        }
        Ok(())
    }
}

fn empty() -> Results {
    let mut results = Results::new("all_reduce_bench.py", "payload / mean over iterations and ranks of the bandwidth");
    results.note("times are payload / algbw, and as exact as its printed digits");
    results
}

/// `torch=2.7.0, cuda=12.8, nccl=(2, 26, 2)`.
fn versions(text: &str) -> BTreeMap<String, String> {
    let version = |name: &str| {
        let (_, value) = text.split_once(&format!("{name}="))?;
        let value = match value.strip_prefix('(') {
            Some(tuple) => tuple.split(')').next().unwrap_or_default().replace(", ", "."),
            None => value.split([',', ' ']).next().unwrap_or_default().to_owned(),
        };
        Some((name.to_owned(), plain(&value)))
    };
    ["torch", "cuda", "nccl"].into_iter().filter_map(version).collect()
}

/// `4.0GB`: M * N * 4 / 1e9, as Python prints it.
fn gigabytes(text: &str) -> Option<u64> {
    let bytes = (text.strip_suffix("GB")?.parse::<f64>().ok()? * 1e9).round();
    (1.0..1e18).contains(&bytes).then_some(bytes as u64)
}

/// A payload: `32KiB`, or `32KB` as older versions write the same.
fn size(text: &str) -> Option<u64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let shift = match text[digits..].trim_end_matches('B').trim_end_matches('i') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(1 << shift).filter(|bytes| *bytes > 0)
}

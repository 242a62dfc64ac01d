//! What nccl-tests and rccl-tests measured, by text or by JSON: runs become results.

use std::collections::{BTreeMap, HashMap};

use terms::{Bytes, Collective, Dtype, Error, Reduce, Seconds};

use crate::collective::{self, Call};
use crate::{Details, Figures, Results, Source};

/// The name that nccl-tests has for the reduction in tables and files. Our own word is another, so it is spelled once.
pub(super) const REDUCTION: &str = "re\u{64}op";
/// The most environments in a file: each makes a record.
const MOST_ENVIRONMENTS: usize = 100;

/// One run of a program: what it says of itself, and its table.
#[derive(Debug, Default)]
pub(super) struct Run<'s> {
    /// Where it begins.
    pub(super) line: usize,
    /// `nccl-tests` or `rccl-tests`, with the version where it is told.
    pub(super) tool: String,
    /// `all_reduce_perf`.
    pub(super) program: Option<&'s str>,
    /// Whether the program is known from a command line, and not from its own output.
    pub(super) program_is_from_command: bool,
    pub(super) hosts: Vec<String>,
    pub(super) started: Option<String>,
    pub(super) versions: BTreeMap<String, String>,
    /// Ranks of its communicator, where it lists them.
    pub(super) ranks: Option<u32>,
    /// Timed iterations times aggregated calls.
    pub(super) iterations: Option<u64>,
    /// Whether it waits after each call.
    pub(super) blocking: bool,
    /// The value of `-a`.
    pub(super) average: Option<&'s str>,
    /// What else decides how calls are timed: unlike runs are no trials of one case.
    pub(super) method: String,
    pub(super) facts: Vec<(&'static str, String)>,
    pub(super) notes: Vec<String>,
    pub(super) rows: Vec<Raw<'s>>,
    /// Lines that could not be read, with the reason.
    pub(super) omitted: Vec<(usize, String)>,
    /// Columns and keys that the record has no place for, with the reason.
    pub(super) unread: Vec<String>,
}

/// One line of the table.
#[derive(Debug)]
pub(super) struct Raw<'s> {
    pub(super) line: usize,
    pub(super) bytes: u64,
    pub(super) dtype: &'s str,
    /// None where the operation has none.
    pub(super) reduction: Option<&'s str>,
    pub(super) root: Option<i64>,
    /// Out of place, in place.
    pub(super) halves: [Option<Half>; 2],
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Half {
    pub(super) time_us: Printed,
    pub(super) algbw: Printed,
    pub(super) busbw: Printed,
    pub(super) wrong: Option<u64>,
    /// Smallest, largest, 99th, 50th and 95th percentile and mean over iterations, in microseconds; NaN where it is not told.
    pub(super) spread_us: Option<[f64; 6]>,
}

/// A number as it was printed: its value, and half of its last digit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Printed {
    pub(super) value: f64,
    pub(super) within: f64,
}

impl Printed {
    /// Reads a number. None where it is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let value: f64 = text.parse().ok()?;
        let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len() as i32);
        let exponent: i32 = exponent.parse().unwrap_or(0);
        Some(Self { value, within: 0.5 * 10f64.powi(exponent.clamp(-400, 400) - decimals) })
    }
}

/// NCCL's version code as a version: 22907 is 2.29.7, and before 2.9, 2408 is 2.4.8.
pub(super) fn version_of_code(code: &str) -> Option<String> {
    let code: u32 = code.parse().ok().filter(|code| *code >= 1000)?;
    let (major, rest) = if code < 10_000 { (code / 1000, code % 1000) } else { (code / 10_000, code % 10_000) };
    Some(format!("{major}.{}.{}", rest / 100, rest % 100))
}

/// A text of a file for a message or a short fact: one line, no control characters. A text that is cut ends in an ellipsis.
pub(super) fn plain(text: &str) -> String {
    cut(text, 300)
}

/// As [`plain`], of arguments and settings, which may be long.
pub(super) fn fact(text: &str) -> String {
    cut(text, 4000)
}

fn cut(text: &str, most: usize) -> String {
    let text = text.trim();
    let mut shown: String = text.chars().take(most).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown.replace(|c: char| c.is_control(), " ")
}

/// Program, hosts, libraries, how times of ranks are merged, and the method.
type Environment = (String, Vec<String>, BTreeMap<String, String>, String, String);

/// Results of all runs of a file.
pub(super) struct Collector<'a> {
    source: &'a Source,
    given_op: Option<Collective>,
    given_ranks: Option<u32>,
    environments: HashMap<Environment, usize>,
    results: Vec<Results>,
    /// Calls with the places of their figures, in the order in which they came.
    calls: Vec<((usize, Call), usize)>,
    /// Where a call is among these, and where the latest is.
    known: HashMap<(usize, Call), usize>,
    latest: usize,
    odd_bandwidths: usize,
    /// What runs without a row say: lines that could not be read, and notes.
    lost: Vec<(usize, String)>,
    lost_notes: Vec<String>,
}

impl<'a> Collector<'a> {
    pub(super) fn new(source: &'a Source) -> Result<Self, Error> {
        let given_op = source
            .given("op")
            .map(|word| collective::op(word).ok_or_else(|| Error::new(format!("there is no operation `{word}`"))));
        Ok(Self {
            source,
            given_op: given_op.transpose()?,
            given_ranks: collective::given_ranks(source)?,
            environments: HashMap::new(),
            results: Vec::new(),
            calls: Vec::new(),
            known: HashMap::new(),
            latest: 0,
            odd_bandwidths: 0,
            lost: Vec::new(),
            lost_notes: Vec::new(),
        })
    }

    /// The results, once each run was added.
    pub(super) fn finish(mut self) -> Result<Vec<Results>, Error> {
        if self.results.is_empty() {
            if let Some((line, why)) = self.lost.first() {
                return Err(self.source.error(*line, why));
            }
            return Err(Error::new(format!("{} holds no line of results", self.source.name()))
                .hint("the program ended before its first line, or the table is cut off"));
        }
        if self.odd_bandwidths > 1 {
            let more = format!("{} bandwidths in all disagree with ours", self.odd_bandwidths);
            self.results[0].note(more);
        }
        for (line, why) in self.lost {
            self.results[0].omit(line, why);
        }
        for note in self.lost_notes {
            self.results[0].quote(note);
        }
        Ok(self.results)
    }

    /// Adds a run. One without a table adds nothing.
    pub(super) fn add(&mut self, run: &Run<'_>) -> Result<(), Error> {
        if run.rows.is_empty() {
            self.lost.extend_from_slice(&run.omitted);
            self.lost_notes.extend_from_slice(&run.notes);
            return Ok(());
        }
        let ranks = run.ranks.or(self.given_ranks).ok_or_else(|| collective::no_ranks(self.source, run.line))?;
        let at = self.environment(run)?;
        let Some(op) = self.op(run, ranks)? else {
            let program = run.program.unwrap_or_default();
            self.results[at].omit(run.line, format!("no operation of ours is what `{program}` does"));
            return Ok(());
        };
        self.results[at].begin_run();
        tell(&mut self.results[at], run);
        if op == Collective::AllToAllV {
            self.results[at].omit(run.line, "all_to_allv: the file does not tell how counts are drawn");
            return Ok(());
        }
        for row in &run.rows {
            self.row(run, row, op, ranks, at);
        }
        Ok(())
    }

    /// The results of the run's environment: its program, hosts, libraries and method.
    fn environment(&mut self, run: &Run<'_>) -> Result<usize, Error> {
        let average = run.average.unwrap_or("1").to_owned();
        let key = (run.tool.clone(), run.hosts.clone(), run.versions.clone(), average, run.method.clone());
        if let Some(at) = self.environments.get(&key) {
            return Ok(*at);
        }
        if self.results.len() == MOST_ENVIRONMENTS {
            let what = format!("the file holds runs of more than {MOST_ENVIRONMENTS} environments");
            return Err(self.source.error(run.line, what).hint("split it by hosts and options"));
        }
        let over_ranks = match run.average {
            Some("0") => "the time of rank 0",
            Some("2") => "the fastest rank",
            Some("3") => "the slowest rank",
            _ => "the mean over ranks",
        };
        let mut results = Results::new(run.tool.clone(), format!("mean over iterations of {over_ranks}"));
        results.hosts.clone_from(&run.hosts);
        results.versions.clone_from(&run.versions);
        results.started.clone_from(&run.started);
        self.results.push(results);
        self.environments.insert(key, self.results.len() - 1);
        Ok(self.results.len() - 1)
    }

    /// The operation of a run; None where we have none like it.
    fn op(&self, run: &Run<'_>, ranks: u32) -> Result<Option<Collective>, Error> {
        let named = run.program.map(|program| program.split("_perf").next().unwrap_or(program));
        let derived = derive(&run.rows, ranks);
        match (named, self.given_op, derived) {
            (Some(name), _, derived) => {
                let op = collective::op(name);
                match (op, derived) {
                    (Some(op), Some(other)) if run.program_is_from_command && op != other => {
                        let what = format!("the command line says {op}, the table is one of {other}");
                        Err(self.source.error(run.line, what).hint("split the file by runs, and give `--op`"))
                    }
                    _ => Ok(op),
                }
            }
            (None, Some(op), _) | (None, None, Some(op)) => Ok(Some(op)),
            (None, None, None) => Err(self
                .source
                .error(run.line, "the file does not say which operation this table is of")
                .hint("give it: `--op all_gather`")),
        }
    }

    fn row(&mut self, run: &Run<'_>, row: &Raw<'_>, op: Collective, ranks: u32, at: usize) {
        let results = &mut self.results[at];
        if row.bytes == 0 {
            results.omit(row.line, "0 bytes: nothing moves");
            return;
        }
        let Some(dtype) = collective::dtype(row.dtype) else {
            results.omit(row.line, format!("there is no element type `{}`", plain(row.dtype)));
            return;
        };
        if dtype == Dtype::U8 && row.dtype != "uint8" {
            results.note(format!("`{}` is read as u8: bytes are alike", plain(row.dtype)));
        }
        let reduce = match row.reduction.filter(|_| op.reduces()) {
            None => None,
            Some(word) => match collective::reduce(word) {
                Some(reduce) => Some(reduce),
                None => {
                    results.omit(row.line, format!("there is no reduction `{}`", plain(word)));
                    return;
                }
            },
        };
        let root = row.root.and_then(|root| u32::try_from(root).ok());
        for (half, in_place) in row.halves.iter().zip([false, true]) {
            if let Some(half) = half {
                let call = call(run, op, ranks, dtype, row.bytes, reduce, root, in_place);
                self.half(run, row.line, half, call, at);
            }
        }
    }

    fn half(&mut self, run: &Run<'_>, line: usize, half: &Half, call: Call, at: usize) {
        let results = &mut self.results[at];
        let in_place = call.in_place == Some(true);
        if in_place && matches!(call.op, Collective::AllToAll | Collective::SendRecv) {
            results.note(format!("in-place times of {} are left out: it has no in-place form", call.op));
            return;
        }
        if !(half.time_us.value.is_finite() && half.time_us.value > 0.0) {
            results.omit(line, format!("a time of {} us is no time", half.time_us.value));
            return;
        }
        if let Some(odd) = disagreement(half, &call) {
            self.odd_bandwidths += 1;
            if self.odd_bandwidths == 1 {
                results.note(format!("line {line}: {odd}"));
            }
        }
        let place = self.place(at, call);
        let details = half.spread_us.map(|spread| {
            let seconds = |us: f64| us.is_finite().then_some(us * 1e-6);
            let [min, max, p99, p50, p95, mean] = spread.map(seconds);
            Box::new(Details { min, max, p99, p50, p95, mean, ..Details::default() })
        });
        let time_s = half.time_us.value * 1e-6;
        let figures = Figures { time_s, iterations: run.iterations, wrong: half.wrong, details };
        self.results[at].add_at(place, figures);
    }

    /// Where the figures of a call are. Runs repeat each other's sizes: in a long log the next call is found without a hash.
    fn place(&mut self, at: usize, call: Call) -> usize {
        let key = (at, call);
        let next = if self.latest + 1 < self.calls.len() { self.latest + 1 } else { 0 };
        self.latest = match self.calls.get(next) {
            Some((known, _)) if *known == key => next,
            _ => *self.known.entry(key).or_insert_with(|| {
                self.calls.push((key, self.results[at].place(call.shape())));
                self.calls.len() - 1
            }),
        };
        self.calls[self.latest].1
    }
}

/// What the file says of a run.
fn tell(results: &mut Results, run: &Run<'_>) {
    if run.average.is_none() {
        results.note("the file does not tell `-a`: times are read as its default, the mean over ranks");
    }
    for (line, why) in &run.omitted {
        results.omit(*line, why);
    }
    for what in &run.unread {
        results.leave_unread(what.clone());
    }
    for note in &run.notes {
        results.quote(note.clone());
    }
    results.tell(run.facts.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
}

#[expect(clippy::too_many_arguments, reason = "the columns of a line")]
fn call(
    run: &Run<'_>,
    op: Collective,
    ranks: u32,
    dtype: Dtype,
    bytes: u64,
    reduce: Option<Reduce>,
    root: Option<u32>,
    in_place: bool,
) -> Call {
    let root = root.filter(|_| op.has_root());
    let in_place = (op != Collective::SendRecv).then_some(in_place);
    let call = Call::new(op, ranks, "nccl", "cuda");
    Call { dtype, bytes, reduce, root, in_place, isolated: run.blocking, ..call }
}

/// What is odd about the printed bandwidths: not ours of the same size and time, within rounding.
fn disagreement(half: &Half, call: &Call) -> Option<String> {
    let at = |us: f64| call.op.algbw_gbs(Bytes(call.bytes), Seconds(us * 1e-6));
    let Printed { value: time, within } = half.time_us;
    let (low, high) = (at(time + within)?, at((time - within).max(time * 1e-3))?);
    let factor = call.op.bus_factor(call.ranks);
    let fits = |printed: Printed, factor: f64| {
        let slack = printed.within * 1.01 + 1e-9 + high * factor * 1e-6;
        printed.value >= low * factor - slack && printed.value <= high * factor + slack
    };
    // Before 2.4, the algbw of these two is their busbw.
    let old = matches!(call.op, Collective::AllGather | Collective::ReduceScatter) && fits(half.algbw, factor);
    if !fits(half.algbw, 1.0) && !old {
        let ours = at(time)?;
        return Some(format!("its algbw of {} GB/s is not size / time, {ours:.2} GB/s", half.algbw.value));
    }
    if !fits(half.busbw, factor) {
        let ours = at(time)? * factor;
        let ranks = call.ranks;
        return Some(format!("its busbw of {} GB/s is not that of {ranks} ranks, {ours:.2} GB/s", half.busbw.value));
    }
    None
}

/// The operation that alone fits the columns and busbw / algbw.
fn derive(rows: &[Raw<'_>], ranks: u32) -> Option<Collective> {
    let largest = rows
        .iter()
        .filter_map(|row| Some((row, row.halves[0]?)))
        .max_by(|a, b| a.1.algbw.value.total_cmp(&b.1.algbw.value));
    let (row, half) = largest.filter(|(_, half)| half.algbw.value >= 0.5 && ranks > 1)?;
    let ratio = half.busbw.value / half.algbw.value;
    let slack = 3.0 * (half.busbw.within + half.algbw.within) / half.algbw.value;
    let n = f64::from(ranks);
    let is = |factor: f64| (ratio - factor).abs() <= slack;
    let (ring, share, one) = (is(2.0 * (n - 1.0) / n), is((n - 1.0) / n), is(1.0));
    let has_root = row.root.is_some_and(|root| root >= 0);
    match (row.reduction.is_some(), has_root) {
        (true, true) if one => Some(Collective::Reduce),
        (false, true) if one && !share => Some(Collective::Broadcast),
        // Sends in a ring have factor 1 and name a reduction, too.
        (true, false) if [ring, share, one] == [true, false, false] => Some(Collective::AllReduce),
        (true, false) if [ring, share, one] == [false, true, false] => Some(Collective::ReduceScatter),
        // Only all_to_all leaves its in-place result unchecked.
        (false, false) if share && !one && half.wrong.is_some() => row.halves[1]?.wrong.map(|_| Collective::AllGather),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_numbers_know_their_last_digit() {
        let of = |text| Printed::parse(text).unwrap();
        assert_eq!(of("12.90"), Printed { value: 12.9, within: 0.005 });
        assert_eq!(of("619657"), Printed { value: 619657.0, within: 0.5 });
        assert_eq!(of("1.2e+06"), Printed { value: 1.2e6, within: 50_000.0 });
        assert_eq!(Printed::parse("N/A"), None);
    }

    #[test]
    fn version_codes_are_those_of_nccl() {
        assert_eq!(version_of_code("22907").as_deref(), Some("2.29.7"));
        assert_eq!(version_of_code("2408").as_deref(), Some("2.4.8"));
        assert_eq!(version_of_code("-1"), None);
    }
}

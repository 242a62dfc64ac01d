//! Results of all runs of a file of nccl-tests or rccl-tests: runs of one environment are trials of the same cases.

use std::collections::{BTreeMap, HashMap};

use terms::{Collective, Dtype, Error};

use super::nccl::{Half, NcclRun, RawLine, plain};
use super::nccl_bandwidth::{derive, disagreement};
use super::runs::{self, MOST_RESULTS, Origin};
use crate::collective::{self, MeasuredCall};
use crate::{Details, Figures, Results, Source};

/// Program, hosts, libraries, how times of ranks are merged, and the method.
type Environment = (String, Vec<String>, BTreeMap<String, String>, String, String);

/// A call of some results, where its figures are, and where the run stands that measured it first.
struct KnownCall {
    key: (usize, MeasuredCall),
    place: usize,
    origin: usize,
}

/// Results of all runs of a file.
pub(super) struct Collector<'a> {
    source: &'a Source,
    given_op: Option<Collective>,
    /// Results of each environment: runs that are not trials of one case have their own.
    environments: HashMap<Environment, Vec<usize>>,
    results: Vec<Results>,
    /// Where the runs of each results stand.
    origins: Vec<Vec<Origin>>,
    /// Calls in the order in which they came.
    calls: Vec<KnownCall>,
    /// Where a call is among these, and where the latest is.
    known: HashMap<(usize, MeasuredCall), usize>,
    latest: usize,
    odd_bandwidths: usize,
    /// What runs without a row say: lines that could not be read, and notes.
    lost: Vec<(usize, String)>,
    lost_notes: Vec<String>,
    /// Why the first run without a row has none.
    failed: Option<Error>,
}

impl<'a> Collector<'a> {
    pub(super) fn new(source: &'a Source) -> Result<Self, Error> {
        Ok(Self {
            source,
            given_op: collective::given_op(source)?,
            environments: HashMap::new(),
            results: Vec::new(),
            origins: Vec::new(),
            calls: Vec::new(),
            known: HashMap::new(),
            latest: 0,
            odd_bandwidths: 0,
            lost: Vec::new(),
            lost_notes: Vec::new(),
            failed: None,
        })
    }

    /// The results, once each run was added.
    pub(super) fn finish(mut self) -> Result<Vec<Results>, Error> {
        if self.results.is_empty() {
            if let Some(failed) = self.failed {
                return Err(failed);
            }
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
        let first = |origins: Vec<Origin>| origins.into_iter().next().unwrap_or_default();
        Ok(runs::name(self.origins.into_iter().map(first).zip(self.results)))
    }

    /// Adds a run. One without a table adds nothing.
    pub(super) fn add(&mut self, run: &NcclRun<'_>) -> Result<(), Error> {
        if run.rows.is_empty() {
            self.lose(run);
            return Ok(());
        }
        if run.programs > 1 {
            self.refuse_programs(run);
            return Ok(());
        }
        let (ranks, op) = match self.ranks(run).and_then(|ranks| Ok((ranks, self.op(run, ranks)?))) {
            Ok(known) => known,
            // A run that cannot be read never costs the others of the file.
            Err(error) => {
                self.lost.push((run.line, error.sentence()));
                self.failed.get_or_insert(error);
                return Ok(());
            }
        };
        let Some(op) = op else {
            let at = self.results_of(run, &[])?;
            let program = run.program.unwrap_or_default();
            self.results[at].omit(run.line, format!("`{program}` has no counterpart here"));
            return Ok(());
        };
        let calls = calls(run, op, ranks);
        let at = self.results_of(run, &calls)?;
        self.results[at].begin_run();
        tell(&mut self.results[at], run);
        if run.ranks.is_none() && run.launched.is_some() {
            self.results[at].quote(format!("line {}: {ranks} ranks, by the command line above", run.line));
        }
        if op == Collective::AllToAllV {
            self.results[at].omit(run.line, "all_to_allv: the file does not tell how counts are drawn");
            return Ok(());
        }
        for (row, call) in run.rows.iter().zip(calls) {
            self.row(run, row, call, at);
        }
        Ok(())
    }

    /// How many ranks a run has: by its own list, by the command line above, by the user.
    fn ranks(&self, run: &NcclRun<'_>) -> Result<u32, Error> {
        collective::ranks(self.source, run.line, run.ranks.or(run.launched))
    }

    /// Keeps what a run without a row says.
    fn lose(&mut self, run: &NcclRun<'_>) {
        self.lost.extend_from_slice(&run.omitted);
        self.lost_notes.extend_from_slice(&run.notes);
        if let Some(failure) = run.failure.as_ref().filter(|_| self.failed.is_none()) {
            let program = run.program.map_or(String::new(), |program| format!(", {}", plain(program)));
            let hosts = if run.hosts.is_empty() { String::new() } else { format!(" on {}", run.hosts.join(", ")) };
            let what = format!("{}{program}{hosts} failed before its first line of results", run.tool);
            self.failed = Some(self.source.error(run.line, what).cause(failure.clone()));
        }
    }

    /// Programs that each have a rank 0 measured nothing together, and their lines are mixed.
    fn refuse_programs(&mut self, run: &NcclRun<'_>) {
        let ranks = run.ranks.map_or(String::new(), |ranks| format!(" of {ranks} ranks"));
        let hosts = if run.hosts.is_empty() { String::new() } else { format!(" on {}", run.hosts.join(", ")) };
        let what = format!(
            "{} separate programs{ranks} wrote here at once{hosts}: nothing was measured between them, and their lines are mixed",
            run.programs
        );
        let why = "each has a rank 0: the program was built without MPI=1, or the launcher is that of another MPI";
        self.lost.push((run.line, what.clone()));
        self.lost_notes.extend_from_slice(&run.notes);
        if self.failed.is_none() {
            let error = self.source.error(run.line, what).cause(why);
            self.failed = Some(error.hint("build it with MPI=1 for the MPI that starts it, and run it again"));
        }
    }

    /// The results that a run belongs to: of its program, hosts, libraries and method, and without a case that a run measured
    /// which is another trial of none of its cases.
    fn results_of(&mut self, run: &NcclRun<'_>, calls: &[Option<MeasuredCall>]) -> Result<usize, Error> {
        let average = run.average.unwrap_or("1").to_owned();
        let key = (run.tool.clone(), run.hosts.clone(), run.versions.clone(), average, run.method.clone());
        let candidates = self.environments.get(&key).cloned().unwrap_or_default();
        let found = candidates.into_iter().find(|at| self.takes(*at, &run.origin, calls));
        if let Some(at) = found {
            if !self.origins[at].contains(&run.origin) {
                self.origins[at].push(run.origin.clone());
            }
            return Ok(at);
        }
        if self.results.len() == MOST_RESULTS {
            let what = format!("the file holds runs of more than {MOST_RESULTS} environments");
            return Err(self.source.error(run.line, what).hint("split it by hosts and options"));
        }
        self.results.push(new_results(run));
        self.origins.push(vec![run.origin.clone()]);
        self.environments.entry(key).or_default().push(self.results.len() - 1);
        Ok(self.results.len() - 1)
    }

    /// Whether the run's calls are new in these results, or trials of those that are there.
    fn takes(&self, at: usize, origin: &Origin, calls: &[Option<MeasuredCall>]) -> bool {
        if self.origins[at].iter().all(|known| known.is_like(origin)) {
            return true;
        }
        let halves = calls.iter().flatten().flat_map(|call| [false, true].map(|in_place| half_of(call, in_place)));
        halves.filter_map(|call| self.known.get(&(at, call))).all(|known| {
            let first = self.calls[*known].origin;
            self.origins[at].get(first).is_some_and(|first| first.is_like(origin))
        })
    }

    /// The operation of a run; None where we have none like it.
    fn op(&self, run: &NcclRun<'_>, ranks: u32) -> Result<Option<Collective>, Error> {
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

    fn row(&mut self, run: &NcclRun<'_>, row: &RawLine<'_>, call: Option<MeasuredCall>, at: usize) {
        let results = &mut self.results[at];
        if row.bytes == 0 {
            results.omit(row.line, "0 bytes: nothing moves");
            return;
        }
        let Some(call) = call else {
            results.omit(row.line, no_call(row));
            return;
        };
        if call.dtype == Dtype::U8 && row.dtype != "uint8" {
            results.note(format!("`{}` is read as u8: bytes are alike", plain(row.dtype)));
        }
        for in_place in [false, true] {
            if row.halves[usize::from(in_place)].is_some() {
                self.half(run, row, call, in_place, at);
            }
        }
    }

    fn half(&mut self, run: &NcclRun<'_>, row: &RawLine<'_>, call: MeasuredCall, in_place: bool, at: usize) {
        let (line, Some(half)) = (row.line, &row.halves[usize::from(in_place)]) else { return };
        let results = &mut self.results[at];
        if in_place && matches!(call.op, Collective::AllToAll | Collective::SendRecv) {
            results.note(format!("in-place times of {} are left out: it has no in-place form", call.op));
            return;
        }
        if !(half.time_us.value.is_finite() && half.time_us.value > 0.0) {
            results.omit(line, format!("a time of {} us is not a time", half.time_us.value));
            return;
        }
        if let Some(odd) = disagreement(half, &call) {
            self.odd_bandwidths += 1;
            if self.odd_bandwidths == 1 {
                results.note(format!("line {line}: {odd}"));
            }
        }
        let place = self.place(at, half_of(&call, in_place), &run.origin);
        let details = details(half, &row.processes[usize::from(in_place)]);
        let time_s = half.time_us.value * 1e-6;
        let figures = Figures { time_s, iterations: run.iterations, wrong: half.wrong, details };
        self.results[at].add_at(place, figures);
    }

    /// Where the figures of a call are. Runs repeat each other's sizes: in a long log the next call is found without a hash.
    fn place(&mut self, at: usize, call: MeasuredCall, origin: &Origin) -> usize {
        let key = (at, call);
        let next = if self.latest + 1 < self.calls.len() { self.latest + 1 } else { 0 };
        self.latest = match self.calls.get(next) {
            Some(known) if known.key == key => next,
            _ => *self.known.entry(key).or_insert_with(|| {
                let origin = self.origins[at].iter().position(|known| known == origin).unwrap_or(0);
                self.calls.push(KnownCall { key, place: self.results[at].place(call.shape()), origin });
                self.calls.len() - 1
            }),
        };
        self.calls[self.latest].place
    }
}

/// What the file has in addition to the time of a call.
fn details(half: &Half, processes: &[Vec<f64>]) -> Option<Box<Details>> {
    let spread = half.spread_us.or((!processes.is_empty()).then_some([f64::NAN; 7]))?;
    let seconds = |us: f64| us.is_finite().then_some(us * 1e-6);
    let [min, max, p99, p50, p95, mean, std] = spread.map(seconds);
    let processes = processes.iter().map(|row| row.iter().map(|us| us * 1e-6).collect()).collect();
    Some(Box::new(Details { min, max, p99, p50, p95, mean, std, processes, ..Details::default() }))
}

fn new_results(run: &NcclRun<'_>) -> Results {
    let over_ranks = match run.average {
        Some("0") => "the time of rank 0",
        Some("2") => "the fastest rank",
        Some("3") => "the slowest rank",
        _ => "the mean over ranks",
    };
    // In a file that Rankmark wrote, `-a 3` says that Rankmark measured it; other files came through an import.
    let over_calls =
        if run.by.is_ours && run.average == Some("3") { "median over trials" } else { "mean over iterations" };
    let mut results = Results::new(run.tool.clone(), format!("{over_calls} of {over_ranks}"));
    results.hosts.clone_from(&run.hosts);
    results.versions.clone_from(&run.versions);
    results.started.clone_from(&run.started);
    results
}

/// The call of each row, out of place; None where a row's words name none.
fn calls(run: &NcclRun<'_>, op: Collective, ranks: u32) -> Vec<Option<MeasuredCall>> {
    let call = |row: &RawLine<'_>| {
        let dtype = collective::dtype(row.dtype)?;
        let reduce = match row.reduction.filter(|_| op.reduces()) {
            None => None,
            Some(word) => Some(collective::reduce(word)?),
        };
        let root = row.root.and_then(|root| u32::try_from(root).ok()).filter(|_| op.has_root());
        let call = MeasuredCall::new(op, ranks, run.by.backend, run.by.device);
        let (isolated, implementation) = (run.blocking.is_isolated(), run.blocking.implementation());
        let by_pytorch = run.by.by_pytorch;
        Some(MeasuredCall { dtype, bytes: row.bytes, reduce, root, isolated, implementation, by_pytorch, ..call })
    };
    run.rows.iter().map(call).collect()
}

/// Why a row names no call.
fn no_call(row: &RawLine<'_>) -> String {
    match collective::dtype(row.dtype) {
        None => format!("there is no element type `{}`", plain(row.dtype)),
        Some(_) => format!("there is no reduction `{}`", plain(row.reduction.unwrap_or_default())),
    }
}

/// The call of one half of a row. Sends have no in-place form.
fn half_of(call: &MeasuredCall, in_place: bool) -> MeasuredCall {
    MeasuredCall { in_place: (call.op != Collective::SendRecv).then_some(in_place), ..*call }
}

/// What the file says of a run.
fn tell(results: &mut Results, run: &NcclRun<'_>) {
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
    results.cut |= run.cut;
    results.tell(run.facts.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
}

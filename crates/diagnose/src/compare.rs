//! Two records case by case: what became better, worse, stayed the same, or has no verdict.
//!
//! The unit is the trial within a run, and the run where equal runs are known. Trials of two runs are never paired: their
//! rounds were not at the same time. docs/explanation/comparisons.md says what the figures mean; `tests/all/simulation.rs` is what they
//! answer to.

mod differs;
mod judge;
mod law;
mod matching;
mod quantity;
mod runs;
mod states;

use record::{CaseLine, Caveat, Record};

pub use differs::{Difference, Mixed, Topic, other_machine};
pub use matching::{Change, Lone, Unmatched};
pub use quantity::{Quantity, Shown};
pub use runs::equal_medians;
pub use states::{StateSeen, in_common_states};

use crate::Verdict;

/// The level of the whole family of cases.
pub const FAMILY_LEVEL: f64 = 0.05;

/// Runs of a baseline or history from which their noise is known.
pub use stats::FEWEST_RUNS;

/// What is compared, and how strictly.
#[derive(Clone, Debug)]
pub struct Settings<'r> {
    /// Within this share two cases are the same: 0.03 is 3%.
    pub threshold: f64,
    /// Other equal runs, which tell the noise between runs. Only those of the machine that ran the base are used.
    pub history: Vec<&'r Record>,
}

/// Where the noise of a case between runs is known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// From so many equal runs.
    Runs(usize),
    /// From the trials of both runs alone, and how these drift within a run.
    Trials,
    /// Computed, or without any noise.
    Exact,
}

/// Why a pair of cases has the verdict that it has.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// The interval of the ratio says so.
    Interval,
    /// The interval says so, and the change is below the smallest one that could have been shown without history.
    BelowSmallest,
    /// The interval lies within the threshold, and without equal runs nobody knows the noise between runs.
    NoHistory,
    /// Fewer trials than an interval needs.
    FewTrials([usize; 2]),
    /// One figure a run, and too few runs to know its noise.
    OneFigure,
    /// A program other than this one measured one of them: a statistic without trials.
    Imported,
    /// A time of the base is another statistic than one of the new side; None: this program's own.
    OtherStatistic([Option<String>; 2]),
    /// One was computed, the other measured.
    OneComputed,
    /// The device of one was a stand-in.
    Emulated,
    /// The machine was in different states: what it showed then (a round trip in ns, where both know it), and what it is called.
    OtherState([StateSeen; 2]),
    /// The time changed, and so did the clock of the cores, which may be all of it: a loop took so many times as long.
    OtherClock(f64),
    /// The case was ok in the base, and ended otherwise: as it ended, and why.
    NotOk(terms::Status, String),
    /// The case was not ok in the base, and is now.
    NowOk(terms::Status),
    /// The case is ok in neither.
    NeverOk(terms::Status),
    /// A value is missing, or no positive number.
    NoValue,
}

/// One pair of cases.
#[derive(Clone, Debug)]
pub struct Compared<'r> {
    /// The case in the base; of several runs, in the latest.
    pub base: &'r CaseLine,
    /// The case in the new record.
    pub new: &'r CaseLine,
    /// What they differ in; empty where it is one case.
    pub changes: Vec<Change>,
    /// What is compared.
    pub quantity: Quantity,
    /// Value in the base (of several runs, their geometric mean) and in the new record.
    pub values: Option<[f64; 2]>,
    /// `new / base`.
    pub ratio: Option<f64>,
    /// The interval of the ratio at `level`.
    pub interval: Option<[f64; 2]>,
    /// The corrected level of the interval: 0.005 is 99.5%.
    pub level: f64,
    /// Whether the interval needs more trials than there are and rests on an assumption about their distribution.
    pub extrapolated: bool,
    /// The smallest change that is found in nine of ten tries: 0.05 is 5%.
    pub smallest_change: Option<f64>,
    /// Trials of both.
    pub trials: [usize; 2],
    /// Where the noise is known from.
    pub source: Source,
    /// The runs that have it.
    pub equal_runs: EqualRuns,
    /// The first metric of its benchmark's headline.
    pub shown: Option<Shown>,
    /// The verdict; None where neither was ok, or it is ok only now.
    pub verdict: Option<Verdict>,
    /// Why.
    pub reason: Reason,
}

/// The runs that have a case: those of both sides, and those of the history on the same hardware.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EqualRuns {
    /// Runs of the base and of the new side.
    pub sides: [usize; 2],
    /// Runs of the history.
    pub history: usize,
    /// Whether the sides are enough to tell the noise: then the history is not asked.
    pub of_sides: bool,
}

impl EqualRuns {
    /// The most of a side or of the history.
    pub fn most(&self) -> usize {
        self.sides.into_iter().fold(self.history, usize::max)
    }
}

/// How many cases are judged together, and what that takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Correction {
    /// Cases that are judged by an interval.
    pub cases: usize,
    /// The level of the first step: [`FAMILY_LEVEL`] over the cases.
    pub level: f64,
    /// Trials a case that this level needs, where intervals rest on trials; None: more than 10,000.
    pub trials_needed: Option<usize>,
    /// Trials a case that this level needs where trials are not correlated; None: more than 10,000.
    pub trials_needed_uncorrelated: Option<usize>,
    /// Cases that have fewer.
    pub short: usize,
}

/// The comparison of a record with a base.
#[derive(Clone, Debug)]
pub struct Comparison<'r> {
    /// The threshold that it was judged by.
    pub threshold: f64,
    /// All pairs, the worst first.
    pub cases: Vec<Compared<'r>>,
    /// Cases of the base that the new record does not have.
    pub only_base: Vec<Unmatched<'r>>,
    /// Cases of the new record that the base does not have.
    pub only_new: Vec<Unmatched<'r>>,
    /// What judging many cases took.
    pub correction: Correction,
    /// Whether the record is one of the base: it was compared with itself.
    pub same_record: bool,
    /// What says that records are incomplete: of the base, and of the new side.
    pub incomplete: [Vec<String>; 2],
    /// Whether both were measured on machines of different hardware.
    pub other_machine: bool,
    /// Whether the figures of either were computed.
    pub simulated: bool,
    /// Compared cases into which a fault was injected on request: of the base, and of the new record.
    pub injected: [usize; 2],
    /// Runs of the base and of the history that count, and those left out because their machine is another.
    pub runs: [usize; 2],
    /// Runs of the base, and of the new side.
    pub side_runs: [usize; 2],
    /// Whether each run is one statistic of another program.
    pub one_statistic: bool,
    /// Whether another program measured either side: of its machine, versions and environment only what its output names is known.
    pub imported: bool,
    /// In what the runs of the base differ among themselves, and those of the new side: equal runs differ in nothing.
    pub mixed: [Vec<Mixed>; 2],
    /// What else differs.
    pub differences: Vec<Difference>,
}

impl Comparison<'_> {
    /// The verdict on all cases: the worst of them. `CannotTell` comes before what is fine. None where nothing was judged.
    pub fn verdict(&self) -> Option<Verdict> {
        let has = |verdict| self.count(verdict) > 0;
        [Verdict::Worse, Verdict::CannotTell, Verdict::Better, Verdict::Same].into_iter().find(|verdict| has(*verdict))
    }

    /// Cases of this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.cases.iter().filter(|case| case.verdict == Some(verdict)).count()
    }

    /// Whether there is any case that both sides have with a value.
    pub fn has_something(&self) -> bool {
        self.cases.iter().any(|case| case.verdict.is_some())
    }
}

/// The field that says how many ranks there are.
const RANKS: &str = "ranks";

/// What a case is, apart from how it was sampled and on how many ranks, as text: equal work of a node has equal keys.
pub(crate) fn work_key(record: &Record, line: &CaseLine) -> String {
    let declared = matching::declared(record, line);
    let (benchmark, values) = matching::identity_without(line, declared, declared, RANKS);
    format!("{benchmark} {values}")
}

/// Compares a record with a base: one record, or several equal runs of it.
///
/// # Panics
/// Without a base.
pub fn compare<'r>(base: &[&'r Record], new: &'r Record, settings: &Settings<'r>) -> Comparison<'r> {
    compare_sides(base, &[new], settings)
}

/// Compares equal runs with equal runs: the latest of each side tells what is compared, and all of them how much runs differ.
///
/// # Panics
/// Without a base, and without a new record.
pub fn compare_sides<'r>(base: &[&'r Record], news: &[&'r Record], settings: &Settings<'r>) -> Comparison<'r> {
    let (base, news) = (runs::by_date(base), runs::by_date(news));
    let latest = *base.last().expect("a comparison has a base");
    let new = *news.last().expect("a comparison has a new record");
    let held = [&base, &news].map(|side| matching::held(side));
    let matching = matching::matching(&held[0], &held[1]);
    let differences = differs::differences(latest, new, &matching.pairs);
    let known: Vec<&Record> = settings.history.clone();
    let (same, others): (Vec<&Record>, Vec<&Record>) =
        known.into_iter().partition(|record| !other_machine(&record.file, &latest.file));
    let has_fault = |line: &CaseLine| line.caveats.contains(&Caveat::Injected);
    let injected = [
        matching.pairs.iter().filter(|pair| has_fault(pair.base)).count(),
        matching.pairs.iter().filter(|pair| has_fault(pair.new)).count(),
    ];
    let judged = judge::judge([&base, &news], &matching.pairs, &same, settings.threshold);
    let own_runs = [&base, &news].map(|side| side.iter().map(|record| runs_in(record)).sum());
    let is_imported = |record: &&Record| record.file.imported.is_some();
    Comparison {
        threshold: settings.threshold,
        cases: judged.cases,
        only_base: matching.only_base,
        only_new: matching.only_new,
        correction: judged.correction,
        same_record: base.iter().any(|record| news.iter().any(|new| same_record(record, new))),
        incomplete: [&base, &news].map(|side| side.iter().filter_map(|record| record.banner()).collect()),
        other_machine: other_machine(&latest.file, &new.file),
        simulated: latest.file.simulated || new.file.simulated,
        injected,
        runs: [base.len().max(same.len()), others.len()],
        side_runs: own_runs,
        one_statistic: base.iter().chain(&news).all(is_imported),
        imported: base.iter().chain(&news).any(is_imported),
        mixed: [differs::mixed(&base), differs::mixed(&news)],
        differences,
    }
}

fn same_record(base: &Record, new: &Record) -> bool {
    base.identity().is_same(&new.identity()) && base.cases == new.cases
}

/// Runs that a record holds: several where another program wrote them into one file.
fn runs_in(record: &Record) -> usize {
    record.cases.iter().map(runs::runs_of_one_file).max().unwrap_or(1).max(1)
}

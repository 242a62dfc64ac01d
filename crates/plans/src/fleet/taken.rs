//! What a record says of the nodes of a fleet, read as the benchmarks declare it.

use std::path::Path;

use diagnose::fleet::{RankBits, Reader, Samples, Taken};
use record::{CaseLine, Record};
use terms::Error;

/// What the nodes of a record took. `name` is what the record is called.
///
/// # Errors
/// As [`diagnose::fleet::read`].
pub fn taken(name: &str, directory: &Path, record: &Record) -> Result<Taken, Error> {
    let samples = Samples::of(directory, record);
    let rank_trials = |line: &CaseLine| samples.rank_trials(line);
    let reader = Reader { is_local: &is_local, pairs: &pairs, rank_trials: &rank_trials, bits: &bits, label: &label };
    diagnose::fleet::read(name, record, &reader)
}

/// Whether ranks exchange nothing while they are timed.
fn is_local(line: &CaseLine) -> bool {
    benchmarks::VIEWS.for_case(line).is_some_and(|view| view.works_apart(line))
}

/// What the equal rounds of each rank left.
fn bits(line: &CaseLine) -> Option<Vec<RankBits>> {
    let found = benchmarks::VIEWS.for_case(line)?.result_bits(line)?;
    let rank = |bits: view::ResultBits| RankBits { how: bits.how, operations: bits.operations, rounds: bits.rounds };
    Some(found.into_iter().map(rank).collect())
}

/// The times of a tournament.
fn pairs(line: &CaseLine) -> Option<stats::PairTimes> {
    benchmarks::VIEWS.for_case(line)?.pair_times(line)
}

/// `triad 384 MiB, f32, 2 threads`.
fn label(record: &Record, line: &CaseLine) -> String {
    let declared = view::study::declaration(&record.file.benchmarks, &line.benchmark);
    let section = view::study::section(line, declared);
    let text = |name: &str| line.parameters.get(name).map(view::plain).filter(|text| text != "null");
    let bytes = line.bytes.map(view::number::bytes);
    let size = text("size").filter(|_| bytes.is_none()).map(|size| format!("size {size}"));
    let dtype = text("dtype").filter(|_| bytes.is_none());
    let device = text("device").filter(|device| device != "cpu");
    let threads = text("threads").filter(|threads| threads != "1").map(|threads| format!("{threads} threads"));
    let words: Vec<String> = [bytes, size, dtype, device, threads].into_iter().flatten().collect();
    view::one_line(&format!("{section} {}", words.join(", "))).trim_end().to_owned()
}

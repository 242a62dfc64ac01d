//! A collective among the ranks of a model: its call, and a check of one call's data. Ranks take turns in one thread, and no
//! input is held in memory, so that many ranks can be checked.

use std::cell::RefCell;
use std::sync::Arc;

use comm::{Alone, Operation, blocks, corrupt_bytes, extents};
use contract::{Modelled, Work};
use measure::{Failure, WrongReport};
use terms::{Collective, Dtype};

use super::data::InputSource;
use super::number::Number;
use super::parameters::Parameters;
use super::pattern::PERIOD;
use super::prepared::work_of;
use super::random::ReducedBounds;
use super::segments::{Moves, TOLD, compare_bytes};
use super::uneven;

/// Elements that all ranks together give, or get, in a checked call, at most.
const MOST_ELEMENTS: u64 = 1 << 25;
/// Bytes of a rank's buffer in it, at most.
const MOST_BYTES: u64 = 64 << 20;
/// Buffers of that size that a check holds: what a rank gets, what it must get, and the result of a reduction.
pub(super) const HELD: u64 = 3;
/// Looks at a pair of ranks, at most, where each pair has a count of its own: where a block lies is their sum.
const MOST_LOOKS: u64 = 1 << 28;

/// See the module's documentation.
pub(super) struct ModelledCollective {
    ranks: u32,
    source: InputSource,
    operation: Operation,
    work: Work,
    /// The checked call: the same operation, of fewer elements where those are too many.
    checked: Operation,
    /// Every how many ranks one is compared.
    stride: u32,
    left_out: u64,
}

/// Elements that all ranks give, and get.
fn moved(operation: &Operation, ranks: u32) -> [u64; 2] {
    let of_rank =
        |rank| extents(operation.op, operation.count, rank, ranks, operation.peer, operation.counts.as_deref());
    (0..ranks)
        .map(of_rank)
        .fold([0; 2], |[given, got], extent| [given.saturating_add(extent.input), got.saturating_add(extent.output)])
}

/// Bytes that checking a case holds.
pub(super) fn memory(parameters: &Parameters) -> u64 {
    HELD * parameters.bytes.min(MOST_BYTES)
}

pub(super) fn prepare(parameters: &Parameters) -> Result<ModelledCollective, Failure> {
    within(parameters, MOST_ELEMENTS)
}

/// A case whose check moves at most so many elements.
fn within(parameters: &Parameters, most_elements: u64) -> Result<ModelledCollective, Failure> {
    let Parameters { op, dtype, reduce, ranks, peer, direction, .. } = *parameters;
    let source = parameters.source().ok_or_else(|| {
        Failure::new(format!("{reduce} of {dtype} over {ranks} ranks has no result to check against"))
    })?;
    let counts = parameters.counts.clone().map(Arc::new);
    let operation = Operation { op, count: parameters.count(), dtype, reduce, peer, direction, counts };
    let mut work = Work { traffic_bytes: 0, flops: 0.0, ..work_of(parameters, &source, 0) };
    for own in (0..ranks).map(|rank| work_of(parameters, &source, rank)) {
        (work.traffic_bytes, work.flops) =
            (work.traffic_bytes.saturating_add(own.traffic_bytes), work.flops + own.flops);
    }
    let all = moved(&operation, ranks);
    let most = all[0].max(all[1]).max(1);
    let share = u128::from(operation.count) * u128::from(most_elements) / u128::from(most);
    let checked = fewer(&operation, ranks, share as u64);
    // With one element a block there may be too many still: then some ranks are compared.
    let [given, got] = moved(&checked, ranks);
    let looks = if op == Collective::AllToAllV { u64::from(ranks).pow(3) } else { 0 };
    let stride = given.max(got).div_ceil(most_elements).max(looks.div_ceil(MOST_LOOKS)).clamp(1, ranks.into()) as u32;
    let mut modelled = ModelledCollective { ranks, source, operation, work, checked, stride, left_out: 0 };
    let compared: u64 = (0..ranks).step_by(stride as usize).map(|rank| modelled.output(rank)).sum();
    modelled.left_out = all[1].saturating_sub(compared);
    Ok(modelled)
}

/// The operation of at most so many elements, and of one for each block at least.
fn fewer(operation: &Operation, ranks: u32, most: u64) -> Operation {
    let Operation { op, count, dtype, direction, .. } = *operation;
    // Counts of each pair are scaled: as many as ranks leave one for each where they are alike.
    let blocks = if op == Collective::AllToAllV { ranks.into() } else { blocks(op, direction, ranks) };
    let fits = count.min(most).min(MOST_BYTES / dtype.bytes()) / blocks * blocks;
    let count = fits.max(blocks).min(count);
    let counts = operation.counts.clone().and_then(|counts| uneven::scale(&counts, count)).map(Arc::new);
    Operation { count, counts, ..operation.clone() }
}

impl ModelledCollective {
    /// Elements that a rank gets in the checked call.
    fn output(&self, rank: u32) -> u64 {
        let Operation { op, count, peer, ref counts, .. } = self.checked;
        extents(op, count, rank, self.ranks, peer, counts.as_deref()).output
    }

    /// What a rank must get of an operation that moves data.
    fn arrives(&self, rank: u32, inputs: &dyn Fn(u32, u64, &mut [u8]), expected: &mut [u8]) {
        let Operation { op, count, dtype, peer, direction, ref counts, .. } = self.checked;
        let element = dtype.bytes() as usize;
        let ranks = self.ranks;
        let moves = Moves { op, count, rank, ranks, peer, direction, counts: counts.as_deref(), element };
        for piece in moves.pieces() {
            let [at, len] = [piece.at, piece.elements].map(|elements| elements as usize * element);
            inputs(piece.from, piece.phase, &mut expected[at..at + len]);
        }
    }

    /// What every reduction leaves, from its first element on; None where that is known within bounds.
    fn result(&self) -> Option<Vec<u8>> {
        let InputSource::Exact(pattern) = self.source else { return None };
        let Operation { count, dtype, .. } = self.checked;
        let mut result = vec![0; (count * dtype.bytes()) as usize];
        fill(dtype, 0, |index| pattern.result(index), &mut result, &mut Vec::new());
        Some(result)
    }

    fn compare(&self, rank: u32, got: &[u8], expected: &mut Expected, report: &mut WrongReport) {
        let dtype = self.checked.dtype;
        let is_block = self.checked.op == Collective::ReduceScatter;
        let begin = if is_block { self.checked.count / u64::from(self.ranks) * u64::from(rank) } else { 0 };
        match expected {
            Expected::Moved(inputs, bytes) => {
                bytes.resize(got.len(), 0);
                self.arrives(rank, inputs, bytes);
                compare_bytes(got, bytes, dtype, rank, report);
            }
            Expected::Reduced(result) => {
                let begin = (begin * dtype.bytes()) as usize;
                compare_bytes(got, &result[begin..begin + got.len()], dtype, rank, report);
            }
            Expected::Bounded(bounds) => bounds.compare_bytes(got, begin, rank, report),
        }
    }
}

/// What ranks must get.
enum Expected<'a> {
    Moved(&'a dyn Fn(u32, u64, &mut [u8]), Vec<u8>),
    Reduced(Vec<u8>),
    Bounded(ReducedBounds),
}

impl Modelled for ModelledCollective {
    fn operation(&self) -> &Operation {
        &self.operation
    }

    fn work(&self) -> Work {
        self.work
    }

    fn left_out(&self) -> u64 {
        self.left_out
    }

    fn check(&self, faults: &[(u32, u64)]) -> Result<WrongReport, Failure> {
        let dtype = self.checked.dtype;
        let scratch = RefCell::default();
        let inputs = |rank, begin, to: &mut [u8]| {
            fill(dtype, begin, |index| self.source.input(rank, index), to, &mut scratch.borrow_mut());
        };
        let alone = Alone::new(&self.checked, self.ranks, &inputs);
        let mut expected = match (self.checked.op.reduces(), self.source, self.result()) {
            (false, ..) => Expected::Moved(&inputs, Vec::new()),
            (true, InputSource::Random(random), _) => Expected::Bounded(ReducedBounds::new(random)),
            (true, _, result) => Expected::Reduced(result.unwrap_or_default()),
        };
        let mut report = WrongReport::default();
        let (mut got, mut first) = (Vec::new(), Vec::new());
        // A rank that a fault is injected into is compared, too: the fault must be found.
        let is_compared = |rank: &u32| rank.is_multiple_of(self.stride) || faults.iter().any(|(of, _)| of == rank);
        for rank in (0..self.ranks).filter(is_compared) {
            let elements = self.output(rank);
            if elements == 0 {
                continue;
            }
            got.clear();
            got.resize((elements * dtype.bytes()) as usize, self.source.poison());
            alone.deliver(rank, &mut got);
            for (_, element) in faults.iter().filter(|(of, _)| *of == rank) {
                corrupt_bytes(&mut got, dtype, *element);
            }
            self.compare(rank, &got, &mut expected, &mut report);
            // Those of each rank, as many as a rank tells of.
            first.extend(std::mem::take(&mut report.first).into_iter().take(TOLD));
            first.truncate(TOLD * TOLD);
        }
        Ok(WrongReport { first, ..report })
    }
}

/// Writes elements from `begin` on, each of which is that one period before it. `bytes` is room for one.
fn fill(dtype: Dtype, begin: u64, value: impl Fn(u64) -> Number, to: &mut [u8], bytes: &mut Vec<u8>) {
    let element = dtype.bytes() as usize;
    let period = PERIOD * element;
    for (to, index) in to.chunks_exact_mut(element).take(PERIOD).zip(begin..) {
        bytes.clear();
        value(index % PERIOD as u64).encode(dtype, bytes);
        to.copy_from_slice(bytes);
    }
    let mut done = period.min(to.len());
    while done < to.len() {
        let next = period.min(to.len() - done);
        to.copy_within(done - period..done - period + next, done);
        done += next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CollectiveBenchmark;
    use crate::fields::Fields;
    use contract::Benchmark;

    const MOST: u64 = 1 << 16;

    fn modelled(fields: &[(&str, &str)]) -> ModelledCollective {
        let fields: Vec<_> = [("backend", "sim")].iter().chain(fields).copied().collect();
        let plan = record::plan::from_flags(CollectiveBenchmark.about(), &fields, &[]).unwrap();
        let case = &plan.cases[0];
        within(&Parameters::new(case, &Fields::of(case).unwrap()).unwrap(), MOST).unwrap()
    }

    #[test]
    fn a_call_is_compared_whole_where_it_is_small_and_in_part_where_it_is_not() {
        for op in ["all_reduce", "all_gather", "broadcast", "send_recv", "all_to_all"] {
            let small = modelled(&[("op", op), ("ranks", "64"), ("bytes", "4KiB")]);
            let report = small.check(&[]).unwrap();
            assert_eq!((report.count, report.compared, small.left_out), (0, 64 * 1024, 0), "{op}");
            let large = modelled(&[("op", op), ("ranks", "64"), ("bytes", "1GiB")]);
            let report = large.check(&[]).unwrap();
            assert_eq!((report.count, report.compared + large.left_out), (0, 64 << 28), "{op}");
            assert!((MOST / 2..=MOST).contains(&report.compared), "{op}: {}", report.compared);
        }
    }

    /// Where more ranks than one element for each pair can be compared, some are compared; a fault is found on any.
    #[test]
    fn a_fault_is_found_on_every_rank_and_nowhere_else() {
        for op in ["all_to_all", "all_to_allv", "reduce_scatter", "all_gather"] {
            for reduced in ["exact", "random"] {
                let many = modelled(&[("op", op), ("ranks", "600"), ("bytes", "1MiB"), ("data", reduced)]);
                assert!(many.stride > 1 && many.left_out > 0, "{op}");
                for rank in [0, 1, 401, 599] {
                    let report = many.check(&[(rank, 77)]).unwrap();
                    let found: Vec<(u32, u64)> = report.first.iter().map(|wrong| (wrong.rank, wrong.index)).collect();
                    assert_eq!((report.count, found), (1, vec![(rank, 77 % many.output(rank))]), "{op} {reduced}");
                }
            }
        }
    }
}

//! Attention of own queries to keys and values of all ranks, panel by panel: softmax online, as ring attention does (Liu,
//! Zaharia, Abbeel 2023, arXiv 2310.01889). Every query sees every key.
//!
//! Layouts: queries and output `[heads, tokens, width]`, a panel of a rank's keys and values `[heads, 2, tokens, width]`.

use std::ops::Range;

use device::{Region, Slice};
use measure::Failure;

use super::pattern::{Comparison, elements, elements_mut};
use super::product::{BufferBlock, Multiplier, Operands, Size};
use super::task::Task;

/// Scores of so many queries are held at a time.
const QUERIES: usize = 64;
/// Period of tokens, and how the sequences move from token to token, feature to feature, head to head.
const PERIOD: usize = 251;
const SHIFT: usize = 97;

/// Queries that a thread takes at least.
const GRAIN: usize = 8;

/// What a rank computes with.
pub(super) struct Attention {
    task: Task,
    /// Scores of some queries.
    scores: Slice,
    /// The largest score of each query, and the sum of weights so far.
    states: Slice,
    shift: usize,
    /// The result, `[head][class of queries][width]`.
    expected: Vec<f64>,
    tolerance: f64,
}

/// Where a panel lies: buffers of both products with it.
pub(super) struct Panel {
    scores: Operands,
    values: Operands,
}

/// -1, 0 or 1, by index. `which` tells queries, keys and values apart.
fn value(which: usize, index: usize) -> f32 {
    // Two steps of a multiplicative generator modulo 2^31 - 1 (Park and Miller).
    let mixed = (index % PERIOD + 1 + 1000 * which) as u64 * 48271 % 2_147_483_647;
    (((mixed * 48271 % 2_147_483_647) >> 7) % 3) as f32 - 1.0
}

fn query(token: usize, feature: usize, head: usize) -> f32 {
    value(0, 7 * token + feature + 5 * head)
}

fn key(token: usize, feature: usize, head: usize) -> f32 {
    value(1, 11 * token + 3 * feature + 7 * head)
}

/// The panel's number is part of it: an omitted panel shows, however alike the tokens of all panels are.
fn content(token: usize, feature: usize, head: usize, panel: usize) -> f32 {
    value(2, 13 * token + 2 * feature + 3 * head) + panel as f32
}

impl Panel {
    /// The memory that holds keys and values.
    pub(super) fn memory(&self) -> &Slice {
        self.scores.places()[1]
    }
}

impl Attention {
    /// For a task.
    ///
    /// # Errors
    /// When there is no memory.
    pub(super) fn new(task: &Task) -> Result<Self, Failure> {
        let rows = task.rows();
        let host = |elements: usize| {
            Region::host(elements * 4).map(|region| region.whole()).map_err(|error| Failure::lacking(error.to_string()))
        };
        let (scores, states) = (host(QUERIES * rows)?, host(2 * task.n * rows)?);
        let (expected, tolerance) = expected(task);
        Ok(Self { task: task.clone(), scores, states, shift: 0, expected, tolerance })
    }

    /// Sizes of the two products.
    pub(super) fn blocks(task: &Task) -> Vec<BufferBlock> {
        let (rows, width) = (task.rows(), task.k);
        let most = QUERIES.min(rows);
        let last = if rows % QUERIES == 0 { most } else { rows % QUERIES };
        [most, last]
            .into_iter()
            .flat_map(|queries| {
                let scores = BufferBlock {
                    b_transposed: true,
                    ..BufferBlock::from_size(Size { m: queries, n: rows, k: width })
                };
                [
                    scores,
                    BufferBlock { accumulate: true, ..BufferBlock::from_size(Size { m: queries, n: width, k: rows }) },
                ]
            })
            .collect()
    }

    /// Buffers of the products with a panel in this memory.
    pub(super) fn panel(&self, queries: &Slice, panel: &Slice, output: &Slice) -> Panel {
        let dtype = self.task.dtype;
        Panel {
            scores: Operands::new(dtype, [queries, panel, &self.scores]),
            values: Operands::new(dtype, [&self.scores, panel, output]),
        }
    }

    /// Nothing is seen yet.
    pub(super) fn begin(&self, multiplier: &Multiplier, output: &Slice) {
        self.each_state(multiplier, output, |line, state| {
            line.fill(0.0);
            *state = [f32::NEG_INFINITY, 0.0];
        });
    }

    /// Divides by the sums of weights.
    pub(super) fn end(&self, multiplier: &Multiplier, output: &Slice) {
        self.each_state(multiplier, output, |line, [_, sum]| {
            let factor = 1.0 / *sum;
            line.iter_mut().for_each(|element| *element *= factor);
        });
    }

    /// Runs `work` for each query of each head, on the rank's threads: with its line of the output, and its state.
    fn each_state(&self, multiplier: &Multiplier, output: &Slice, work: impl Fn(&mut [f32], &mut [f32; 2]) + Sync) {
        let (lines, width) = (self.task.n * self.task.rows(), self.task.k);
        multiplier.split(lines, GRAIN, |range| {
            // SAFETY: this rank's own buffers; each thread takes its own lines.
            let (lines, states) = unsafe { (part(output, width, range.clone()), part(&self.states, 2, range)) };
            for (line, state) in lines.chunks_exact_mut(width).zip(states.as_chunks_mut::<2>().0) {
                work(line, state);
            }
        });
    }

    /// Takes in a panel's heads, which begin at element `at` of its memory; the first of them is `first`.
    ///
    /// # Safety
    /// Nobody writes to the panel meanwhile, and nobody else uses the output.
    pub(super) unsafe fn see(
        &self,
        multiplier: &Multiplier,
        panel: &Panel,
        output: &Slice,
        at: usize,
        heads: Range<usize>,
    ) {
        let (rows, width) = (self.task.rows(), self.task.k);
        let scale = 1.0 / (width as f32).sqrt();
        let first = heads.start;
        for head in heads {
            let keys = at + (head - first) * 2 * rows * width;
            for begin in (0..rows).step_by(QUERIES) {
                let queries = QUERIES.min(rows - begin);
                let own = (head * rows + begin) * width;
                let scores = BufferBlock {
                    a: own,
                    b: keys,
                    b_transposed: true,
                    ..BufferBlock::from_size(Size { m: queries, n: rows, k: width })
                };
                let values = BufferBlock {
                    b: keys + rows * width,
                    c: own,
                    accumulate: true,
                    ..BufferBlock::from_size(Size { m: queries, n: width, k: rows })
                };
                // SAFETY: the caller's; scores are this rank's own.
                unsafe {
                    multiplier.run(&panel.scores, &scores);
                    let first = head * rows + begin;
                    multiplier.split(queries, GRAIN, |range| self.weigh(output, first, range, scale));
                    multiplier.run(&panel.values, &values);
                }
            }
        }
    }

    /// Turns scores into weights, relative to the largest score so far, and what was summed up before with them. `first` is
    /// the query of the first line of scores, and `range` are the lines.
    ///
    /// # Safety
    /// Nobody else uses these lines of scores, and the states and output of their queries.
    unsafe fn weigh(&self, output: &Slice, first: usize, range: Range<usize>, scale: f32) {
        let (rows, width) = (self.task.rows(), self.task.k);
        let queries = first + range.start..first + range.end;
        // SAFETY: the caller's.
        let (scores, states, output) = unsafe {
            (part(&self.scores, rows, range), part(&self.states, 2, queries.clone()), part(output, width, queries))
        };
        let lines = scores.chunks_exact_mut(rows).zip(states.as_chunks_mut::<2>().0);
        for ((line, [largest, sum]), output) in lines.zip(output.chunks_exact_mut(width)) {
            let most = line.iter().fold(f32::NEG_INFINITY, |most, score| most.max(*score)) * scale;
            let most = largest.max(most);
            let kept = (*largest - most).exp();
            let mut added = 0.0;
            for score in line.iter_mut() {
                *score = (*score * scale - most).exp();
                added += *score;
            }
            *largest = most;
            *sum = *sum * kept + added;
            if kept != 1.0 {
                output.iter_mut().for_each(|element| *element *= kept);
            }
        }
    }

    /// Other queries from now on.
    pub(super) fn displace(&mut self) {
        self.shift = (self.shift + SHIFT) % PERIOD;
    }

    /// Fills this rank's panel.
    pub(super) fn fill_panel(&self, panel: &Slice) {
        fill_panel(&self.task, self.task.rank, panel);
    }

    /// Fills this rank's queries.
    pub(super) fn fill_queries(&self, queries: &Slice) {
        let (rows, width) = (self.task.rows(), self.task.k);
        // SAFETY: this rank's own buffer; no operation is in flight.
        let all = unsafe { elements_mut::<f32>(queries) };
        for (index, line) in all.chunks_exact_mut(width).enumerate() {
            let (head, token) = (index / rows, self.task.rank * rows + index % rows);
            line.iter_mut().enumerate().for_each(|(feature, to)| *to = query(token + self.shift, feature, head));
        }
    }

    /// Fills all ranks' panels.
    pub(super) fn fill_gathered(&self, wide: &Slice) {
        let len = wide.len() / self.task.ranks;
        for rank in 0..self.task.ranks {
            fill_panel(&self.task, rank, &wide.slice(rank * len, len).expect("a panel lies inside"));
        }
    }

    /// Compares all ranks' panels.
    pub(super) fn compare_gathered(&self, wide: &Slice, found: &mut Comparison<'_>) {
        let expected = Region::host(wide.len()).map(|region| region.whole());
        let Ok(expected) = expected else { return found.compare(0, 0.0, f64::NAN, 0.0) };
        self.fill_gathered(&expected);
        // SAFETY: no operation is in flight.
        let (wanted, got) = unsafe { (elements::<f32>(&expected), elements::<f32>(wide)) };
        found.report.compared += got.len() as u64;
        for (index, (wanted, got)) in wanted.iter().zip(got).enumerate() {
            found.compare(index, f64::from(*wanted), f64::from(*got), 0.0);
        }
    }

    /// Compares the result.
    pub(super) fn compare(&self, output: &Slice, found: &mut Comparison<'_>) {
        let (rows, width) = (self.task.rows(), self.task.k);
        // SAFETY: no operation is in flight.
        let all = unsafe { elements::<f32>(output) };
        found.report.compared += all.len() as u64;
        for (index, line) in all.chunks_exact(width).enumerate() {
            let (head, token) = (index / rows, self.task.rank * rows + index % rows);
            let class = (head * PERIOD + (token + self.shift) % PERIOD) * width;
            let expected = &self.expected[class..class + width];
            for (feature, (expected, got)) in expected.iter().zip(line).enumerate() {
                found.compare(index * width + feature, *expected, f64::from(*got), self.tolerance);
            }
        }
    }
}

/// Lines of a buffer, each of so many elements.
///
/// # Safety
/// Nobody else uses them meanwhile.
#[expect(clippy::mut_from_ref, reason = "a slice is an address; who may write is the caller's")]
unsafe fn part(of: &Slice, each: usize, lines: Range<usize>) -> &mut [f32] {
    let slice = of.slice(lines.start * each * 4, lines.len() * each * 4).expect("lines lie inside their buffer");
    // SAFETY: in bounds by the slice, aligned as the whole region and whole elements are; aliasing is the caller's.
    unsafe { std::slice::from_raw_parts_mut(slice.ptr().cast::<f32>(), lines.len() * each) }
}

fn fill_panel(task: &Task, rank: usize, panel: &Slice) {
    let (rows, width) = (task.rows(), task.k);
    // SAFETY: this rank's own buffer; no operation is in flight.
    let all = unsafe { elements_mut::<f32>(panel) };
    for (index, line) in all.chunks_exact_mut(width).enumerate() {
        let (head, side, token) = (index / (2 * rows), index / rows % 2, rank * rows + index % rows);
        for (feature, to) in line.iter_mut().enumerate() {
            *to = if side == 0 { key(token, feature, head) } else { content(token, feature, head, rank) };
        }
    }
}

/// The result in f64, by classes of equal queries and equal keys, and how far f32 may be off.
///
/// With the unit roundoff u: a weight is off by at most (4 s + 4) u of itself, where s is the largest score; sums of m
/// positive weights, and of m products with values up to v, each by at most m u more. So the quotient is off by at most
/// (2 m + 8 s + 10) u v.
fn expected(task: &Task) -> (Vec<f64>, f64) {
    let (rows, width, heads) = (task.rows(), task.k, task.n);
    let mut counts = vec![[0.0_f64; 2]; PERIOD];
    for token in 0..task.m {
        let [count, panels] = &mut counts[token % PERIOD];
        *count += 1.0;
        *panels += (token / rows) as f64;
    }
    let scale = 1.0 / (width as f64).sqrt();
    let mut expected = Vec::with_capacity(heads * PERIOD * width);
    let mut highest: f64 = 0.0;
    for head in 0..heads {
        let keys: Vec<Vec<f32>> = (0..PERIOD).map(|class| (0..width).map(|c| key(class, c, head)).collect()).collect();
        let values: Vec<Vec<f64>> =
            (0..PERIOD).map(|class| (0..width).map(|c| f64::from(content(class, c, head, 0))).collect()).collect();
        for class in 0..PERIOD {
            let own: Vec<f32> = (0..width).map(|c| query(class, c, head)).collect();
            let score =
                |keys: &Vec<f32>| -> f64 { own.iter().zip(keys).map(|(q, k)| f64::from(q * k)).sum::<f64>() * scale };
            let scores: Vec<f64> = keys.iter().map(score).collect();
            highest = scores.iter().fold(highest, |most, score| score.abs().max(most));
            let (mut line, mut sum, mut panels) = (vec![0.0; width], 0.0, 0.0);
            for ((score, values), [count, panel]) in scores.iter().zip(&values).zip(&counts) {
                let weight = score.exp();
                sum += weight * count;
                panels += weight * panel;
                line.iter_mut().zip(values).for_each(|(to, value)| *to += weight * count * value);
            }
            expected.extend(line.into_iter().map(|element| (element + panels) / sum));
        }
    }
    let largest = 1.0 + task.ranks as f64;
    let unit = 1.0 / task.dtype.exact_integers() as f64;
    (expected, (2.0 * task.m as f64 + 8.0 * highest + 10.0) * unit * largest)
}

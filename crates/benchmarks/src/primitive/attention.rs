//! Attention of own queries to keys and values of all ranks, panel by panel: softmax online, as ring attention does (Liu,
//! Zaharia, Abbeel 2023, arXiv 2310.01889). Every query sees every key.
//!
//! Layouts: queries and output `[heads, tokens, width]`, a panel of a rank's keys and values `[heads, 2, tokens, width]`.

use device::{Region, Slice};
use measure::Failure;

use super::pattern::{Found, elements, elements_mut};
use super::product::{Block, Multiplier, Operands, Size};
use super::task::Task;

/// Scores of so many queries are held at a time.
const QUERIES: usize = 64;
/// Period of tokens, and how the sequences move from token to token, feature to feature, head to head.
const PERIOD: usize = 251;
const SHIFT: usize = 97;

/// What a rank computes with: scores of some queries, and of each query the largest score and the sum of weights so far.
pub(super) struct Attention {
    task: Task,
    scores: Slice,
    largest: Vec<f32>,
    sums: Vec<f32>,
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

impl Attention {
    /// For a task.
    ///
    /// # Errors
    /// When there is no memory.
    pub(super) fn new(task: &Task) -> Result<Self, Failure> {
        let rows = task.rows();
        let scores = Region::host(QUERIES * rows * 4).map_err(|error| Failure::lacking(error.to_string()))?.whole();
        let states = task.n * rows;
        let (expected, tolerance) = expected(task);
        Ok(Self {
            task: task.clone(),
            scores,
            largest: vec![0.0; states],
            sums: vec![0.0; states],
            shift: 0,
            expected,
            tolerance,
        })
    }

    /// Sizes of the two products.
    pub(super) fn blocks(task: &Task) -> Vec<Block> {
        let (rows, width) = (task.rows(), task.k);
        let most = QUERIES.min(rows);
        let last = if rows % QUERIES == 0 { most } else { rows % QUERIES };
        [most, last]
            .into_iter()
            .flat_map(|queries| {
                let scores = Block { b_transposed: true, ..Block::of(Size { m: queries, n: rows, k: width }) };
                [scores, Block { accumulate: true, ..Block::of(Size { m: queries, n: width, k: rows }) }]
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
    pub(super) fn begin(&mut self, output: &Slice) {
        self.largest.fill(f32::NEG_INFINITY);
        self.sums.fill(0.0);
        // SAFETY: this rank's own output, which nobody else uses.
        unsafe { elements_mut::<f32>(output) }.fill(0.0);
    }

    /// Takes in a panel's heads, which begin at element `at` of its memory; the first of them is `first`.
    ///
    /// # Safety
    /// Nobody writes to the panel meanwhile, and nobody else uses the output.
    pub(super) unsafe fn see(
        &mut self,
        multiplier: &Multiplier,
        panel: &Panel,
        output: &Slice,
        at: usize,
        heads: std::ops::Range<usize>,
    ) {
        let (rows, width) = (self.task.rows(), self.task.k);
        let scale = 1.0 / (width as f32).sqrt();
        let first = heads.start;
        for head in heads {
            let keys = at + (head - first) * 2 * rows * width;
            for begin in (0..rows).step_by(QUERIES) {
                let queries = QUERIES.min(rows - begin);
                let own = (head * rows + begin) * width;
                let scores =
                    Block { a: own, b: keys, b_transposed: true, ..Block::of(Size { m: queries, n: rows, k: width }) };
                let values = Block {
                    b: keys + rows * width,
                    c: own,
                    accumulate: true,
                    ..Block::of(Size { m: queries, n: width, k: rows })
                };
                // SAFETY: the caller's; scores are this rank's own.
                unsafe {
                    multiplier.run(&panel.scores, &scores);
                    self.weigh(output, head * rows + begin, queries, scale);
                    multiplier.run(&panel.values, &values);
                }
            }
        }
    }

    /// Turns scores into weights, relative to the largest score so far, and what was summed up before with them.
    ///
    /// # Safety
    /// Nobody else uses scores and output.
    unsafe fn weigh(&mut self, output: &Slice, first: usize, queries: usize, scale: f32) {
        let (rows, width) = (self.task.rows(), self.task.k);
        // SAFETY: the caller's.
        let (scores, output) = unsafe { (elements_mut::<f32>(&self.scores), elements_mut::<f32>(output)) };
        for (query, line) in scores.chunks_exact_mut(rows).take(queries).enumerate() {
            let state = first + query;
            let most = line.iter().fold(f32::NEG_INFINITY, |most, score| most.max(*score)) * scale;
            let largest = self.largest[state].max(most);
            let kept = (self.largest[state] - largest).exp();
            let mut sum = 0.0;
            for score in line.iter_mut() {
                *score = (*score * scale - largest).exp();
                sum += *score;
            }
            self.largest[state] = largest;
            self.sums[state] = self.sums[state] * kept + sum;
            if kept != 1.0 {
                output[state * width..(state + 1) * width].iter_mut().for_each(|element| *element *= kept);
            }
        }
    }

    /// Divides by the sums of weights.
    pub(super) fn end(&mut self, output: &Slice) {
        let width = self.task.k;
        // SAFETY: this rank's own output, which nobody else uses.
        let output = unsafe { elements_mut::<f32>(output) };
        for (line, sum) in output.chunks_exact_mut(width).zip(&self.sums) {
            let factor = 1.0 / sum;
            line.iter_mut().for_each(|element| *element *= factor);
        }
    }

    /// Other queries from now on.
    pub(super) fn displace(&mut self) {
        self.shift = (self.shift + SHIFT) % PERIOD;
    }

    /// Fills this rank's panel and its queries.
    pub(super) fn fill(&self, panel: &Slice, queries: &Slice) {
        fill_panel(&self.task, self.task.rank, panel);
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
    pub(super) fn compare_gathered(&self, wide: &Slice, found: &mut Found<'_>) {
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
    pub(super) fn compare(&self, output: &Slice, found: &mut Found<'_>) {
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

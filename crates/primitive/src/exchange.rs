//! Tokens on their way to experts and back: sorted by expert, sent, sorted again where a rank has several experts,
//! multiplied, sent back, and combined. What must arrive where is checked by `experts::Oracle`, which uses none of this.

use comm::{Call, Communicator};
use device::Slice;
use engine::{Element, Wide};
use half::{bf16, f16};
use measure::Failure;
use terms::Dtype;

use super::experts::{Routing, gate};
use super::machine::Machine;
use super::pattern::{elements, elements_mut, with_element};
use super::product::{Multiplier, Operands};
use super::site::Site;

/// Bytes that a thread copies at least.
const GRAIN: usize = 64 << 10;
/// Elements that are combined at a time.
const LANES: usize = 64;

/// Rows that lie together in two buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RowRun {
    from: usize,
    to: usize,
    rows: usize,
}

/// Rows of one expert, as the local number of the expert, the first row, and how many.
type ExpertRows = (usize, usize, usize);

/// How tokens that came back become the result.
enum Combine {
    /// The tokens are the result.
    InPlace,
    /// Each goes to its place.
    Copy(Moves),
    /// The copies of a token are added up, each with its weight.
    Sum(Sums),
}

/// The copies of each token, and their weights.
struct Sums {
    tokens: Vec<usize>,
    places: Vec<usize>,
    gates: Vec<f64>,
    /// Tokens, places and weights on a GPU.
    there: Option<[Slice; 3]>,
}

/// Some of a rank's tokens, whole: all copies of each.
pub(super) struct Chunk {
    pack: Moves,
    packed: Slice,
    pub(super) there: Call,
    /// Rows as they arrive, and as experts have them; and the same of results, the other way.
    sort: Moves,
    unsort: Moves,
    arrived: [Slice; 2],
    products: Vec<ExpertRows>,
    results: [Slice; 2],
    pub(super) back: Call,
    combine: Combine,
    returned: Slice,
}

/// All tokens of a rank, in chunks.
pub(super) struct TokenExchange {
    pub(super) chunks: Vec<Chunk>,
    operands: Operands,
}

/// How many rows of tokens lie before a chunk: of those that are sent, and of those that arrive.
#[derive(Clone, Copy, Default)]
struct Before {
    sent: usize,
    received: usize,
}

impl TokenExchange {
    /// Cuts a rank's tokens into chunks.
    ///
    /// # Errors
    /// When counts do not fit.
    pub(super) fn new(site: &Site, chunks: usize) -> Result<Self, Failure> {
        let mut before = Before::default();
        let all = (0..chunks).map(|chunk| Chunk::new(site, (chunk, chunks), &mut before)).collect::<Result<_, _>>()?;
        Ok(Self { chunks: all, operands: site.operands([&site.wide, &site.other, &site.block]) })
    }

    /// Tokens go to their experts.
    pub(super) fn dispatch(&self, site: &Site, comm: &mut dyn Communicator) -> Result<(), Failure> {
        for chunk in &self.chunks {
            chunk.pack(site)?;
            site.machine().run(comm, &chunk.there)?;
            chunk.sort(site)?;
        }
        Ok(())
    }

    /// Experts multiply.
    pub(super) fn multiply(&self, site: &Site) -> Result<(), Failure> {
        (0..self.chunks.len()).try_for_each(|chunk| self.multiply_chunk(site, chunk))
    }

    /// Experts multiply the tokens of a chunk.
    pub(super) fn multiply_chunk(&self, site: &Site, chunk: usize) -> Result<(), Failure> {
        for (expert, row, rows) in &self.chunks[chunk].products {
            // SAFETY: the chunk has arrived, and no operation has begun to send its products.
            unsafe { site.multiply_expert(&self.operands, *expert, *row, *rows)? };
        }
        Ok(())
    }

    /// Results go back to where their tokens came from.
    pub(super) fn combine(&self, site: &Site, comm: &mut dyn Communicator) -> Result<(), Failure> {
        for chunk in &self.chunks {
            chunk.unsort(site)?;
            site.machine().run(comm, &chunk.back)?;
            chunk.combine(site)?;
        }
        Ok(())
    }

    /// The backend's path for the first operation.
    pub(super) fn path(&self, comm: &dyn Communicator) -> String {
        self.chunks.first().map_or(String::new(), |chunk| comm.path(&chunk.there).to_owned())
    }
}

impl Chunk {
    fn new(site: &Site, (chunk, chunks): (usize, usize), before: &mut Before) -> Result<Self, Failure> {
        let (task, routing) = (&site.task, &*site.task.routing);
        let (k, n, held) = (task.k, task.n, routing.most_received());
        let staging = if routing.is_staged() { held } else { 0 };
        let counts = counts(routing, (chunk, chunks));
        let copies = copies(routing, task.rank, (chunk, chunks));
        let received = column(&counts, routing.sizes.ranks, task.rank);
        let place = *before;
        *before = Before { sent: place.sent + copies.len(), received: place.received + received };
        let of_wide = |row: usize, rows: usize| site.part(&site.wide, row * k, rows * k);
        let of_block = |row: usize, rows: usize| site.part(&site.block, row * n, rows * n);
        // Sorted tokens that go at once lie as they are sent, and come back as the result.
        let is_direct = routing.is_sorted && chunks == 1;
        let first = held + staging + place.sent;
        let (packed, returned) = match is_direct {
            true => (site.own.clone(), site.output.clone()),
            false => (of_wide(first, copies.len()), of_block(first, copies.len())),
        };
        let arrived = [staging + place.received, place.received].map(|row| of_wide(row, received));
        let results = [staging + place.received, place.received].map(|row| of_block(row, received));
        let (sort, products) = sorted(routing, task.rank, (chunk, chunks), place.received);
        let elements = |width: usize| counts.iter().map(|rows| (rows * width) as u64).collect::<Vec<_>>();
        let there = site.exchange(packed.clone(), arrived[0].clone(), elements(k))?;
        let back =
            site.exchange(results[0].clone(), returned.clone(), transposed(&elements(n), routing.sizes.ranks))?;
        let pack = if is_direct { Vec::new() } else { packing(&copies) };
        let combine = match (is_direct, routing.is_sorted) {
            (true, _) => Combine::InPlace,
            (false, true) => Combine::Copy(Moves::new(site, reversed(&pack))?),
            (false, false) => Combine::Sum(Sums::new(site, &copies)?),
        };
        let sort = if staging > 0 { sort } else { Vec::new() };
        let (pack, unsort, sort) =
            (Moves::new(site, pack)?, Moves::new(site, reversed(&sort))?, Moves::new(site, sort)?);
        Ok(Self { pack, packed, there, sort, unsort, arrived, products, results, back, combine, returned })
    }

    /// Copies tokens to where they are sent from.
    pub(super) fn pack(&self, site: &Site) -> Result<(), Failure> {
        self.pack.run(site, [&site.own, &self.packed], site.task.k)
    }

    /// Gives each expert its tokens in one piece.
    pub(super) fn sort(&self, site: &Site) -> Result<(), Failure> {
        self.sort.run(site, [&self.arrived[0], &self.arrived[1]], site.task.k)
    }

    /// Puts results in the order in which their tokens arrived.
    pub(super) fn unsort(&self, site: &Site) -> Result<(), Failure> {
        self.unsort.run(site, [&self.results[1], &self.results[0]], site.task.n)
    }

    /// Makes the result of what came back.
    pub(super) fn combine(&self, site: &Site) -> Result<(), Failure> {
        match &self.combine {
            Combine::InPlace => Ok(()),
            Combine::Copy(moves) => moves.run(site, [&self.returned, &site.output], site.task.n),
            Combine::Sum(sums) => sums.run(site, &self.returned),
        }
    }
}

/// Rows of a chunk from each rank to each rank.
fn counts(routing: &Routing, chunk: (usize, usize)) -> Vec<usize> {
    let ranks = routing.sizes.ranks;
    let rows = |from: usize, to: usize| routing.experts_of(to).map(|expert| routing.count(from, expert, chunk)).sum();
    (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to))).map(|(from, to)| rows(from, to)).collect()
}

/// What comes to a rank.
fn column(counts: &[usize], ranks: usize, to: usize) -> usize {
    counts.iter().skip(to).step_by(ranks).sum()
}

fn transposed(counts: &[u64], ranks: usize) -> Vec<u64> {
    (0..ranks).flat_map(|to| counts.iter().skip(to).step_by(ranks).copied()).collect()
}

/// The copies that a rank sends of a chunk, in the order in which they are sent: each as its token and its choice.
fn copies(routing: &Routing, rank: usize, chunk: (usize, usize)) -> Vec<(usize, usize)> {
    let places = (0..routing.sizes.experts).flat_map(|expert| routing.places_of_chunk(rank, expert, chunk));
    places.map(|place| routing.token(rank, place)).collect()
}

/// From tokens to the buffer that they are sent from.
fn packing(copies: &[(usize, usize)]) -> Vec<RowRun> {
    let mut runs = Vec::new();
    copies.iter().enumerate().for_each(|(to, (token, _))| join(&mut runs, RowRun { from: *token, to, rows: 1 }));
    runs
}

/// Appends a run, or makes the last one longer.
fn join(runs: &mut Vec<RowRun>, run: RowRun) {
    match runs.last_mut().filter(|last| last.from + last.rows == run.from && last.to + last.rows == run.to) {
        Some(last) => last.rows += run.rows,
        None => runs.push(run),
    }
}

fn reversed(runs: &[RowRun]) -> Vec<RowRun> {
    runs.iter().map(|run| RowRun { from: run.to, to: run.from, rows: run.rows }).collect()
}

/// From rows as they arrive, rank by rank, to rows as experts have them; and the rows of each expert, of which the chunk's
/// first is `first`.
fn sorted(routing: &Routing, rank: usize, chunk: (usize, usize), first: usize) -> (Vec<RowRun>, Vec<ExpertRows>) {
    let (own, ranks) = (routing.experts_of(rank), routing.sizes.ranks);
    let count = |from: usize, expert: usize| routing.count(from, expert, chunk);
    let mut begins = vec![0; ranks];
    for from in 1..ranks {
        begins[from] = begins[from - 1] + own.clone().map(|expert| count(from - 1, expert)).sum::<usize>();
    }
    let (mut runs, mut products, mut to) = (Vec::new(), Vec::new(), 0);
    for (number, expert) in own.enumerate() {
        let begin = to;
        for (from, at) in begins.iter_mut().enumerate() {
            let rows = count(from, expert);
            if rows > 0 {
                join(&mut runs, RowRun { from: *at, to, rows });
            }
            (*at, to) = (*at + rows, to + rows);
        }
        if to > begin {
            products.push((number, first + begin, to - begin));
        }
    }
    (runs, products)
}

/// Rows that go from one buffer to another.
struct Moves {
    runs: Vec<RowRun>,
    /// On a GPU, where runs are many: the row that each row of the other buffer comes from.
    index: Option<Slice>,
}

/// More runs than this are one kernel on a GPU instead of a copy each.
const FEW_RUNS: usize = 8;

impl Moves {
    /// Makes rows ready to be moved.
    ///
    /// # Errors
    /// When a GPU has no memory for their places.
    fn new(site: &Site, runs: Vec<RowRun>) -> Result<Self, Failure> {
        let index = match site.machine() {
            Machine::Gpu(gpu) if runs.len() > FEW_RUNS => sources(&runs).map(|all| gpu.places(&all)).transpose()?,
            _ => None,
        };
        Ok(Self { runs, index })
    }

    /// Copies rows of a width, on all threads of the rank, or as the GPU's stream comes to them.
    fn run(&self, site: &Site, [from, to]: [&Slice; 2], width: usize) -> Result<(), Failure> {
        let row = width * site.task.dtype.bytes() as usize;
        match (site.machine(), &self.index) {
            (Machine::Host(multiplier), _) => {
                copy_runs(multiplier, [from, to], row, &self.runs);
                Ok(())
            }
            (Machine::Gpu(gpu), Some(index)) => gpu.gather(row, [from, index, to]),
            (Machine::Gpu(gpu), None) => self.runs.iter().try_for_each(|run| {
                let cut = |of: &Slice, begin: usize| of.slice(begin * row, run.rows * row);
                let outside = || Failure::new("rows lie outside of their buffer");
                let (from, to) = (cut(from, run.from).ok_or_else(outside)?, cut(to, run.to).ok_or_else(outside)?);
                gpu.copy(&from, &to)
            }),
        }
    }
}

/// Where each row comes from; None where the runs leave rows out.
fn sources(runs: &[RowRun]) -> Option<Vec<usize>> {
    let mut all = vec![None; runs.iter().map(|run| run.rows).sum()];
    for run in runs {
        for row in 0..run.rows {
            *all.get_mut(run.to + row)? = Some(run.from + row);
        }
    }
    all.into_iter().collect()
}

/// Copies rows of so many bytes, on all threads of the rank.
fn copy_runs(multiplier: &Multiplier, [from, to]: [&Slice; 2], row: usize, runs: &[RowRun]) {
    multiplier.split(runs.len(), 1 + GRAIN / row.max(1), |range| {
        for RowRun { from: begin, to: end, rows } in &runs[range] {
            let (from, to) = (part(from, begin * row, rows * row), part(to, end * row, rows * row));
            // SAFETY: both are this rank's own, of equal length, in different parts of memory; runs do not meet in what they
            // write, and no operation uses it.
            unsafe { std::ptr::copy_nonoverlapping(from, to, rows * row) };
        }
    });
}

/// Where a part of a slice begins.
fn part(of: &Slice, begin: usize, len: usize) -> *mut u8 {
    assert!(begin + len <= of.len(), "rows lie inside their buffer");
    // SAFETY: inside the slice by the assertion.
    unsafe { of.ptr().add(begin) }
}

impl Sums {
    /// How the copies of each token are added up.
    ///
    /// # Errors
    /// When a GPU has no memory for their places.
    fn new(site: &Site, copies: &[(usize, usize)]) -> Result<Self, Failure> {
        let (routing, rank) = (&*site.task.routing, site.task.rank);
        let (rows, top_k) = (routing.sizes.rows, routing.sizes.top_k);
        let mut slots = vec![None; rows];
        let mut tokens = Vec::with_capacity(copies.len() / top_k);
        let mut places = vec![0; copies.len()];
        let mut gates = vec![0.0; copies.len()];
        for (place, (token, choice)) in copies.iter().enumerate() {
            let slot = *slots[*token].get_or_insert_with(|| {
                tokens.push(*token);
                tokens.len() - 1
            });
            places[slot * top_k + choice] = place;
            gates[slot * top_k + choice] = gate(rank * rows + token, *choice) as f64;
        }
        let there = match site.machine() {
            Machine::Gpu(gpu) if !tokens.is_empty() => {
                Some([gpu.places(&tokens)?, gpu.places(&places)?, gpu.weights(&gates)?])
            }
            _ => None,
        };
        Ok(Self { tokens, places, gates, there })
    }

    /// Adds up.
    fn run(&self, site: &Site, returned: &Slice) -> Result<(), Failure> {
        match (site.machine(), &self.there) {
            (Machine::Host(multiplier), _) => self.add(site, multiplier, returned),
            (Machine::Gpu(gpu), Some([tokens, places, gates])) => {
                let sizes = (site.task.dtype, site.task.n, site.task.routing.sizes.top_k);
                gpu.combine(sizes, [returned, tokens, places, gates, &site.output])?;
            }
            (Machine::Gpu(_), None) => {}
        }
        Ok(())
    }

    /// Adds up the copies of each token, on all threads of the rank.
    fn add(&self, site: &Site, multiplier: &Multiplier, returned: &Slice) {
        let Self { tokens, places, gates, .. } = self;
        let (n, top_k, output) = (site.task.n, site.task.routing.sizes.top_k, &site.output);
        with_element!(site.task.dtype, E => {
            type W = <E as Element>::Wide;
            // SAFETY: this rank's own buffers, which no operation uses.
            let from = unsafe { elements::<E>(returned) };
            multiplier.split(tokens.len(), 1 + GRAIN / (n * top_k * size_of::<E>()).max(1), |range| {
                for slot in range {
                    let copies = slot * top_k..(slot + 1) * top_k;
                    let to = output.slice(tokens[slot] * n * size_of::<E>(), n * size_of::<E>());
                    let to = to.expect("a token lies inside the result");
                    // SAFETY: as above; each token is written to by one thread.
                    let line = unsafe { elements_mut::<E>(&to) };
                    for (number, lanes) in line.chunks_mut(LANES).enumerate() {
                        let mut sums = [W::ZERO; LANES];
                        for (place, gate) in places[copies.clone()].iter().zip(&gates[copies.clone()]) {
                            let begin = place * n + number * LANES;
                            let gate = W::from_f64(*gate);
                            for (sum, value) in sums.iter_mut().zip(&from[begin..begin + lanes.len()]) {
                                *sum += gate * value.widen();
                            }
                        }
                        lanes.iter_mut().zip(sums).for_each(|(to, sum)| *to = E::narrow(sum));
                    }
                }
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::experts::{Load, Sizes};
    use super::*;

    const SIZES: Sizes = Sizes { ranks: 2, rows: 8, experts: 6, top_k: 2 };

    fn routing() -> Routing {
        let load = Load::Zipf { exponent: 1.0 };
        let counts = load.counts((SIZES.experts, SIZES.top_k), (SIZES.ranks, SIZES.rows), 1).unwrap();
        Routing::new(SIZES, &counts, 1, false)
    }

    #[test]
    fn what_is_sent_is_what_arrives_and_comes_back() {
        let routing = routing();
        for chunks in [1, 3] {
            let all: Vec<Vec<usize>> = (0..chunks).map(|chunk| counts(&routing, (chunk, chunks))).collect();
            for rank in 0..2 {
                let sent = |counts: &Vec<usize>| counts[rank * 2..(rank + 1) * 2].iter().sum::<usize>();
                assert_eq!(all.iter().map(sent).sum::<usize>(), routing.sent());
                let received = all.iter().map(|counts| column(counts, 2, rank)).sum::<usize>();
                assert_eq!(received, routing.received(rank), "{chunks} chunks, rank {rank}");
                for (chunk, counts) in all.iter().enumerate() {
                    assert_eq!(copies(&routing, rank, (chunk, chunks)).len(), sent(counts));
                    let (runs, products) = sorted(&routing, rank, (chunk, chunks), 0);
                    let rows = column(counts, 2, rank);
                    assert_eq!(runs.iter().map(|run| run.rows).sum::<usize>(), rows);
                    assert_eq!(products.iter().map(|(.., rows)| rows).sum::<usize>(), rows);
                }
            }
        }
        assert_eq!(transposed(&[1, 2, 3, 4], 2), [1, 3, 2, 4]);
    }

    #[test]
    fn rows_that_lie_together_are_copied_together() {
        let runs = packing(&[(4, 0), (5, 0), (1, 1), (2, 0), (7, 0)]);
        let run = |from, to, rows| RowRun { from, to, rows };
        assert_eq!(runs, [run(4, 0, 2), run(1, 2, 2), run(7, 4, 1)]);
        assert_eq!(reversed(&runs)[1], run(2, 1, 2));
        assert_eq!(sources(&runs), Some(vec![4, 5, 1, 2, 7]));
        assert_eq!(sources(&reversed(&runs)), None, "rows are left out");
    }
}

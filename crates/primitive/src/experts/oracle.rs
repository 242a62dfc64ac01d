//! What must arrive where, and what must come back: computed token by token from the definition of the routing. It shares no
//! list of places with what packs tokens and combines results (`exchange`).

use std::sync::Arc;

use device::Slice;
use engine::{Element, Wide};
use half::{bf16, f16};
use terms::Dtype;

use super::payload::Payload;
use super::routing::{Routing, gate};
use crate::pattern::{Comparison, elements, elements_mut, with_element};
use crate::task::Task;

/// A row that an expert of this rank gets: the token's number among those of all ranks, and the expert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Arrival {
    token: usize,
    expert: usize,
}

/// What a rank's buffers must hold.
pub(crate) struct Oracle {
    routing: Arc<Routing>,
    payload: Payload,
    rank: usize,
    dtype: Dtype,
    k: usize,
    n: usize,
    arrivals: Vec<Arrival>,
}

impl Oracle {
    /// For routed tokens; None where tokens lie sorted, which `pattern` fills.
    pub(crate) fn new(task: &Task) -> Option<Self> {
        let routing = Some(&task.routing).filter(|routing| !routing.is_sorted)?.clone();
        let payload = Payload::new(task.seed, task.k, routing.sizes, task.dtype);
        let Task { rank, dtype, k, n, .. } = *task;
        let mut oracle = Self { routing, payload, rank, dtype, k, n, arrivals: Vec::new() };
        oracle.expect_chunks(1);
        Some(oracle)
    }

    /// Rows arrive chunk by chunk: in each sorted by expert, then by the rank that they come from, then by their place there.
    pub(crate) fn expect_chunks(&mut self, chunks: usize) {
        let (routing, own) = (&self.routing, self.routing.experts_of(self.rank));
        let sizes = routing.sizes;
        let mut found = Vec::new();
        for (source, token) in (0..sizes.ranks).flat_map(|source| (0..sizes.rows).map(move |token| (source, token))) {
            for choice in 0..sizes.top_k {
                let place = routing.place(source, token, choice);
                let expert = routing.expert(source, place);
                if own.contains(&expert) {
                    let token = source * sizes.rows + token;
                    found.push((routing.chunk(source, place, chunks), expert, source, place, token));
                }
            }
        }
        found.sort_unstable();
        self.arrivals = found.into_iter().map(|(_, expert, _, _, token)| Arrival { token, expert }).collect();
    }

    /// Other tokens from now on.
    pub(crate) fn displace(&mut self) {
        self.payload.displace();
    }

    /// This rank's tokens, among those of all ranks.
    fn own_tokens(&self) -> impl Iterator<Item = usize> + use<> {
        let rows = self.routing.sizes.rows;
        self.rank * rows..(self.rank + 1) * rows
    }

    /// Fills this rank's tokens.
    pub(crate) fn fill_tokens(&self, own: &Slice) {
        fill(own, self.dtype, self.k, self.own_tokens(), |token, line| self.payload.token(token, line));
    }

    /// Fills the matrices of its experts.
    pub(crate) fn fill_experts(&self, experts: &Slice) {
        let rows = self.routing.experts_of(self.rank).flat_map(|expert| (0..self.k).map(move |depth| (expert, depth)));
        fill(experts, self.dtype, self.n, rows, |(expert, depth), line| self.payload.weights(expert, depth, line));
    }

    /// Fills what experts get.
    pub(crate) fn fill_gathered(&self, at: &Slice) {
        fill(at, self.dtype, self.k, self.arrivals.iter(), |arrival, line| self.payload.token(arrival.token, line));
    }

    /// Fills what experts make of it.
    pub(crate) fn fill_products(&self, at: &Slice) {
        fill(at, self.dtype, self.n, self.arrivals.iter(), |arrival, line| self.product(*arrival, line));
    }

    fn product(&self, Arrival { token, expert }: Arrival, line: &mut [f64]) {
        line.fill(0.0);
        self.payload.add_product((token, expert), 1.0, line);
    }

    /// Compares each row that experts got: it must be the token that belongs there, from the rank that has it.
    pub(crate) fn compare_gathered(&self, at: &Slice, found: &mut Comparison<'_>) {
        let expected = |arrival: &Arrival, line: &mut [f64]| self.payload.token(arrival.token, line);
        compare(at, (self.dtype, self.k), self.arrivals.iter(), expected, 0.0, found);
    }

    /// Compares each row that experts made.
    pub(crate) fn compare_products(&self, at: &Slice, found: &mut Comparison<'_>) {
        let expected = |arrival: &Arrival, line: &mut [f64]| self.product(*arrival, line);
        compare(at, (self.dtype, self.n), self.arrivals.iter(), expected, self.rounding(self.payload.largest()), found);
    }

    /// Compares each of this rank's tokens with the sum of its experts' products.
    pub(crate) fn compare_result(&self, at: &Slice, found: &mut Comparison<'_>) {
        let (routing, rank, sizes) = (&self.routing, self.rank, self.routing.sizes);
        let expected = |token: usize, line: &mut [f64]| {
            line.fill(0.0);
            for choice in 0..sizes.top_k {
                let expert = routing.expert(rank, routing.place(rank, token - rank * sizes.rows, choice));
                self.payload.add_product((token, expert), gate(token, choice) as f64, line);
            }
        };
        compare(at, (self.dtype, self.n), self.own_tokens(), expected, self.tolerance(), found);
    }

    /// How far a number is off that is rounded to the type once.
    fn rounding(&self, largest: f64) -> f64 {
        let exact = self.dtype.exact_integers() as f64;
        if largest <= exact { 0.0 } else { largest / exact }
    }

    /// How far an element of the result may be off.
    ///
    /// f32 and f64 hold every sum. Types of 16 bits round each of a token's products, at most M, by u M (u is the unit
    /// roundoff). Sums of whole numbers below 2^24 are exact in f32. With the sum G of a token's weights these errors add up to
    /// G u M, and rounding the sum adds u G (M + u M).
    fn tolerance(&self) -> f64 {
        if self.dtype.bytes() > 2 {
            return 0.0;
        }
        let gates = |token| (0..self.routing.sizes.top_k).map(|choice| gate(token, choice)).sum::<usize>();
        let most = (0..2).map(gates).max().unwrap_or(0) as f64;
        let once = self.rounding(self.payload.largest());
        most * once + self.rounding(most * (self.payload.largest() + once))
    }
}

/// Writes rows.
fn fill<R>(to: &Slice, dtype: Dtype, columns: usize, rows: impl Iterator<Item = R>, value: impl Fn(R, &mut [f64])) {
    let mut line = vec![0.0; columns];
    with_element!(dtype, E => {
        // SAFETY: the slice is this rank's own, and no operation is in flight.
        let all = unsafe { elements_mut::<E>(to) };
        for (row, to) in rows.zip(all.chunks_exact_mut(columns.max(1))) {
            value(row, &mut line);
            to.iter_mut().zip(&line).for_each(|(to, value)| *to = E::narrow(<E as Element>::Wide::from_f64(*value)));
        }
    });
}

/// Compares rows: all that the slice holds.
fn compare<R>(
    at: &Slice,
    (dtype, columns): (Dtype, usize),
    rows: impl Iterator<Item = R>,
    expected: impl Fn(R, &mut [f64]),
    tolerance: f64,
    found: &mut Comparison<'_>,
) {
    let (mut line, mut seen) = (vec![0.0; columns], 0);
    with_element!(dtype, E => {
        // SAFETY: no operation is in flight, so nobody writes.
        let all = unsafe { elements::<E>(at) };
        found.report.compared += all.len() as u64;
        for (row, got) in rows.zip(all.chunks_exact(columns.max(1))) {
            expected(row, &mut line);
            for (element, expected) in got.iter().zip(&line) {
                found.compare(seen, *expected, element.widen().f64(), tolerance);
                seen += 1;
            }
        }
        assert_eq!(seen, all.len(), "every element is compared");
    });
}

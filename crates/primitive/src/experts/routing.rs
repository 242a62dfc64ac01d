//! Which experts a token goes to, and where its copies stand among those that a rank sends.
//!
//! The copies of a rank's tokens stand in a line, sorted by expert: expert 0 has the first, and so on. A token has the places
//! `i`, `i + rows`, `i + 2 rows`..., where the seed chooses `i` (a permutation of the rank's `rows` tokens). No expert has more
//! than `rows` places, so the `top_k` experts of a token are different, and each expert has exactly its count (the wrap-around
//! rule: McNaughton, "Scheduling with deadlines and loss functions", 1959).

use std::ops::Range;

use super::shuffle::Shuffle;

/// The largest weight of an expert's result.
pub(super) const MOST_GATE: usize = 2;

/// The weight of a token's result by its expert of this choice: 1 or 2, so that sums are exact.
pub(crate) fn gate(token: usize, choice: usize) -> usize {
    1 + (token + choice) % MOST_GATE
}

/// Sizes of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Ranks, each with equally many experts and tokens.
    pub(crate) ranks: usize,
    /// Tokens of a rank.
    pub(crate) rows: usize,
    /// Experts of all ranks.
    pub(crate) experts: usize,
    /// Experts that each token goes to.
    pub(crate) top_k: usize,
}

/// Which copies of tokens go to which expert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Routing {
    pub(crate) sizes: Sizes,
    seed: u64,
    /// Where the copies for each expert begin among those of all ranks, and where the last of them end.
    begins: Vec<usize>,
    /// Tokens lie in the order of their experts: nothing is copied to sort them.
    pub(crate) is_sorted: bool,
}

impl Routing {
    /// Exchanges so many copies over all ranks with each expert. `is_sorted`: tokens lie in the order of their experts, with
    /// one choice each.
    pub(crate) fn new(sizes: Sizes, counts: &[usize], seed: u64, is_sorted: bool) -> Self {
        let end = |sum: &mut usize, count: &usize| {
            *sum = sum.saturating_add(*count);
            Some(*sum)
        };
        let begins = std::iter::once(0).chain(counts.iter().scan(0, end)).collect();
        Self { sizes, seed, begins, is_sorted }
    }

    /// The load displaced by so many experts: expert 0's count is that of expert `by`.
    pub(crate) fn displaced(&self, by: usize) -> Self {
        let mut counts: Vec<usize> = self.begins.windows(2).map(|ends| ends[1] - ends[0]).collect();
        let experts = counts.len().max(1);
        counts.rotate_right(by % experts);
        Self::new(self.sizes, &counts, self.seed, self.is_sorted)
    }

    /// All ranks' tokens on one rank. Sorted tokens then have one expert.
    pub(crate) fn alone(&self) -> Self {
        let Sizes { ranks, rows, experts, top_k } = self.sizes;
        let all = self.begins.last().copied().unwrap_or(0);
        let (experts, begins) = if self.is_sorted { (1, vec![0, all]) } else { (experts, self.begins.clone()) };
        Self { sizes: Sizes { ranks: 1, rows: rows * ranks, experts, top_k }, begins, ..self.clone() }
    }

    /// Experts of each rank.
    pub(crate) fn experts_of_a_rank(&self) -> usize {
        self.sizes.experts / self.sizes.ranks
    }

    /// The experts of a rank.
    pub(crate) fn experts_of(&self, rank: usize) -> Range<usize> {
        let each = self.experts_of_a_rank();
        rank * each..(rank + 1) * each
    }

    /// Whether tokens of several ranks for several experts arrive at a rank: they are sorted there.
    pub(crate) fn is_staged(&self) -> bool {
        self.sizes.ranks > 1 && self.experts_of_a_rank() > 1
    }

    /// Copies that each rank sends.
    pub(crate) fn sent(&self) -> usize {
        self.sizes.rows.saturating_mul(self.sizes.top_k)
    }

    /// Copies that a rank's experts get.
    pub(crate) fn received(&self, rank: usize) -> usize {
        let experts = self.experts_of(rank);
        self.begins[experts.end] - self.begins[experts.start]
    }

    /// Copies that the rank with most gets.
    pub(crate) fn most_received(&self) -> usize {
        (0..self.sizes.ranks).map(|rank| self.received(rank)).max().unwrap_or(0)
    }

    /// Copies that the expert with most gets.
    pub(crate) fn most_of_an_expert(&self) -> usize {
        self.begins.windows(2).map(|ends| ends[1] - ends[0]).max().unwrap_or(0)
    }

    /// The most over the mean, of copies that ranks get and of those that experts get.
    pub(crate) fn imbalance(&self) -> [f64; 2] {
        let all = self.begins.last().copied().unwrap_or(0).max(1) as f64;
        let over = |most: usize, number: usize| most as f64 * number as f64 / all;
        [over(self.most_received(), self.sizes.ranks), over(self.most_of_an_expert(), self.sizes.experts)]
    }

    /// The places of a rank's copies for an expert. A rank has every so manieth of all copies.
    pub(crate) fn places(&self, rank: usize, expert: usize) -> Range<usize> {
        let before = |end: usize| (end + self.sizes.ranks - 1 - rank) / self.sizes.ranks;
        before(self.begins[expert])..before(self.begins[expert + 1])
    }

    /// The order of a rank's tokens.
    fn shuffle(&self, rank: usize) -> Shuffle {
        Shuffle::new(self.seed, rank, self.sizes.rows)
    }

    /// The place of a token's copy of this choice.
    pub(crate) fn place(&self, rank: usize, token: usize, choice: usize) -> usize {
        let first = if self.is_sorted { token } else { self.shuffle(rank).place(token) };
        first + choice * self.sizes.rows
    }

    /// The token at a place, and which of its choices it is.
    pub(crate) fn token(&self, rank: usize, place: usize) -> (usize, usize) {
        let (choice, first) = (place / self.sizes.rows, place % self.sizes.rows);
        (if self.is_sorted { first } else { self.shuffle(rank).index(first) }, choice)
    }

    /// The expert that a place belongs to.
    pub(crate) fn expert(&self, rank: usize, place: usize) -> usize {
        let (mut low, mut high) = (0, self.sizes.experts);
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            if self.places(rank, middle).start <= place { low = middle } else { high = middle }
        }
        low
    }

    /// The chunk that a copy belongs to. All copies of a token are in one chunk, and each expert has a part of each chunk:
    /// sorted tokens are cut expert by expert, others go round.
    pub(crate) fn chunk(&self, rank: usize, place: usize, chunks: usize) -> usize {
        if !self.is_sorted {
            return place % self.sizes.rows % chunks;
        }
        let places = self.places(rank, self.expert(rank, place));
        let (index, len) = (place - places.start, places.len());
        // The last chunk that begins at or before it; where chunks are empty, several begin there.
        (0..chunks).rev().find(|chunk| len * chunk / chunks <= index).unwrap_or(0)
    }

    /// The places of a rank's copies for an expert that are in a chunk.
    pub(crate) fn places_of_chunk(
        &self,
        rank: usize,
        expert: usize,
        (chunk, chunks): (usize, usize),
    ) -> impl Iterator<Item = usize> + use<> {
        let (places, rows) = (self.places(rank, expert), self.sizes.rows);
        let (begin, len) = (places.start, places.len());
        let (range, every) = match self.is_sorted {
            true => (begin + len * chunk / chunks..begin + len * (chunk + 1) / chunks, true),
            false => (places, false),
        };
        range.filter(move |place| every || place % rows % chunks == chunk)
    }

    /// How many these are.
    pub(crate) fn count(&self, rank: usize, expert: usize, (chunk, chunks): (usize, usize)) -> usize {
        let (places, rows) = (self.places(rank, expert), self.sizes.rows);
        let (len, until) = (places.len(), |chunk: usize| places.len() * chunk / chunks);
        if self.is_sorted || chunks == 1 {
            return if chunks == 1 { len } else { until(chunk + 1) - until(chunk) };
        }
        // Of the first so many places, round by round.
        let of_round = |end: usize| (end + chunks - 1 - chunk) / chunks;
        let before = |end: usize| end / rows * of_round(rows) + of_round(end % rows);
        before(places.end) - before(places.start)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::super::load::Load;
    use super::*;

    fn routing(load: &Load, sizes: Sizes, is_sorted: bool) -> Routing {
        let counts = load.counts((sizes.experts, sizes.top_k), (sizes.ranks, sizes.rows), 5).unwrap();
        Routing::new(sizes, &counts, 5, is_sorted)
    }

    fn all() -> Vec<Routing> {
        let sizes = |ranks, rows, experts, top_k| Sizes { ranks, rows, experts, top_k };
        let mut found = vec![routing(&Load::Skewed, sizes(3, 7, 3, 1), true)];
        for sizes in [sizes(1, 5, 4, 2), sizes(2, 16, 8, 2), sizes(3, 11, 12, 8), sizes(4, 33, 8, 8)] {
            for load in [Load::Uniform, Load::Zipf { exponent: 1.1 }, Load::Skewed] {
                found.push(routing(&load, sizes, false));
            }
        }
        found.push(routing(&Load::Counts(vec![13, 1, 0, 12]), sizes(2, 13, 4, 1), false));
        found
    }

    #[test]
    fn each_expert_gets_its_count_and_a_token_only_once() {
        for routing in all() {
            let Sizes { ranks, rows, experts, top_k } = routing.sizes;
            let mut counts = vec![0; experts];
            for (rank, token) in (0..ranks).flat_map(|rank| (0..rows).map(move |token| (rank, token))) {
                let places = (0..top_k).map(|choice| routing.place(rank, token, choice));
                let chosen: BTreeSet<usize> = places.map(|place| routing.expert(rank, place)).collect();
                assert_eq!(chosen.len(), top_k, "{:?}: token {token} of rank {rank}", routing.sizes);
                chosen.into_iter().for_each(|expert| counts[expert] += 1);
            }
            let wanted: Vec<usize> = routing.begins.windows(2).map(|ends| ends[1] - ends[0]).collect();
            assert_eq!(counts, wanted, "{:?}", routing.sizes);
        }
    }

    #[test]
    fn a_displaced_load_is_that_of_another_expert() {
        let sizes = Sizes { ranks: 2, rows: 4, experts: 4, top_k: 1 };
        let routing = Routing::new(sizes, &[4, 2, 2, 0], 5, false).displaced(1);
        assert_eq!(routing, Routing::new(sizes, &[0, 4, 2, 2], 5, false));
        assert_eq!((routing.received(0), routing.received(1)), (4, 4));
    }

    #[test]
    fn places_are_found_from_tokens_and_tokens_from_places() {
        for routing in all() {
            for (rank, place) in (0..routing.sizes.ranks).flat_map(|rank| (0..routing.sent()).map(move |at| (rank, at)))
            {
                let (token, choice) = routing.token(rank, place);
                assert_eq!(routing.place(rank, token, choice), place, "{:?}", routing.sizes);
                let expert = routing.expert(rank, place);
                assert!(routing.places(rank, expert).contains(&place), "{:?}", routing.sizes);
            }
        }
    }

    #[test]
    fn chunks_have_whole_tokens_and_a_part_of_each_expert() {
        for routing in all() {
            for (rank, chunks) in (0..routing.sizes.ranks).flat_map(|rank| [1, 2, 3, 40].map(|chunks| (rank, chunks))) {
                let mut of_token = BTreeMap::new();
                for (expert, chunk) in
                    (0..routing.sizes.experts).flat_map(|at| (0..chunks).map(move |chunk| (at, chunk)))
                {
                    let places: Vec<usize> = routing.places_of_chunk(rank, expert, (chunk, chunks)).collect();
                    assert_eq!(routing.count(rank, expert, (chunk, chunks)), places.len(), "{:?}", routing.sizes);
                    for place in places {
                        assert_eq!(routing.chunk(rank, place, chunks), chunk);
                        assert_eq!(*of_token.entry(routing.token(rank, place).0).or_insert(chunk), chunk);
                    }
                }
                assert_eq!(of_token.len(), routing.sizes.rows, "every token is in a chunk");
            }
        }
    }

    #[test]
    fn sorted_tokens_are_cut_as_weights_say_on_every_rank() {
        let sizes = Sizes { ranks: 3, rows: 7, experts: 3, top_k: 1 };
        let routing = routing(&Load::Skewed, sizes, true);
        for rank in 0..3 {
            assert_eq!([0, 1, 2].map(|expert| routing.places(rank, expert)), [0..4, 4..6, 6..7]);
        }
        assert_eq!((routing.most_received(), routing.imbalance()), (12, [12.0 / 7.0; 2]));
        let alone = routing.alone();
        assert_eq!((alone.sizes.rows, alone.sizes.experts, alone.received(0)), (21, 1, 21));
    }

    #[test]
    fn the_seed_changes_which_token_goes_where_and_not_how_many() {
        let sizes = Sizes { ranks: 2, rows: 32, experts: 8, top_k: 2 };
        let of = |seed| Routing::new(sizes, &[16; 8], seed, false);
        let expert = |routing: &Routing, token| routing.expert(1, routing.place(1, token, 0));
        let experts = |seed| (0..32).map(|token| expert(&of(seed), token)).collect::<Vec<_>>();
        assert_eq!(experts(1), experts(1));
        assert_ne!(experts(1), experts(2));
        assert_eq!(of(1).imbalance(), [1.0, 1.0]);
    }
}

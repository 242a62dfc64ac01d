//! What one rank of a case computes and exchanges.

use serde_json::{Map, Value};
use terms::{Collective, Dtype, Named};

use super::product::Size;
use super::words::{Order, Primitive, Tokens};

/// What is communicated, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    /// Rows of A are gathered, then multiplied.
    GatherFirst,
    /// Own rows are multiplied, then gathered.
    GatherLast,
    /// Partial sums of all rows, reduced and scattered.
    ScatterLast,
    /// Partial sums of all rows, reduced everywhere.
    ReduceLast,
    /// Keys and values are gathered for own queries.
    Attention,
    /// Tokens go to experts and come back.
    Exchange,
}

/// A case, resolved. Sizes are those of the whole problem.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) dtype: Dtype,
    pub(super) ranks: usize,
    pub(super) rank: usize,
    pub(super) threads: usize,
    pub(super) seed: u64,
    pub(super) tokens: Tokens,
    pub(super) scheme: Scheme,
}

/// The options of a case's implementation.
pub(super) type Options = Map<String, Value>;

/// A word among options.
pub(super) fn word<T: Named>(options: &Options, name: &str) -> Option<T> {
    T::from_name(options.get(name)?.as_str()?)
}

/// A whole number among options.
pub(super) fn whole(options: &Options, name: &str) -> Option<usize> {
    options.get(name)?.as_u64().and_then(|value| usize::try_from(value).ok())
}

impl Task {
    /// The whole problem on one rank.
    pub(super) fn alone(&self) -> Self {
        let k = if self.scheme == Scheme::ReduceLast { self.k * self.ranks } else { self.k };
        Self { k, ranks: 1, rank: 0, ..self.clone() }
    }

    /// Rows of A, tokens, or rows of a result that belong to each rank.
    pub(super) fn rows(&self) -> usize {
        self.m / self.ranks
    }

    /// Depth of the products of one rank.
    pub(super) fn depth(&self) -> usize {
        if self.scheme == Scheme::ScatterLast { self.k / self.ranks } else { self.k }
    }

    /// Depth of the sums in the result.
    pub(super) fn whole_depth(&self) -> usize {
        if self.scheme == Scheme::ReduceLast { self.k * self.ranks } else { self.k }
    }

    /// Where this rank's part of the depth begins.
    pub(super) fn depth_begin(&self, rank: usize) -> usize {
        match self.scheme {
            Scheme::ScatterLast | Scheme::ReduceLast => rank * self.depth(),
            _ => 0,
        }
    }

    /// Tokens that each rank sends to an expert.
    pub(super) fn tokens_of(&self, expert: usize) -> usize {
        part(self.rows(), &self.weights(), expert).1
    }

    /// Where a rank's tokens for an expert begin among its own.
    pub(super) fn tokens_begin(&self, expert: usize) -> usize {
        part(self.rows(), &self.weights(), expert).0
    }

    /// Tokens of the expert that gets most.
    pub(super) fn most_tokens(&self) -> usize {
        (0..self.ranks).map(|expert| self.tokens_of(expert) * self.ranks).max().unwrap_or(0)
    }

    fn weights(&self) -> Vec<usize> {
        let weight = |expert: usize| match self.tokens {
            Tokens::Uniform => 1,
            Tokens::Skewed => 1024 >> expert.min(10),
        };
        (0..self.ranks).map(weight).collect()
    }

    /// The product of the rank that multiplies most; of attention, both products as one.
    pub(super) fn product(&self) -> Size {
        let Self { m, n, .. } = *self;
        match self.scheme {
            Scheme::GatherFirst | Scheme::ScatterLast | Scheme::ReduceLast => Size { m, n, k: self.depth() },
            Scheme::GatherLast => Size { m: self.rows(), n, k: self.k },
            Scheme::Attention => Size { m: self.rows(), n: m, k: 2 * self.n * self.k },
            Scheme::Exchange => Size { m: self.most_tokens(), n, k: self.k },
        }
    }

    /// Floating-point operations of that product.
    pub(super) fn flops(&self) -> f64 {
        let Size { m, n, k } = self.product();
        2.0 * m as f64 * n as f64 * k as f64
    }

    /// Floating-point operations of the whole problem, each counted once.
    pub(super) fn whole_flops(&self) -> f64 {
        let (m, n, k) = (self.m as f64, self.n as f64, self.k as f64);
        match self.scheme {
            Scheme::Attention => 4.0 * m * m * n * k,
            Scheme::ReduceLast => 2.0 * m * n * k * self.ranks as f64,
            _ => 2.0 * m * n * k,
        }
    }

    /// Elements of each buffer of a rank: what it gives, its other operand, what is gathered or not yet reduced, a product
    /// before it is sent, the result. Sizes past every memory stay large instead of wrapping.
    pub(super) fn elements(&self) -> [usize; 5] {
        let Self { m, n, k, .. } = *self;
        let rows = self.rows();
        let of = |sizes: &[usize]| sizes.iter().fold(1, |all: usize, size| all.saturating_mul(*size));
        match self.scheme {
            Scheme::GatherFirst => [of(&[rows, k]), of(&[k, n]), of(&[m, k]), 0, of(&[m, n])],
            Scheme::GatherLast => [of(&[rows, k]), of(&[k, n]), of(&[m, n]), 0, of(&[m, n])],
            Scheme::ScatterLast => {
                let depth = self.depth();
                [of(&[m, depth]), of(&[depth, n]), of(&[m, n]), of(&[rows, n]), of(&[rows, n])]
            }
            Scheme::ReduceLast => [of(&[m, k]), of(&[k, n]), of(&[m, n]), 0, of(&[m, n])],
            Scheme::Attention => [of(&[2, n, rows, k]), of(&[n, rows, k]), of(&[2, n, m, k]), 0, of(&[n, rows, k])],
            // Room for tokens as they are sent and as they come back: implementations that cut them pack them.
            Scheme::Exchange => {
                let held = self.most_tokens().max(rows) + rows;
                [of(&[rows, k]), of(&[k, n]), of(&[held, k]), of(&[held, n]), of(&[rows, n])]
            }
        }
    }

    /// Bytes of all buffers of a rank.
    pub(super) fn bytes(&self) -> u64 {
        let bytes = |elements: &usize| (*elements as u64).saturating_mul(self.dtype.bytes());
        self.elements().iter().map(bytes).fold(0, u64::saturating_add)
    }

    /// Bytes that the computation of a rank reads and writes, each operand once.
    pub(super) fn traffic_bytes(&self) -> u64 {
        let Self { m, n, k, .. } = *self;
        let rows = self.rows();
        let product = |m: usize, k: usize| [[m, k], [k, n], [m, n]];
        let sides: Vec<[usize; 2]> = match self.scheme {
            Scheme::GatherFirst | Scheme::ReduceLast => product(m, k).to_vec(),
            Scheme::GatherLast => product(rows, k).to_vec(),
            Scheme::ScatterLast => product(m, self.depth()).to_vec(),
            Scheme::Exchange => product(self.tokens_of(self.rank) * self.ranks, k).to_vec(),
            // Keys and values of all tokens; own queries and results.
            Scheme::Attention => vec![[2 * n * m, k], [2 * n * rows, k]],
        };
        let bytes = |[rows, columns]: &[usize; 2]| (*rows as u64).saturating_mul(*columns as u64);
        sides.iter().map(bytes).fold(0, u64::saturating_add).saturating_mul(self.dtype.bytes())
    }

    /// The collective, and the bytes of its larger side.
    pub(super) fn operation(&self) -> (Collective, u64) {
        let operation = match self.scheme {
            Scheme::GatherFirst | Scheme::GatherLast | Scheme::Attention => Collective::AllGather,
            Scheme::ScatterLast => Collective::ReduceScatter,
            Scheme::ReduceLast => Collective::AllReduce,
            Scheme::Exchange => Collective::AllToAllV,
        };
        (operation, (self.elements()[2] as u64).saturating_mul(self.dtype.bytes()))
    }
}

/// What is communicated, and when.
pub(super) fn scheme(primitive: Primitive, order: Order) -> Scheme {
    match (primitive, order) {
        (Primitive::TpColumnwise, Order::Before) => Scheme::GatherFirst,
        (Primitive::TpColumnwise, Order::After) => Scheme::GatherLast,
        (Primitive::TpRowwise, _) => Scheme::ScatterLast,
        (Primitive::DpAllReduce, _) => Scheme::ReduceLast,
        (Primitive::CpRing, _) => Scheme::Attention,
        (Primitive::EpAllToAll, _) => Scheme::Exchange,
    }
}

/// Where a part of `total` begins and how long it is, for parts in proportion to weights.
pub(super) fn part(total: usize, weights: &[usize], index: usize) -> (usize, usize) {
    let all = weights.iter().sum::<usize>().max(1) as u128;
    let until = |index: usize| {
        let before = weights[..index].iter().sum::<usize>() as u128;
        (total as u128 * before / all) as usize
    };
    (until(index), until(index + 1) - until(index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_everything_once() {
        for (total, weights) in [(10, vec![1, 1, 1]), (7, vec![1024, 512, 256]), (2, vec![1, 1, 1]), (0, vec![1, 1])] {
            let mut next = 0;
            for index in 0..weights.len() {
                let (begin, len) = part(total, &weights, index);
                assert_eq!(begin, next, "{total} {weights:?}");
                next = begin + len;
            }
            assert_eq!(next, total);
        }
    }
}

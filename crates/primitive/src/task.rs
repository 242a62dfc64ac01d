//! What one rank of a case computes and exchanges.

use std::sync::Arc;

use serde_json::{Map, Value};
use terms::{Collective, Dtype, Named, Space};

use super::experts::Routing;
use super::pattern::PERIODS;
use super::product::Size;
use super::words::{Drawn, Order, Primitive};

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
    /// Which tokens go to which experts; only an exchange has any.
    pub(super) routing: Arc<Routing>,
    pub(super) scheme: Scheme,
    pub(super) means: Means,
}

/// What it is computed on and with.
#[derive(Clone, Debug)]
pub(super) struct Means {
    pub(super) space: Space,
    /// f32 by tensor cores that round its operands.
    pub(super) tf32: bool,
    /// Several algorithms are tried for each product, instead of the library's first choice.
    pub(super) is_tuned: bool,
    /// The library that multiplies on GPUs, where one was named.
    pub(super) library: Option<String>,
    /// What the operands are.
    pub(super) drawn: Drawn,
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
        Self { k, ranks: 1, rank: 0, routing: Arc::new(self.routing.alone()), ..self.clone() }
    }

    /// The type of a product: types of one byte are added up in wider ones.
    pub(super) fn result(&self) -> Dtype {
        match self.dtype {
            Dtype::I8 => Dtype::I32,
            Dtype::F8E4M3 => Dtype::Bf16,
            other => other,
        }
    }

    /// Types of the buffers, in the order of [`Task::elements`].
    pub(super) fn dtypes(&self) -> [Dtype; 5] {
        let wide = if self.is_summed() { self.result() } else { self.dtype };
        [self.dtype, self.dtype, wide, self.dtype, self.result()]
    }

    /// Whether ranks add up their products.
    pub(super) fn is_summed(&self) -> bool {
        matches!(self.scheme, Scheme::ScatterLast | Scheme::ReduceLast)
    }

    /// What the period of operands must not divide: the rows of a rank, which would equal those of another, and the depth of products
    /// that ranks add up, whose sums could all be 0. The depth alone, where each period divides one of them.
    pub(super) fn block(&self) -> usize {
        let depth = self.depth();
        match self.scheme {
            Scheme::ScatterLast if PERIODS.iter().any(|period| !(self.rows() * depth).is_multiple_of(*period)) => {
                self.rows() * depth
            }
            Scheme::ScatterLast | Scheme::ReduceLast => depth,
            _ => self.rows(),
        }
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
        if self.is_summed() { rank * self.depth() } else { 0 }
    }

    /// The product of the rank that multiplies most; of attention, both products as one.
    pub(super) fn product(&self) -> Size {
        let Self { m, n, .. } = *self;
        match self.scheme {
            Scheme::GatherFirst | Scheme::ScatterLast | Scheme::ReduceLast => Size { m, n, k: self.depth() },
            Scheme::GatherLast => Size { m: self.rows(), n, k: self.k },
            Scheme::Attention => Size { m: self.rows(), n: m, k: 2 * self.n * self.k },
            Scheme::Exchange => Size { m: self.routing.most_received(), n, k: self.k },
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
            Scheme::Exchange => 2.0 * m * self.routing.sizes.top_k as f64 * n * k,
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
            // Room for tokens as experts have them, as they arrive where that differs, and as they are sent; and for their
            // results.
            Scheme::Exchange => {
                let (routing, held) = (&self.routing, self.routing.most_received());
                let staged = if routing.is_staged() { held } else { 0 };
                let held = held.saturating_add(staged).saturating_add(routing.sent());
                let experts = routing.experts_of_a_rank();
                [of(&[rows, k]), of(&[experts, k, n]), of(&[held, k]), of(&[held, n]), of(&[rows, n])]
            }
        }
    }

    /// Bytes of all buffers of a rank.
    pub(super) fn bytes(&self) -> u64 {
        let sizes = self.elements().into_iter().zip(self.dtypes());
        sizes.map(|(len, dtype)| (len as u64).saturating_mul(dtype.bytes())).fold(0, u64::saturating_add)
    }

    /// Bytes of the lists that say where routed tokens go, and of those that they are checked with: at most so many for each
    /// copy that is sent or arrives.
    pub(super) fn listed_bytes(&self) -> u64 {
        const EACH: u64 = 64;
        let copies = if self.routing.is_sorted { 0 } else { self.routing.sent().max(self.routing.most_received()) };
        (copies as u64).saturating_mul(EACH)
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
            Scheme::Exchange => {
                let (received, experts) = (self.routing.received(self.rank), self.routing.experts_of_a_rank());
                vec![[received, k], [experts * k, n], [received, n]]
            }
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
        let elements = match self.scheme {
            Scheme::Exchange => self.routing.most_received().saturating_mul(self.k),
            _ => self.elements()[2],
        };
        (operation, (elements as u64).saturating_mul(self.dtype.bytes()))
    }

    /// Bytes that an implementation of an exchange moves to or from the rank with most, in all directions; None elsewhere.
    pub(super) fn moved(&self, implementation: &str) -> Option<u64> {
        let width = match (self.scheme, implementation) {
            (Scheme::Exchange, "dispatch_only") => self.k,
            (Scheme::Exchange, "combine_only") => self.n,
            (Scheme::Exchange, _) => self.k.saturating_add(self.n),
            _ => return None,
        };
        Some((self.routing.most_received() as u64).saturating_mul(width as u64).saturating_mul(self.dtype.bytes()))
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

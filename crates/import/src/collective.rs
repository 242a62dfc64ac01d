//! What readers of collectives share: the shape of a call, and other tools' words for types and reductions.

use std::borrow::Cow;

use terms::{Collective, Dtype, Error, Named, Reduce};

use crate::{Shape, Source};

/// One collective call as a tool measured it. What is None has our default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MeasuredCall {
    pub(crate) op: Collective,
    pub(crate) ranks: u32,
    /// `nccl`, `mpi`, `gloo`.
    pub(crate) backend: &'static str,
    pub(crate) by_pytorch: bool,
    pub(crate) dtype: Dtype,
    /// S of `docs/explanation/bandwidth.md`; nothing for a barrier.
    pub(crate) bytes: u64,
    pub(crate) reduce: Option<Reduce>,
    pub(crate) root: Option<u32>,
    pub(crate) in_place: Option<bool>,
    /// Whether calls are apart: ranks meet or compute between them.
    pub(crate) isolated: bool,
    /// What is timed, where no mode here times the same.
    pub(crate) implementation: Option<&'static str>,
    pub(crate) device: &'static str,
}

/// What moved the data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MeasuredBy {
    pub(crate) backend: &'static str,
    pub(crate) device: &'static str,
    pub(crate) by_pytorch: bool,
    /// In a file that Rankmark wrote.
    pub(crate) is_ours: bool,
}

impl Default for MeasuredBy {
    fn default() -> Self {
        Self { backend: "nccl", device: "cuda", by_pytorch: false, is_ours: false }
    }
}

impl MeasuredCall {
    /// A call with nothing particular about it.
    pub(crate) const fn new(op: Collective, ranks: u32, backend: &'static str, device: &'static str) -> Self {
        Self {
            op,
            ranks,
            backend,
            by_pytorch: false,
            dtype: Dtype::U8,
            bytes: 0,
            reduce: None,
            root: None,
            in_place: None,
            isolated: false,
            implementation: None,
            device,
        }
    }

    /// Fields of the call on our command line.
    pub(crate) fn shape(&self) -> Shape {
        let mut fields: Vec<(&'static str, Cow<'static, str>)> = vec![
            ("op", self.op.name().into()),
            ("ranks", self.ranks.to_string().into()),
            ("backend", self.backend.into()),
        ];
        if self.by_pytorch {
            fields.push(("runtime", "pytorch".into()));
        }
        if self.op != Collective::Barrier {
            fields.push(("dtype", self.dtype.name().into()));
            fields.push(("bytes", self.bytes.to_string().into()));
        }
        if self.op.reduces() {
            fields.push(("reduce", self.reduce.unwrap_or(Reduce::Sum).name().into()));
        }
        if let Some(root) = self.root.filter(|_| self.op.has_root()) {
            fields.push(("root", root.to_string().into()));
        }
        if let Some(in_place) = self.in_place.filter(|_| self.op != Collective::Barrier) {
            fields.push(("in_place", if in_place { "true" } else { "false" }.into()));
        }
        if self.isolated {
            fields.push(("mode", "isolated".into()));
        }
        // A long log has 100,000 of them.
        fields.shrink_to_fit();
        let implementation = self.implementation.map(str::to_owned);
        Shape { benchmark: "collective", fields, device: self.device, implementation }
    }
}

/// The operation by a word of another tool: `all_reduce_perf`, `Allreduce`, `osu_alltoall`.
pub(crate) fn op(word: &str) -> Option<Collective> {
    let plain: String = word.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    Some(match plain.as_str() {
        "allreduce" => Collective::AllReduce,
        "allgather" => Collective::AllGather,
        "reducescatter" | "reducescatterblock" => Collective::ReduceScatter,
        "broadcast" | "bcast" => Collective::Broadcast,
        "reduce" => Collective::Reduce,
        "alltoall" => Collective::AllToAll,
        "alltoallv" => Collective::AllToAllV,
        "gather" => Collective::Gather,
        "scatter" => Collective::Scatter,
        "sendrecv" => Collective::SendRecv,
        "pingpong" => Collective::PingPong,
        "barrier" => Collective::Barrier,
        _ => return None,
    })
}

/// The operation that a user means, however libraries and their tests spell it: `allreduce`, `all_reduce_perf`, `MPI_Bcast`.
pub fn operation(word: &str) -> Option<Collective> {
    let plain: String = word.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    let plain = plain.strip_prefix("osu").or_else(|| plain.strip_prefix("mpi")).unwrap_or(&plain);
    op(plain.strip_suffix("perf").unwrap_or(plain))
}

/// The element type by a word of another tool. None for types that we lack.
pub(crate) fn dtype(word: &str) -> Option<Dtype> {
    match word {
        // A byte, and what it means is not said.
        "char" | "MPI_CHAR" | "MPI_BYTE" => Some(Dtype::U8),
        _ => word.parse().ok().or_else(|| Dtype::from_other_name(word)),
    }
}

/// The reduction by a word of another tool: `sum`, `MPI_SUM`.
pub(crate) fn reduce(word: &str) -> Option<Reduce> {
    let word = word.strip_prefix("MPI_").unwrap_or(word).to_ascii_lowercase();
    word.parse().ok()
}

/// The number of ranks that the user gives; None where the user gives none.
///
/// # Errors
/// When what is given is not a number of ranks.
pub(crate) fn given_ranks(source: &Source) -> Result<Option<u32>, Error> {
    let wrong =
        |text: &str| Error::new(format!("`{text}` is not a number of ranks")).hint("give a whole number from 1");
    let read = |text: &str| text.parse().ok().filter(|ranks| *ranks > 0).ok_or_else(|| wrong(text));
    source.given("ranks").map(read).transpose()
}

/// The number of ranks that the file tells at a line, else that of the user.
///
/// # Errors
/// When neither tells it.
pub(crate) fn ranks(source: &Source, line: usize, told: Option<u32>) -> Result<u32, Error> {
    told.or(given_ranks(source)?).ok_or_else(|| no_ranks(source, line))
}

/// The operation that the user gives; None where the user gives none.
///
/// # Errors
/// When what is given is not an operation.
pub(crate) fn given_op(source: &Source) -> Result<Option<Collective>, Error> {
    let read = |word: &str| op(word).ok_or_else(|| Error::new(format!("there is no operation `{word}`")));
    source.given("op").map(read).transpose()
}

/// The error where neither the file nor the user tells the number of ranks.
pub(crate) fn no_ranks(source: &Source, line: usize) -> Error {
    source.error(line, "the file does not say how many ranks ran").hint("give the number: `--ranks N`")
}

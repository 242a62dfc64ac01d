//! What an implementation is, and the options that several of them take.

use comm::Communicator;
use contract::RankContext;
use contract::fields::problem;
use measure::Failure;
use terms::{Field, FieldError, Kind, Named, Runtime};

use super::site::{GivenBuffers, Left, Site};
use super::task::{Options, Task, word};
use super::words::{Algorithm, Order, Primitive, Size};

/// A call of an implementation. Only [`CallStep::run`] is timed.
pub(super) trait CallStep {
    /// One call.
    fn run(&mut self, site: &mut Site, comm: &mut dyn Communicator) -> Result<(), Failure>;

    /// What the buffers hold before it, in addition to the operands.
    fn given(&self) -> GivenBuffers {
        GivenBuffers::Operands
    }

    /// What it leaves.
    fn leaves(&self) -> &'static [Left] {
        &[Left::Result]
    }

    /// Chunks of tokens that arrive one after the other.
    fn chunks(&self) -> usize {
        1
    }

    /// The backend's path for the first operation.
    fn path(&self, comm: &dyn Communicator) -> String;
}

/// Makes a call ready.
pub(super) type Prepare = fn(&Site, &Options, &mut RankContext) -> Result<Box<dyn CallStep>, Failure>;

/// One implementation.
pub(super) struct Implementation {
    pub(super) name: &'static str,
    /// What `all` stands for: the options of each way to run it.
    pub(super) ways: fn(Primitive) -> Vec<&'static str>,
    /// Fills absent options, and refuses those that mean nothing.
    pub(super) resolve_options: fn(Primitive, &mut Options) -> Result<(), FieldError>,
    /// Which ranks' task it computes: the case's, or the whole problem on every rank.
    pub(super) task: fn(Task, &Options) -> Task,
    /// Which ranks can run it.
    pub(super) runs: Runs,
}

/// Which ranks can run an implementation.
#[derive(Clone, Copy)]
pub(super) enum Runs {
    /// This program's.
    Native(Prepare),
    /// This program's, and PyTorch's.
    Both(Prepare),
    /// PyTorch's.
    Pytorch,
}

impl Implementation {
    /// Whether ranks of this runtime can run it.
    pub(super) fn runs_on(&self, runtime: Runtime) -> bool {
        match self.runs {
            Runs::Native(_) => runtime == Runtime::Native,
            Runs::Both(_) => true,
            Runs::Pytorch => runtime == Runtime::Pytorch,
        }
    }

    /// Makes a call ready. Collective.
    ///
    /// # Errors
    /// What could not be prepared; and that the implementation is not of this program.
    pub(super) fn prepare(
        &self,
        site: &Site,
        options: &Options,
        context: &mut RankContext,
    ) -> Result<Box<dyn CallStep>, Failure> {
        match self.runs {
            Runs::Native(prepare) | Runs::Both(prepare) => prepare(site, options, context),
            Runs::Pytorch => Err(Failure::new(format!("native ranks have no implementation `{}`", self.name))),
        }
    }
}

/// The option `order`.
pub(super) const ORDER: Field =
    Field::new(Kind::Word(Order::names), None, "tp_columnwise: gathers A, or the product").named("order");
/// The option `offset`.
pub(super) const OFFSET: Field =
    Field::new(Kind::Bool, None, "each rank begins with its own block (default: true)").named("offset");
/// The option `size`.
pub(super) const SIZE: Field =
    Field::new(Kind::Word(Size::names), None, "computes the rank's share, or all").named("size");
/// The option `algorithm`.
pub(super) const ALGORITHM: Field =
    Field::new(Kind::Word(Algorithm::names), None, "how communication is cut").named("algorithm");
/// The option `chunks`.
pub(super) const CHUNKS: Field =
    Field::new(Kind::Whole(2, 64), None, "chunks of each rank's rows (default: 4)").named("chunks");

/// Settles the option `order`: of `tp_columnwise` alone, and there the operand is gathered unless the case says otherwise.
pub(super) fn settle_order(primitive: Primitive, options: &mut Options) -> Result<(), FieldError> {
    let columnwise = primitive == Primitive::TpColumnwise;
    if !columnwise && options.contains_key(ORDER.name) {
        return Err(problem(
            "implementation",
            format!("`order` is for tp_columnwise, not {primitive}"),
            "leave it out",
        ));
    }
    if columnwise && !options.contains_key(ORDER.name) {
        options.insert(ORDER.name.to_owned(), Order::Before.name().into());
    }
    Ok(())
}

/// The order of a case's implementation.
pub(super) fn order(options: &Options) -> Option<Order> {
    word(options, ORDER.name)
}

/// The ways of an implementation that has only its order to choose.
pub(super) fn orders(primitive: Primitive) -> Vec<&'static str> {
    if primitive == Primitive::TpColumnwise { vec!["order=AG_before", "order=AG_after"] } else { vec![""] }
}

/// The ways of an implementation that only `ep_all_to_all` has.
pub(super) fn ways_of_experts(primitive: Primitive) -> Vec<&'static str> {
    if primitive == Primitive::EpAllToAll { vec![""] } else { Vec::new() }
}

/// Refuses the other primitives.
pub(super) fn settle_experts(name: &str, primitive: Primitive) -> Result<(), FieldError> {
    if primitive == Primitive::EpAllToAll {
        return Ok(());
    }
    let message = format!("`{name}` is a part of ep_all_to_all, but {primitive} has no such part");
    Err(problem("implementation", message, "`communication_only`"))
}

/// An implementation of a library that fuses a product with its collective, on PyTorch's ranks.
pub(super) const fn fused_torch(
    name: &'static str,
    resolve_options: fn(Primitive, &mut Options) -> Result<(), FieldError>,
) -> Implementation {
    Implementation { name, ways: ways_of_fused_torch, resolve_options, task: |task, _| task, runs: Runs::Pytorch }
}

/// The ways of libraries that fuse a product with its collective: gathered operands, or scattered sums.
fn ways_of_fused_torch(primitive: Primitive) -> Vec<&'static str> {
    match primitive {
        Primitive::TpColumnwise => vec!["order=AG_before"],
        Primitive::TpRowwise => vec![""],
        _ => Vec::new(),
    }
}

/// Refuses what these libraries do not fuse.
pub(super) fn gathers_first_or_scatters(
    name: &str,
    primitive: Primitive,
    options: &mut Options,
) -> Result<(), FieldError> {
    if ways_of_fused_torch(primitive).is_empty() {
        let message = format!("`{name}` computes tp_columnwise and tp_rowwise, not {primitive}");
        return Err(problem("implementation", message, "valid values: compute_only, communication_only, sequential"));
    }
    settle_order(primitive, options)?;
    if order(options) == Some(Order::After) {
        let message = format!("`{name}` gathers the operand, not the product");
        return Err(problem("implementation", message, "valid values: order=AG_before"));
    }
    Ok(())
}

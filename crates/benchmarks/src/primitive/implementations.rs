//! The table of implementations: one module and one line each.

use comm::Communicator;
use measure::Failure;
use terms::{Field, FieldError, Kind, Named, Variant};

use super::site::{Given, Left, Site};
use super::task::{Options, Task, word};
use super::words::{Algorithm, Order, Primitive, Size};
use crate::RankContext;
use crate::fields::problem;

/// A call of an implementation. Only [`Step::run`] is timed.
pub(super) trait Step {
    /// One call.
    fn run(&mut self, site: &mut Site, comm: &mut dyn Communicator) -> Result<(), Failure>;

    /// What the buffers hold before it, beside the operands.
    fn given(&self) -> Given {
        Given::Operands
    }

    /// What it leaves.
    fn leaves(&self) -> &'static [Left] {
        &[Left::Result]
    }

    /// The backend's path for the first operation.
    fn path(&self, comm: &dyn Communicator) -> String;
}

/// Makes a call ready.
pub(super) type Prepare = fn(&Site, &Options, &mut RankContext) -> Result<Box<dyn Step>, Failure>;

/// One implementation.
pub(super) struct Implementation {
    pub(super) name: &'static str,
    /// What `all` stands for: the options of each way to run it.
    pub(super) ways: fn(Primitive) -> Vec<&'static str>,
    /// Fills absent options, and refuses those that mean nothing.
    pub(super) settle: fn(Primitive, &mut Options) -> Result<(), FieldError>,
    /// Which ranks' task it computes: the case's, or the whole problem on every rank.
    pub(super) task: fn(Task, &Options) -> Task,
    /// Makes a call ready. Collective.
    pub(super) prepare: Prepare,
}

/// Stands for every way of every implementation.
pub(super) const ALL: &str = "all";

macro_rules! implementations {
    ($($module:ident),+ $(,)?) => {
        $(pub(super) mod $module;)+

        /// The variants of the field `implementation`.
        pub(super) static VARIANTS: &[Variant] =
            &[Variant { name: ALL, doc: "each of the following, in every way", options: &[] }, $($module::VARIANT),+];

        /// The implementations, in the order in which they are shown.
        pub(super) static IMPLEMENTATIONS: &[Implementation] = &[$($module::IMPLEMENTATION),+];
    };
}

implementations![compute_only, communication_only, sequential, pipelined, fused];

/// The implementation of this name.
pub(super) fn named(name: &str) -> Option<&'static Implementation> {
    IMPLEMENTATIONS.iter().find(|implementation| implementation.name == name)
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

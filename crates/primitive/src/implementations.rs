//! The table of implementations: one module and one line each.

use terms::{Runtime, Variant};

use super::implementation::Implementation;

/// Names of the implementations of a runtime.
pub(super) fn names_of(runtime: Runtime) -> String {
    let of = IMPLEMENTATIONS.iter().filter(|implementation| implementation.runs_on(runtime));
    std::iter::once(ALL).chain(of.map(|implementation| implementation.name)).collect::<Vec<_>>().join(", ")
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

implementations![
    compute_only,
    communication_only,
    dispatch_only,
    combine_only,
    sequential,
    pipelined,
    fused,
    async_tp,
    transformer_engine,
    jax,
];

/// Whether the implementation of this name multiplies.
pub(super) fn multiplies(name: &str) -> bool {
    ![communication_only::VARIANT, dispatch_only::VARIANT, combine_only::VARIANT].iter().any(|other| other.name == name)
}

/// The implementation of this name.
pub(super) fn named(name: &str) -> Option<&'static Implementation> {
    IMPLEMENTATIONS.iter().find(|implementation| implementation.name == name)
}

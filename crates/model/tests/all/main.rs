//! Tests of the whole crate: every model of the catalog, what settings are refused, initial values.

mod catalog;
mod counts;
mod golden;
mod graphs;
mod initial;
mod refusals;
mod shapes;

//! Case lines as they are read: grouped into sections and configurations, their values as text, charts without how they are
//! drawn, and what a benchmark adds in words of its own ([`View`]).
//!
//! Pure functions over case lines and declarations; [`terminal`] lays out text of a terminal and knows no record. Never draws or
//! reads a file, and names no benchmark.

#![forbid(unsafe_code)]

mod cell;
mod charts;
mod compared;
mod grouping;
mod label;
mod next;
mod own;
mod pivot;
pub mod roofline;
mod spec;
pub mod study;
mod styles;
mod table;
pub mod terminal;

pub use terms::number;

pub use cell::{ends, number_at, shown, value_at};
pub use charts::{AS_IMPORTED, NamedChart, bar_chart, declared as declared_charts, note_of_points, told_apart};
pub use compared::Compared;
pub use label::{label_of, plain};
pub use next::Next;
pub use own::{Finding, ResultBits, View, Views};
pub use pivot::Pivot;
pub use spec::{
    Axis, ChartSpec, Lane, Lanes, Mark, Matrix, Point, Quantity, Reference, Scale, Series, Shades, Span, SpanKind,
    Stack, Term, Waterfall,
};
pub use styles::COLOURS;
pub use table::matrix_lines;
pub use terms::text::{harmless_json, into_one_line, is_invisible, one_line};

//! The words of the field, each spelled one way: quantities, element types, collectives and their formulas.
//!
//! Every type here has one `Display`/`FromStr` pair, so that `all_reduce`, `bf16` and `64KiB` are the same text in
//! flags, files, tables and code. No input or output, no clocks, no measuring: pure values only.

#[doc(hidden)]
pub use serde;

mod collective;
mod dtype;
mod error;
mod field;
mod host;
mod mix;
mod name;
pub mod number;
pub mod outside;
mod quantity;
pub mod text;
mod words;

pub use collective::{Collective, Reduce};
pub use dtype::{Dtype, DtypeKind};
pub use error::{Error, FieldError};
pub use field::{Field, Group, Kind, Label, Role, Variant};
pub use host::HostName;
pub use mix::{mix, next_splitmix64, splitmix64};
pub use name::{Named, did_you_mean, nearest, normalize, suggestion};
pub use quantity::{Bandwidth, Bytes, ParseQuantityError, Ratio, Seconds};
pub use words::{
    Bind, BufferKind, Cache, Direction, Mode, Rank, Registration, Runtime, Space, Status, Traffic, UnknownName,
};

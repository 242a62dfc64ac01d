//! Reports from records: Markdown, CSV, and charts as SVG and PNG, with words for what the data show.
//!
//! Reads record types only. Never starts anything, never measures, never prints; the same record gives the same bytes.

#![forbid(unsafe_code)]

pub mod chart;
mod charts;
mod csv;
mod damage;
mod drift;
mod error;
mod escape;
mod facts;
mod format;
mod links;
mod markdown;
mod number;
mod origin;
mod peers;
mod pictures;
mod placement;
mod run;
mod sentences;
mod study;
mod table;
mod training;
mod training_charts;
mod write;

pub use error::Error;
pub use format::{FORMATS, Format, format};
pub use run::{Run, machine_line};
pub use sentences::sentences;
pub use write::{Artifact, write, write_formats};

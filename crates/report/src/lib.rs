//! Reports from records: HTML, Markdown, PDF, tables, files for machines, and charts as SVG and PNG, with words for what the
//! data show.
//!
//! Reads record types only. Never starts anything, never measures, never prints; the same record gives the same bytes.

#![forbid(unsafe_code)]

pub mod chart;
mod charts;
mod contract;
mod csv;
mod damage;
mod document;
mod drift;
mod error;
mod escape;
mod expected;
mod explained;
mod facts;
mod format;
mod html;
mod imported;
pub mod index;
mod interleaved;
mod junit;
mod labels;
mod layouts;
mod links;
mod markdown;
mod names;
mod origin;
mod page;
mod parquet;
mod pdf;
mod peers;
mod pictures;
mod placement;
mod policy;
mod prometheus;
mod results;
mod rows;
mod run;
mod sentences;
mod states;
mod summary;
mod write;

use view::{number, study};

pub use contract::Format;
pub use damage::end_banner;
pub use escape::shell;
pub use expected::sentences as expected;
pub use format::{FORMATS, append_file, default_formats, format, write, write_file, write_formats};
pub use html::write_together;
pub use junit::{JunitCase, JunitOutcome, junit};
pub use layouts::{LAYOUTS, candle_table, layout, write_results_json, write_study_csv};
pub use run::{Run, machine_line, profile_lines};
pub use sentences::sentences;
pub use states::state_remedy;
pub use terms::Error;
pub use write::{Artifact, Out, Written};

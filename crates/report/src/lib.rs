//! Reports from records: HTML, Markdown, PDF, tables, files for machines, and charts as SVG and PNG, with words for what the
//! data show.
//!
//! Reads record types only. Never starts anything, never measures, never prints; the same record gives the same bytes.

#![forbid(unsafe_code)]

mod again;
pub mod chart;
mod charts;
mod compare;
mod document;
mod error;
mod escape;
mod fleet;
mod formats;
mod history;
mod job;
mod listing;
mod markup;
pub mod not_a_record;
mod page;
mod policy;
pub mod rows;
mod run;
mod words;

use view::{number, study};

pub use compare::{
    Against, Comparisons, Gate, Labels as CaseLabels, SideSource, Warn, below as records_below, comparison,
    comparison_junit, equal_runs, interleaved_junit, lines as comparison_lines, nothing_compared,
    sentence as comparison_sentence, why,
};
pub use document::Document;
pub use escape::shell;
pub use fleet::fleet;
pub use formats::format::Format;
pub use formats::html::{write_compared, write_together};
pub use formats::layouts::{LAYOUTS, candle_table, layout, write_results_json, write_study_csv};
pub use formats::write::{Artifact, Out, Written};
pub use formats::{FORMATS, append_file, default_formats, format, rendered, write, write_file, write_formats};
pub use history::{Histories, HistoryJson, NamedHistory, history};
pub use job::{
    Ends, Explanation, Target, differences, disturbed, explained, explained_case, profile_json, verdict as job_verdict,
};
pub use listing::{ListedRecord, listed, table as listed_table};
pub use run::{Run, machine_line, profile_lines};
pub use terms::Error;
pub use words::caveats;
pub use words::damage::end_banner;
pub use words::expected::sentences as expected;
pub use words::intervals::interval_claim;
pub use words::peers::runtimes;
pub use words::price::Price;
pub use words::refused_limits::refused_limits;
pub use words::reproducible::sentences as reproducible;
pub use words::sentences::sentences;
pub use words::states::state_remedy;
pub use words::traffic::sentences as traffic;
pub use words::verdict::verdict_sentence;

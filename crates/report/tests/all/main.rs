//! The report from outside: invented runs in, files out.

mod cases_table;
mod charts;
mod data;
mod document;
mod expected;
mod explained;
mod files;
mod findings;
mod golden;
mod hostile;
mod hosts;
mod html;
mod incomplete;
mod inside;
mod large;
mod machines;
mod many;
mod parquet;
mod peers;
mod price;
mod record_on_disk;
mod side_by_side;
#[path = "../../../../tests/skip.rs"]
mod skip;
mod stranger;
mod structure;
mod tables;
mod together;
mod traffic;
mod tuner;
mod words;

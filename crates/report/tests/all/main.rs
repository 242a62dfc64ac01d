//! The report from outside: invented runs in, files out.

mod beside;
mod charts;
mod data;
mod expected;
mod files;
mod golden;
mod hostile;
mod hosts;
mod html;
mod large;
mod many;
mod peers;
mod record_on_disk;
mod words;

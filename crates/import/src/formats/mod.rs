//! One module a file format, and the table of them.

use crate::Format;

/// Every format, in the order in which files are tried: the most particular first.
pub static FORMATS: &[&dyn Format] = &[];

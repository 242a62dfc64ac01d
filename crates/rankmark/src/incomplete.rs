//! The warning on standard error of every command that reads a record whose run did not come to its end.

use std::path::Path;

use crate::screen;

/// Says that the record in this directory is incomplete; `banner` is what the record says of it ([`record::Record::banner`]).
pub(crate) fn warn(directory: &Path, banner: Option<&str>) {
    if let Some(banner) = banner {
        let line = view::one_line(&format!("{}: {banner}", directory.display()));
        screen::remark(&format!("warning: {line}\n"));
    }
}

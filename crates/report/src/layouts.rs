//! Layouts: the files of another tool's report, by its own names. A new one is a module with a [`Format`] and a line here.

mod allreduce_study;

use crate::{Error, Format, error};

use allreduce_study::AllreduceStudy;

/// Every layout.
pub static LAYOUTS: &[&dyn Format] = &[&AllreduceStudy];

/// The layout of this name.
///
/// # Errors
/// When there is none, with the valid values.
pub fn layout(name: &str) -> Result<&'static dyn Format, Error> {
    let wanted = terms::normalize(name);
    LAYOUTS.iter().copied().find(|layout| terms::normalize(layout.name()) == wanted).ok_or_else(|| {
        let names: Vec<&str> = LAYOUTS.iter().map(|layout| layout.name()).collect();
        error::unknown_format(format!("there is no layout `{name}` (valid values: {})", names.join(", ")))
    })
}

//! The table of report formats. A new one is a module with a [`Format`] and a line here.

use std::path::{Path, PathBuf};

use crate::contract::Format;
use crate::csv::Csv;
use crate::html::Html;
use crate::markdown::Markdown;
use crate::pictures::{Png, Svg};
use crate::write::Out;
use crate::{Error, Run, error};

/// Every format, in the order of help and of writing; the first file of the first is the one to read first.
pub static FORMATS: &[&dyn Format] = &[&Html, &Markdown, &Csv, &Svg, &Png];

/// The format of this name.
///
/// # Errors
/// When there is none, with the nearest name.
pub fn format(name: &str) -> Result<&'static dyn Format, Error> {
    let wanted = terms::normalize(name);
    let names = || FORMATS.iter().map(|format| format.name());
    FORMATS.iter().copied().find(|format| format.name() == wanted).ok_or_else(|| {
        let shown: String = name.chars().take(64).collect();
        error::unknown_format(match terms::nearest(name, names()) {
            Some(near) => format!("unknown report format `{shown}`, did you mean `{near}`?"),
            None => {
                format!("unknown report format `{shown}` (valid values: {})", names().collect::<Vec<_>>().join(", "))
            }
        })
    })
}

/// Writes the report in every format below `dir`, which is made if it is not there; returns the files, the one to read
/// first first. Files of an earlier report are replaced.
///
/// # Errors
/// When a file cannot be written or encoded; what was written before stays, and is whole.
pub fn write(run: &Run, dir: &Path) -> Result<Vec<PathBuf>, Error> {
    write_formats(run, dir, FORMATS)
}

/// As [`write()`], in some formats.
///
/// # Errors
/// As [`write()`].
pub fn write_formats(run: &Run, dir: &Path, formats: &[&dyn Format]) -> Result<Vec<PathBuf>, Error> {
    let mut out = Out::below(dir);
    formats.iter().try_for_each(|format| format.write(run, &mut out))?;
    Ok(out.into_written())
}

//! The table of report formats. A new one is a module with a [`Format`] and a line here.

pub(crate) mod bencher;
pub(crate) mod csv;
pub(crate) mod format;
pub(crate) mod html;
pub(crate) mod junit;
pub(crate) mod layouts;
pub(crate) mod markdown;
pub(crate) mod nccl_tuner;
pub(crate) mod parquet;
pub(crate) mod pdf;
pub(crate) mod pictures;
pub(crate) mod prometheus;
pub(crate) mod rows;
pub(crate) mod summary;
pub(crate) mod write;

use std::path::{Path, PathBuf};

use terms::UnknownName;

use crate::formats::bencher::Bencher;
use crate::formats::csv::Csv;
use crate::formats::format::Format;
use crate::formats::html::Html;
use crate::formats::junit::Junit;
use crate::formats::markdown::Markdown;
use crate::formats::nccl_tuner::NcclTuner;
use crate::formats::parquet::Parquet;
use crate::formats::pdf::Pdf;
use crate::formats::pictures::{Png, Svg};
use crate::formats::prometheus::Prometheus;
use crate::formats::summary::Summary;
use crate::formats::write::{Out, Written, append_to, put_at};
use crate::{Artifact, Error, Run, error};

/// Every format, in the order of help and of writing; the first file of the first is the one to read first.
pub static FORMATS: &[&dyn Format] =
    &[&Html, &Markdown, &Csv, &Svg, &Png, &Pdf, &Parquet, &Junit, &Prometheus, &Bencher, &Summary, &NcclTuner];

/// The formats of a report for which nobody names any.
pub fn default_formats() -> Vec<&'static dyn Format> {
    FORMATS.iter().copied().filter(|format| format.by_default()).collect()
}

/// The format of this name.
///
/// # Errors
/// When there is none, with the nearest name.
pub fn format(name: &str) -> Result<&'static dyn Format, Error> {
    let wanted = terms::normalize(name);
    let names = FORMATS.iter().map(|format| format.name()).collect();
    FORMATS
        .iter()
        .copied()
        .find(|format| terms::normalize(format.name()) == wanted)
        .ok_or_else(|| error::unknown_format(UnknownName::among("report format", name, names).to_string()))
}

/// Writes the report in the default formats below `dir`, which is made if it is not there; returns the files, the one to
/// read first first. Files of an earlier report are replaced.
///
/// # Errors
/// When a file cannot be written or encoded; what was written before stays, and is whole.
pub fn write(run: &Run, dir: &Path) -> Result<Vec<PathBuf>, Error> {
    write_formats(run, dir, &default_formats()).map(|written| written.files)
}

/// As [`write()`], in some formats, and in those that their files refer to, which are not among the files that are returned:
/// nobody asked for them.
///
/// # Errors
/// As [`write()`].
pub fn write_formats(run: &Run, dir: &Path, formats: &[&dyn Format]) -> Result<Written, Error> {
    let mut out = Out::below(dir);
    let named = |format: &&&'static dyn Format| formats.iter().any(|named| named.name() == format.name());
    let referred =
        |format: &&&'static dyn Format| formats.iter().any(|other| other.refers_to().contains(&format.name()));
    let more = FORMATS.iter().filter(referred).filter(|format| !named(format));
    formats.iter().try_for_each(|format| format.write(run, &mut out))?;
    let asked_for = out.written();
    more.copied().try_for_each(|format| format.write(run, &mut out))?;
    let mut written = out.into_written();
    written.files.truncate(asked_for);
    Ok(written)
}

/// Writes a format that is one file at a path of the user's; returns what one should know of it.
///
/// # Errors
/// As [`write()`].
pub fn write_file(run: &Run, format: &dyn Format, path: &Path) -> Result<Option<String>, Error> {
    let file = only(format.render(run)?, format)?;
    put_at(path, &file.content).map(|()| file.remark)
}

/// The report of a format that is one file, as its bytes.
///
/// # Errors
/// As [`write()`].
pub fn rendered(run: &Run, format: &dyn Format) -> Result<Vec<u8>, Error> {
    only(format.render(run)?, format).map(|file| file.content)
}

/// As [`write_file`], behind what the file holds.
///
/// # Errors
/// As [`write()`].
pub fn append_file(run: &Run, format: &dyn Format, path: &Path) -> Result<(), Error> {
    only(format.render(run)?, format).and_then(|file| append_to(path, &file.content))
}

fn only(mut files: Vec<Artifact>, format: &dyn Format) -> Result<Artifact, Error> {
    match files.pop().filter(|_| files.is_empty()) {
        Some(file) => Ok(file),
        None => Err(Error::new(format!("`{}` is not one file", format.name()))),
    }
}

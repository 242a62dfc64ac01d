//! The table of report formats. A new one is a module with a [`Format`] and a line here.

use crate::csv::Csv;
use crate::markdown::Markdown;
use crate::pictures::{Png, Svg};
use crate::write::Out;
use crate::{Artifact, Error, Run, error};

/// A report format.
pub trait Format: Sync {
    /// Its one spelling.
    fn name(&self) -> &'static str;
    /// One line for help.
    fn doc(&self) -> &'static str;
    /// Its files.
    ///
    /// # Errors
    /// When a file cannot be encoded.
    fn render(&self, run: &Run) -> Result<Vec<Artifact>, Error>;
    /// Writes the files. A format that makes them piece by piece need not hold them whole.
    ///
    /// # Errors
    /// When a file cannot be encoded or written.
    fn write(&self, run: &Run, out: &mut Out<'_>) -> Result<(), Error> {
        self.render(run)?.iter().try_for_each(|file| out.put(file))
    }
}

/// Every format, in the order of help and of writing; the first file of the first is the one to read first.
pub static FORMATS: &[&dyn Format] = &[&Markdown, &Csv, &Svg, &Png];

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

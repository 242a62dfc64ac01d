//! What a report format must do.

use crate::formats::write::Out;
use crate::{Artifact, Error, Run};

/// A report format.
pub trait Format: Sync {
    /// The one spelling of the format's name, and one line for help.
    fn about(&self) -> (&'static str, &'static str);
    /// The name of the format.
    fn name(&self) -> &'static str {
        self.about().0
    }
    /// One line about it.
    fn doc(&self) -> &'static str {
        self.about().1
    }
    /// Whether a report has it where nobody names formats. False of what another tool reads, and of what needs another
    /// program.
    fn by_default(&self) -> bool {
        true
    }
    /// Names of the formats with files that its own refer to: they are written with it.
    fn refers_to(&self) -> &'static [&'static str] {
        &[]
    }
    /// Files of the report.
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

//! What a file format is.

use terms::Error;

use crate::{Content, Source};

/// One file format of one tool.
pub trait Format: Sync {
    /// The name of the format in `--format` and in `rankmark list imports`, and one line about it: the program that writes such
    /// files, and what they hold.
    fn about(&self) -> (&'static str, &'static str);

    /// The name of the format.
    fn name(&self) -> &'static str {
        self.about().0
    }

    /// One line about it.
    fn doc(&self) -> &'static str {
        self.about().1
    }

    /// Whether a file looks like this format: by what no other format has. Never by the file's name alone.
    fn recognises(&self, source: &Source) -> bool;

    /// Whether a file is one document, as JSON is: its own syntax tells whether it is whole. Files of lines may end within one.
    fn is_document(&self) -> bool {
        false
    }

    /// Whether a line begins what its tool prints: the head of a run or of a table. In a file of several tools, what stands
    /// behind it is read as this format until another one begins. Formats whose every line names itself have none.
    fn begins(&self, _line: &str) -> bool {
        false
    }

    /// What a file of this format has, for a message about one that is nearly such a file: the words that are looked for.
    fn marks(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether its files are logs of trainings. Two programs of one training, as a trainer and the library below it, print the same
    /// steps in their own ways: one of them is read.
    fn is_of_trainings(&self) -> bool {
        false
    }

    /// Whether what it becomes depends on the torch of the user's Python (`Here::torch`).
    fn uses_torch(&self) -> bool {
        false
    }

    /// Whether its tool puts the results of several runs below one output directory.
    fn shares_output_dir(&self) -> bool {
        false
    }

    /// Reads a file.
    ///
    /// # Errors
    /// What is wrong, with the line and what was expected there. A version that this reader does not know is refused by name.
    fn read(&self, source: &Source) -> Result<Content, Error>;
}

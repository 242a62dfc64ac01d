//! Files that hold what several tools printed, as a job that validates a cluster writes them.

use terms::Error;

use crate::{Content, Format, ImportedFile, Results, Source, read_as};

/// Reads a file as each of these formats. What one tool printed is hidden from the readers of the others.
///
/// # Errors
/// The first one, where no format can read anything.
pub(crate) fn read(source: &Source, formats: &[&'static dyn Format]) -> Result<ImportedFile, Error> {
    let (mut all, mut failed): (Vec<Results>, Vec<Error>) = (Vec::new(), Vec::new());
    let mut first = None;
    for format in formats {
        match read_as(&only(source, *format, formats), *format) {
            Ok(Content::Results(results)) => {
                first = first.or(Some(*format));
                all.extend(results.into_iter().map(|results| results.read_as(format.name())));
            }
            // A plan is a document.
            Ok(Content::Plan(_)) => {}
            Err(error) => failed.push(error),
        }
    }
    let Some(format) = first else {
        return Err(match failed.is_empty() {
            false => failed.remove(0),
            true => Error::new(format!("{} holds no results", source.name())),
        });
    };
    if let Some(first) = all.first_mut() {
        failed.iter().for_each(|error| first.leave_out(error.sentence()));
    }
    Ok(ImportedFile { format, content: Content::Results(all) })
}

/// The file with the lines of other tools blank, so that lines keep their numbers. Behind the head of another tool, that is what
/// begins like a table: with `#` or a number. Command lines and headings between tables are for all to see.
fn only(source: &Source, format: &'static dyn Format, formats: &[&'static dyn Format]) -> Source {
    let mut of: Option<&'static dyn Format> = None;
    let mut hidden = Vec::new();
    for line in source.lines() {
        let begins = formats.iter().copied().find(|format| format.begins(line.text));
        of = begins.or(of);
        let is_other = of.is_some_and(|of| of.name() != format.name());
        let text = line.text.trim_start();
        // No tool prints two of them: `## After` is a heading of a document.
        let is_of_table =
            !text.starts_with("##") && text.starts_with(|first: char| first == '#' || first.is_ascii_digit());
        if is_other && (begins.is_some() || is_of_table) {
            hidden.push(line.number);
        }
    }
    source.without(&hidden)
}

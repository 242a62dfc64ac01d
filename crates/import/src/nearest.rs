//! Why a file is not read: the format that it is nearest to, and what that one has in addition.

use terms::Error;

use crate::{FORMATS, Format, Source};

/// The refusal of a file that no format recognises.
pub(crate) fn refusal(source: &Source) -> Error {
    let error = Error::new(format!("no format recognises {}", source.name()));
    let list = "`rankmark list imports` names what can be read; `--format NAME` reads it as that format";
    if source.text().trim().is_empty() {
        return error.cause("it is empty").hint(list);
    }
    let has = |mark: &&&str| source.text().contains(**mark);
    let count = |format: &&dyn Format| format.marks().iter().filter(has).count();
    let nearest = FORMATS.iter().copied().filter(|format| count(format) > 0).max_by(|a, b| {
        // As a share: a format of few marks is not further away.
        let share = |format: &&dyn Format| count(format) * 1000 / format.marks().len().max(1);
        share(a).cmp(&share(b))
    });
    let Some(nearest) = nearest else {
        return error.cause("no line of it looks like the results of a known tool").hint(list);
    };
    let quoted = |has_it: bool| {
        let marks = nearest.marks().iter().filter(|mark| has(mark) == has_it).map(|mark| format!("`{mark}`"));
        marks.collect::<Vec<_>>().join(", ")
    };
    let missing = match quoted(false) {
        missing if missing.is_empty() => "a whole line of it is missing".to_owned(),
        missing => format!("{missing} is missing"),
    };
    let cause =
        format!("it is closest to {} ({}): {} was found, {missing}", nearest.name(), nearest.doc(), quoted(true));
    error.cause(cause).hint(list)
}

//! Files that hold results of several programs: what of them is not read.

use super::FORMATS;
use crate::{Results, Source};

/// Says of a file of lines which other formats it holds, too: they are read one at a time.
pub(super) fn tell_others(source: &Source, own: &str, results: &mut [Results]) {
    let Some(first) = results.first_mut() else { return };
    let others = FORMATS.iter().filter(|format| format.name() != own && !format.is_document());
    for format in others.filter(|format| format.recognises(source)) {
        let name = format.name();
        first.leave_out(format!("results of `{name}`: `--format {name}` reads them from the same file"));
    }
}

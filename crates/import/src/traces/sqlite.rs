//! Exports of Nsight Systems as SQLite: recognised always, read where this program was built with the feature `nsys`.

use terms::Error;

use super::input::Input;
use super::{TraceContent, TraceFormat};

#[cfg(feature = "nsys")]
mod nsys;
#[cfg(all(test, feature = "nsys"))]
mod tests;

/// The format of Nsight Systems.
pub(super) const NSYS: TraceFormat = TraceFormat {
    name: "nsys_sqlite",
    doc: "Nsight Systems: the file that nsys export --type sqlite writes",
    recognises: |input| input.head().starts_with(b"SQLite format 3\0"),
    read,
};

#[cfg(feature = "nsys")]
fn read(input: &Input) -> Result<TraceContent, Error> {
    if input.is_gzip() {
        return Err(Error::new(format!("{} is a packed SQLite file", input.name())).hint("unpack it with gunzip"));
    }
    let named = |error: Error| Error { what: format!("{}: {}", input.name(), error.what), ..error };
    nsys::read(input.path()).map(|spans| TraceContent::Spans(Box::new(spans))).map_err(named)
}

#[cfg(not(feature = "nsys"))]
fn read(input: &Input) -> Result<TraceContent, Error> {
    Err(Error::new(format!("{} cannot be read", input.name()))
        .cause("this program was built without the reader of SQLite files (`--no-default-features`)")
        .hint("`cargo install --path crates/rankmark --locked` builds one that has it, and wheels have it"))
}

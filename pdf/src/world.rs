//! What typst sees: the template and the data of one document, fonts of this program, and nothing else.

use std::sync::LazyLock;

use typst::diag::{FileError, FileResult};
use typst::foundations::{Bytes, Datetime, Duration};
use typst::syntax::{FileId, RootedPath, Source, VirtualPath, VirtualRoot};
use typst::text::{Font, FontBook};
use typst::utils::LazyHash;
use typst::{Library, LibraryExt, World};

/// The font of the charts, so that text and charts look alike; then typst's own, for code and for other scripts.
static FONTS: LazyLock<Vec<Font>> = LazyLock::new(|| {
    let own: [&'static [u8]; 2] = [
        include_bytes!("../../crates/report/fonts/Arimo-Regular.ttf"),
        include_bytes!("../../crates/report/fonts/Arimo-Bold.ttf"),
    ];
    own.into_iter().chain(typst_assets::fonts()).flat_map(|data| Font::iter(Bytes::new(data))).collect()
});

/// The two files.
pub struct Page {
    library: LazyHash<Library>,
    book: LazyHash<FontBook>,
    template: Source,
    data: (FileId, Bytes),
}

impl Page {
    /// A page of this data (JSON).
    pub fn new(data: Vec<u8>) -> Self {
        Self {
            library: LazyHash::new(<Library as LibraryExt>::default()),
            book: LazyHash::new(FontBook::from_fonts(FONTS.iter())),
            template: Source::new(named("report.typ"), include_str!("report.typ").to_owned()),
            data: (named("document.json"), Bytes::new(data)),
        }
    }
}

fn named(name: &str) -> FileId {
    let path = VirtualPath::new(name).expect("a plain name is a path");
    FileId::new(RootedPath::new(VirtualRoot::Project, path))
}

impl World for Page {
    fn library(&self) -> &LazyHash<Library> {
        &self.library
    }

    fn book(&self) -> &LazyHash<FontBook> {
        &self.book
    }

    fn main(&self) -> FileId {
        self.template.id()
    }

    fn source(&self, id: FileId) -> FileResult<Source> {
        if id == self.template.id() { Ok(self.template.clone()) } else { Err(FileError::AccessDenied) }
    }

    fn file(&self, id: FileId) -> FileResult<Bytes> {
        if id == self.data.0 { Ok(self.data.1.clone()) } else { Err(FileError::AccessDenied) }
    }

    fn font(&self, index: usize) -> Option<Font> {
        FONTS.get(index).cloned()
    }

    /// The same record gives the same bytes on every day.
    fn today(&self, _: Option<Duration>) -> Option<Datetime> {
        None
    }
}

//! Where samples come from: made up, or mapped from a file; read ahead on a thread of its own.
//!
//! A sample is a function of its index alone. Every rank asks for the samples of its replica, so that data is sharded
//! without anybody dealing it out, and a run with other ranks trains on the same samples.

mod images;
mod prefetch;
mod samples;
mod synthetic;
mod tokens;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use contract::fields::problem;
use measure::Failure;
use memmap2::Mmap;
use model::Input;
use parallel::{Recipe, Source};
use terms::FieldError;

use self::images::ImageFile;
use self::prefetch::{Prefetched, SamplePlaces};
use self::samples::{Depth, Samples};
use self::synthetic::Synthetic;
use self::tokens::TokenFile;
use super::fields::{DataKind, Fields};

/// Where a case's samples come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Made up from the seed.
    Synthetic,
    /// Mapped.
    File { path: PathBuf, kind: DataKind },
}

impl Origin {
    /// What the case's fields say; a file holds what the model takes, if nothing else is said.
    pub(super) fn new(fields: &Fields, input: &Input) -> Self {
        let Some(path) = &fields.data_mmap else { return Self::Synthetic };
        let usual = if matches!(input, Input::Image { .. }) { DataKind::Images } else { DataKind::U16 };
        Self::File { path: path.into(), kind: fields.data_kind.unwrap_or(usual) }
    }

    /// Whether a file is whole, of its type, and holds what the model takes.
    ///
    /// # Errors
    /// What is wrong with it, with numbers.
    pub(super) fn check(&self, input: &Input) -> Result<(), FieldError> {
        self.samples(input, 0, Depth::Whole).map(drop).map_err(|message| {
            problem(
                "data_mmap",
                message,
                "docs/reference/data-files.md says what data files hold; without one, data is synthetic",
            )
        })
    }

    fn samples(&self, input: &Input, seed: u64, depth: Depth) -> Result<Arc<dyn Samples>, String> {
        let Self::File { path, kind } = self else { return Ok(Arc::new(Synthetic::new(*input, seed))) };
        let named = |message: String| format!("{}: {message}", path.display());
        match (*input, *kind) {
            (Input::Tokens { vocabulary, sequence, next }, DataKind::U16 | DataKind::U32) => {
                let width = if *kind == DataKind::U16 { 2 } else { 4 };
                let file = map(path).and_then(|map| TokenFile::new(map, width, vocabulary, sequence, next));
                let file = file.map_err(named)?;
                file.inspect(depth).map_err(named)?;
                Ok(Arc::new(file))
            }
            (Input::Image { height, width, channels, classes }, DataKind::Images) => {
                let wanted = [height, width, channels];
                Ok(Arc::new(map(path).and_then(|map| ImageFile::new(map, wanted, classes)).map_err(named)?))
            }
            (Input::Tokens { .. }, DataKind::Images) => Err(named("the model needs tokens, not images".to_owned())),
            (Input::Image { .. }, _) => Err(named("the model needs images, not tokens".to_owned())),
            (Input::Vector { .. }, _) => Err(named("the model needs vectors, which no file holds".to_owned())),
        }
    }

    /// The samples of one replica, read ahead on a thread that may run on `cores`.
    ///
    /// # Errors
    /// When the file is not what it was when the plan was checked, or no thread can be had.
    pub(super) fn open(&self, recipe: &Recipe, replica: usize, cores: &[u32]) -> Result<Box<dyn Source>, Failure> {
        let samples = self.samples(&recipe.model.input, recipe.seed, Depth::Header).map_err(Failure::new)?;
        let source = Prefetched::start(samples, recipe.model.input, SamplePlaces::from_recipe(recipe, replica), cores);
        Ok(Box::new(source.map_err(|error| Failure::lacking(format!("the data thread did not start: {error}")))?))
    }
}

/// Bytes that a rank of this replica holds to read ahead.
pub(super) fn held(recipe: &Recipe, replica: usize) -> u64 {
    SamplePlaces::from_recipe(recipe, replica).bytes(recipe.model.input) as u64
}

/// Maps a file.
fn map(path: &Path) -> Result<Mmap, String> {
    let file = record::file::open_named(path).map_err(|error| error.to_string())?;
    let about = file.metadata().map_err(|error| error.to_string())?;
    if about.len() == 0 {
        return Err("it is empty: 0 bytes".to_owned());
    }
    // SAFETY: the mapping is only read. A process that cuts the file short while it is mapped ends the rank by a signal, which
    // its coordinator reports; bytes that change are read as one value or the other, and every token is checked.
    unsafe { Mmap::map(&file) }.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;

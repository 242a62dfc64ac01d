//! Opening a backend by name, with the wrappers that the options ask for.

use terms::UnknownName;

use crate::{Abort, BACKENDS, Bootstrap, Communicator, Error, Options, Result, backend};

/// Opens the backend of this name and wraps it as the options demand. Collective.
///
/// # Errors
/// [`Error::UnknownBackend`] with the nearest name; what the backend could not open.
pub fn open(name: &str, bootstrap: &mut dyn Bootstrap, options: &Options) -> Result<(Box<dyn Communicator>, Abort)> {
    let backend = backend(name).ok_or_else(|| unknown(name))?;
    let (communicator, abort) = backend.open(bootstrap, options)?;
    Ok((communicator, abort))
}

fn unknown(name: &str) -> Error {
    let known: Vec<&'static str> = BACKENDS.iter().map(|backend| backend.about().name).collect();
    let nearest = terms::nearest(name, known.iter().copied());
    Error::UnknownBackend(UnknownName { kind: "backend", word: name.to_owned(), nearest, known })
}

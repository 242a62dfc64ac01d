//! Opening a backend by name, with the wrappers that the options ask for.

use terms::UnknownName;

use crate::{Abort, Bootstrap, Communicator, Error, Options, Paced, Progress, Result, Threaded, backend, backends};

/// Opens the backend of this name and wraps it as the options demand: paced, and around that a progress thread where
/// nothing else makes work proceed, so that the thread and not the caller sleeps until a deadline. Collective.
///
/// Observing is the caller's, outermost: see [`crate::Observed`].
///
/// # Errors
/// [`Error::UnknownBackend`] with the nearest name; what the backend could not open.
pub fn open(name: &str, bootstrap: &mut dyn Bootstrap, options: &Options) -> Result<(Box<dyn Communicator>, Abort)> {
    let backend = backend(name).ok_or_else(|| unknown(name))?;
    let (mut communicator, abort) = backend.open(bootstrap, options)?;
    if let Some(pace) = options.pace {
        communicator = Box::new(Paced::new(communicator, pace, abort.clone(), options));
    }
    let progress = communicator.shape().capabilities.progress;
    if options.progress_thread && matches!(progress, Progress::Caller | Progress::Poll) {
        communicator = Box::new(Threaded::new(communicator, abort.clone(), options)?);
    }
    Ok((communicator, abort))
}

fn unknown(name: &str) -> Error {
    let known = backends().map(|backend| backend.about().name).collect();
    Error::UnknownBackend(UnknownName::among("backend", name, known))
}

//! How the waits of a communicator are ended from outside.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Error, Result};

/// Ends all waits of a communicator and its splits: every wait polls it. Any thread may raise it.
#[derive(Clone, Debug, Default)]
pub struct Abort(Arc<AtomicBool>);

impl Abort {
    /// Ends all waits, now and from now on.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether it was raised.
    #[inline]
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// [`Error::Aborted`] once raised.
    ///
    /// # Errors
    /// When raised.
    #[inline]
    pub fn check(&self) -> Result<()> {
        if self.is_raised() { Err(Error::Aborted) } else { Ok(()) }
    }
}

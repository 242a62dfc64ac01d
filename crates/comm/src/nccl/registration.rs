//! Buffers that are registered with a communicator, so that the library need not look them up, or moves their data without a copy.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use device::Region;
use terms::Registration;

use super::since::{LOCAL, WINDOW, needed};
use super::symbols::{Code, Comm, NAME, Symbols};
use crate::{Error, Result};

/// NCCL_WIN_COLL_SYMMETRIC: all ranks register the same part of equal buffers.
const SYMMETRIC: c_int = 1;

/// A registered buffer; drop it before its communicator ends. Keeps the buffer.
pub(super) struct Registered {
    symbols: Arc<Symbols>,
    comm: Comm,
    /// Whether the communicator is still there: with it everything registered went.
    alive: Arc<AtomicBool>,
    handle: *mut c_void,
    how: Registration,
    _region: Arc<Region>,
}

// SAFETY: handles of the library's, which any one thread at a time may use.
unsafe impl Send for Registered {}

impl Registered {
    /// Registers a buffer of device memory. Collective for windows.
    pub(super) fn new(
        symbols: &Arc<Symbols>,
        (comm, alive): (Comm, Arc<AtomicBool>),
        region: &Arc<Region>,
        how: Registration,
    ) -> Result<Self> {
        let (address, bytes) = (region.address() as *mut c_void, region.len());
        let mut handle = std::ptr::null_mut();
        let (name, code): (&str, Code) = match how {
            Registration::Local => {
                let register = needed(symbols.register, &LOCAL, symbols)?;
                // SAFETY: as nccl.h declares it: the region's memory, and a valid out-pointer.
                ("ncclCommRegister", unsafe { register(comm, address, bytes, &mut handle) })
            }
            Registration::Window => {
                let register = needed(symbols.window_register, &WINDOW, symbols)?;
                // SAFETY: as above.
                ("ncclCommWindowRegister", unsafe { register(comm, address, bytes, &mut handle, SYMMETRIC) })
            }
        };
        symbols.succeeded(name, Some(comm), code)?;
        if handle.is_null() {
            let what = "make a window of this memory: the library does not support windows on these devices".to_owned();
            return Err(Error::Unsupported { backend: NAME, what });
        }
        Ok(Self { symbols: symbols.clone(), comm, alive, handle, how, _region: region.clone() })
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let give_back = match self.how {
            Registration::Local => self.symbols.deregister,
            Registration::Window => self.symbols.window_deregister,
        };
        if let Some(give_back) = give_back.filter(|_| self.alive.load(Ordering::Acquire)) {
            // What the library says when things end, nobody can act on.
            // SAFETY: as nccl.h declares it: the communicator is alive, and gave the handle.
            unsafe { give_back(self.comm, self.handle) };
        }
    }
}

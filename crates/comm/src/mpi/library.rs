//! A shared library opened at run time: found by name or path, never closed, its symbols by name.

use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;

/// An open library. Never closed: it has threads, handlers at exit and memory of its own, which nothing here could stop.
pub(super) struct Library {
    handle: *mut c_void,
}

// SAFETY: the handle is a token for the loader, which locks by itself; nothing is written through it.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// Opens the library of this name (searched as the system's loader does) or path, with its symbols visible to what it
    /// opens itself: components of an MPI library find its symbols only so.
    ///
    /// # Errors
    /// The loader's own words.
    pub(super) fn open(name: &str) -> Result<Self, String> {
        let text = CString::new(name).map_err(|_| format!("`{name}` holds a zero byte"))?;
        // SAFETY: `text` is a terminated string; constructors of the library run, which is what opening it means.
        let handle = unsafe { libc::dlopen(text.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if handle.is_null() { Err(loader_says()) } else { Ok(Self { handle }) }
    }

    /// Where the symbol lies; None where the library has no such symbol.
    pub(super) fn symbol(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the handle is open for ever, and `name` is a terminated string.
        let address = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        (!address.is_null()).then_some(address)
    }

    /// The file that the symbol at this address was loaded from.
    pub(super) fn file_of(address: *mut c_void) -> Option<String> {
        // SAFETY: all zeros are valid for this plain structure, and the call only fills it in.
        let found = unsafe {
            let mut found: libc::Dl_info = std::mem::zeroed();
            if libc::dladdr(address, &mut found) == 0 || found.dli_fname.is_null() {
                return None;
            }
            CStr::from_ptr(found.dli_fname)
        };
        let path = std::path::Path::new(std::ffi::OsStr::from_bytes(found.to_bytes()));
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        Some(path.to_string_lossy().into_owned())
    }
}

/// Why the loader refused.
fn loader_says() -> String {
    // SAFETY: the loader's message is a terminated string that stays until its next call on this thread.
    let text = unsafe {
        let text = libc::dlerror();
        if text.is_null() {
            return "the loader does not say why".to_owned();
        }
        CStr::from_ptr(text)
    };
    text.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_opened_or_the_loader_says_why_not() {
        let library = Library::open("libc.so.6").unwrap();
        let address = library.symbol(c"malloc").expect("it has that");
        assert!(Library::file_of(address).is_some_and(|path| path.contains("libc")));
        assert!(library.symbol(c"no_such_symbol_here").is_none());
        let missing = Library::open("libno-such-library.so.1").err().expect("there is none");
        assert!(missing.contains("libno-such-library.so.1"), "{missing}");
        assert!(Library::open("a\0b").is_err());
    }
}

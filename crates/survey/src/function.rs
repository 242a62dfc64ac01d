//! Functions of libraries that are open, by name.

use std::ffi::CStr;
use std::ptr::NonNull;

use comm::library::Library;

/// A function of the library, of the type that is asked for.
///
/// # Safety
/// `F` is a function pointer of the form that the library's header declares for this name.
pub(super) unsafe fn function<F: Copy>(library: &Library, name: &CStr) -> Result<F, String> {
    const { assert!(size_of::<F>() == size_of::<NonNull<()>>(), "a function pointer") };
    let symbol = library.symbol(name)?;
    // SAFETY: both are one address; the form is the caller's promise.
    Ok(unsafe { std::mem::transmute_copy(&symbol) })
}

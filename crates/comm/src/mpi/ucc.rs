//! Whether UCC really moves the data. Open MPI leaves a component out that cannot be loaded (no libucc, say), and coll/ucc
//! turns itself off where UCC does not start or makes no team: both without an error, and the library's own algorithms
//! would be measured under UCC's name. Its switch, a variable of MPI's tools interface, tells: it is absent, or zero.

use std::ffi::{CStr, c_char, c_int, c_void};

use super::library::Library;
use super::opened::Opened;
use crate::{Error, Result};

/// Set by `--mca coll_ucc_enable 1`, and set to zero by the component itself where something of UCC fails.
const SWITCH: &CStr = c"coll_ucc_enable";

/// Refuses a library whose coll/ucc is not in use, once communicators have been made.
///
/// # Errors
/// What became of it.
pub(super) fn check(opened: &Opened) -> Result<()> {
    let why = match value(&opened.library, SWITCH) {
        Ok(Some(0)) => {
            "UCC was asked for and has turned itself off (`coll_ucc_verbose` and UCC_LOG_LEVEL in `env` tell why)"
        }
        Ok(Some(_)) => return Ok(()),
        Ok(None) => "it has no coll/ucc that can be loaded (`mca_base_component_show_load_errors` tells why)",
        Err(why) => why,
    };
    let what = format!("use UCC's collectives of {} ({}): {why}", opened.facts.version(), opened.facts.path);
    Err(Error::Unsupported { backend: "mpi", what })
}

type Init = unsafe extern "C" fn(c_int, *mut c_int) -> c_int;
type GetIndex = unsafe extern "C" fn(*const c_char, *mut c_int) -> c_int;
type HandleAlloc = unsafe extern "C" fn(c_int, *mut c_void, *mut *mut c_void, *mut c_int) -> c_int;
type Read = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type HandleFree = unsafe extern "C" fn(*mut *mut c_void) -> c_int;
type Finalize = unsafe extern "C" fn() -> c_int;

const LACKS: &str = "it lacks MPI's tools interface, which tells whether UCC is in use";

/// MPI_THREAD_SINGLE of Open MPI.
const SINGLE: c_int = 0;

/// A control variable that is one `int`; None where the library has none of this name.
fn value(library: &Library, name: &CStr) -> std::result::Result<Option<c_int>, &'static str> {
    // SAFETY: each is of the form that the MPI standard declares for its name.
    let (init, finalize) = unsafe {
        let init = function::<Init>(library, c"MPI_T_init_thread").ok_or(LACKS)?;
        (init, function::<Finalize>(library, c"MPI_T_finalize").ok_or(LACKS)?)
    };
    let mut provided = 0;
    // SAFETY: an out-pointer; it may be called before, after and beside MPI_Init.
    if unsafe { init(SINGLE, &mut provided) } != 0 {
        return Err("MPI_T_init_thread failed");
    }
    let value = read(library, name);
    // SAFETY: initialised above, and no handle of ours is left. What goes wrong here concerns nobody.
    unsafe { finalize() };
    value
}

fn read(library: &Library, name: &CStr) -> std::result::Result<Option<c_int>, &'static str> {
    // SAFETY: each is of the form that the MPI standard declares for its name.
    let (get_index, allocate, read, free) = unsafe {
        (
            function::<GetIndex>(library, c"MPI_T_cvar_get_index").ok_or(LACKS)?,
            function::<HandleAlloc>(library, c"MPI_T_cvar_handle_alloc").ok_or(LACKS)?,
            function::<Read>(library, c"MPI_T_cvar_read").ok_or(LACKS)?,
            function::<HandleFree>(library, c"MPI_T_cvar_handle_free").ok_or(LACKS)?,
        )
    };
    let (mut index, mut count, mut handle) = (0, 0, std::ptr::null_mut());
    // SAFETY: a terminated string and an out-pointer.
    if unsafe { get_index(name.as_ptr(), &mut index) } != 0 {
        return Ok(None);
    }
    // SAFETY: an index that the library gave, of a variable that belongs to no object, and out-pointers.
    if unsafe { allocate(index, std::ptr::null_mut(), &mut handle, &mut count) } != 0 {
        return Err("MPI_T_cvar_handle_alloc failed");
    }
    let mut value: c_int = 0;
    // SAFETY: a live handle; only where it is of one element, which is an `int`, is there room for it.
    let code = if count == 1 { unsafe { read(handle, (&raw mut value).cast()) } } else { -1 };
    // SAFETY: the handle is not used again.
    unsafe { free(&mut handle) };
    if code == 0 { Ok(Some(value)) } else { Err("MPI_T_cvar_read failed") }
}

/// A function of the library, of the type that is asked for.
///
/// # Safety
/// `F` is a function pointer of the form that MPI declares for this name.
unsafe fn function<F: Copy>(library: &Library, name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>(), "a function pointer") };
    // SAFETY: both are one address; the form is the caller's promise.
    library.symbol(name).map(|symbol| unsafe { std::mem::transmute_copy(&symbol) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_without_the_tools_interface_is_said_to_lack_it() {
        let library = Library::open("libc.so.6").unwrap();
        assert!(value(&library, SWITCH).unwrap_err().contains("lacks MPI's tools interface"));
    }
}

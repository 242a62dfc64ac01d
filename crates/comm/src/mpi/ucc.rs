//! Whether UCC really moves the data. Open MPI leaves a component out that cannot be loaded (no libucc, say), and coll/ucc
//! turns itself off where UCC does not start or makes no team: both without an error, and the library's own algorithms
//! would be measured under UCC's name. Its switch, a variable of MPI's tools interface, tells: it is absent, or zero.
//! Another says which operations it takes. That UCC refuses a single call (an exchange in place) nothing tells.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::ManuallyDrop;

use terms::{Collective, Named as _};

use super::MpiProgress;
use super::communicator::name;
use super::library::Library;
use super::opened::Opened;
use crate::{Error, Result};

/// Set by `--mca coll_ucc_enable 1`, and set to zero by the component itself where something of UCC fails.
const SWITCH: &CStr = c"coll_ucc_enable";

/// Types of operations that it takes: those that it has, or what the user made of them.
const TYPES: &CStr = c"coll_ucc_cts";

/// Operations that coll/ucc leaves to the library's own algorithms, once communicators have been made.
///
/// # Errors
/// Why it is not in use at all.
pub(super) fn left_out(opened: &Opened, progress: MpiProgress) -> Result<Vec<Collective>> {
    let facts = &opened.facts;
    types(&opened.library).map(|types| outside(&types, progress)).map_err(|why| Error::Unsupported {
        backend: "mpi",
        what: format!("use UCC's collectives of {} ({}): {why}", facts.version(), facts.path),
    })
}

fn types(library: &Library) -> std::result::Result<String, &'static str> {
    let tools = Tools::load(library)?;
    let unloaded = "it has no coll/ucc that can be loaded (`mca_base_component_show_load_errors` shows why)";
    let switch = tools.value(SWITCH)?.ok_or(unloaded)?;
    if c_int::from_ne_bytes([switch[0], switch[1], switch[2], switch[3]]) == 0 {
        return Err(
            "UCC was asked for, but has turned itself off (`coll_ucc_verbose` and UCC_LOG_LEVEL in `env` show why)",
        );
    }
    let types = tools.value(TYPES)?.ok_or(unloaded)?;
    let text = CStr::from_bytes_until_nul(&types).map(CStr::to_string_lossy).unwrap_or_default();
    Ok(text.into_owned())
}

/// Operations that are not among these types ("allreduce,ibcast"), or are where they are excluded ("^allreduce", which
/// hides what it has). Messages between two ranks are none of its types.
fn outside(types: &str, progress: MpiProgress) -> Vec<Collective> {
    let (excluded, types) = types.strip_prefix('^').map_or((false, types), |types| (true, types));
    let takes = |op: Collective| {
        let name = name(op, progress).to_lowercase();
        types.split(',').any(|one| name.strip_prefix("mpi_") == Some(&one.to_lowercase())) != excluded
    };
    let messages = [Collective::SendRecv, Collective::PingPong];
    Collective::ALL.iter().copied().filter(|op| !messages.contains(op) && !takes(*op)).collect()
}

type Init = unsafe extern "C" fn(c_int, *mut c_int) -> c_int;
type GetIndex = unsafe extern "C" fn(*const c_char, *mut c_int) -> c_int;
type HandleAlloc = unsafe extern "C" fn(c_int, *mut c_void, *mut *mut c_void, *mut c_int) -> c_int;
type Read = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type HandleFree = unsafe extern "C" fn(*mut *mut c_void) -> c_int;
type Finalize = unsafe extern "C" fn() -> c_int;

const LACKS: &str = "it lacks MPI's tools interface, which shows whether UCC is in use";

/// MPI_THREAD_SINGLE of Open MPI.
const SINGLE: c_int = 0;

/// Longer than a variable of the environment or an argument can be: Open MPI does not say how long a text is.
const LONGEST: usize = 1 << 17;

/// MPI's tools interface, initialised.
struct Tools {
    get_index: GetIndex,
    allocate: HandleAlloc,
    read: Read,
    free: HandleFree,
    finalize: Finalize,
}

impl Tools {
    fn load(library: &Library) -> std::result::Result<Self, &'static str> {
        // SAFETY: each is of the form that the MPI standard declares for its name.
        let (init, tools) = unsafe {
            let init = function::<Init>(library, c"MPI_T_init_thread").ok_or(LACKS)?;
            // Not to be finalised before it is initialised.
            let tools = ManuallyDrop::new(Self {
                get_index: function(library, c"MPI_T_cvar_get_index").ok_or(LACKS)?,
                allocate: function(library, c"MPI_T_cvar_handle_alloc").ok_or(LACKS)?,
                read: function(library, c"MPI_T_cvar_read").ok_or(LACKS)?,
                free: function(library, c"MPI_T_cvar_handle_free").ok_or(LACKS)?,
                finalize: function(library, c"MPI_T_finalize").ok_or(LACKS)?,
            });
            (init, tools)
        };
        let mut provided = 0;
        // SAFETY: an out-pointer; it may be called before, after and concurrently with MPI_Init.
        let code = unsafe { init(SINGLE, &mut provided) };
        if code == 0 { Ok(ManuallyDrop::into_inner(tools)) } else { Err("MPI_T_init_thread failed") }
    }

    /// A control variable's bytes, a number or a text; None where the library has none of this name.
    fn value(&self, name: &CStr) -> std::result::Result<Option<Vec<u8>>, &'static str> {
        let (mut index, mut count, mut handle) = (0, 0, std::ptr::null_mut());
        // SAFETY: a terminated string and an out-pointer.
        if unsafe { (self.get_index)(name.as_ptr(), &mut index) } != 0 {
            return Ok(None);
        }
        // SAFETY: an index that the library gave, of a variable that belongs to no object, and out-pointers.
        if unsafe { (self.allocate)(index, std::ptr::null_mut(), &mut handle, &mut count) } != 0 {
            return Err("MPI_T_cvar_handle_alloc failed");
        }
        let mut value = vec![0u8; LONGEST.max(size_of::<u64>() * usize::try_from(count).unwrap_or(0))];
        // SAFETY: a live handle, and room for so many elements of any type and for the longest text.
        let code = unsafe { (self.read)(handle, value.as_mut_ptr().cast()) };
        // SAFETY: the handle is not used again.
        unsafe { (self.free)(&mut handle) };
        if code == 0 { Ok(Some(value)) } else { Err("MPI_T_cvar_read failed") }
    }
}

impl Drop for Tools {
    fn drop(&mut self) {
        // SAFETY: initialised, and no handle of ours is left. What goes wrong here concerns nobody.
        unsafe { (self.finalize)() };
    }
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
        assert!(types(&library).unwrap_err().contains("lacks MPI's tools interface"));
    }

    #[test]
    fn what_a_component_does_not_take_is_left_out() {
        use Collective::{AllReduce, Gather, ReduceScatter, Scatter};
        // Open MPI 4.1.4, where nothing is set.
        let old = "barrier,bcast,allreduce,alltoall,alltoallv,allgather,allgatherv,reduce,\
                   ibarrier,ibcast,iallreduce,ialltoall,ialltoallv,iallgather,iallgatherv,ireduce";
        for progress in [MpiProgress::None, MpiProgress::Poll] {
            let mut found = outside(old, progress);
            found.sort_by_key(|op| *op as u8);
            let mut expected = vec![ReduceScatter, Gather, Scatter];
            expected.sort_by_key(|op| *op as u8);
            assert_eq!(found, expected);
        }
        assert_eq!(outside("^AllReduce,igather", MpiProgress::None), [AllReduce]);
        assert!(outside("barrier,ibcast", MpiProgress::None).contains(&Collective::Broadcast));
    }
}

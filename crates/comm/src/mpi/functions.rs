//! The functions of an MPI library that are called here, resolved whole or not at all.
//!
//! One signature serves every ABI: a handle is passed as a word. A library with 32-bit integers as handles reads (and,
//! through pointers, writes) only the lower half. So every handle that a library fills in begins as zero.

use std::ffi::{CStr, c_char, c_int, c_void};

use super::library::Library;

/// A communicator, datatype, operator, request or error handler.
pub(super) type MpiHandle = usize;
type Buffer = *mut c_void;
type SourceRank = *const c_void;
type Ints = *const c_int;

/// What `MPI_Op_create` takes: elements of both, their number, their type.
pub(super) type UserFunction = extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut MpiHandle);

macro_rules! functions {
    ($($(#[$doc:meta])* $field:ident = $symbol:literal ($($argument:ty),*);)*) => {
        /// The table. Every function gives an error code, zero being none.
        pub(super) struct Functions {
            $($(#[$doc])* pub(super) $field: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl Functions {
            /// All functions of a library.
            ///
            /// # Errors
            /// The names of those that the library has not.
            pub(super) fn resolve(library: &Library) -> Result<Self, Vec<&'static str>> {
                let mut missing = Vec::new();
                $(
                    let $field = library.symbol(name_of(concat!($symbol, "\0")));
                    if $field.is_none() {
                        missing.push($symbol);
                    }
                )*
                let ($(Some($field),)*) = ($($field,)*) else { return Err(missing) };
                Ok(Self { $(
                    // SAFETY: the MPI standard gives the function of this name this signature, in words as wide as the
                    // module's documentation says.
                    $field: unsafe {
                        std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) -> c_int>($field)
                    },
                )* })
            }
        }
    };
}

functions! {
    get_library_version = "MPI_Get_library_version" (*mut c_char, *mut c_int);
    init_thread = "MPI_Init_thread" (*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int);
    finalize = "MPI_Finalize" ();
    error_string = "MPI_Error_string" (c_int, *mut c_char, *mut c_int);
    comm_set_errhandler = "MPI_Comm_set_errhandler" (MpiHandle, MpiHandle);
    comm_rank = "MPI_Comm_rank" (MpiHandle, *mut c_int);
    comm_size = "MPI_Comm_size" (MpiHandle, *mut c_int);
    comm_split = "MPI_Comm_split" (MpiHandle, c_int, c_int, *mut MpiHandle);
    comm_free = "MPI_Comm_free" (*mut MpiHandle);
    op_create = "MPI_Op_create" (UserFunction, c_int, *mut MpiHandle);
    reduce_local = "MPI_Reduce_local" (SourceRank, Buffer, c_int, MpiHandle, MpiHandle);
    test = "MPI_Test" (*mut MpiHandle, *mut c_int, Buffer);
    barrier = "MPI_Barrier" (MpiHandle);
    bcast = "MPI_Bcast" (Buffer, c_int, MpiHandle, c_int, MpiHandle);
    allreduce = "MPI_Allreduce" (SourceRank, Buffer, c_int, MpiHandle, MpiHandle, MpiHandle);
    reduce = "MPI_Reduce" (SourceRank, Buffer, c_int, MpiHandle, MpiHandle, c_int, MpiHandle);
    allgather = "MPI_Allgather" (SourceRank, c_int, MpiHandle, Buffer, c_int, MpiHandle, MpiHandle);
    reduce_scatter_block = "MPI_Reduce_scatter_block" (SourceRank, Buffer, c_int, MpiHandle, MpiHandle, MpiHandle);
    gather = "MPI_Gather" (SourceRank, c_int, MpiHandle, Buffer, c_int, MpiHandle, c_int, MpiHandle);
    scatter = "MPI_Scatter" (SourceRank, c_int, MpiHandle, Buffer, c_int, MpiHandle, c_int, MpiHandle);
    alltoall = "MPI_Alltoall" (SourceRank, c_int, MpiHandle, Buffer, c_int, MpiHandle, MpiHandle);
    alltoallv = "MPI_Alltoallv" (SourceRank, Ints, Ints, MpiHandle, Buffer, Ints, Ints, MpiHandle, MpiHandle);
    send = "MPI_Send" (SourceRank, c_int, MpiHandle, c_int, c_int, MpiHandle);
    recv = "MPI_Recv" (Buffer, c_int, MpiHandle, c_int, c_int, MpiHandle, Buffer);
    sendrecv = "MPI_Sendrecv" (SourceRank, c_int, MpiHandle, c_int, c_int, Buffer, c_int, MpiHandle, c_int, c_int, MpiHandle, Buffer);
    ibarrier = "MPI_Ibarrier" (MpiHandle, *mut MpiHandle);
    ibcast = "MPI_Ibcast" (Buffer, c_int, MpiHandle, c_int, MpiHandle, *mut MpiHandle);
    iallreduce = "MPI_Iallreduce" (SourceRank, Buffer, c_int, MpiHandle, MpiHandle, MpiHandle, *mut MpiHandle);
    ireduce = "MPI_Ireduce" (SourceRank, Buffer, c_int, MpiHandle, MpiHandle, c_int, MpiHandle, *mut MpiHandle);
    iallgather = "MPI_Iallgather" (SourceRank, c_int, MpiHandle, Buffer, c_int, MpiHandle, MpiHandle, *mut MpiHandle);
    ireduce_scatter_block =
        "MPI_Ireduce_scatter_block" (SourceRank, Buffer, c_int, MpiHandle, MpiHandle, MpiHandle, *mut MpiHandle);
    igather = "MPI_Igather" (SourceRank, c_int, MpiHandle, Buffer, c_int, MpiHandle, c_int, MpiHandle, *mut MpiHandle);
    iscatter = "MPI_Iscatter" (SourceRank, c_int, MpiHandle, Buffer, c_int, MpiHandle, c_int, MpiHandle, *mut MpiHandle);
    ialltoall = "MPI_Ialltoall" (SourceRank, c_int, MpiHandle, Buffer, c_int, MpiHandle, MpiHandle, *mut MpiHandle);
    ialltoallv =
        "MPI_Ialltoallv" (SourceRank, Ints, Ints, MpiHandle, Buffer, Ints, Ints, MpiHandle, MpiHandle, *mut MpiHandle);
    isend = "MPI_Isend" (SourceRank, c_int, MpiHandle, c_int, c_int, MpiHandle, *mut MpiHandle);
    irecv = "MPI_Irecv" (Buffer, c_int, MpiHandle, c_int, c_int, MpiHandle, *mut MpiHandle);
}

/// The name as the loader wants it.
fn name_of(terminated: &'static str) -> &'static CStr {
    CStr::from_bytes_with_nul(terminated.as_bytes()).unwrap_or_default()
}

impl Functions {
    /// What the library says of itself, also before it is initialised. Lines as it gives them.
    pub(super) fn library_version(&self) -> String {
        // The largest that any ABI asks for.
        text(8192, |to, length| {
            // SAFETY: room for the longest text, and an out-pointer for its length.
            unsafe { (self.get_library_version)(to, length) };
        })
    }

    /// What the library says of an error code.
    pub(super) fn explain(&self, code: c_int) -> String {
        text(1024, |to, length| {
            // SAFETY: room for more than the longest text of any ABI, and an out-pointer for its length.
            unsafe { (self.error_string)(code, to, length) };
        })
    }
}

fn text(room: usize, fill: impl FnOnce(*mut c_char, *mut c_int)) -> String {
    let (mut bytes, mut length) = (vec![0u8; room], 0);
    fill(bytes.as_mut_ptr().cast(), &mut length);
    let written = CStr::from_bytes_until_nul(&bytes).map(CStr::to_bytes).unwrap_or_default();
    String::from_utf8_lossy(written).trim().to_owned()
}

//! The library's functions, resolved whole or not at all; their forms are those of nccl.h.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::{Error, Result};

/// The backend's name.
pub(super) const NAME: &str = "nccl";

/// Names of the library's files, without `.so` and version.
pub static STEMS: &[&str] = &["libnccl", "librccl"];

/// Bytes of the name by which ranks find each other.
pub const UNIQUE_ID_BYTES: usize = 128;

/// ncclUniqueId: made by one rank, given to all of a new communicator.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UniqueId(pub [u8; UNIQUE_ID_BYTES]);

impl std::fmt::Debug for UniqueId {
    /// A process that knows it can join: it is not for logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("UniqueId(..)")
    }
}

/// ncclComm_t.
pub(super) type Comm = *mut c_void;
/// ncclResult_t; 0 is success.
pub(super) type Code = c_int;
/// cudaStream_t.
pub(super) type RawStream = *mut c_void;

/// ncclInProgress: a non-blocking communicator is at work.
pub(super) const IN_PROGRESS: Code = 7;

device::functions! {
    /// The table.
    pub struct Symbols;
    get_version = c"ncclGetVersion": fn(*mut c_int) -> Code;
    get_unique_id = c"ncclGetUniqueId": fn(*mut UniqueId) -> Code;
    get_error_string = c"ncclGetErrorString": fn(Code) -> *const c_char;
    get_last_error = c"ncclGetLastError": fn(Comm) -> *const c_char;
    init_rank = c"ncclCommInitRank": fn(*mut Comm, c_int, UniqueId, c_int) -> Code;
    split = c"ncclCommSplit": fn(Comm, c_int, c_int, *mut Comm, *mut c_void) -> Code;
    user_rank = c"ncclCommUserRank": fn(Comm, *mut c_int) -> Code;
    count = c"ncclCommCount": fn(Comm, *mut c_int) -> Code;
    destroy = c"ncclCommDestroy": fn(Comm) -> Code;
    abort = c"ncclCommAbort": fn(Comm) -> Code;
    async_error = c"ncclCommGetAsyncError": fn(Comm, *mut Code) -> Code;
    group_start = c"ncclGroupStart": fn() -> Code;
    group_end = c"ncclGroupEnd": fn() -> Code;
    all_reduce = c"ncclAllReduce": fn(*const c_void, *mut c_void, usize, c_int, c_int, Comm, RawStream) -> Code;
    reduce = c"ncclReduce": fn(*const c_void, *mut c_void, usize, c_int, c_int, c_int, Comm, RawStream) -> Code;
    broadcast = c"ncclBroadcast": fn(*const c_void, *mut c_void, usize, c_int, c_int, Comm, RawStream) -> Code;
    all_gather = c"ncclAllGather": fn(*const c_void, *mut c_void, usize, c_int, Comm, RawStream) -> Code;
    reduce_scatter = c"ncclReduceScatter": fn(*const c_void, *mut c_void, usize, c_int, c_int, Comm, RawStream) -> Code;
    send = c"ncclSend": fn(*const c_void, usize, c_int, c_int, Comm, RawStream) -> Code;
    recv = c"ncclRecv": fn(*mut c_void, usize, c_int, c_int, Comm, RawStream) -> Code;
    ? mem_alloc = c"ncclMemAlloc": fn(*mut *mut c_void, usize) -> Code;
    ? mem_free = c"ncclMemFree": fn(*mut c_void) -> Code;
    ? all_to_all = c"ncclAlltoAll": fn(*const c_void, *mut c_void, usize, c_int, Comm, RawStream) -> Code;
    ? gather = c"ncclGather": fn(*const c_void, *mut c_void, usize, c_int, c_int, Comm, RawStream) -> Code;
    ? scatter = c"ncclScatter": fn(*const c_void, *mut c_void, usize, c_int, c_int, Comm, RawStream) -> Code;
    ? register = c"ncclCommRegister": fn(Comm, *mut c_void, usize, *mut *mut c_void) -> Code;
    ? deregister = c"ncclCommDeregister": fn(Comm, *mut c_void) -> Code;
    ? window_register = c"ncclCommWindowRegister": fn(Comm, *mut c_void, usize, *mut *mut c_void, c_int) -> Code;
    ? window_deregister = c"ncclCommWindowDeregister": fn(Comm, *mut c_void) -> Code;
}

impl Symbols {
    /// The library's version, as `2.29.3`.
    ///
    /// # Errors
    /// When the library refuses to tell.
    pub fn version(&self) -> Result<String> {
        let mut number = 0;
        // SAFETY: as nccl.h declares it; the out-pointer is valid.
        self.succeeded("ncclGetVersion", None, unsafe { (self.get_version)(&mut number) })?;
        Ok(version(number))
    }

    /// What a code means, in the library's words.
    pub fn error_string(&self, code: i32) -> String {
        // SAFETY: as nccl.h declares it; the text is the library's own and lives as long as it.
        unsafe { text((self.get_error_string)(code)) }
    }

    /// The library's account of this process's last error; empty where there was none.
    pub fn last_error(&self) -> String {
        // SAFETY: as nccl.h declares it: without a communicator, the last error of any.
        unsafe { text((self.get_last_error)(std::ptr::null_mut())) }
    }

    /// A name for a new communicator. The calling process listens for its ranks from now on.
    ///
    /// # Errors
    /// When the library finds no network interface to listen on.
    pub fn unique_id(&self) -> Result<UniqueId> {
        let mut id = UniqueId([0; UNIQUE_ID_BYTES]);
        // SAFETY: as nccl.h declares it; the out-pointer is valid.
        self.succeeded("ncclGetUniqueId", None, unsafe { (self.get_unique_id)(&mut id) })?;
        Ok(id)
    }

    /// An error for a code that is none of success, with the library's words and its last error.
    pub(super) fn succeeded(&self, what: &str, comm: Option<Comm>, code: Code) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: as nccl.h declares it; a communicator that is given is alive.
        let last = unsafe { text((self.get_last_error)(comm.unwrap_or(std::ptr::null_mut()))) };
        Err(Error::Library { what: what.to_owned(), said: joined(&self.error_string(code), &last) })
    }
}

/// The error and what the library adds to it, which may be nothing, or of several lines.
fn joined(error: &str, last: &str) -> String {
    let last = last.split_whitespace().collect::<Vec<_>>().join(" ");
    if last.is_empty() { error.to_owned() } else { format!("{error} ({last})") }
}

/// NCCL_VERSION_CODE: 10000 a major version since 2.9, 1000 before.
fn version(number: c_int) -> String {
    let (major, rest) =
        if number >= 10_000 { (number / 10_000, number % 10_000) } else { (number / 1000, number % 1000) };
    format!("{major}.{}.{}", rest / 100, rest % 100)
}

/// # Safety
/// Null, or a terminated text.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_errors_are_for_people() {
        assert_eq!([2708, 22_903, 23_203].map(version), ["2.7.8", "2.29.3", "2.32.3"]);
        assert_eq!(joined("internal error", ""), "internal error");
        assert_eq!(joined("system error", "no\nsocket"), "system error (no socket)");
    }

    #[test]
    fn a_library_that_lacks_functions_is_refused_with_all_their_names() {
        let libc = device::library::find(&device::library::search_path(), &["libc"]);
        let why = Symbols::open(&libc[0]).unwrap_err();
        assert!(why.contains("`ncclGetVersion`, `ncclGetUniqueId`") && why.contains("`ncclRecv`"), "{why}");
    }

    #[test]
    fn an_identity_is_not_printed() {
        assert_eq!(format!("{:?}", UniqueId([7; 128])), "UniqueId(..)");
    }
}

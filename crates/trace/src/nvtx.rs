//! Ranges for tools that record NVTX, such as nsys: what this process does, while it does it. A tool names a library in the
//! variable NVTX_INJECTION64_PATH; the library fills in the functions that take ranges. Nothing is linked. Source of
//! the tables: NVTX 3 (github.com/NVIDIA/NVTX), `nvtxTypes.h` and `nvtxInit.h`.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use terms::{Collective, Named};

use crate::timeline::Kind;

/// The variable that names the library.
pub const VARIABLE: &str = "NVTX_INJECTION64_PATH";

/// The version of NVTX that these tables are of.
const VERSION: u32 = 3;
/// The tables that a library may ask for.
const CALLBACKS: u32 = 1;
const VERSION_INFO: u32 = 3;
/// Groups of functions, from 1 on, and how many functions each has, its unused first place included: core, CUDA, OpenCL,
/// CUDA runtime, domains, synchronisation. A library may refuse to work if one is missing.
const SIZES: [usize; MODULES] = [0, 16, 9, 16, 7, 16, 7];
const MODULES: usize = 7;
const MOST: usize = 16;
/// The group of the functions that are called, and their places in it.
const CORE: usize = 1;
const MARK: usize = 2;
const RANGE_START: usize = 4;
const RANGE_END: usize = 7;
const RANGE_PUSH: usize = 8;
const RANGE_POP: usize = 11;

type FunctionSlot = AtomicPtr<c_void>;

/// Where the library puts its functions: null where it has none.
static FUNCTIONS: [[FunctionSlot; MOST]; MODULES] =
    [const { [const { AtomicPtr::new(ptr::null_mut()) }; MOST] }; MODULES];

/// Pointers to these places, as the library wants them.
struct ExportTable([*const FunctionSlot; MOST]);

// SAFETY: pointers to statics, which are made of atomics.
unsafe impl Sync for ExportTable {}

const fn table(module: usize) -> ExportTable {
    let mut places = [ptr::null(); MOST];
    let mut at = 1;
    while at < SIZES[module] {
        places[at] = &raw const FUNCTIONS[module][at];
        at += 1;
    }
    ExportTable(places)
}

static TABLES: [ExportTable; MODULES] = [table(0), table(1), table(2), table(3), table(4), table(5), table(6)];

#[repr(C)]
struct Callbacks {
    bytes: usize,
    function_table: extern "C" fn(c_int, *mut *const *const FunctionSlot, *mut c_uint) -> c_int,
}

#[repr(C)]
struct VersionInfo {
    bytes: usize,
    version: u32,
    reserved: u32,
    on_version: extern "C" fn(u32),
}

extern "C" fn function_table(module: c_int, table: *mut *const *const FunctionSlot, size: *mut c_uint) -> c_int {
    let Some(module) = usize::try_from(module).ok().filter(|module| (1..MODULES).contains(module)) else { return 0 };
    // SAFETY: the library gives places for the answers, or null for one that it does not want.
    unsafe {
        if !table.is_null() {
            table.write(TABLES[module].0.as_ptr());
        }
        if !size.is_null() {
            size.write(SIZES[module] as c_uint);
        }
    }
    1
}

/// The library tells its version, which changes nothing.
extern "C" fn on_version(_: u32) {}

extern "C" fn export_table(number: u32) -> *const c_void {
    static CALLBACK_TABLE: Callbacks = Callbacks { bytes: size_of::<Callbacks>(), function_table };
    static VERSION_TABLE: VersionInfo =
        VersionInfo { bytes: size_of::<VersionInfo>(), version: VERSION, reserved: 0, on_version };
    match number {
        CALLBACKS => (&raw const CALLBACK_TABLE).cast(),
        VERSION_INFO => (&raw const VERSION_TABLE).cast(),
        _ => ptr::null(),
    }
}

/// What a tool receives of a range (`nvtxEventAttributes_v2`).
#[repr(C)]
struct Attributes {
    version: u16,
    bytes: u16,
    category: u32,
    color_type: i32,
    color: u32,
    payload_type: i32,
    reserved: i32,
    payload: u64,
    message_type: i32,
    message: *const c_char,
}

/// The kinds of payload and message that are used: a whole number, a text that ends with zero.
const WHOLE: i32 = 1;
const ASCII: i32 = 1;

impl Attributes {
    fn new(name: &CStr, payload: u64) -> Self {
        Self {
            version: VERSION as u16,
            bytes: size_of::<Self>() as u16,
            category: 0,
            color_type: 0,
            color: 0,
            payload_type: WHOLE,
            reserved: 0,
            payload,
            message_type: ASCII,
            message: name.as_ptr(),
        }
    }
}

type Mark = unsafe extern "C" fn(*const c_char);
type Start = unsafe extern "C" fn(*const Attributes) -> u64;
type End = unsafe extern "C" fn(u64);
type Push = unsafe extern "C" fn(*const Attributes) -> c_int;
type Pop = unsafe extern "C" fn() -> c_int;

/// Tells ranges to a tool.
#[derive(Debug)]
pub struct Ranges {
    operations: Vec<CString>,
    kinds: Vec<CString>,
}

static RANGES: OnceLock<Ranges> = OnceLock::new();

/// The tool that was opened in this process, if any.
pub fn ranges() -> Option<&'static Ranges> {
    RANGES.get()
}

/// Opens the library of a tool. It stays open. Runs its code. To be called once, before the first [`crate::Hook`].
///
/// # Errors
/// What the loader says, or that it is not a library of such a tool.
pub fn open(library: &OsStr) -> Result<(), String> {
    let name = CString::new(library.as_bytes()).map_err(|_| "its name has a zero byte".to_owned())?;
    // SAFETY: the name is a terminated string. The library's own code runs, as the user asks for by the variable.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY) };
    let handle = NonNull::new(handle).ok_or_else(why)?;
    // SAFETY: the handle is open, and the name is a terminated string.
    let begin = unsafe { libc::dlsym(handle.as_ptr(), c"InitializeInjectionNvtx2".as_ptr()) };
    let begin = NonNull::new(begin).ok_or("it has no function `InitializeInjectionNvtx2`")?;
    type Begin = unsafe extern "C" fn(extern "C" fn(u32) -> *const c_void) -> c_int;
    // SAFETY: NVTX says that the function of this name has this type.
    let begin: Begin = unsafe { std::mem::transmute(begin.as_ptr()) };
    // SAFETY: the tables that the library asks for are as NVTX 3 says, and live as long as the process.
    if unsafe { begin(export_table) } == 0 {
        return Err("its first function reports a failure".to_owned());
    }
    let texts = |names: Vec<&str>| names.into_iter().map(|name| CString::new(name).unwrap_or_default()).collect();
    let operations = texts(Collective::ALL.iter().map(|operation| operation.name()).collect());
    let kinds = texts(Kind::ALL.iter().map(|kind| kind.name()).collect());
    RANGES.set(Ranges { operations, kinds }).map_err(|_| "a tool is open already".to_owned())
}

fn why() -> String {
    // SAFETY: takes nothing; what it gives lives until this thread's next call, and is copied before that.
    let said = unsafe { libc::dlerror() };
    if said.is_null() {
        return "the loader does not say why".to_owned();
    }
    // SAFETY: a terminated string, as just said.
    unsafe { CStr::from_ptr(said) }.to_string_lossy().into_owned()
}

fn function(place: usize) -> Option<NonNull<c_void>> {
    NonNull::new(FUNCTIONS[CORE][place].load(Ordering::Relaxed))
}

impl Ranges {
    /// Tells which rank this process is, by a mark that readers of exports look for.
    pub fn name_rank(&self, rank: u32, world: u32) {
        if let Some((text, function)) =
            CString::new(format!("rankmark rank {rank} of {world}")).ok().zip(function(MARK))
        {
            // SAFETY: the library put its function of this type there.
            let mark: Mark = unsafe { std::mem::transmute(function.as_ptr()) };
            // SAFETY: a terminated text that lives through the call, which copies it.
            unsafe { mark(text.as_ptr()) };
        }
    }

    /// A range of this thread begins: a stretch of a step. It ends by [`Ranges::pop`], after all that begin inside it.
    pub fn push(&self, kind: Kind, number: u64) {
        let name = Kind::ALL.iter().position(|known| *known == kind).map(|at| &self.kinds[at]);
        if let Some((name, function)) = name.zip(function(RANGE_PUSH)) {
            // SAFETY: the library put its function of this type there.
            let push: Push = unsafe { std::mem::transmute(function.as_ptr()) };
            let attributes = Attributes::new(name, number);
            // SAFETY: the attributes are as NVTX says, and live through the call, which copies what it needs.
            unsafe { push(&raw const attributes) };
        }
    }

    /// The innermost range of this thread ends.
    pub fn pop(&self) {
        if let Some(function) = function(RANGE_POP) {
            // SAFETY: the library put its function of this type there.
            let pop: Pop = unsafe { std::mem::transmute(function.as_ptr()) };
            // SAFETY: takes nothing.
            unsafe { pop() };
        }
    }

    /// A range of the process begins: the operation of this number. Gives the range's number.
    pub fn start(&self, operation: Collective, number: u64) -> u64 {
        // The discriminant is the index in `Collective::ALL`: both are in the order of declaration.
        let name = self.operations.get(operation as usize);
        let Some((name, function)) = name.zip(function(RANGE_START)) else { return 0 };
        // SAFETY: the library put its function of this type there.
        let start: Start = unsafe { std::mem::transmute(function.as_ptr()) };
        let attributes = Attributes::new(name, number);
        // SAFETY: as in `push`.
        unsafe { start(&raw const attributes) }
    }

    /// The range of this number ends.
    pub fn end(&self, range: u64) {
        if let Some(function) = function(RANGE_END).filter(|_| range != 0) {
            // SAFETY: the library put its function of this type there.
            let end: End = unsafe { std::mem::transmute(function.as_ptr()) };
            // SAFETY: the number is one that `start` gave.
            unsafe { end(range) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_as_libraries_expect_them() {
        // Sizes that NVTX 3 has on machines with 64 bits.
        assert_eq!((size_of::<Attributes>(), size_of::<Callbacks>(), size_of::<VersionInfo>()), (48, 16, 24));
        let (mut table, mut size) = (ptr::null(), 0);
        assert_eq!(function_table(CORE as c_int, &mut table, &mut size), 1);
        assert_eq!(size, 16);
        // SAFETY: the table has as many entries as it says.
        let entries = unsafe { std::slice::from_raw_parts(table, size as usize) };
        assert!(entries[0].is_null() && entries[1..].iter().all(|entry| !entry.is_null()));
        for module in [0, 7, -1] {
            assert_eq!(function_table(module, &mut table, &mut size), 0, "{module}");
        }
        assert!(export_table(2).is_null() && !export_table(CALLBACKS).is_null());
    }

    #[test]
    fn what_is_no_library_of_a_tool_is_refused() {
        assert!(open(OsStr::new("/nowhere/libtool.so")).unwrap_err().contains("/nowhere/libtool.so"));
        assert!(open(OsStr::new("libc.so.6")).unwrap_err().contains("InitializeInjectionNvtx2"));
    }
}

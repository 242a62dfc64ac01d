//! A tool that records NVTX, as nsys does: a library that Rankmark's ranks open because NVTX_INJECTION64_PATH names it. It
//! writes a line for each range to `NVTX_TOOL_LOG.PID`: the nesting, the name and the number. For tests.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fs::File;
use std::io::Write;
use std::sync::Mutex;

#[repr(C)]
struct Callbacks {
    bytes: usize,
    function_table: extern "C" fn(c_int, *mut *const *mut *const c_void, *mut c_uint) -> c_int,
}

#[repr(C)]
struct Attributes {
    version: u16,
    bytes: u16,
    others: [u32; 5],
    payload: u64,
    message_type: i32,
    message: *const c_char,
}

struct Log {
    file: File,
    depth: usize,
    started: u64,
}

static LOG: Mutex<Option<Log>> = Mutex::new(None);

fn write(line: impl FnOnce(&mut Log) -> String) {
    let mut log = LOG.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(log) = log.as_mut() {
        let line = line(log);
        let _ = writeln!(log.file, "{line}");
    }
}

fn text(attributes: *const Attributes) -> String {
    // SAFETY: NVTX gives attributes that live through the call.
    let attributes = unsafe { &*attributes };
    assert_eq!((attributes.version, attributes.bytes, attributes.message_type), (3, 48, 1));
    // SAFETY: a terminated string, as the type of the message says.
    let name = unsafe { CStr::from_ptr(attributes.message) };
    format!("{} {}", name.to_string_lossy(), attributes.payload)
}

/// A terminated text, as NVTX gives it.
fn plain(text: *const c_char) -> String {
    // SAFETY: NVTX gives a terminated text that lives through the call.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

extern "C" fn mark(name: *const c_char) {
    write(|_| format!("mark {}", plain(name)));
}

extern "C" fn push_text(name: *const c_char) -> c_int {
    write(|log| {
        log.depth += 1;
        format!("{}push {}", "  ".repeat(log.depth - 1), plain(name))
    });
    0
}

extern "C" fn push(attributes: *const Attributes) -> c_int {
    write(|log| {
        log.depth += 1;
        format!("{}push {}", "  ".repeat(log.depth - 1), text(attributes))
    });
    0
}

extern "C" fn pop() -> c_int {
    write(|log| {
        log.depth = log.depth.checked_sub(1).expect("a range ends that none began");
        format!("{}pop", "  ".repeat(log.depth))
    });
    0
}

extern "C" fn start(attributes: *const Attributes) -> u64 {
    let mut number = 0;
    write(|log| {
        log.started += 1;
        number = log.started;
        format!("start {number} {}", text(attributes))
    });
    number
}

extern "C" fn end(number: u64) {
    write(|_| format!("end {number}"));
}

/// What NVTX calls first.
#[unsafe(no_mangle)]
extern "C" fn InitializeInjectionNvtx2(export_table: extern "C" fn(u32) -> *const c_void) -> c_int {
    let callbacks = export_table(1).cast::<Callbacks>();
    let path = std::env::var("NVTX_TOOL_LOG").map(|path| format!("{path}.{}", std::process::id()));
    let Ok(file) = path.map_err(|_| ()).and_then(|path| File::create(path).map_err(|_| ())) else { return 0 };
    *LOG.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(Log { file, depth: 0, started: 0 });
    let (mut table, mut size) = (std::ptr::null(), 0);
    // SAFETY: the table of this number is of this type.
    let callbacks = unsafe { &*callbacks };
    if callbacks.bytes < size_of::<Callbacks>()
        || (callbacks.function_table)(1, &mut table, &mut size) != 1
        || size < 12
    {
        return 0;
    }
    let functions = [
        (2, mark as *const c_void),
        (9, push_text as *const c_void),
        (4, start as *const c_void),
        (7, end as *const c_void),
        (8, push as *const c_void),
        (11, pop as *const c_void),
    ];
    for (place, function) in functions {
        // SAFETY: the table has `size` pointers to places for functions.
        unsafe { (*table.add(place)).write(function) };
    }
    1
}

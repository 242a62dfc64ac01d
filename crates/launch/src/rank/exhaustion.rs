//! A rank that runs out of memory ends at once.

/// Switches off backtraces (RUST_BACKTRACE). The standard library holds a lock while it makes one, and allocates: where
/// memory is exhausted that asks for another one, and the rank waits for its own lock for ever. A panic hook that makes one
/// itself hangs in the same lock. What is said of a panic names its file and line all the same.
///
/// To be called before the rank has another thread, and before anything panics.
#[expect(clippy::disallowed_methods, reason = "a rank without memory would hang in its own lock")]
pub(super) fn end_at_once() {
    // SAFETY: no other thread of this process reads or changes the environment: there is none yet.
    unsafe { std::env::remove_var("RUST_BACKTRACE") };
}

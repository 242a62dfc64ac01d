//! How much a plan may hold. Each bound is far above any honest plan and low enough that reading a hostile one takes
//! well under a second and a few hundred MB at most.

/// Bytes of a plan's text.
pub const BYTES: usize = 16 << 20;
/// Levels of nesting.
pub const DEPTH: usize = 64;
/// Keys and values: 37 fields with a value each in every one of the most cases, written out one by one. A tree of so many
/// takes 150 MB.
pub const NODES: usize = 75 * CASES;
/// Bytes of one scalar.
pub const SCALAR: usize = 4096;
/// Texts that belong to one case (`inject`, `expect`, `env`).
pub const TEXTS: usize = 64;
/// Cases after expansion. A thousand a minute would be a fast machine, so these run for days.
pub const CASES: usize = 20_000;
/// Expected figures.
pub const EXPECTED: usize = 1000;

//! What every source of samples does, whatever it reads.

/// Reads samples by their index. Shared with the thread that reads ahead.
pub(super) trait Samples: Send + Sync {
    /// As [`parallel::Source::tokens`].
    fn tokens(&self, index: u64, tokens: &mut [i32], targets: &mut [i32]) -> Result<(), String>;

    /// As [`parallel::Source::numbers`].
    fn numbers(&self, index: u64, numbers: &mut [f32], class: &mut i32) -> Result<(), String>;
}

/// How closely a file is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// Form and size.
    Header,
    /// The contents, too.
    Whole,
}

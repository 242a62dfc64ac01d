//! To come.
pub(crate) const TESTS: &[crate::play::Test] = &[];

//! Where samples come from.

/// Gives the samples of a step. Implementations: synthetic data, files (in `benchmarks`).
pub trait Source: Send {
    /// Writes tokens and targets of sample `index` (counted over the whole run: step x global batch + place in the global
    /// batch), for models of tokens.
    ///
    /// # Errors
    /// When the data cannot be read or is not what the model takes; says which sample and why.
    fn tokens(&mut self, index: u64, tokens: &mut [i32], targets: &mut [i32]) -> Result<(), String>;

    /// Writes the numbers of sample `index` and its class, for models of images and vectors.
    ///
    /// # Errors
    /// As `tokens`.
    fn numbers(&mut self, index: u64, numbers: &mut [f32], class: &mut i32) -> Result<(), String>;
}

//! What a case asks of a machine, to be compared with its ceilings.

/// The device with memory that all ranks of a host share.
pub(crate) const CPU: &str = "cpu";

/// What one call of all ranks together does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand<'a> {
    /// Threads of all ranks.
    pub threads: u32,
    /// Bytes that the buffers hold.
    pub working_set: u64,
    /// Bytes that must be read and written; 0: not known.
    pub traffic: f64,
    /// Floating-point operations; 0: none, or not known.
    pub flops: f64,
    /// Element type of these operations.
    pub dtype: &'a str,
    /// What computes, and holds the buffers.
    pub device: &'a str,
    /// Bytes that each rank must send to others, at least; 0: none, or they are part of the traffic.
    pub sent: f64,
    /// Bytes of one message.
    pub message: u64,
    /// What sends them.
    pub backend: &'a str,
}

impl<'a> Demand<'a> {
    /// Nothing yet, on one thread.
    pub const fn of_cpu(dtype: &'a str) -> Self {
        Self {
            threads: 1,
            working_set: 0,
            traffic: 0.0,
            flops: 0.0,
            dtype,
            device: CPU,
            sent: 0.0,
            message: 0,
            backend: "",
        }
    }

    /// Whether there is anything that a ceiling could bound.
    pub fn is_any(&self) -> bool {
        self.flops > 0.0 || self.traffic > 0.0 || self.sent > 0.0
    }
}

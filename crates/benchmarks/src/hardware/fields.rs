//! The fields of a hardware case, declared once as a table and as a struct.

use terms::{Field, Kind, Mode, Named, Role};

use crate::fields::{BACKEND, DEVICE, MODE, RANKS, SEED, THREADS};

terms::named! {
    /// What a hardware case measures: a loop over arrays of f64, as in STREAM (McCalpin, 1995), and the loop of an all_reduce
    /// in shared memory.
    pub(super) enum Test("test") {
        /// c = a.
        Copy = "copy",
        /// c = 3 a.
        Scale = "scale",
        /// c = a + b.
        Add = "add",
        /// c = a + 3 b.
        Triad = "triad",
        /// a = b = (a + b) / 2.
        ReduceBroadcast = "reduce_broadcast",
    }
}

impl Test {
    /// Arrays that the loop goes through.
    pub(super) const fn arrays(self) -> u64 {
        match self {
            Self::Copy | Self::Scale | Self::ReduceBroadcast => 2,
            Self::Add | Self::Triad => 3,
        }
    }

    /// Bytes that count for each element: each word that the loop reads or writes, as STREAM counts.
    pub(super) const fn counted_bytes(self) -> u64 {
        match self {
            Self::Copy | Self::Scale => 16,
            Self::Add | Self::Triad => 24,
            // Both arrays are read and written.
            Self::ReduceBroadcast => 32,
        }
    }

    /// The same, with the line that a cache reads before it is written (write-allocate). What the loop has read itself is
    /// not read again.
    pub(super) const fn moved_bytes(self) -> u64 {
        match self {
            Self::ReduceBroadcast => self.counted_bytes(),
            _ => self.counted_bytes() + 8,
        }
    }
}

record::fields! {
    /// What a case is.
    pub(super) struct Fields {
        test: Test = Field::new(Kind::Word(Test::names), Some("triad"), "what is measured").always().common(),
        ranks: u32 = Field { default: Some("1"), ..RANKS },
        threads: Option<u32> = Field { doc: "threads of each rank (default: all cores, divided among ranks)", ..THREADS },
        backend: String = Field { role: Role::Launch, ..BACKEND },
        device: String = DEVICE,
        bytes: u64 = Field::new(Kind::Bytes, Some("256MiB"), "working set of a rank: all arrays together")
            .always()
            .common(),
        mode: Mode = MODE,
        seed: u64 = SEED,
    }
}

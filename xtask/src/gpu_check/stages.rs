//! The order of checks: the cheapest and most fundamental first, because the time of a machine with a GPU may end at any of them.

/// A stage. What it checks is what the later ones rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// The driver opens a GPU and copies.
    Driver,
    /// One kernel of each text.
    Kernels,
    /// A product of each type and with each epilogue.
    Products,
    /// One call of NCCL.
    Nccl,
    /// A training step.
    Step,
    /// Losses beside the CPU's, in f32 and bf16.
    Losses,
    /// GPT-2 by each variant, once.
    Round,
    /// Kernels with barriers under racecheck, synccheck and memcheck.
    Barriers,
    /// All else.
    Rest,
}

impl Stage {
    /// All, in their order.
    #[cfg(test)]
    pub(super) const ALL: [Self; 9] = [
        Self::Driver,
        Self::Kernels,
        Self::Products,
        Self::Nccl,
        Self::Step,
        Self::Losses,
        Self::Round,
        Self::Barriers,
        Self::Rest,
    ];

    /// Name of the stage, as the table has it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Driver => "driver",
            Self::Kernels => "kernels",
            Self::Products => "products",
            Self::Nccl => "NCCL",
            Self::Step => "step",
            Self::Losses => "losses",
            Self::Round => "GPT-2",
            Self::Barriers => "barriers",
            Self::Rest => "rest",
        }
    }
}

//! What is known of the program that trains, beyond the list of its operations.

use record::ConstantName;

use crate::constants::Constants;

terms::named! {
    /// The program whose step is predicted.
    pub enum Software("software") {
        /// This program.
        Rankmark = "rankmark",
        /// Megatron-LM and Megatron-DeepSpeed as of 2022, with mixed precision in f16.
        Megatron = "megatron",
    }
}

/// How a program runs the operations of the list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Habits {
    /// Whether attention keeps its scores in memory, between separate kernels.
    pub scores_in_memory: bool,
    /// Whether products compute activation functions as they write their result.
    pub epilogues: bool,
    /// Whether bias, dropout and the addition of the residual are one kernel.
    pub fused_additions: bool,
    /// Whether gradients are exchanged in the type of activations rather than that of masters.
    pub narrow_gradients: bool,
    /// Whether only one part of a tensor group sends what all of them hold, to be put together again by the receivers.
    pub cut_transfers: bool,
    /// Whether gradients that a tensor group sums are one exchange, not one for each parameter.
    pub joined_sums: bool,
}

impl Software {
    /// How this program runs operations.
    pub fn habits(self) -> Habits {
        let megatron = self == Self::Megatron;
        Habits {
            scores_in_memory: megatron,
            epilogues: !megatron,
            fused_additions: megatron,
            narrow_gradients: megatron,
            cut_transfers: megatron,
            joined_sums: megatron,
        }
    }

    /// A machine's constants as this program meets them: PyTorch starts each kernel from Python.
    pub fn constants(self, mut constants: Constants) -> Constants {
        if self == Self::Megatron {
            constants.set(ConstantName::OperationTime, 2e-5, 0.7);
        }
        constants
    }
}

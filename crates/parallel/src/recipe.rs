//! What to train and how: everything that decides a program, and nothing of this process.

use engine::Matmul;
use model::Model;
use terms::Dtype;

use crate::mesh::Mesh;

terms::named! {
    /// The order in which a stage runs the micro-batches of a step.
    pub enum Schedule("schedule") {
        /// All forward passes, then all backward passes (Huang et al., arXiv 1811.06965).
        GPipe = "gpipe",
        /// One forward, one backward (Narayanan et al., arXiv 2104.04473, section 2.2).
        OneForwardOneBackward = "1f1b",
        /// 1F1B with several chunks of layers on each stage (section 2.2.2 there).
        Interleaved = "interleaved",
    }
}

terms::named! {
    /// What stages of a pipeline are balanced by.
    pub enum Balance("balance") {
        /// Equal numbers of blocks.
        Layers = "layers",
        /// Measured times of blocks.
        Measured = "measured",
    }
}

/// How parameters change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Optimizer {
    /// Stochastic gradient descent.
    Sgd {
        /// Learning rate.
        rate: f64,
        /// Momentum; zero for none.
        momentum: f64,
    },
    /// AdamW.
    AdamW {
        /// Learning rate.
        rate: f64,
        /// Decay of the first moment.
        beta1: f64,
        /// Decay of the second moment.
        beta2: f64,
        /// Added to the denominator.
        epsilon: f64,
        /// Weight decay.
        decay: f64,
    },
}

/// See the module's documentation.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    /// The model.
    pub model: Model,
    /// How ranks divide the work.
    pub mesh: Mesh,
    /// Type of activations and of the copy of the parameters that is computed with: f32, bf16, f16 (masters and gradients
    /// in f32) or f64.
    pub precision: Dtype,
    /// How products of f32 are computed.
    pub matmul: Matmul,
    /// Samples of a micro-batch.
    pub micro_batch: usize,
    /// Micro-batches of each replica in a step; an entry a replica. All equal unless load is balanced.
    pub micro_batches: Vec<usize>,
    /// Schedule of a pipeline.
    pub schedule: Schedule,
    /// Chunks of a stage (interleaved), else 1.
    pub chunks: usize,
    /// Blocks of each chunk, in model order: pipeline x chunks entries. Empty: equal numbers.
    pub stages: Vec<usize>,
    /// 0: replicas hold everything; 1: optimizer state is cut among replicas; 2: gradients too; 3: parameters too (Rajbhandari
    /// et al., arXiv 1910.02054).
    pub sharded: u8,
    /// Bytes of a gradient bucket.
    pub bucket_bytes: usize,
    /// Whether exchanges of gradients (and of parameters, `sharded: 3`) overlap the computation.
    pub overlap: bool,
    /// Whether what tensor parallelism keeps whole (norms, dropout) is cut by rows (Korthikanti et al., arXiv 2205.05198).
    pub sequence_parallel: bool,
    /// Whether blocks keep only their input and run their forward pass again before the backward pass.
    pub recompute: bool,
    /// Whether batch norm counts all replicas' rows.
    pub synchronised: bool,
    /// How parameters change.
    pub optimizer: Optimizer,
    /// Largest norm of all gradients; None for no clipping.
    pub clip: Option<f64>,
    /// Seed of initial parameters, dropout, and synthetic data.
    pub seed: u64,
    /// Rows of logits are laid out in a multiple of so many elements, and with them the weight and the bias that make them; 1 for no
    /// padding. GPUs load 16 bytes at once: see [`engine::cuda::LOGITS_MULTIPLE`].
    pub logits_multiple: usize,
    /// False leaves out every exchange of gradients: wrong on purpose, to time a step without communication.
    pub communicate: bool,
}

impl Optimizer {
    /// AdamW with the settings that most programs begin with.
    pub const ADAMW: Self = Self::AdamW { rate: 1e-3, beta1: 0.9, beta2: 0.999, epsilon: 1e-8, decay: 0.01 };
}

impl Recipe {
    /// One micro-batch of one sample on each replica, by AdamW, in 1F1B where there are stages, with exchanges that overlap, and
    /// nothing sharded, recomputed or clipped: what others change a field of.
    pub fn plain(model: Model, mesh: Mesh, precision: Dtype) -> Self {
        Self {
            model,
            mesh,
            precision,
            matmul: Matmul::Auto,
            micro_batch: 1,
            micro_batches: vec![1; mesh.data],
            schedule: Schedule::OneForwardOneBackward,
            chunks: 1,
            stages: Vec::new(),
            sharded: 0,
            bucket_bytes: 25 << 20,
            overlap: true,
            sequence_parallel: false,
            recompute: false,
            synchronised: false,
            optimizer: Optimizer::ADAMW,
            clip: None,
            seed: 1,
            logits_multiple: 1,
            communicate: true,
        }
    }

    /// Samples of a step, over all replicas.
    pub fn global_batch(&self) -> usize {
        self.micro_batch * self.micro_batches.iter().sum::<usize>()
    }
}

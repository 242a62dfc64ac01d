//! A prediction: seconds by part, memory by category, an interval, and what would make it surer.

use comm::Pace;
use record::{ConstantName, MachineProfile, ProfileBasis};
use terms::{Collective, Error, Named};

use crate::constants::{CONSTANTS, Constants};
use crate::costs::ExchangeGroup;
use crate::fit::{SquareMatrix, seconds};
use crate::memory::{MemoryNeed, memory};
use crate::passes::Parts;
use crate::simulate::simulate;
use crate::workload::{Emulated, Step, Workload};
use crate::{Costs, Fit, Software};

terms::named! {
    /// What a prediction rests on, from the weakest.
    pub enum Evidence("evidence") {
        /// Published numbers of the hardware.
        Public = "public",
        /// Constants moved by a few measured steps.
        Rows = "rows",
        /// Measured times of operations and exchanges.
        Measured = "measured",
    }
}

impl Evidence {
    /// What the model missed on machines and steps that it was not fitted on: the standard deviation of the logarithm of measured over
    /// predicted time (docs/appendix/prediction.md). That of measured operations is from 139 cases on one machine of two cores;
    /// the others are assumptions.
    fn model_error(self) -> f64 {
        match self {
            Self::Public => 0.15,
            Self::Rows => 0.10,
            Self::Measured => 0.06,
        }
    }
}

/// Quantile of a normal distribution for two-sided intervals of 90%.
const NORMAL_90: f64 = 1.645;
/// How much each factor of e by which a step is larger than what was measured adds to the model's error.
const BY_DISTANCE: f64 = 0.03;
/// What a curve of exchanges misses between its sizes: the standard deviation of the logarithm of measured over predicted time.
const EXCHANGE_ERROR: f64 = 0.06;
/// What the rates of one type say of another: products of f32 and of bf16 take times whose ratio depends on the processor. Assumed.
const OTHER_TYPE: f64 = 0.5;
/// Beyond this factor either way a time is called unknown.
const UNKNOWN: f64 = 3.0;

/// What predictions are made with: a machine, its constants, and how sure these are.
#[derive(Clone, Debug, PartialEq)]
pub struct Predictor {
    /// The machine.
    pub profile: MachineProfile,
    /// The constants; those of a fit where there was one.
    pub constants: Constants,
    /// Covariance of the logarithms of the constants.
    pub covariance: SquareMatrix,
    /// What it rests on.
    pub evidence: Evidence,
    /// What the model missed when rows were left out; replaces the default of the evidence if it is larger.
    pub left_out: Option<f64>,
    /// The largest number of ranks that was measured; none where nothing was.
    pub measured_ranks: Option<usize>,
}

/// A prediction of one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Seconds of a step.
    pub seconds: f64,
    /// The interval that holds the measured time in 9 of 10 cases, if it is known that well.
    pub interval: Option<(f64, f64)>,
    /// The three parts of the interval: standard deviations of the logarithm of the time.
    pub spreads: Spreads,
    /// Where the seconds go, on the stage that is busy the longest.
    pub parts: Parts,
    /// What limits it, in words.
    pub limit: &'static str,
    /// Bytes of the rank that needs the most.
    pub memory: MemoryNeed,
    /// Memory of a rank.
    pub memory_bytes: u64,
    /// What it rests on.
    pub evidence: Evidence,
    /// The measurement that would narrow the interval the most.
    pub would_help: String,
}

/// The parts of an interval, as standard deviations of the logarithm.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spreads {
    /// The constants.
    pub constants: f64,
    /// Launches.
    pub launches: f64,
    /// The model itself.
    pub model: f64,
}

impl Spreads {
    /// All of them together.
    pub fn total(&self) -> f64 {
        (self.constants.powi(2) + self.launches.powi(2) + self.model.powi(2)).sqrt()
    }
}

impl Prediction {
    /// Whether the step fits into the memory of a rank.
    pub fn fits(&self) -> bool {
        self.memory.bytes() <= self.memory_bytes
    }
}

impl Predictor {
    /// Predictions from a profile alone, for a program.
    pub fn new(profile: MachineProfile, software: Software) -> Self {
        let constants = software.constants(Constants::of(&profile));
        let mut covariance = [[0.0; CONSTANTS]; CONSTANTS];
        for (at, name) in ConstantName::ALL.iter().enumerate() {
            covariance[at][at] = constants.spread(*name).powi(2);
        }
        let is_public = profile.basis == ProfileBasis::Public;
        let evidence = if is_public { Evidence::Public } else { Evidence::Measured };
        let measured_ranks =
            (!is_public).then(|| profile.transfers.iter().map(|transfer| transfer.ranks as usize).max().unwrap_or(1));
        Self { profile, constants, covariance, evidence, left_out: None, measured_ranks }
    }

    /// Predictions with the constants of a fit. `ranks`: the largest number of ranks among its rows.
    #[must_use]
    pub fn fitted(mut self, fit: &Fit, ranks: usize) -> Self {
        self.constants = fit.after;
        self.covariance = fit.covariance;
        if self.evidence == Evidence::Public {
            self.evidence = Evidence::Rows;
        }
        let mut sizes: Vec<f64> = fit.left_out.iter().map(|error| (1.0 + error).ln().abs()).collect();
        sizes.sort_by(f64::total_cmp);
        // A few rows say little of what the model misses.
        self.left_out = (sizes.len() >= 8).then(|| sizes[sizes.len() * 9 / 10] / NORMAL_90);
        self.measured_ranks = Some(self.measured_ranks.unwrap_or(1).max(ranks));
        self
    }

    /// Predictions of another program's steps than those of a fit: how long a program takes to start an operation says nothing of another.
    #[must_use]
    pub fn of_software(mut self, software: Software) -> Self {
        let own = software.constants(Constants::of(&self.profile));
        let name = ConstantName::OperationTime;
        let spread = own.spread(name);
        self.constants.set(name, own.get(name), spread);
        for other in 0..CONSTANTS {
            self.covariance[name as usize][other] = 0.0;
            self.covariance[other][name as usize] = 0.0;
        }
        self.covariance[name as usize][name as usize] = spread.powi(2);
        self
    }

    /// Predicts a step.
    ///
    /// # Errors
    /// When the workload cannot be followed.
    pub fn predict(&self, workload: &Workload) -> Result<Prediction, Error> {
        Ok(self.predict_step(&workload.step()?))
    }

    /// The time of an exchange alone of these bytes (S of docs/explanation/bandwidth.md), and its interval of 90%. All ranks are on
    /// one node.
    pub fn exchange(&self, operation: Collective, ranks: u32, bytes: u64, pace: Option<Pace>) -> (f64, (f64, f64)) {
        let group = ExchangeGroup { ranks, per_node: ranks, groups: 1, node: ranks };
        let costs = Costs::new(&self.profile, self.constants, Software::Rankmark, ranks)
            .emulating(&Emulated { pace, ..Emulated::default() });
        let seconds = costs.exchange(operation, group, bytes);
        let half = NORMAL_90 * self.profile.launch_spread.hypot(EXCHANGE_ERROR);
        (seconds, (seconds * (-half).exp(), seconds * half.exp()))
    }

    /// Predicts a step that is listed already.
    pub fn predict_step(&self, step: &Step) -> Prediction {
        self.predict_with_slopes(step).0
    }

    /// A prediction, with the derivatives of the logarithm of its time by the logarithms of the constants.
    pub(crate) fn predict_with_slopes(&self, step: &Step) -> (Prediction, [f64; CONSTANTS]) {
        let workload = &step.workload;
        let ranks = workload.ranks_per_node.min(workload.recipe.mesh.ranks());
        let costs =
            Costs::new(&self.profile, self.constants, workload.software, ranks as u32).emulating(&workload.emulated);
        let simulated = simulate(step, &costs);
        let slopes = self.slopes(step, simulated.seconds);
        let spreads = Spreads {
            constants: self.by_constants(&slopes),
            launches: self.profile.launch_spread,
            model: self.model_error(workload),
        };
        let half = NORMAL_90 * spreads.total();
        let known = half <= UNKNOWN.ln();
        let prediction = Prediction {
            seconds: simulated.seconds,
            interval: known.then(|| (simulated.seconds * (-half).exp(), simulated.seconds * half.exp())),
            spreads,
            parts: simulated.parts,
            limit: limit(&simulated.parts),
            memory: memory(step),
            memory_bytes: self.profile.memory_bytes,
            evidence: self.evidence,
            would_help: self.would_help(&slopes, &spreads, workload),
        };
        (prediction, slopes)
    }

    /// Derivatives of the logarithm of the time by the logarithms of the constants.
    fn slopes(&self, step: &Step, here: f64) -> [f64; CONSTANTS] {
        const DELTA: f64 = 0.02;
        std::array::from_fn(|at| {
            let mut by = [0.0; CONSTANTS];
            by[at] = DELTA;
            (seconds(&self.profile, &self.constants.moved(&by), step) / here).ln() / DELTA
        })
    }

    pub(crate) fn by_constants(&self, slopes: &[f64; CONSTANTS]) -> f64 {
        let mut variance = 0.0;
        for a in 0..CONSTANTS {
            for b in 0..CONSTANTS {
                variance += slopes[a] * self.covariance[a][b] * slopes[b];
            }
        }
        variance.max(0.0).sqrt()
    }

    fn model_error(&self, workload: &Workload) -> f64 {
        let other = if self.is_of_another_type(workload) { OTHER_TYPE } else { 0.0 };
        let own = self.left_out.unwrap_or(0.0).max(self.evidence.model_error()).max(other);
        let distance = self
            .measured_ranks
            .map_or(0.0, |measured| (workload.recipe.mesh.ranks() as f64 / measured.max(1) as f64).ln().max(0.0));
        own + BY_DISTANCE * distance
    }

    /// Whether products were measured, and none of a step's type; nor were steps that could tell.
    fn is_of_another_type(&self, workload: &Workload) -> bool {
        let precision = workload.recipe.precision;
        let mut products = self.profile.kernels.iter().filter(|kernel| kernel.kernel.starts_with("product")).peekable();
        let is_told = self.left_out.is_some() || workload.emulated.sleep.is_some();
        !is_told && products.peek().is_some() && products.all(|kernel| kernel.dtype != precision)
    }

    /// What to measure, by what the interval owes the most to.
    fn would_help(&self, slopes: &[f64; CONSTANTS], spreads: &Spreads, workload: &Workload) -> String {
        if self.is_of_another_type(workload) {
            return format!("`rankmark calibrate --precision {}`", workload.recipe.precision);
        }
        if spreads.model >= spreads.constants {
            return match self.evidence {
                Evidence::Public => "one measured step of this model on this machine (`predict --fit`)".to_owned(),
                Evidence::Rows => "`rankmark calibrate` on this machine".to_owned(),
                Evidence::Measured => "one measured step on as many ranks (`predict --fit`)".to_owned(),
            };
        }
        let share = |at: &usize| (slopes[*at].powi(2) * self.covariance[*at][*at]).sqrt();
        let worst = (0..CONSTANTS).max_by(|a, b| share(a).total_cmp(&share(b))).unwrap_or(0);
        let name = ConstantName::ALL[worst];
        let by = match name {
            ConstantName::ProductRate | ConstantName::ProductRamp | ConstantName::WideProductShare => {
                "products at the model's sizes"
            }
            ConstantName::AttentionShare => "attention at the model's sequence and head width",
            ConstantName::MemoryRate => "the memory bandwidth of element-wise operations",
            ConstantName::OperationTime | ConstantName::StepTime => "a step of a small batch",
            ConstantName::LinkRate | ConstantName::LinkLatency => "an all_reduce within a node",
            ConstantName::NetworkRate | ConstantName::NetworkLatency => "an all_reduce between nodes",
            ConstantName::OverlapSlowdown => "computation beside a collective",
        };
        format!("{by} (`{name}`)")
    }
}

/// What the largest part is, in words.
fn limit(parts: &Parts) -> &'static str {
    let largest = parts.listed().into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map_or("compute", |part| part.0);
    match largest {
        "compute" => "arithmetic of products and attention",
        "element_wise" => "memory bandwidth",
        "tensor" => "exchanges of tensor groups",
        "data" => "exchanges among replicas",
        "pipeline" => "transfers between stages",
        "bubble" => "waiting for other stages",
        "optimizer" => "the optimizer",
        _ => "the host, which starts operations",
    }
}

#[cfg(test)]
mod tests {
    use parallel::Mesh;
    use record::KernelTime;
    use terms::Dtype;

    use super::*;
    use crate::machines::machine;
    use crate::tests::workload;

    #[test]
    fn another_program_starts_operations_by_itself() {
        let profile = machine("a100-nvlink").unwrap().profile();
        let mut megatron = Predictor::new(profile.clone(), Software::Megatron);
        megatron.constants.set(ConstantName::ProductRate, 1e14, 0.01);
        let own = Predictor::new(profile, Software::Rankmark);
        let moved = megatron.clone().of_software(Software::Rankmark);
        let (start, rate) = (ConstantName::OperationTime, ConstantName::ProductRate);
        assert!(megatron.constants.get(start) > 2.0 * own.constants.get(start), "{:?}", own.constants);
        assert_eq!(moved.constants.get(start).to_bits(), own.constants.get(start).to_bits());
        assert_eq!(moved.covariance, own.covariance);
        assert_eq!(moved.constants.get(rate).to_bits(), 1e14_f64.to_bits(), "a machine is the same for all programs");
    }

    #[test]
    fn a_type_that_was_not_measured_has_a_wide_interval() {
        let mut profile = machine("a100-nvlink").unwrap().profile();
        profile.basis = ProfileBasis::Measured;
        profile.kernels.push(KernelTime {
            kernel: "product_nn".to_owned(),
            dtype: Dtype::F32,
            dims: vec![64, 64, 64, 0, 4],
            ranks: 1,
            seconds: 1e-6,
            spread: 0.0,
        });
        let predictor = Predictor::new(profile, Software::Rankmark);
        let predicted = |precision: Dtype| {
            let mut workload = workload(Mesh::SERIAL);
            workload.recipe.precision = precision;
            predictor.predict(&workload).unwrap()
        };
        let (own, other) = (predicted(Dtype::F32), predicted(Dtype::Bf16));
        assert!(own.spreads.model < 0.1 && other.spreads.model > 0.4, "{:?} {:?}", own.spreads, other.spreads);
        assert!(!own.would_help.contains("--precision"), "{}", own.would_help);
        assert_eq!(other.would_help, "`rankmark calibrate --precision bf16`");
    }
}

//! A few operations and exchanges of a profile, measured again: whether the machine is as fast as when it was calibrated.

use std::fmt::Write as _;

use engine::{OperationShape, Sample};
use record::{KernelTime, MachineProfile, TransferTime};
use terms::Named;

use super::plan::{Caches, rotate, words};

/// Operations that stand for all: one of each of these kinds, and of the rest. Names of kernels begin with these.
const KINDS: [&str; 4] = ["product", "attention", "conv", ""];
/// What takes about so long is neither the clock's noise nor long to measure.
const ABOUT_S: f64 = 1e-3;
/// Sampling time of a case. A trial has a 42nd of it.
const SECONDS: &str = "0.5s";

/// How fast a machine is now, by what was measured of its profile again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// Time now over time then: the median over operations and exchanges.
    pub ratio: f64,
    /// The least and the largest of them.
    pub range: (f64, f64),
    /// Operations and exchanges.
    pub count: usize,
}

impl Drift {
    /// What measured times are divided by: one where the machine is as fast as launches of one hour tell.
    pub fn pace(&self, launch_spread: f64) -> f64 {
        if self.ratio.ln().abs() > 2.0 * launch_spread { self.ratio } else { 1.0 }
    }
}

/// The plan that measures some of a profile's operations and exchanges again; None for public numbers.
pub fn again(profile: &MachineProfile, caches: Caches) -> Option<String> {
    let (kernels, transfer) = chosen(profile);
    if kernels.is_empty() {
        return None;
    }
    let mut text = format!("experiment: calibration\ndefaults: {{max_seconds: {SECONDS}, limits: 'false'}}\ncases:\n");
    for kernel in kernels {
        let Ok(sample) = Sample::new(&kernel.kernel, &kernel.dims, kernel.dtype) else { continue };
        let _ = writeln!(
            text,
            "  - {{benchmark: kernel, kernel: {}, dtype: {}, ranks: {}, rotate: {}B, dims: {}}}",
            kernel.kernel,
            kernel.dtype.name(),
            kernel.ranks,
            rotate(&OperationShape::of(&sample.program, sample.op()), caches),
            words(&kernel.dims)
        );
    }
    if let Some(transfer) = transfer {
        let _ = writeln!(
            text,
            "  - {{benchmark: collective, op: {}, backend: {}, ranks: {}, bytes: {}B}}",
            transfer.operation.name(),
            transfer.backend,
            transfer.ranks,
            transfer.bytes
        );
    }
    Some(text)
}

/// Of each kind the operation that takes about a millisecond, on one rank and on as many as there are, and such an exchange.
fn chosen(profile: &MachineProfile) -> (Vec<&KernelTime>, Option<&TransferTime>) {
    let mut counts: Vec<u32> = profile.kernels.iter().map(|kernel| kernel.ranks).collect();
    counts.sort_unstable();
    counts.dedup();
    let far = |seconds: f64| (seconds / ABOUT_S).ln().abs();
    let mut chosen: Vec<&KernelTime> = Vec::new();
    for ranks in counts {
        for kind in KINDS {
            let is_kind = |kernel: &&KernelTime| {
                let own = KINDS.iter().find(|kind| kernel.kernel.starts_with(*kind));
                kernel.ranks == ranks && own == Some(&kind)
            };
            let nearest =
                profile.kernels.iter().filter(is_kind).min_by(|a, b| far(a.seconds).total_cmp(&far(b.seconds)));
            chosen.extend(nearest);
        }
    }
    let whole = profile.transfers.iter().filter(|transfer| transfer.groups == 1);
    (chosen, whole.min_by(|a, b| far(a.seconds).total_cmp(&far(b.seconds))))
}

/// How fast the machine is now, by the operations and exchanges that both profiles have; None where they have none in common.
pub fn drift(then: &MachineProfile, now: &MachineProfile) -> Option<Drift> {
    let kernel = |own: &KernelTime| {
        let is_same = |other: &&KernelTime| {
            (&other.kernel, other.dtype, &other.dims, other.ranks) == (&own.kernel, own.dtype, &own.dims, own.ranks)
        };
        then.kernels.iter().find(is_same).map(|known| own.seconds / known.seconds)
    };
    let transfer = |own: &TransferTime| {
        let key = |of: &TransferTime| (of.operation, of.backend.clone(), of.ranks, of.groups, of.bytes);
        then.transfers.iter().find(|other| key(other) == key(own)).map(|known| own.seconds / known.seconds)
    };
    let kernels = now.kernels.iter().filter_map(kernel);
    let ratios: Vec<f64> = kernels.chain(now.transfers.iter().filter_map(transfer)).collect();
    let least = ratios.iter().copied().reduce(f64::min)?;
    let largest = ratios.iter().copied().reduce(f64::max)?;
    Some(Drift { ratio: stats::median(&ratios), range: (least, largest), count: ratios.len() })
}

#[cfg(test)]
mod tests {
    use terms::{Collective, Dtype};

    use super::*;
    use crate::machines::machine;

    fn kernel(name: &str, dims: &[u64], ranks: u32, seconds: f64) -> KernelTime {
        KernelTime { kernel: name.to_owned(), dtype: Dtype::F32, dims: dims.to_vec(), ranks, seconds, spread: 0.0 }
    }

    fn profile() -> MachineProfile {
        let mut profile = machine("a100-nvlink").unwrap().profile();
        for ranks in [1, 2] {
            let convolution = [1, 8, 8, 3, 1, 1, 16, 16];
            for (name, dims, seconds) in [
                ("product_nt", &[64, 64, 64, 0, 4][..], 1e-6),
                ("product_nn", &[256, 256, 256, 0, 4], 2e-3),
                ("adamw", &[4096, 0], 1e-4),
                ("conv_forward", &convolution, 1.0),
            ] {
                profile.kernels.push(kernel(name, dims, ranks, seconds));
            }
        }
        profile.transfers.push(TransferTime {
            operation: Collective::AllReduce,
            backend: "shm".to_owned(),
            ranks: 2,
            ranks_per_node: 2,
            groups: 1,
            bytes: 4096,
            seconds: 1e-5,
            spread: 0.0,
        });
        profile
    }

    #[test]
    fn one_of_each_kind_is_measured_again() {
        let text = again(&profile(), Caches::default()).unwrap();
        assert_eq!(text.matches("benchmark: kernel").count(), 6, "three kinds on one rank and on two: {text}");
        assert!(text.contains("product_nn") && !text.contains("product_nt"), "{text}");
        assert!(text.contains("op: all_reduce, backend: shm, ranks: 2, bytes: 4096B"), "{text}");
        assert_eq!(again(&machine("a100-nvlink").unwrap().profile(), Caches::default()), None);
    }

    #[test]
    fn a_slower_machine_is_seen_by_the_median() {
        let (then, mut now) = (profile(), profile());
        for kernel in &mut now.kernels {
            kernel.seconds *= 1.1;
        }
        now.kernels[0].seconds *= 5.0;
        now.kernels.push(kernel("adamw", &[99, 0], 1, 1.0));
        let drift = super::drift(&then, &now).unwrap();
        assert!((drift.ratio - 1.1).abs() < 1e-9 && drift.count == 9, "{drift:?}");
        assert_eq!((drift.pace(0.06), drift.pace(0.03)), (1.0, drift.ratio), "10% are within two spreads of 6%");
        assert!((drift.range.0 - 1.0).abs() < 1e-9 && (drift.range.1 - 5.5).abs() < 1e-9, "{drift:?}");
        assert_eq!(super::drift(&machine("a100-nvlink").unwrap().profile(), &now), None);
    }
}

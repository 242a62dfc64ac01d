//! How long a call takes, for the estimate of a run: the bytes that ranks read and write over what cores of small machines move.

use contract::{TrialCost, is_on_gpus, is_pytorch};
use measure::machine;
use record::Case;

use super::Parameters;
use super::traffic::share;

/// Bytes that a core reads and writes in a second, in buffers larger than its caches: an EPYC of 2025 has 30e9 for two and six ranks
/// on two cores, and other machines less.
const IN_MEMORY: f64 = 20e9;
/// Bytes that a core reads and writes in a second where ranks exchange data by sockets, as those of gloo do: 2.3e9 to 2.8e9 there.
const BY_SOCKETS: f64 = 2.5e9;

/// The cost of a trial on this machine. Nothing is known of GPUs without measuring them.
pub(super) fn here(case: &Case, parameters: &Parameters) -> TrialCost {
    if is_on_gpus(case) {
        return TrialCost::default();
    }
    let rate = if is_pytorch(case) { BY_SOCKETS } else { IN_MEMORY };
    TrialCost { sample_s: call_s(parameters, rate, machine::allowed_cpus().len()), ..TrialCost::default() }
}

/// Seconds of a call whose ranks share these cores of a host.
fn call_s(parameters: &Parameters, rate: f64, cores: usize) -> f64 {
    let Parameters { op, bytes, ranks, peer, in_place, .. } = *parameters;
    let of_one = |rank: u32| share(op, bytes, rank, ranks, peer, bytes, in_place).traffic() as f64;
    let traffic = (0..ranks).map(of_one).sum::<f64>() * parameters.in_flight as f64;
    let groups = if parameters.alone.is_some() { 1 } else { parameters.groups };
    let at_once = (ranks as usize * groups as usize).min(cores).max(1);
    traffic * f64::from(groups) / (rate * at_once as f64)
}

#[cfg(test)]
mod tests {
    use record::plan::from_flags;

    use super::super::{Fields, about};
    use super::*;

    fn seconds(fields: &[(&str, &str)], cores: usize) -> f64 {
        let plan = from_flags(&about::ABOUT, fields, &[]).unwrap();
        let case = &plan.cases[0];
        call_s(&Parameters::new(case, &Fields::of(case).unwrap()).unwrap(), 1e9, cores)
    }

    #[test]
    fn a_call_takes_what_it_moves_over_what_cores_move() {
        // Two ranks read and write half of 1 GB twice each: 4e9 bytes, by one core of 1e9 bytes a second, or by two.
        let large =
            |ranks: &str, cores: usize| seconds(&[("op", "all_reduce"), ("ranks", ranks), ("bytes", "1GB")], cores);
        assert_eq!([large("2", 1), large("2", 2), large("2", 8)], [4.0, 2.0, 2.0]);
        // Six ranks read and write six sixths each.
        assert!((large("6", 2) - 6.0).abs() < 1e-6, "{}", large("6", 2));
        assert_eq!(seconds(&[("op", "barrier"), ("ranks", "2")], 2), 0.0);
    }
}

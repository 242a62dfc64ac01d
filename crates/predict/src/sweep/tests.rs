//! Sweeps against simulations of every candidate.

use parallel::Mesh;

use super::*;
use crate::Software;
use crate::machines::machine;
use crate::memory::estimated;
use crate::tests::workload;

fn choices() -> Choices {
    Choices { ranks: 4, global_batch: 8, most_chunks: 3, most_micro_batch: 8 }
}

#[test]
fn a_sweep_finds_what_simulating_all_finds() {
    let predictor = Predictor::new(machine("a100-nvlink").unwrap().profile(), Software::Rankmark);
    let base = workload(Mesh { data: 1, tensor: 1, pipeline: 1 });
    let swept = sweep(&predictor, &base, &choices(), 3).unwrap();
    let costs = Costs::new(&predictor.profile, predictor.constants, base.software, 4);
    let bounds = ModelBounds::new(&base);
    let mut all: Vec<(f64, Candidate)> = Vec::new();
    choices().for_each(&base, &mut |candidate| {
        let workload = candidate.workload(&base);
        let Ok(step) = workload.step() else { return };
        let seconds = crate::simulate(&step, &costs).seconds;
        let times = block_times(&costs, &workload, &step.pieces);
        let bound = bounds.seconds(candidate, &step.pieces, &times, &costs);
        assert!(bound <= seconds * (1.0 + 1e-9), "{candidate:?}: {bound} is above {seconds}");
        let (bytes, least) = (estimated(&step).bytes(), bounds.bytes(candidate, &step.pieces));
        assert!(least <= bytes, "{candidate:?}: {least} bytes are above {bytes}");
        all.push((seconds, *candidate));
    });
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    assert_eq!(swept.legal, all.len());
    assert!(swept.simulated < all.len() / 2, "{} of {} were simulated", swept.simulated, all.len());
    for (ranked, (seconds, _)) in swept.best.iter().zip(&all) {
        assert!((ranked.prediction.seconds / seconds - 1.0).abs() < 1e-9, "{} {seconds}", ranked.prediction.seconds);
    }
    assert!(!swept.best[0].tied && swept.best.len() == 3);
}

#[test]
fn steady_pipelines_are_played_in_part() {
    let predictor = Predictor::new(machine("a100-nvlink").unwrap().profile(), Software::Rankmark);
    let base = workload(Mesh { data: 1, tensor: 1, pipeline: 1 });
    let choices = Choices { ranks: 2, global_batch: 64, most_chunks: 1, most_micro_batch: 1 };
    let swept = sweep(&predictor, &base, &choices, 100).unwrap();
    let costs = Costs::new(&predictor.profile, predictor.constants, base.software, 2);
    let mut cache = SweepCache { base: &base, costs: &costs, blocks: HashMap::new(), stages: HashMap::new() };
    let deep = swept.best.iter().filter(|ranked| ranked.candidate.mesh.pipeline == 2);
    let mut count = 0;
    for ranked in deep {
        let workload = ranked.candidate.workload(&base);
        let (blocks, stages) =
            (cache.blocks(&ranked.candidate).unwrap(), cache.stages(&ranked.candidate, &workload).unwrap());
        let seconds = quick(&costs, workload, &ranked.candidate, &blocks, &stages).unwrap();
        assert!((seconds / ranked.prediction.seconds - 1.0).abs() < 0.02, "{seconds} {}", ranked.prediction.seconds);
        count += 1;
    }
    assert!(count > 0);
}

#[test]
fn where_nothing_fits_the_smallest_need_is_told() {
    let mut profile = machine("a100-nvlink").unwrap().profile();
    profile.memory_bytes = 1 << 20;
    let predictor = Predictor::new(profile, Software::Rankmark);
    let base = workload(Mesh { data: 1, tensor: 1, pipeline: 1 });
    let swept = sweep(&predictor, &base, &choices(), 3).unwrap();
    assert!(swept.best.is_empty() && swept.fitting == 0);
    assert!(swept.smallest.unwrap().1 > 1 << 20);
    let odd = Choices { ranks: 7, global_batch: 8, ..choices() };
    assert!(sweep(&predictor, &base, &odd, 3).is_err());
}

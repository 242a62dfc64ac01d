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
fn bounds_hold_where_some_links_cross_nodes() {
    let predictor = Predictor::new(machine("a100-nvlink").unwrap().profile(), Software::Rankmark);
    for node in [2, 3] {
        let base = Workload { ranks_per_node: node, ..workload(Mesh::SERIAL) };
        let costs = Costs::new(&predictor.profile, predictor.constants, base.software, node as u32);
        let bounds = ModelBounds::new(&base);
        let mut count = 0;
        choices().for_each(&base, &mut |candidate| {
            if candidate.mesh.pipeline == 1 || candidate.micro_batch > 1 || candidate.recompute {
                return;
            }
            let workload = candidate.workload(&base);
            let Ok(step) = workload.step() else { return };
            let seconds = crate::simulate(&step, &costs).seconds;
            let times = block_times(&costs, &workload, &step.pieces);
            let bound = bounds.seconds(candidate, &step.pieces, &times, &costs);
            assert!(bound <= seconds * (1.0 + 1e-9), "{candidate:?}: {bound} is above {seconds}");
            count += 1;
        });
        assert!(count > 0);
    }
}

/// Candidates that can be simulated, with their times and with what their memory is at least. The fastest is the first.
fn by_time(predictor: &Predictor, base: &Workload, choices: &Choices) -> Vec<(f64, Step, u64)> {
    let costs = Costs::new(&predictor.profile, predictor.constants, base.software, choices.ranks as u32);
    let bounds = ModelBounds::new(base);
    let mut all = Vec::new();
    choices.for_each(base, &mut |candidate| {
        let Ok(step) = candidate.workload(base).step() else { return };
        let least = bounds.bytes(candidate, &step.pieces);
        all.push((crate::simulate(&step, &costs).seconds, step, least));
    });
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

#[test]
fn the_best_that_fits_is_found_where_faster_ones_pass_the_bound_alone() {
    let mut predictor = Predictor::new(machine("a100-nvlink").unwrap().profile(), Software::Rankmark);
    let base = workload(Mesh::SERIAL);
    let choices = Choices { ranks: 2, global_batch: 4, most_chunks: 1, most_micro_batch: 4 };
    let all = by_time(&predictor, &base, &choices);
    let mut checked = 0;
    for (_, step, least) in all.iter().take(4) {
        let limit = memory(step).bytes() - 1;
        let wanted = all.iter().find(|(_, step, least)| *least <= limit && fits(step, limit));
        let Some((seconds, ..)) = wanted.filter(|_| *least <= limit) else { continue };
        predictor.profile.memory_bytes = limit;
        let best = sweep(&predictor, &base, &choices, 1).unwrap().best;
        assert!(best[0].prediction.fits(), "{best:?} in {limit}");
        assert!((best[0].prediction.seconds / seconds - 1.0).abs() < 1e-6, "{best:?} does not take {seconds}");
        checked += 1;
    }
    assert!(checked > 0, "no plan is above its bound");
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
    let mut predictor = Predictor::new(profile, Software::Rankmark);
    let base = workload(Mesh { data: 1, tensor: 1, pipeline: 1 });
    let swept = sweep(&predictor, &base, &choices(), 3).unwrap();
    assert!(swept.best.is_empty() && swept.fitting == 0);
    let least = swept.smallest.unwrap().1;
    assert!(least > 1 << 20);
    // Where there is as much as the smallest needs at least, and less than it does need.
    predictor.profile.memory_bytes = least;
    let swept = sweep(&predictor, &base, &choices(), 3).unwrap();
    assert!(swept.best.is_empty() && swept.fitting > 0);
    assert!(swept.smallest.unwrap().1 > least);
    let odd = Choices { ranks: 7, global_batch: 8, ..choices() };
    assert!(sweep(&predictor, &base, &odd, 3).is_err());
}

#[test]
fn a_batch_that_is_told_in_tokens_is_divided_at_once() {
    let base = workload(Mesh { data: 1, tensor: 1, pipeline: 1 });
    let choices = Choices { global_batch: 1 << 50, ..choices() };
    let mut found: Vec<usize> = Vec::new();
    choices.for_each(&base, &mut |candidate| found.push(candidate.micro_batch));
    found.sort_unstable();
    found.dedup();
    assert_eq!(found, [1, 2, 4, 8]);
}

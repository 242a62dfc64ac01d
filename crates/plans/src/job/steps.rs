//! The steps of a job: a start of ranks for each number of ranks that its plan has.

use launch::job::{RankStart, Target};
use record::Case;
use serde_json::{Value, json};
use view::number::list;

/// A step for each number of ranks, the smallest first: efficiency is computed against fewer ranks, which must be there. Each
/// is spread over as many of the nodes as take equal shares; what fits no nodes is left out.
pub(super) fn spread(numbers: &[u32], (most, nodes): (u32, u32), target: &Target) -> Vec<RankStart> {
    let each = most / nodes;
    let of = |ranks: u32| {
        let fits = |nodes: &u32| ranks.is_multiple_of(*nodes) && ranks / nodes <= each;
        let found = match (target.rank_per_node, target.on_every_node) {
            (true, _) => Some(ranks),
            (_, true) => Some(nodes).filter(fits),
            _ => (1..=nodes).rev().find(fits),
        };
        Some(RankStart { ranks, nodes: found?, cores: 0, gpus: 0, starts: 1 })
    };
    numbers.iter().filter_map(|ranks| of(*ranks)).collect()
}

/// The steps that some case runs in, with the cores and GPUs that each rank keeps busy, and the starts that its worlds need.
pub(super) fn needed(steps: Vec<RankStart>, running: &[&Case]) -> Vec<RankStart> {
    let with_needs = |step: RankStart| {
        let own: Vec<&Case> = running.iter().copied().filter(|case| case.ranks() == step.ranks).collect();
        let (cores, gpus) = (super::cores(&own, step.ranks), super::gpus(&own, step.ranks));
        (!own.is_empty()).then_some(RankStart { cores, gpus, starts: starts(&own), ..step })
    };
    steps.into_iter().filter_map(with_needs).collect()
}

/// How often a launcher must start the ranks of these cases: for each world that it connects, and each case that needs new ranks.
pub(super) fn starts(own: &[&Case]) -> u32 {
    let is_cold = |case: &Case| {
        let needs = || benchmarks::parse(case).is_ok_and(|parsed| parsed.needs_new_ranks());
        case.trials() == Some(1) && super::is_launched(case) && case.ranks() > 1 && needs()
    };
    let cold = own.iter().filter(|case| is_cold(case)).count();
    let mut worlds: Vec<&record::SharedMap> = Vec::new();
    for case in own.iter().filter(|case| !is_cold(case)).filter(|case| super::is_launched(case) && case.ranks() > 1) {
        if !worlds.contains(&&case.world) {
            worlds.push(&case.world);
        }
    }
    (worlds.len() + cold).max(1) as u32
}

/// Ranks and nodes of a job that has room for each step: the most nodes of a step, each with the most ranks that one has there.
pub(super) fn room(steps: &[RankStart]) -> Option<(u32, u32)> {
    let nodes = steps.iter().map(|step| step.nodes).max()?;
    let each = steps.iter().map(|step| step.ranks.div_ceil(step.nodes)).max()?;
    Some((nodes * each, nodes))
}

/// Cores for each rank that the job has room for, so that every step has enough on its nodes.
pub(super) fn cores(steps: &[RankStart], (ranks, nodes): (u32, u32)) -> usize {
    let places = (ranks / nodes).max(1) as usize;
    let wanted = steps.iter().map(|step| ((step.ranks / step.nodes) as usize * step.cores).div_ceil(places));
    wanted.max().unwrap_or(1).max(1)
}

/// `steps of 1, 2 and 4 ranks`.
pub(super) fn title(steps: &[RankStart]) -> String {
    let numbers: Vec<u32> = steps.iter().map(|step| step.ranks).collect();
    match numbers.as_slice() {
        [1] => "a step of 1 rank".to_owned(),
        [one] => format!("a step of {one} ranks"),
        _ => format!("steps of {} ranks", list(&numbers)),
    }
}

/// A step, for programs.
pub fn json(step: &RankStart) -> Value {
    json!({
        "ranks": step.ranks, "nodes": step.nodes, "cores_per_process": step.cores, "gpus_per_process": step.gpus,
        "starts": step.starts
    })
}

#[cfg(test)]
mod tests {
    use launch::job::TARGETS;

    use super::*;

    fn spread_over(target: &str, numbers: &[u32], most: u32, nodes: u32) -> Vec<(u32, u32)> {
        let target = TARGETS.iter().find(|one| one.name == target).unwrap();
        spread(numbers, (most, nodes), target).iter().map(|step| (step.ranks, step.nodes)).collect()
    }

    #[test]
    fn steps_are_spread_evenly_the_smallest_first() {
        assert_eq!(spread_over("slurm", &[1, 2, 4], 4, 1), [(1, 1), (2, 1), (4, 1)]);
        assert_eq!(spread_over("slurm", &[1, 2, 3, 4, 8], 8, 2), [(1, 1), (2, 2), (3, 1), (4, 2), (8, 2)]);
        // Five ranks fit neither both nodes evenly nor one.
        assert_eq!(spread_over("mpirun", &[5, 8], 8, 2), [(8, 2)]);
        // Its script runs on both nodes.
        assert_eq!(spread_over("torchrun", &[1, 2, 3, 4], 4, 2), [(2, 2), (4, 2)]);
        assert_eq!(spread_over("kubernetes", &[1, 2, 4], 4, 4), [(1, 1), (2, 2), (4, 4)]);
    }

    #[test]
    fn a_case_that_needs_new_ranks_has_a_start_of_its_own() {
        let starts_of = |more: &str| {
            let text = format!(
                "experiment: cold\ncases:\n  - {{benchmark: startup, stage: first_call, backend: mpi, ranks: 2, {more}}}\n"
            );
            let plan = record::plan::read(&text, "plan.yaml", &benchmarks::abouts(), &[]).unwrap();
            starts(&plan.cases.iter().filter(|case| case.skip.is_none()).collect::<Vec<_>>())
        };
        assert_eq!(starts_of("start: warm"), 1);
        // Two sizes, each with a start, and one for all warm cases together.
        assert_eq!(starts_of("start: [cold, warm], bytes: [1KiB, 2KiB], trials: 1"), 3);
        assert_eq!(starts_of("start: [cold, warm], bytes: [1KiB, 2KiB]"), 1, "with more trials they are skipped");
    }

    #[test]
    fn every_step_has_its_nodes() {
        let step = |ranks, nodes| RankStart { ranks, nodes, cores: 1, gpus: 0, starts: 1 };
        assert_eq!(room(&[step(4, 4), step(6, 3)]), Some((8, 4)));
        assert_eq!(room(&[step(3, 1), step(4, 2)]), Some((6, 2)), "three ranks on a node");
        assert_eq!(room(&[step(1, 1), step(2, 2), step(8, 2)]), Some((8, 2)));
        assert_eq!(room(&[]), None);
    }

    #[test]
    fn every_step_has_its_cores() {
        let step = |ranks, nodes, cores| RankStart { ranks, nodes, cores, gpus: 0, starts: 1 };
        assert_eq!(cores(&[step(4, 1, 1), step(1, 1, 1)], (4, 1)), 1);
        // Two ranks of eight threads need the cores of four ranks on two nodes.
        assert_eq!(cores(&[step(4, 2, 1), step(2, 2, 8)], (4, 2)), 4);
    }
}

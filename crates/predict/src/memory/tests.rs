//! The bounds of activations against the plan.

use super::*;
use crate::tests::workload;
use crate::workload::Workload;
use parallel::Mesh;

#[test]
fn categories_are_near_those_of_the_plan() {
    for (data, tensor, pipeline) in [(1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2), (2, 2, 1)] {
        for recompute in [false, true] {
            let mut workload = workload(Mesh { data, tensor, pipeline });
            workload.recipe.recompute = recompute;
            let step = workload.step().unwrap();
            let own = of_stage(&step, 0);
            let plan = parallel::outline(&workload.recipe, 0, |_| 0).unwrap();
            for category in [Category::Parameter, Category::Optimizer, Category::Gradient] {
                assert_eq!(own.categories[&category], plan.categories[&category] as u64, "{category:?}");
            }
            let of_plan = plan.categories[&Category::Activation] as f64;
            let ratio = own.categories[&Category::Activation] as f64 / of_plan;

            assert!((0.98..1.2).contains(&ratio), "{data}x{tensor}x{pipeline} {recompute}: {ratio} of {of_plan}");
        }
    }
}

#[test]
fn the_memory_of_this_program_is_that_of_the_fullest_plan() {
    for mesh in [[2, 1, 1], [1, 1, 2], [2, 1, 2], [1, 2, 2]] {
        let [data, tensor, pipeline] = mesh;
        let step = workload(Mesh { data, tensor, pipeline }).step().unwrap();
        let need = memory(&step);
        let ranks = data * tensor * pipeline;
        let plans = (0..ranks).map(|rank| parallel::outline(&step.workload.recipe, rank, |_| 0).unwrap());
        let most = plans.map(|plan| plan.categories.values().sum::<usize>()).max().unwrap();
        assert_eq!(need.bytes(), most as u64, "{mesh:?}");
        let others = Step { workload: Workload { software: Software::Megatron, ..step.workload.clone() }, ..step };
        assert_eq!(memory(&others), estimated(&others));
    }
}

#[test]
fn a_step_fits_into_what_its_memory_is_and_not_into_less() {
    for (data, tensor, pipeline) in [(2, 1, 1), (1, 1, 2), (1, 1, 3)] {
        for software in [Software::Rankmark, Software::Megatron] {
            let mut workload = workload(Mesh { data, tensor, pipeline });
            workload.software = software;
            let step = workload.step().unwrap();
            let need = memory(&step).bytes();
            assert!(fits(&step, need) && !fits(&step, need - 1), "{data}x{tensor}x{pipeline} of {software}: {need}");
            assert!(!fits(&step, need / 2));
        }
    }
}

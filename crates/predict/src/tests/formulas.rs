//! Steps whose time a formula gives.

use parallel::{Mesh, Schedule};
use record::ConstantName;

use super::{near, workload};
use crate::machines::machine;
use crate::passes::{BlockTimes, Parts};
use crate::simulate::{Times, play};
use crate::{Constants, Costs, Software, Step, simulate};

/// A step with every block's forward pass of one second and backward pass of two, and exchanges of these times.
fn seconds(step: &Step, change: impl FnOnce(&mut Times)) -> f64 {
    let mut profile = machine("a100-nvlink").unwrap().profile();
    for constant in &mut profile.constants {
        // Links and memory so fast, and operations so short, that only what is set counts.
        match constant.name {
            ConstantName::LinkRate | ConstantName::NetworkRate | ConstantName::MemoryRate => constant.value = 1e30,
            ConstantName::ProductRate => constant.value = 1e30,
            ConstantName::OverlapSlowdown => constant.value = 1.0,
            _ => constant.value = 1e-15,
        }
    }
    let costs = Costs::new(&profile, Constants::of(&profile), Software::Rankmark, 8);
    let mut times = Times::new(step, &costs);
    let of = |compute: f64| Parts { compute, ..Parts::default() };
    times.blocks.fill(BlockTimes { forward: of(1.0), backward: of(2.0), exchanges: [0; 2] });
    change(&mut times);
    let played = play(step, &step.timetable, &times);
    assert!((played.parts.total() - played.seconds).abs() < 1e-6, "parts {:?} of {}", played.parts, played.seconds);
    played.seconds
}

#[test]
fn a_pipeline_takes_the_time_of_its_bubble_more() {
    // gpt2-mini has 6 blocks: 3 stages of 2. (m + p - 1) passes of 2 x 3 seconds (Narayanan et al., arXiv 2104.04473, section 2.2).
    for schedule in [Schedule::GPipe, Schedule::OneForwardOneBackward] {
        for micros in [1, 2, 4, 9] {
            let mut workload = workload(Mesh { data: 1, tensor: 1, pipeline: 3 });
            workload.recipe.schedule = schedule;
            workload.recipe.micro_batches = vec![micros];
            let step = workload.step().unwrap();
            near(seconds(&step, |_| {}), (micros + 2) as f64 * 6.0);
        }
    }
    // Two chunks of each stage halve the bubble.
    let mut workload = workload(Mesh { data: 1, tensor: 1, pipeline: 3 });
    workload.recipe.schedule = Schedule::Interleaved;
    workload.recipe.chunks = 2;
    workload.recipe.micro_batches = vec![6];
    near(seconds(&workload.step().unwrap(), |_| {}), 6.0 * 6.0 + 2.0 * 6.0 / 2.0);
}

#[test]
fn the_longest_stage_of_uneven_ones_decides() {
    let mut workload = workload(Mesh { data: 1, tensor: 1, pipeline: 2 });
    workload.recipe.stages = vec![2, 4];
    workload.recipe.micro_batches = vec![5];
    let step = workload.step().unwrap();
    // The first stage's passes of the first micro-batch, and five of the second stage: then the first stage's last backward pass.
    near(seconds(&step, |_| {}), 2.0 + 5.0 * 12.0 + 4.0);
}

#[test]
fn exchanges_of_gradients_hide_behind_the_backward_pass_if_they_may() {
    let mut workload = workload(Mesh { data: 2, tensor: 1, pipeline: 1 });
    workload.recipe.micro_batches = vec![1; 2];
    let plain = workload.step().unwrap();
    let units = plain.stages[0].units.len();
    let exchange = |times: &mut Times| times.data[0].set(0.25);
    // Only what begins with the end of the last backward pass shows.
    let overlapped = seconds(&plain, exchange);
    workload.recipe.overlap = false;
    let exposed = seconds(&workload.step().unwrap(), exchange);
    near(exposed, 18.0 + 0.25 * units as f64);
    assert!(overlapped > 18.0 && overlapped < exposed, "{overlapped} {exposed}");
}

#[test]
fn shards_of_a_unit_that_two_blocks_write_to_are_exchanged_once_for_each_micro_batch() {
    for sharded in [2, 3] {
        let mut workload = workload(Mesh { data: 2, tensor: 1, pipeline: 1 });
        workload.recipe.sharded = sharded;
        workload.recipe.overlap = false;
        workload.recipe.micro_batches = vec![3; 2];
        let step = workload.step().unwrap();
        let units = &step.stages[0].units;
        // The head writes to the gradients of the embedding, too.
        assert!(units.iter().any(|unit| unit.writers.len() == 2), "{units:?}");
        near(seconds(&step, |times| times.data[0].set(0.25)), 3.0 * (18.0 + 0.25 * units.len() as f64));
    }
}

#[test]
fn shards_of_parameters_are_put_together_where_gradients_are_not_exchanged() {
    let profile = machine("a100-nvlink").unwrap().profile();
    let mut workload = workload(Mesh { data: 2, tensor: 1, pipeline: 1 });
    workload.recipe.communicate = false;
    let mut slower = |sharded: u8| {
        workload.recipe.sharded = sharded;
        let step = workload.step().unwrap();
        let time = |rate: f64| {
            let mut constants = Constants::of(&profile);
            constants.set(ConstantName::LinkRate, rate, 0.1);
            simulate(&step, &Costs::new(&profile, constants, Software::Rankmark, 8)).seconds
        };
        time(1e6) - time(1e12)
    };
    assert!(slower(0) < 0.1, "only the loss is exchanged");
    // Sixteen megabytes, half of them from the other replica, for each pass of each micro-batch.
    assert!(slower(3) > 10.0, "{}", slower(3));
}

#[test]
fn faster_constants_never_make_a_step_longer() {
    let profile = machine("h100-nvlink").unwrap().profile();
    for (data, tensor, pipeline) in [(1, 1, 1), (4, 1, 1), (1, 4, 1), (2, 2, 2)] {
        for sharded in [0, 3] {
            let mut workload = workload(Mesh { data, tensor, pipeline });
            workload.recipe.sharded = sharded;
            let step = workload.step().unwrap();
            let time = |name: Option<ConstantName>| {
                let mut constants = Constants::of(&profile);
                if let Some(name) = name {
                    constants.set(name, 1.5 * constants.get(name), 0.1);
                }
                simulate(&step, &Costs::new(&profile, constants, Software::Rankmark, 8)).seconds
            };
            for name in [ConstantName::ProductRate, ConstantName::MemoryRate, ConstantName::LinkRate] {
                assert!(time(Some(name)) <= time(None) * (1.0 + 1e-12), "{name} on {data}x{tensor}x{pipeline}");
            }
            for name in [ConstantName::LinkLatency, ConstantName::OperationTime, ConstantName::StepTime] {
                assert!(time(Some(name)) >= time(None) * (1.0 - 1e-12), "{name} on {data}x{tensor}x{pipeline}");
            }
        }
    }
}

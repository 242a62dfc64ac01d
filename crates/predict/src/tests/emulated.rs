//! Steps whose blocks sleep, and whose links are slowed down.

use comm::Pace;
use parallel::{Mesh, Schedule, SleepTimes};
use record::{ConstantName, MachineProfile};
use terms::{Bandwidth, Seconds};

use super::{near, workload};
use crate::machines::machine;
use crate::simulate::{Times, play};
use crate::{Constants, Costs, Emulated, Software, Step, Workload, simulate};

/// A machine whose exchanges take no time but that of the slow link.
fn profile() -> MachineProfile {
    let mut profile = machine("a100-nvlink").unwrap().profile();
    for constant in &mut profile.constants {
        constant.value = match constant.name {
            ConstantName::LinkRate | ConstantName::NetworkRate => 1e30,
            ConstantName::OverlapSlowdown => 1.0,
            _ => 1e-15,
        };
    }
    profile
}

fn costs(profile: &MachineProfile) -> Costs<'_> {
    Costs::new(profile, Constants::of(profile), Software::Rankmark, 8)
}

fn seconds(step: &Step) -> f64 {
    let profile = profile();
    simulate(step, &costs(&profile).emulating(&step.workload.emulated)).seconds
}

fn emulated(mesh: Mesh, sleep: SleepTimes, pace: Option<Pace>) -> Workload {
    Workload { emulated: Emulated { sleep: Some(sleep), pace }, ..workload(mesh) }
}

/// Seconds of a step over one link that its exchanges share, over several, and of all that goes over a stage's link.
fn over_links(step: &Step) -> [f64; 3] {
    let profile = profile();
    let mut times = Times::new(step, &costs(&profile).emulating(&step.workload.emulated));
    let stages = 0..step.workload.recipe.mesh.pipeline;
    let least = stages.map(|stage| times.on_the_link(step, stage)).fold(0.0, f64::max);
    let shared = play(step, &step.timetable, &times).seconds;
    times.is_paced = false;
    [shared, play(step, &step.timetable, &times).seconds, least]
}

#[test]
fn blocks_sleep_as_long_as_they_are_said_to() {
    // Four micro-batches of six blocks.
    let equal = emulated(Mesh::SERIAL, SleepTimes::Equal(0.5), None);
    near(seconds(&equal.step().unwrap()), 4.0 * 6.0 * 2.0 * 0.5 + 0.5);
    let passes = [[1.0, 2.0], [1.0, 1.0], [3.0, 1.0], [1.0, 1.0], [1.0, 1.0], [1.0, 7.0]];
    let table = SleepTimes::Table { passes: passes.into(), optimizer_s: 0.25 };
    let own = emulated(Mesh::SERIAL, table, None).step().unwrap();
    near(seconds(&own), 4.0 * 21.0 + 0.25);
}

#[test]
fn a_slow_link_takes_the_bytes_of_an_exchange_over_its_bandwidth() {
    let pace = Pace { bandwidth: Bandwidth(1e6), latency: Seconds(0.125) };
    let mut two = emulated(Mesh { data: 2, ..Mesh::SERIAL }, SleepTimes::Equal(0.5), Some(pace));
    two.recipe.overlap = false;
    let step = two.step().unwrap();
    let units = &step.stages[0].units;
    let bytes: usize = units.iter().map(|unit| 4 * unit.elements).sum();
    // All replicas send and receive once what they hold: the bus factor of two ranks is one.
    let exchanged = bytes as f64 / 1e6 + 0.125 * units.len() as f64;
    let end = 2.0 * (0.125 + 8.0 / 1e6);
    let found = seconds(&step);
    let wanted = 24.5 + exchanged;
    assert!(found >= wanted && found <= wanted + end + 1e-6, "{found}, not {wanted}");
    two.recipe.overlap = true;
    let hidden = seconds(&two.step().unwrap());
    assert!(hidden < found && hidden > exchanged, "{hidden} {found}");
}

#[test]
fn transfers_and_exchanges_of_gradients_share_a_slow_link() {
    let pace = Pace { bandwidth: Bandwidth(1e6), latency: Seconds(0.0) };
    let mesh = Mesh { data: 2, tensor: 1, pipeline: 2 };
    let step = emulated(mesh, SleepTimes::Equal(1e-3), Some(pace)).step().unwrap();
    let [shared, apart, _] = over_links(&step);
    // The last stage's gradients are on the link when its last transfer is to go.
    let transfer = 4.0 * (step.workload.recipe.micro_batch * 128 * 256) as f64 / 1e6;
    assert!(shared > apart + transfer, "{shared} s with one link, {apart} s with several");
    assert!(shared > seconds(&step) * (1.0 - 1e-9));
}

/// Whatever order its exchanges have, a link that they share does one at a time.
#[test]
fn no_step_is_shorter_than_all_that_goes_over_a_shared_link() {
    let pace = Pace { bandwidth: Bandwidth(1e6), latency: Seconds(0.0) };
    for (data, tensor, pipeline) in [(2, 2, 1), (2, 1, 2), (2, 2, 2)] {
        let mesh = Mesh { data, tensor, pipeline };
        let step = emulated(mesh, SleepTimes::Equal(1e-3), Some(pace)).step().unwrap();
        let [shared, apart, least] = over_links(&step);
        assert!(apart < least, "{mesh:?}: the link limits nothing: {apart} s, {least} s on it");
        assert!(shared >= least * (1.0 - 1e-9), "{mesh:?}: {shared} s, but {least} s on the link");
    }
}

#[test]
fn without_overlap_both_ends_wait_where_they_come_to_a_transfer() {
    let mesh = Mesh { data: 1, tensor: 1, pipeline: 2 };
    let pace = Pace { bandwidth: Bandwidth(1e30), latency: Seconds(0.0) };
    // Stages of 3 blocks: forward passes of 3 and 9 seconds, backward passes of 3 and 3. The first has 2 warm-up passes at most.
    let passes = [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [3.0, 1.0], [3.0, 1.0], [3.0, 1.0]];
    let table = SleepTimes::Table { passes: passes.into(), optimizer_s: 0.0 };
    let of = |overlap, multiprocessors| {
        let mut step = emulated(mesh, table.clone(), Some(pace));
        step.recipe.schedule = Schedule::GPipe;
        step.recipe.micro_batches = vec![3];
        step.recipe.overlap = overlap;
        let profile = MachineProfile { multiprocessors, ..profile() };
        let step = step.step().unwrap();
        simulate(&step, &costs(&profile).emulating(&step.workload.emulated))
    };
    // 3 seconds until the second stage begins, its 3 x (9 + 3) seconds, and the last backward pass of the first.
    let wanted = 3.0 + 36.0 + 3.0;
    for found in [of(true, 0), of(false, 0), of(false, 132)] {
        near(found.seconds, wanted);
        near(found.parts.total(), wanted);
    }
    // Where the first stage comes to its third transfer first, and its next pass waits for that.
    let passes = [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [7.0, 1.0]];
    let table = SleepTimes::Table { passes: passes.into(), optimizer_s: 0.0 };
    let of = |overlap| {
        let mut step = emulated(mesh, table.clone(), Some(pace));
        step.recipe.schedule = Schedule::Interleaved;
        step.recipe.chunks = 2;
        step.recipe.micro_batches = vec![4];
        step.recipe.overlap = overlap;
        let step = step.step().unwrap();
        let profile = MachineProfile { multiprocessors: 0, ..profile() };
        simulate(&step, &costs(&profile).emulating(&step.workload.emulated)).seconds
    };
    assert!(of(false) > of(true) * 1.01, "{} {}", of(false), of(true));
}

//! States of the machine without a run: what ranks see of it in a moment.

use std::time::{Duration, Instant};

use benchmarks::Host;
use measure::{Canary, MachineStates, Probe, Starter, StatesAsked, SystemCounters, Verdict};
use record::{Case, MachineState};

use crate::driver::{START, spec_of};

/// Between two looks.
const EACH: Duration = Duration::from_millis(25);

/// What the ranks of a case see of the machine for this long; empty where they cannot tell.
///
/// # Errors
/// When they cannot start, or one is lost.
pub fn look_at_states(
    case: &Case,
    host: &Host,
    starter: &mut dyn Starter,
    asked: StatesAsked,
    lasting: Duration,
) -> Result<Vec<MachineState>, Verdict> {
    let mut world = starter.start(&spec_of(case, 0))?;
    let host_of = host.spread.as_ref().map_or(&[][..], |spread| &spread.of);
    let end = Instant::now() + lasting;
    let mut looks = Vec::new();
    while Instant::now() < end {
        looks.push(Canary::new(&world.probe(Probe::Canary, START)?, host_of, SystemCounters::default()));
        std::thread::sleep(EACH);
    }
    Ok(MachineStates::of_looks(asked, &looks, case.ranks()))
}

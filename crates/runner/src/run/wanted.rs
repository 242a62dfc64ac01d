//! A run in one state of the machine: it waits for that state before each trial, and says where it never came.

use std::time::{Duration, Instant};

use measure::{Canary, CaseRun, Probe, SystemCounters, Verdict, World};

use super::RunState;
use crate::driver::START;

/// How often the machine is looked at while its state is another: a look takes less than a millisecond.
const EACH: Duration = Duration::from_millis(100);

impl RunState<'_> {
    /// Waits until ranks see the state that was asked for, or the time of the run is over. Does not wait where that is not known.
    pub(super) fn wait_for_state(&mut self, world: &mut dyn World, run: &CaseRun) -> Result<(), Verdict> {
        if self.machine.wanted().is_none() || run.simulated {
            return Ok(());
        }
        let mut said = false;
        while self.driver.setup.deadline.is_none_or(|deadline| Instant::now() < deadline)
            && (self.driver.setup.interrupted)().is_none()
        {
            let ranks = world.probe(Probe::Canary, START)?;
            let seen = Canary::new(&ranks, &run.host_of, SystemCounters::default());
            if self.machine.is_wanted(&seen, run.case.ranks()) != Some(false) {
                break;
            }
            if !std::mem::replace(&mut said, true) {
                let wanted = self.machine.wanted().unwrap_or_default();
                self.setup.observer.remarks(&format!("waiting for the machine to be in the state `{wanted}`"));
            }
            std::thread::sleep(EACH);
        }
        Ok(())
    }
}

//! Cases that need no further trial, while others go on: they also get what the run learns of the machine meanwhile.

use measure::CaseRun;
use record::{MachineState, StoreError};

use super::RunState;

/// Samples that are kept of such cases, of all ranks together: 256 MB. Lines of further cases get what is learned later.
const MOST_KEPT: usize = 32 << 20;

impl RunState<'_> {
    /// Sets cases aside that need no further trial.
    pub(super) fn retire(&mut self) {
        let done: Vec<String> =
            self.open.iter().filter(|(_, run)| run.stop().is_some()).map(|(id, _)| id.clone()).collect();
        let samples =
            |run: &CaseRun| run.trials.iter().flat_map(|trial| trial.samples.rows()).map(Vec::len).sum::<usize>();
        let mut kept: usize = self.closed.values().map(samples).sum();
        for id in done {
            let Some(run) = self.open.remove(&id) else { continue };
            kept += samples(&run);
            if kept <= MOST_KEPT {
                self.closed.insert(id, run);
            }
        }
    }

    /// Lines of cases that ended before the run knew the states of their trials, made again.
    pub(super) fn tell_states(&mut self) -> Result<(), StoreError> {
        for mut run in std::mem::take(&mut self.closed).into_values() {
            if self.machine.tell(&mut run) {
                self.measured(&run, false, Vec::new())?;
            }
        }
        Ok(())
    }

    /// What the run saw of the machine's states, into its file. In a resumed record, states that only earlier runs saw
    /// stay.
    pub(super) fn note_states(&mut self) {
        if self.machine.states().is_empty() {
            return;
        }
        let file = &mut *self.driver.setup.file;
        let own = self.machine.states().to_vec();
        let is_own = |state: &MachineState| own.iter().any(|one| one.name == state.name);
        let earlier: Vec<MachineState> =
            file.states.drain(..).filter(|state| state.name.is_some() && !is_own(state)).collect();
        file.states = own.into_iter().chain(earlier).collect();
        file.unseen_states = self.machine.unseen();
        file.unseen_states.retain(|state| file.states.iter().all(|own| own.name != state.name));
    }
}

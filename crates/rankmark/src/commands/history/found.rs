//! The histories that the records make together.

use diagnose::history::LeftOut;
use report::NamedHistory;

use crate::Failure;

/// The histories of some records, and the records that are part of none.
pub(super) struct Histories {
    pub(super) machines: Vec<NamedHistory>,
    pub(super) left_out: Vec<LeftOut>,
}

impl Histories {
    /// Leaves the machines with this text in their name.
    pub(super) fn keep(&mut self, wanted: &str) -> Result<(), Failure> {
        let names: Vec<String> = self.machines.iter().map(|machine| machine.history.machine.clone()).collect();
        let wanted_low = wanted.to_lowercase();
        self.machines.retain(|machine| machine.history.machine.to_lowercase().contains(&wanted_low));
        if self.machines.is_empty() {
            let hint = format!("valid values are parts of: {}", names.join(" | "));
            return Err(Failure::new(format!("no machine of these records has `{wanted}` in its name")).hint(hint));
        }
        Ok(())
    }
}

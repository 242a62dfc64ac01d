//! What measures cases of a record again.

use record::CaseLine;

use crate::words::explained::explained_job;
use crate::words::results::follows_from_a_plan;
use crate::{Run, escape};

impl Run {
    /// The command that runs what is missing or failed in this record, under the launcher that the record was taken under.
    fn resume_command(&self) -> String {
        let own = format!("rankmark run --resume {}", escape::shell(&self.directory.display().to_string()));
        if self.launcher.is_empty() { own } else { format!("{} {own}", self.launcher) }
    }

    /// The command that measures these cases again, into this record; where another program measured them, the same here, in a
    /// record of its own: an imported record says what a file says, and nothing may take its place. None where the record cannot
    /// go on, nothing here measures the same, or what was planned would be planned in the same way again. A record of another
    /// program's job, or of its traces, has no benchmark that could run: a resumed run would replace what it says by `skipped`.
    pub fn again(&self, cases: &[&CaseLine]) -> Option<String> {
        let is_job = explained_job(self).is_some() && self.cases.iter().all(|case| self.views.for_case(case).is_none());
        if is_job || !cases.is_empty() && cases.iter().all(|case| follows_from_a_plan(case)) {
            return None;
        }
        match (self.interleaved.is_some(), self.imported.is_empty()) {
            // Pairs of now and of then are not pairs.
            (true, _) => None,
            (false, true) => Some(self.resume_command()),
            (false, false) => self.same_here(cases),
        }
    }

    /// What the benchmark of the first of these cases says of them.
    fn same_here(&self, cases: &[&CaseLine]) -> Option<String> {
        let first = cases.first()?;
        let like: Vec<&CaseLine> = cases.iter().copied().filter(|case| case.benchmark == first.benchmark).collect();
        let words = self.views.for_case(first)?.same(&like)?;
        let words: Vec<String> =
            ["rankmark".to_owned()].into_iter().chain(words).map(|word| escape::shell(&word)).collect();
        Some(words.join(" "))
    }
}

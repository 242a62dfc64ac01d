//! The record that a plan is run into: a new one, or one that goes on.

use std::collections::HashSet;
use std::path::Path;

use benchmarks::benchmark;
use record::{CaseLine, Interruption, Plan, Resumed, RunFile, Store};
use terms::{Error, Status};

/// A record that is open for this run.
pub struct OpenRecord {
    /// What writes it.
    pub store: Store,
    /// What its run file holds.
    pub file: RunFile,
    /// Cases that are done.
    pub done: HashSet<String>,
    /// Lines that it has already.
    pub before: Vec<CaseLine>,
    /// What the user should know of it.
    pub notes: Vec<String>,
    /// What ended the run before, where the record goes on.
    resumed: Option<Option<Interruption>>,
}

impl OpenRecord {
    /// A new record.
    pub fn new(store: Store, file: RunFile) -> Self {
        Self { store, file, done: HashSet::new(), before: Vec::new(), notes: Vec::new(), resumed: None }
    }

    /// Goes on with a record, which must be that of `plan`, where there is one.
    ///
    /// # Errors
    /// When it cannot be read or written, was measured interleaved, or is of another plan.
    pub fn resume(directory: &Path, plan: Option<&Plan>) -> Result<Self, Error> {
        let (store, mut resumed) = Store::resume(directory)?;
        if let Some(case) = resumed.file.plan.cases.iter().find(|case| benchmark(&case.benchmark).is_none()) {
            // The run would skip it, and what is known of it would be gone.
            return Err(Error::new(format!(
                "{} cannot be resumed: nothing measures `{}` again",
                directory.display(),
                case.benchmark
            ))
            .hint("`rankmark report DIR` shows it; `rankmark profile -- COMMAND` records a job"));
        }
        if resumed.file.interleaved.is_some() {
            // Pairs of now and pairs of then are not pairs.
            return Err(Error::new(format!("{} was measured interleaved and cannot be resumed", directory.display()))
                .hint("`rankmark compare --interleave` makes a new record"));
        }
        for line in resumed.cases.iter().filter(|line| line.lacks_trials()) {
            resumed.done.remove(&line.id);
        }
        // Whole cases, not their identities: how they are sampled must not change in the middle of a record, either.
        if plan.is_some_and(|plan| !crate::are_same(&plan.cases, &resumed.file.plan.cases)) {
            return Err(Error::new(format!("{} is the record of another plan", directory.display()))
                .cause(format!("it is `{}` with {} cases", resumed.file.experiment, resumed.file.plan.cases.len()))
                .hint("`rankmark run --resume DIR` alone goes on with the record's own plan"));
        }
        let ended = resumed.file.end.and_then(|end| end.interrupted_by);
        // It goes on: until its next end, it has none.
        resumed.file.reopen();
        let again =
            |line: &record::DamagedLine| format!("{}, and a case without another line runs again", line.sentence());
        let notes = resumed.damaged.iter().map(again).chain(resumed.notes).collect();
        let Resumed { file, done, cases: before, .. } = resumed;
        Ok(Self { store, file, done, before, notes, resumed: Some(ended) })
    }

    /// Whether a run before this one began it.
    pub fn goes_on(&self) -> bool {
        self.resumed.is_some()
    }

    /// What cut the record short, once this run has made these lines: what asked it to end, as [`cut_short`] says. An earlier run
    /// counts where cases that it left did not run again.
    pub fn cut_short(&self, lines: &[CaseLine], asked: fn() -> Option<Interruption>) -> Option<Interruption> {
        cut_short(lines, asked).or_else(|| self.resumed.flatten().filter(|_| leaves_open(&self.before, lines)))
    }
}

/// What cut a run with these lines short: what asked it to end, if it left a case without all of its trials.
pub fn cut_short<'l>(
    lines: impl IntoIterator<Item = &'l CaseLine>,
    asked: fn() -> Option<Interruption>,
) -> Option<Interruption> {
    lines.into_iter().any(is_open).then(asked).flatten()
}

fn is_open(line: &CaseLine) -> bool {
    line.status == Status::NotRun || line.lacks_trials()
}

/// Whether a case of the lines before is open, and is not among those that were made since.
fn leaves_open(before: &[CaseLine], made: &[CaseLine]) -> bool {
    let made: HashSet<&str> = made.iter().map(|line| line.id.as_str()).collect();
    before.iter().any(|line| is_open(line) && !made.contains(line.id.as_str()))
}

/// Leaves the cases of so many ranks in a plan, and what was done before, which cases are compared with. Cases in this process
/// need no ranks of a launcher, so they run with the first step that comes.
///
/// # Errors
/// When no case is left.
pub fn keep_ranks(plan: &mut Plan, ranks: u32, done: &HashSet<String>) -> Result<(), Error> {
    let wanted = |case: &record::Case| case.ranks() == ranks || benchmarks::is_in_process(case);
    if !plan.cases.iter().any(wanted) {
        return Err(Error::new(format!("no case of the plan has {ranks} ranks")));
    }
    plan.cases.retain(|case| wanted(case) || done.contains(&case.id));
    Ok(())
}

#[cfg(test)]
mod tests {
    use record::Caveat;

    use super::*;

    #[test]
    fn what_an_earlier_run_left_open_stays_its_own() {
        let case = record::plan::from_defaults(benchmarks::abouts()[0]).unwrap().cases.remove(0);
        let line = |id: &str, status, caveats: &[Caveat]| {
            let line = CaseLine::unmeasured(&case, status, "");
            CaseLine { id: id.to_owned(), caveats: caveats.to_vec(), ..line }
        };
        let before = [line("a", Status::Ok, &[]), line("b", Status::NotRun, &[])];
        assert!(leaves_open(&before, &[]) && leaves_open(&before, &[line("a", Status::Ok, &[])]));
        // The budget of the later run is why it has none, and not the signal of the earlier one.
        assert!(!leaves_open(&before, &[line("b", Status::NotRun, &[])]));
        assert!(leaves_open(&[line("a", Status::Ok, &[Caveat::Preliminary])], &[]), "it lacks trials");
        assert!(!leaves_open(&before[..1], &[]));
        assert_eq!(cut_short(&before, || None), None, "nothing asked this process to end");
    }
}

//! The largest batch that fits: by the plan's arithmetic first, then proven by steps under the limit.
//!
//! The plan is right within a few percent, so the search tries what it says, and goes between what ran and what did not
//! until they are neighbours. A batch that does not fit is a result, not an error of the search.

use contract::{Host, Study};
use record::{Case, CaseLine, SharedMap};
use terms::Status;

use super::about::MEMORY;
use super::fields::{Fields, MemoryHow};
use super::predict;

/// Tried at most so often: each try is a whole case.
const TRIES: usize = 6;
/// No batch beyond this is looked at.
const LARGEST: u64 = 1 << 20;

/// The search of one model and mesh.
struct Search {
    /// A case of the group. Its batch is varied.
    pattern: Case,
    /// The largest batch that ran, and the smallest that did not.
    fits: u64,
    fails: u64,
    /// What is tried now.
    trying: Option<Case>,
    tries: usize,
}

/// All searches of a plan.
pub(super) struct MaxBatch {
    searches: Vec<Search>,
}

impl MaxBatch {
    /// A search for each group of cases that differ in nothing but the batch, and ask for it.
    pub(super) fn for_cases(cases: &[&Case], host: &Host) -> Option<Self> {
        let mut searches: Vec<Search> = Vec::new();
        for case in cases.iter().filter(|case| MemoryHow::of(**case).is_ok_and(|memory| memory.find_max_batch)) {
            let pattern = with_batch(case, 1, limit_of(case, host));
            if !searches.iter().any(|known| known.pattern.id == pattern.id) {
                searches.push(Search { pattern, fits: 0, fails: LARGEST + 1, trying: None, tries: 0 });
            }
        }
        (!searches.is_empty()).then_some(Self { searches })
    }
}

/// What a rank may hold: what the user said, or its share of what the machine has now.
fn limit_of(case: &Case, host: &Host) -> u64 {
    let share = || (host.available_memory)().unwrap_or(u64::MAX >> 1) / u64::from(case.ranks());
    limit(&case.parameters).unwrap_or_else(share)
}

/// What the parameters say that a rank may hold.
fn limit(parameters: &SharedMap) -> Option<u64> {
    MemoryHow::of(parameters).ok()?.limit
}

/// The case with another batch, cut into micro-batches as it was: their number stays, or their size where it was one.
fn with_batch(case: &Case, batch: u64, limit: u64) -> Case {
    let mut other = case.clone();
    other.parameters.shift_remove("global_batch");
    let parts = Fields::of(case).map_or(1, |fields| fields.parts());
    other.parameters.insert("batch", (batch * parts).into());
    other.parameters.insert("limit", limit.into());
    other.identify(&MEMORY);
    other
}

impl Search {
    fn limit(&self) -> u64 {
        limit(&self.pattern.parameters).unwrap_or(u64::MAX)
    }

    /// What the plan says of a batch: whether the fullest rank stays within its limit.
    fn planned(&self, batch: u64) -> bool {
        fits(&with_batch(&self.pattern, batch, self.limit()), self.limit())
    }

    /// The largest batch above what ran and below what failed that the plan lets through.
    fn largest_planned(&self) -> Option<u64> {
        let (mut low, mut high) = (self.fits, self.fails);
        let mut step = 1;
        // Doubling first: most limits are far below the largest batch, and large programs take longer to plan.
        while low + step < high {
            match self.planned(low + step) {
                true => {
                    low += step;
                    step *= 2;
                }
                false => high = low + step,
            }
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.planned(middle) { low = middle } else { high = middle }
        }
        (low > self.fits).then_some(low)
    }

    /// Takes in what became of the last try.
    fn learn(&mut self, done: &[CaseLine]) {
        let Some(trying) = self.trying.take() else { return };
        let batch = batch_of(&trying);
        match done.iter().rev().find(|line| line.id == trying.id) {
            Some(line) if line.status == Status::Ok => self.fits = self.fits.max(batch),
            Some(line) if line.status != Status::NotRun => self.fails = self.fails.min(batch),
            _ => self.tries = TRIES,
        }
    }

    fn next(&mut self, done: &[CaseLine]) -> Option<Case> {
        self.learn(done);
        if self.tries >= TRIES || self.fails <= self.fits + 1 {
            return None;
        }
        // Once something ran, the plan has been proven; what lies beyond it is only looked at when it failed before.
        let batch = match self.tries {
            0 => self.largest_planned()?,
            _ if self.fails > LARGEST => return None,
            // The plan is off by a few percent: down by 1/16, 1/8, ... until one runs, then between the two.
            tries if self.fits == 0 => (self.fails - (self.fails >> (5 - tries.min(4))).max(1)).max(1),
            _ => self.fits + (self.fails - self.fits) / 2,
        };
        self.tries += 1;
        let case = with_batch(&self.pattern, batch, self.limit());
        self.trying = Some(case.clone());
        Some(case)
    }
}

/// The varied number of a case of a search: its batch, in units of one sample a micro-batch.
fn batch_of(case: &Case) -> u64 {
    Fields::of(case).map_or(0, |fields| fields.batch.unwrap_or(0) / fields.parts())
}

/// Whether the plan lets the fullest rank stay within its limit.
fn fits(case: &Case, limit: u64) -> bool {
    predict::fullest(case).is_some_and(|(_, most)| most.saturating_add(PROCESS) <= limit)
}

/// What a planned case holds beyond the limit of its ranks.
pub(super) fn exceeded(case: &Case) -> Option<String> {
    let (limit, (rank, bytes)) = (limit(&case.parameters)?, predict::fullest(case)?);
    let needed = bytes.saturating_add(PROCESS);
    (needed > limit).then(|| super::limit::exceeded(rank, needed, limit))
}

/// The batch of a case that ran under a limit, if the plan says that not one more sample a micro-batch would.
pub(super) fn largest(line: &CaseLine) -> Option<u64> {
    let limit = limit(&line.parameters)?;
    let case = Case::new(&line.benchmark, line.parameters.clone());
    let more = with_batch(&case, batch_of(&case) + 1, limit);
    (!fits(&more, limit)).then(|| Fields::of(&case).ok()?.batch).flatten()
}

/// What a rank's process holds in addition to the plan: libraries' data, measuring code, stacks, its part of the ranks' shared
/// memory: 9 to 11 MiB with one and two ranks.
const PROCESS: u64 = 16 << 20;

impl Study for MaxBatch {
    fn next(&mut self, done: &[CaseLine]) -> Vec<Case> {
        self.searches.iter_mut().filter_map(|search| search.next(done)).collect()
    }
}

#[cfg(test)]
mod tests;

//! The memory that a rank may hold: refused together before anything is allocated, bounded while steps run, and looked
//! at after them.
//!
//! Three lines of defence, because each alone lets something through: the plan's arithmetic knows what will be
//! allocated, the bound on addresses stops what the plan does not know, and what was held at most is what counts.

use contract::RankContext;
use contract::fields::problem;
use measure::Failure;
use record::Case;
use terms::{Bytes, FieldError};

use super::exchange::NumberExchange;
use super::fields::MemoryHow;
use super::predict;
use super::process::{Bound, HeldMemory};
use super::resolve::Task;

/// Addresses that the bound leaves above the limit, which no page stands behind: stacks, and the arenas of malloc (64
/// MiB each, one a thread).
const ADDRESSES_A_THREAD: u64 = 72 << 20;
/// Threads in addition to those that compute: data, communication.
const OTHER_THREADS: u64 = 6;

/// A limit below this holds no model: it is a number whose unit is missing.
const LEAST: u64 = 4096;

/// What a rank may hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    pub(super) bytes: u64,
    /// Whether the largest batch is searched: one that does not fit is then an answer, and no failure of the run.
    pub(super) searched: bool,
}

impl Limit {
    /// What the user or the search said.
    pub(super) fn of(how: &MemoryHow) -> Option<Self> {
        how.limit.map(|bytes| Self { bytes, searched: how.find_max_batch })
    }

    /// What becomes of a case in which ranks need more.
    pub(super) fn passed(self, what: String) -> Failure {
        if self.searched { Failure::lacking(what) } else { Failure::new(what) }
    }
}

/// Refuses a limit without its unit: `80` is 80 bytes.
///
/// # Errors
/// Such a limit, with the value that was probably meant.
pub(super) fn check(case: &Case) -> Result<(), FieldError> {
    match MemoryHow::of(case)?.limit {
        Some(limit) if limit < LEAST => {
            let message = format!("a limit of {limit} bytes is too small for any model");
            Err(problem("limit", message, format!("write the unit, as in `{limit}GiB`")))
        }
        _ => Ok(()),
    }
}

/// Refuses, on all ranks at once, what does not fit on one of them; else bounds this rank's addresses. Collective.
pub(super) fn apply(
    task: &Task,
    limit: Option<Limit>,
    exchange: &mut NumberExchange,
    context: &mut RankContext,
) -> Result<Option<Bound>, Failure> {
    let Some(limit) = limit else { return Ok(None) };
    let held = HeldMemory::now().unwrap_or_default();
    refuse(task, (held.resident_once(), limit), exchange, context)?;
    // Peers' shared memory is mapped here, too; theirs is what they may hold.
    let others = limit.bytes.saturating_mul(u64::from(context.ranks - 1));
    let threads = (task.threads as u64 + OTHER_THREADS) * ADDRESSES_A_THREAD;
    let left = limit.bytes.saturating_sub(held.resident_once());
    let bound = held.mapped.saturating_add(left).saturating_add(others).saturating_add(threads);
    Ok(Bound::set(bound))
}

/// Refuses, on all ranks at once, what does not fit on one of them beside what it holds. Collective.
pub(super) fn refuse(
    task: &Task,
    (held, limit): (u64, Limit),
    exchange: &mut NumberExchange,
    context: &mut RankContext,
) -> Result<(), Failure> {
    let rank = context.rank as usize;
    let planned = parallel::outline(&task.recipe, rank, |program| task.scratch(program));
    let planned = planned.map_err(|refusal| Failure::new(refusal.to_string()))?;
    let needed = held + predict::rank_bytes(task, rank, &planned);
    // Up to 2^53 bytes a number is exact.
    let all = exchange.gather(&mut *context.comm, needed as f64)?;
    let over: Vec<String> = all
        .iter()
        .enumerate()
        .filter(|(_, needed)| **needed > limit.bytes as f64)
        .map(|(rank, needed)| exceeded(rank as u32, *needed as u64, limit.bytes))
        .collect();
    if over.is_empty() { Ok(()) } else { Err(limit.passed(over.join("; "))) }
}

/// What is said of a rank that needs more than it may hold.
pub(super) fn exceeded(rank: u32, needed: u64, limit: u64) -> String {
    format!(
        "out of memory on rank {rank}: it needs {}, but its limit is {}",
        Bytes(needed).about(),
        Bytes(limit).about()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_that_does_not_fit_fails_a_run_only_where_nobody_searched() {
        let passed = |searched| Limit { bytes: 1 << 20, searched }.passed(exceeded(1, 2 << 20, 1 << 20));
        assert!(passed(true).lacking && !passed(false).lacking);
        assert!(passed(true).error.to_string().contains("rank 1: it needs 2.00 MiB, but its limit is 1.00 MiB"));
    }
}

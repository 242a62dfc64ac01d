//! The limit probe on one rank: a variant of the case's bare memory traffic, timed as calls are.
//!
//! A round is a sample with passes of the variant as its calls: the same loop takes both, with the same refills between
//! batches. It ends in a barrier of all ranks, because passes do not wait for each other: where ranks share cores, each
//! sees only its own part of the time.

use contract::failure;
use measure::{AgreedStart, Failure, SampleRequest, Timed, take};
use terms::Mode;

use super::{ActiveCase, RankWork, tell};

/// A round lasts at least this long, and as long as this many barriers, because it contains one...
const ROUND_NS: f64 = 50_000.0;
const MEETINGS: f64 = 100.0;
/// ... unless barriers take so long that rounds would take this long.
const LONGEST_ROUND_NS: f64 = 20e6;

/// A round has up to so many times the passes that it needs.
const LONGER: u32 = 20;

/// Passes of a round, at most: a bound on what a mistaken calibration costs.
const MOST_PASSES: u32 = 100_000;

impl RankWork {
    /// Times of `rounds` rounds of this variant, all ranks at once, in ns of one call's traffic; zero where this rank has none.
    /// Collective.
    pub(super) fn limit(&mut self, variant: u32, rounds: u32) -> Result<Vec<f64>, Failure> {
        let meeting =
            [self.barriers(1)?, self.barriers(1)?, self.barriers(1)?].into_iter().fold(f64::INFINITY, f64::min);
        let wanted = ROUND_NS.max((MEETINGS * meeting).min(LONGEST_ROUND_NS));
        // What rank 0 finds counts: all must meet equally often.
        let wanted = self.tell(wanted as u64)? as f64;
        let mut running = self.running()?;
        let names = running.current.prepared.limits();
        if variant as usize >= names.len() {
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(Failure::new(format!(
                "the case has no limit variant {variant}; valid values: 0 to {} ({names})",
                names.len()
            )));
        }
        let passes = match running.current.passes.get(&variant) {
            Some(known) => *known,
            None => calibrate(&mut running, variant, wanted)?,
        };
        running.current.passes.insert(variant, passes);
        // As many as a sample has calls, within reason: what caches replace depends on how long a loop goes on.
        let passes = passes.max(running.current.sampled.min(passes.saturating_mul(LONGER)));
        // What the calls of a warm case find in the caches, passes find, too.
        if running.current.copies == 1 {
            round(&mut running, variant, 1)?;
        }
        let times = (0..rounds).map(|_| round(&mut running, variant, passes)).collect();
        // Passes do not count as calls until the next comparison.
        running.current.calls = 0;
        running.refill();
        running.synchronise()?;
        times
    }
}

/// Passes that make a round of `wanted` ns, grown from one; rank 0's clock counts. Collective.
fn calibrate(running: &mut ActiveCase<'_>, variant: u32, wanted: f64) -> Result<u32, Failure> {
    let mut passes = 1;
    loop {
        running.synchronise()?;
        let begin = running.context.clock.now_ns();
        round(running, variant, passes)?;
        running.synchronise()?;
        let own = running.context.clock.now_ns() - begin;
        let ns = tell(running.context, running.start, own).map_err(failure)? as f64;
        if ns >= wanted || passes == MOST_PASSES {
            return Ok(passes);
        }
        // The first passes are slower than the rest.
        let predicted = (1.1 * wanted / (ns / f64::from(passes)).max(1.0)).ceil().min(f64::from(passes) * 100.0);
        passes = (predicted as u32).clamp(passes + 1, MOST_PASSES);
    }
}

/// Passes that a meeting may follow.
const SHORT: u32 = 8;

/// ns of one call's traffic, by a round of so many passes.
fn round(running: &mut ActiveCase<'_>, variant: u32, passes: u32) -> Result<f64, Failure> {
    let traffic = running.current.prepared.work().traffic_bytes as f64;
    let number = running.current.rounds;
    running.current.rounds = number.wrapping_add(1);
    let clock = running.context.clock.clone();
    // Where a refill must follow so soon, a meeting would be a large part of each batch. On shared cores it must be.
    let meets = running.current.max_calls >= u64::from(passes.min(SHORT)) || running.context.options.oversubscribed;
    let mut timed = Passes { running, variant, number, left: 0, meets, moved: 0 };
    let request = SampleRequest { mode: Mode::Streaming, samples: 1, calls: passes };
    let ns = take(&clock, &mut timed, request)?.ns.iter().sum::<u64>() as f64;
    Ok(if timed.moved > 0 { ns * traffic / timed.moved as f64 } else { 0.0 })
}

/// Passes of a variant, as the calls of a sample.
struct Passes<'a, 'b> {
    running: &'a mut ActiveCase<'b>,
    variant: u32,
    /// Number of the round.
    number: u32,
    /// Passes until the batch ends.
    left: u32,
    /// Whether batches end in a meeting.
    meets: bool,
    moved: u64,
}

impl Timed for Passes<'_, '_> {
    type Error = Failure;

    #[inline]
    fn call(&mut self) -> Result<(), Failure> {
        let current = &mut *self.running.current;
        current.calls += 1;
        self.moved += current.prepared.limit(self.variant as usize, self.number).unwrap_or(0);
        self.left -= 1;
        if self.left == 0 && self.meets { self.running.synchronise() } else { Ok(()) }
    }

    fn synchronise(&mut self) -> Result<(), Failure> {
        self.running.synchronise()
    }

    fn make_room(&mut self, wanted: u32) -> u32 {
        // Passes leave no result of the operation, so nothing is compared.
        self.left = self.running.room(wanted);
        self.left
    }

    fn agree_on_start(&mut self) -> Result<AgreedStart, Failure> {
        self.running.agree_on_start()
    }
}

#[cfg(test)]
mod tests;

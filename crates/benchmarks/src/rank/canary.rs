//! What a rank can quickly measure of the machine between samples: how long a barrier takes, how far apart neighbouring cores
//! are, how fast a core is, and whether it has its execution units for itself.
//!
//! All of it is measured. Topology files say what a core is called; in a guest they are the hypervisor's fiction, and the
//! hypervisor may move a core while a run goes on.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use measure::{Failure, machine};
use trace::{Clock, StatusSlot};

use super::RankWork;

/// Words that travel between two ranks, in bursts, after some that warm up.
const BURSTS: u64 = 7;
const TRIPS: u64 = 40;
const WARM_UP: u64 = 40;
/// A neighbour that has not answered after this time is waited for no longer: it shares the core, or does not run.
const LONGEST_PING_NS: u64 = 400_000;
/// A word in a slot says that its rank passes words.
const PRESENT: u64 = 1 << 63;
/// Steps of a loop by which a core is timed, and how often.
const STEPS: u64 = 4_000;
const LOOPS: usize = 7;

/// What passes words with a neighbour knows.
#[derive(Debug, Default)]
pub(super) struct Pings {
    /// How often it did: the same on both.
    made: u64,
}

/// Says that this rank passes words. To be called before ranks meet for the first time.
pub(super) fn announce(slot: &StatusSlot) {
    slot.ping().store(PRESENT, Ordering::Release);
}

impl RankWork {
    /// `[ns of a barrier, voluntary, involuntary context switches so far, ns of a round trip of a cache line to a neighbour's
    /// core, ns of a loop that depends on itself, ns of one that fills the core's units, ns of processor time so far,
    /// the only core that it may run on or 0]`.
    /// The barrier's is the median of bursts.
    /// The round trip is 0 on ranks that have no neighbour of their own, and where one did not answer.
    pub(super) fn canary(&mut self) -> Result<Vec<f64>, Failure> {
        let quickest =
            [self.barriers(1)?, self.barriers(1)?, self.barriers(1)?].into_iter().fold(f64::INFINITY, f64::min);
        // What rank 0 finds counts: all must meet equally often.
        let (bursts, barriers) = canary_of(self.tell(quickest as u64)?);
        let bursts: Result<Vec<f64>, Failure> = (0..bursts).map(|_| self.barriers(barriers)).collect();
        let bursts = bursts?;
        let clock = self.context.clock.clone();
        let shares_cores = self.context.options.oversubscribed;
        self.barriers(1)?;
        let trip =
            if shares_cores { None } else { self.pings.round_trip(self.context.hook.page(), &clock, LONGEST_PING_NS) };
        // All at once: a core that shares its units with another shows it only while that one computes, too.
        self.barriers(1)?;
        let chain = fastest(&clock, || chain(STEPS));
        self.barriers(1)?;
        let filled = typical(&clock, || filled(STEPS));
        let [voluntary, involuntary, used] = super::own_usage();
        Ok(vec![
            stats::median(&bursts),
            voluntary,
            involuntary,
            trip.unwrap_or(0.0),
            chain,
            filled,
            used,
            machine::only_core(),
        ])
    }
}

impl Pings {
    /// Nanoseconds of a round trip of a cache line between this rank and its neighbour, as the first of both measures it: the
    /// median of bursts. Ranks of a host are neighbours in pairs.
    fn round_trip(&mut self, page: &dyn trace::StatusPage, clock: &Clock, longest_ns: u64) -> Option<f64> {
        self.made += 1;
        let own: &StatusSlot = page.as_ref();
        let here: Vec<&StatusSlot> =
            page.slots().into_iter().filter(|slot| slot.ping().load(Ordering::Acquire) & PRESENT != 0).collect();
        let place = here.iter().position(|slot| std::ptr::eq(*slot, own))?;
        let (leads, neighbour) = (place % 2 == 0, place ^ 1);
        let neighbour = here.get(neighbour)?;
        let words = TwoWords {
            own: own.ping(),
            other: neighbour.ping(),
            clock,
            base: PRESENT | ((self.made & 0x7fff_ffff) << 32),
        };
        let passed = words.pass(leads, longest_ns);
        passed.filter(|_| leads).map(|bursts| stats::median(&bursts))
    }
}

/// Two words that follow each other.
struct TwoWords<'a> {
    own: &'a AtomicU64,
    other: &'a AtomicU64,
    clock: &'a Clock,
    /// Below all words of this time.
    base: u64,
}

impl TwoWords<'_> {
    /// Nanoseconds of a trip in each burst; None where the other side did not answer in time.
    fn pass(&self, leads: bool, longest_ns: u64) -> Option<Vec<f64>> {
        let end = self.clock.now_ns() + longest_ns;
        let mut bursts = Vec::with_capacity(BURSTS as usize);
        let mut next = 1;
        for burst in 0..=BURSTS {
            let trips = if burst == 0 { WARM_UP } else { TRIPS };
            let begin = self.clock.now_ns();
            for word in next..next + trips {
                if leads {
                    self.own.store(self.base + word, Ordering::Release);
                }
                self.wait(self.base + word, end)?;
                if !leads {
                    self.own.store(self.base + word, Ordering::Release);
                }
            }
            next += trips;
            if burst > 0 {
                bursts.push((self.clock.now_ns() - begin) as f64 / trips as f64);
            }
        }
        Some(bursts)
    }

    /// Waits for the other's word, or a later one. Without pauses: one takes as long as the trip.
    fn wait(&self, word: u64, end: u64) -> Option<()> {
        loop {
            for _ in 0..256 {
                if self.other.load(Ordering::Acquire) >= word {
                    return Some(());
                }
            }
            if self.clock.now_ns() > end {
                return None;
            }
        }
    }
}

/// Nanoseconds of the quickest loop: the clock of the core, whatever disturbed the others.
fn fastest(clock: &Clock, mut run: impl FnMut() -> u64) -> f64 {
    times(clock, &mut run).into_iter().fold(f64::INFINITY, f64::min)
}

/// Nanoseconds of the median loop: what a core gets while others compute.
fn typical(clock: &Clock, mut run: impl FnMut() -> u64) -> f64 {
    stats::median(&times(clock, &mut run))
}

fn times(clock: &Clock, run: &mut impl FnMut() -> u64) -> Vec<f64> {
    let one = |_| {
        let begin = clock.now_ns();
        black_box(run());
        (clock.now_ns() - begin) as f64
    };
    (0..LOOPS).map(one).collect()
}

/// A multiplier that keeps all bits in play (Knuth's, of MMIX).
const FACTOR: u64 = 6_364_136_223_846_793_005;

/// Steps that each need the result of the one before: their time is that of so many cycles.
fn chain(steps: u64) -> u64 {
    (0..steps).fold(black_box(1_u64), |value, _| (value ^ (value >> 29)).wrapping_mul(FACTOR))
}

/// Eight chains at once: they fill a core's multiplier, which two threads of a core share.
fn filled(steps: u64) -> u64 {
    let mut chains = black_box([1_u64, 2, 3, 4, 5, 6, 7, 8]);
    for _ in 0..steps {
        for chain in &mut chains {
            *chain = chain.wrapping_mul(FACTOR) ^ 1;
        }
    }
    chains.iter().fold(0, |all, chain| all ^ chain)
}

/// Bursts, and barriers of each, where a barrier takes so long. They take no longer than 50 ms unless even a few do: ranks
/// that share cores without giving them up take 10 ms for one.
fn canary_of(barrier_ns: u64) -> (u64, u32) {
    const BURSTS: u64 = 21;
    const FEWEST: u64 = 5;
    const BARRIERS: u64 = 20;
    const LONGEST_NS: u64 = 50_000_000;
    let all = LONGEST_NS / barrier_ns.max(1);
    let each = (all / BURSTS).clamp(1, BARRIERS);
    ((all / each).clamp(FEWEST, BURSTS), each as u32)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn a_canary_takes_no_longer_than_it_must() {
        assert_eq!(canary_of(0), (21, 20));
        assert_eq!(canary_of(10_000), (21, 20));
        assert_eq!(canary_of(500_000), (21, 4));
        assert_eq!(canary_of(8_000_000), (6, 1));
        assert_eq!(canary_of(u64::MAX), (5, 1));
    }

    /// A page of slots in one process, as a rank sees it.
    struct Page<'a>(&'a [StatusSlot], usize);

    impl AsRef<StatusSlot> for Page<'_> {
        fn as_ref(&self) -> &StatusSlot {
            &self.0[self.1]
        }
    }

    impl trace::StatusPage for Page<'_> {
        fn slots(&self) -> Vec<&StatusSlot> {
            self.0.iter().collect()
        }
    }

    #[test]
    fn neighbours_pass_words_in_pairs_and_who_is_alone_does_not_wait() {
        // Of four ranks one, the second, is on another host; the last has no neighbour.
        let slots: Vec<StatusSlot> = (0..4).map(|_| StatusSlot::default()).collect();
        let here = [0, 2, 3];
        here.iter().for_each(|rank| announce(&slots[*rank]));
        let meet = Barrier::new(here.len());
        let trips: Vec<Option<f64>> = std::thread::scope(|scope| {
            let rank = |rank: usize| {
                let (slots, meet) = (&slots, &meet);
                scope.spawn(move || {
                    meet.wait();
                    // Threads of a test may share a core.
                    Pings::default().round_trip(&Page(slots, rank), &Clock::default(), 60_000_000_000)
                })
            };
            let ranks: Vec<_> = here.map(rank).into_iter().collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        });
        // The first of the pair measures.
        assert!(trips[0].is_some_and(|trip| trip > 0.0) && trips[1..] == [None, None], "{trips:?}");
        // A neighbour that does not answer.
        let lost: Vec<StatusSlot> = (0..2).map(|_| StatusSlot::default()).collect();
        lost.iter().for_each(announce);
        assert_eq!(Pings::default().round_trip(&Page(&lost, 0), &Clock::default(), LONGEST_PING_NS), None);
    }

    #[test]
    fn loops_take_time_and_their_work_is_not_removed() {
        let clock = Clock::default();
        let (short, long) = (fastest(&clock, || chain(STEPS)), fastest(&clock, || chain(16 * STEPS)));
        assert!(long > 4.0 * short, "{short} {long}");
        let (short, long) = (fastest(&clock, || filled(STEPS)), fastest(&clock, || filled(16 * STEPS)));
        assert!(long > 4.0 * short, "{short} {long}");
    }
}

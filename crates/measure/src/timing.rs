//! The rank's timed loops. Between the two clock readings there is nothing but calls.

use terms::Mode;
use trace::Clock;

use crate::SampleRequest;

/// What is timed, on one rank.
pub trait Timed {
    /// Why a call or a synchronisation failed.
    type Error;

    /// One call: the only thing between two clock readings.
    ///
    /// # Errors
    /// When the call fails.
    fn call(&mut self) -> Result<(), Self::Error>;

    /// The calls so far are complete: the last thing before the second clock reading.
    ///
    /// # Errors
    /// As [`Timed::call`].
    fn drain(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Whether calls are given to a device: then the time of giving is of interest, and worth another clock reading.
    fn launches(&self) -> bool {
        false
    }

    /// All ranks meet.
    ///
    /// # Errors
    /// When they do not.
    fn synchronise(&mut self) -> Result<(), Self::Error>;

    /// How many of `wanted` calls may follow now with results that stay exact, at least one; fills the inputs again
    /// first when none may.
    fn make_room(&mut self, wanted: u32) -> u32;

    /// An instant a little ahead, the same on every rank.
    ///
    /// # Errors
    /// When ranks cannot agree.
    fn agree_on_start(&mut self) -> Result<AgreedStart, Self::Error>;
}

/// An instant that all ranks agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgreedStart {
    /// In nanoseconds of this rank's clock.
    pub at_ns: u64,
}

/// Samples, and how many of them began late.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Nanoseconds of each sample (all its calls).
    pub ns: Vec<u64>,
    /// Isolated: samples in which this rank had missed the agreed start when it got there.
    pub missed_starts: u64,
    /// How long the calls themselves took, before the wait for what they gave to a device.
    pub launches: Launches,
}

/// Calls, and how long it took to make them: on a device, to give it the work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Launches {
    /// How many.
    pub calls: u64,
    /// Nanoseconds of all.
    pub ns: u64,
}

impl Launches {
    /// With those of another sample.
    pub fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.ns += other.ns;
    }

    /// Seconds of one; None where there was none.
    pub fn mean_s(&self) -> Option<f64> {
        (self.calls > 0).then(|| self.ns as f64 / 1e9 / self.calls as f64)
    }
}

/// Takes the samples that were asked for.
///
/// # Errors
/// The first error of a call or a synchronisation.
pub fn take<T: Timed>(clock: &Clock, timed: &mut T, request: SampleRequest) -> Result<Taken, T::Error> {
    let mut taken = Taken { ns: Vec::with_capacity(request.samples as usize), ..Taken::default() };
    for _ in 0..request.samples {
        match request.mode {
            Mode::Streaming => {
                let (ns, launches) = streaming(clock, timed, request.calls)?;
                taken.ns.push(ns);
                taken.launches.add(launches);
            }
            Mode::Isolated => {
                let (ns, launch, missed) = isolated(clock, timed)?;
                taken.ns.push(ns);
                taken.launches.add(launch);
                taken.missed_starts += u64::from(missed);
            }
        }
    }
    Ok(taken)
}

/// `calls` calls back to back. Where values would leave the exact range, the sample is a sum of batches with fresh
/// inputs between them, outside the timing.
fn streaming<T: Timed>(clock: &Clock, timed: &mut T, calls: u32) -> Result<(u64, Launches), T::Error> {
    let (mut left, mut total, mut launches) = (calls, 0, Launches::default());
    let on_device = timed.launches();
    while left > 0 {
        let batch = timed.make_room(left);
        timed.synchronise()?;
        let begin = clock.now_ns();
        for _ in 0..batch {
            timed.call()?;
        }
        let launched = if on_device { clock.now_ns() } else { begin };
        timed.drain()?;
        total += clock.now_ns() - begin;
        if on_device {
            launches.add(Launches { calls: u64::from(batch), ns: launched - begin });
        }
        left -= batch;
    }
    Ok((total, launches))
}

/// One call from an agreed instant: from that instant, not from when this rank got there, so that the maximum over
/// ranks is the time until the last rank had its result.
fn isolated<T: Timed>(clock: &Clock, timed: &mut T) -> Result<(u64, Launches, bool), T::Error> {
    timed.make_room(1);
    let on_device = timed.launches();
    timed.synchronise()?;
    let start = timed.agree_on_start()?.at_ns;
    let missed = clock.now_ns() > start;
    if clock.is_fake() {
        clock.advance_to(start);
    }
    while clock.now_ns() < start {
        std::hint::spin_loop();
    }
    timed.call()?;
    let launched = if on_device { clock.now_ns() } else { start };
    timed.drain()?;
    let ns = clock.now_ns().saturating_sub(start);
    let launches = Launches { calls: u64::from(on_device), ns: launched.saturating_sub(start) };
    Ok((ns, launches, missed))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every call takes 10 ns, a synchronisation 1,000 and a refill 5,000; at most three calls between refills.
    struct Scripted {
        clock: Clock,
        room: u32,
        refills: u32,
        /// What a device has still to do when calls are over.
        left_ns: u64,
    }

    impl Timed for Scripted {
        type Error = ();
        fn call(&mut self) -> Result<(), ()> {
            self.clock.advance(10);
            self.room -= 1;
            Ok(())
        }
        fn drain(&mut self) -> Result<(), ()> {
            self.clock.advance(self.left_ns);
            Ok(())
        }
        fn launches(&self) -> bool {
            self.left_ns > 0
        }
        fn synchronise(&mut self) -> Result<(), ()> {
            self.clock.advance(1000);
            Ok(())
        }
        fn make_room(&mut self, wanted: u32) -> u32 {
            if self.room == 0 {
                self.clock.advance(5000);
                (self.room, self.refills) = (3, self.refills + 1);
            }
            self.room.min(wanted)
        }
        fn agree_on_start(&mut self) -> Result<AgreedStart, ()> {
            Ok(AgreedStart { at_ns: self.clock.now_ns() + 50 })
        }
    }

    #[test]
    fn only_calls_are_timed() {
        let clock = Clock::fake();
        let mut scripted = Scripted { clock: clock.clone(), room: 3, refills: 0, left_ns: 0 };
        let request = SampleRequest { mode: Mode::Streaming, samples: 2, calls: 7 };
        assert_eq!(take(&clock, &mut scripted, request).unwrap().ns, [70, 70]);
        assert_eq!(scripted.refills, 4);
        let request = SampleRequest { mode: Mode::Isolated, samples: 3, calls: 1 };
        let taken = take(&clock, &mut scripted, request).unwrap();
        assert_eq!((taken.ns.as_slice(), taken.missed_starts), (&[10, 10, 10][..], 0));
        assert_eq!(taken.launches, Launches::default(), "nothing is launched");
    }

    #[test]
    fn what_a_device_has_still_to_do_is_timed() {
        let clock = Clock::fake();
        let mut scripted = Scripted { clock: clock.clone(), room: 3, refills: 0, left_ns: 500 };
        let request = SampleRequest { mode: Mode::Streaming, samples: 1, calls: 7 };
        // Batches of three, three and one call.
        let taken = take(&clock, &mut scripted, request).unwrap();
        assert_eq!((taken.ns, taken.launches), (vec![70 + 3 * 500], Launches { calls: 7, ns: 70 }));
        let request = SampleRequest { mode: Mode::Isolated, samples: 1, calls: 1 };
        let taken = take(&clock, &mut scripted, request).unwrap();
        assert_eq!((taken.ns, taken.launches), (vec![510], Launches { calls: 1, ns: 10 }));
    }
}

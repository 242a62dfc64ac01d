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

    /// What runs beside the calls of a batch begins, before ranks meet. Not timed.
    ///
    /// # Errors
    /// When it cannot.
    fn begin_beside(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Ends what runs beside the calls, once these are complete on all ranks. Not timed.
    ///
    /// # Errors
    /// When it went wrong.
    fn end_beside(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Nanoseconds that this rank computes before each call of `decode` mode. Not timed.
    fn compute_ns(&self) -> u64 {
        0
    }

    /// Nanoseconds that count as a sample in place of the calls' time.
    fn past_ns(&self) -> Option<u64> {
        None
    }

    /// Whether calls are given to a device: then the time of giving is of interest, and worth another clock reading.
    fn launches(&self) -> bool {
        false
    }

    /// The device's own clock counts from here to the next [`Timed::drain`].
    ///
    /// # Errors
    /// As [`Timed::call`].
    fn begin_device_time(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Nanoseconds that it counted; None without a device.
    ///
    /// # Errors
    /// As [`Timed::call`].
    fn device_ns(&mut self) -> Result<Option<f64>, Self::Error> {
        Ok(None)
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
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Taken {
    /// Nanoseconds of each sample (all its calls).
    pub ns: Vec<u64>,
    /// Isolated: samples in which this rank had missed the agreed start when it got there.
    pub missed_starts: u64,
    /// How long the calls themselves took, before the wait for what they gave to a device.
    pub launches: Launches,
    /// Nanoseconds of each sample by the device's own clock; empty without one.
    pub device_ns: Vec<f64>,
}

/// One sample.
#[derive(Clone, Copy, Debug, Default)]
struct TimedSample {
    ns: u64,
    launches: Launches,
    missed: bool,
    device_ns: Option<f64>,
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
    if request.mode == Mode::Decode {
        // From here on, the calls themselves keep ranks together.
        timed.synchronise()?;
    }
    for _ in 0..request.samples {
        let sample = match request.mode {
            Mode::Streaming => streaming(clock, timed, request.calls)?,
            Mode::Isolated => isolated(clock, timed)?,
            Mode::Decode => decode(clock, timed)?,
        };
        taken.ns.push(sample.ns);
        taken.launches.add(sample.launches);
        taken.missed_starts += u64::from(sample.missed);
        taken.device_ns.extend(sample.device_ns);
    }
    Ok(taken)
}

/// `calls` calls back to back. Where values would leave the exact range, the sample is a sum of batches with fresh
/// inputs between them, outside the timing.
fn streaming<T: Timed>(clock: &Clock, timed: &mut T, calls: u32) -> Result<TimedSample, T::Error> {
    let (mut left, mut sample) = (calls, TimedSample::default());
    let on_device = timed.launches();
    while left > 0 {
        let batch = timed.make_room(left);
        timed.begin_beside()?;
        timed.synchronise()?;
        if on_device {
            timed.begin_device_time()?;
        }
        let begin = clock.now_ns();
        for _ in 0..batch {
            timed.call()?;
        }
        let launched = if on_device { clock.now_ns() } else { begin };
        timed.drain()?;
        sample.ns += clock.now_ns() - begin;
        timed.end_beside()?;
        if on_device {
            sample.launches.add(Launches { calls: u64::from(batch), ns: launched - begin });
            sample.device_ns = timed.device_ns()?.map(|ns| ns + sample.device_ns.unwrap_or(0.0));
        }
        left -= batch;
    }
    sample.ns = timed.past_ns().unwrap_or(sample.ns);
    Ok(sample)
}

/// One call from an agreed instant: from that instant, not from when this rank got there, so that the maximum over
/// ranks is the time until the last rank had its result.
fn isolated<T: Timed>(clock: &Clock, timed: &mut T) -> Result<TimedSample, T::Error> {
    timed.make_room(1);
    let on_device = timed.launches();
    timed.begin_beside()?;
    timed.synchronise()?;
    let start = timed.agree_on_start()?.at_ns;
    let missed = clock.now_ns() > start;
    if clock.is_fake() {
        clock.advance_to(start);
    }
    if on_device {
        timed.begin_device_time()?;
    }
    while clock.now_ns() < start {
        std::hint::spin_loop();
    }
    timed.call()?;
    let launched = if on_device { clock.now_ns() } else { start };
    timed.drain()?;
    let ns = clock.now_ns().saturating_sub(start);
    timed.end_beside()?;
    let launches = Launches { calls: u64::from(on_device), ns: launched.saturating_sub(start) };
    let device_ns = if on_device { timed.device_ns()? } else { None };
    Ok(TimedSample { ns, launches, missed, device_ns })
}

/// One call of a chain, from when this rank enters it until it has its result. Ranks do not meet before it: one that comes
/// late makes the others wait, and that is part of what a token takes.
fn decode<T: Timed>(clock: &Clock, timed: &mut T) -> Result<TimedSample, T::Error> {
    timed.make_room(1);
    compute(clock, timed.compute_ns());
    let on_device = timed.launches();
    if on_device {
        timed.begin_device_time()?;
    }
    let begin = clock.now_ns();
    timed.call()?;
    let launched = if on_device { clock.now_ns() } else { begin };
    timed.drain()?;
    let ns = clock.now_ns() - begin;
    let launches = Launches { calls: u64::from(on_device), ns: launched - begin };
    let device_ns = if on_device { timed.device_ns()? } else { None };
    Ok(TimedSample { ns, launches, missed: false, device_ns })
}

/// Keeps this rank busy for so long. A product of matrices would add its own noise to when ranks enter the call.
fn compute(clock: &Clock, ns: u64) {
    let until = clock.now_ns() + ns;
    if clock.is_fake() {
        clock.advance_to(until);
    }
    while clock.now_ns() < until {
        std::hint::spin_loop();
    }
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
        /// When the device's clock began to count, and what it counted.
        device: (u64, u64),
        /// What runs beside the calls begins, and ends.
        beside: Vec<bool>,
        past_ns: Option<u64>,
    }

    impl Scripted {
        fn new(clock: &Clock, left_ns: u64) -> Self {
            let (clock, beside) = (clock.clone(), Vec::new());
            Self { clock, room: 3, refills: 0, left_ns, device: (0, 0), beside, past_ns: None }
        }
    }

    impl Timed for Scripted {
        type Error = ();
        fn begin_beside(&mut self) -> Result<(), ()> {
            self.clock.advance(300);
            self.beside.push(true);
            Ok(())
        }
        fn end_beside(&mut self) -> Result<(), ()> {
            self.clock.advance(400);
            self.beside.push(false);
            Ok(())
        }
        fn past_ns(&self) -> Option<u64> {
            self.past_ns
        }
        fn call(&mut self) -> Result<(), ()> {
            self.clock.advance(10);
            self.room -= 1;
            Ok(())
        }
        fn drain(&mut self) -> Result<(), ()> {
            self.clock.advance(self.left_ns);
            self.device.1 = self.clock.now_ns() - self.device.0;
            Ok(())
        }
        fn begin_device_time(&mut self) -> Result<(), ()> {
            self.device.0 = self.clock.now_ns();
            Ok(())
        }
        fn device_ns(&mut self) -> Result<Option<f64>, ()> {
            Ok(Some(self.device.1 as f64))
        }
        fn launches(&self) -> bool {
            self.left_ns > 0
        }
        fn compute_ns(&self) -> u64 {
            700
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
        let mut scripted = Scripted::new(&clock, 0);
        let request = SampleRequest { mode: Mode::Streaming, samples: 2, calls: 7 };
        assert_eq!(take(&clock, &mut scripted, request).unwrap().ns, [70, 70]);
        assert_eq!(scripted.refills, 4);
        let request = SampleRequest { mode: Mode::Isolated, samples: 3, calls: 1 };
        let taken = take(&clock, &mut scripted, request).unwrap();
        assert_eq!((taken.ns.as_slice(), taken.missed_starts), (&[10, 10, 10][..], 0));
        assert_eq!((taken.launches, taken.device_ns.len()), (Launches::default(), 0), "nothing is launched");
    }

    #[test]
    fn a_chain_of_calls_meets_once_and_computes_before_each() {
        let clock = Clock::fake();
        let mut scripted = Scripted::new(&clock, 0);
        let request = SampleRequest { mode: Mode::Decode, samples: 3, calls: 1 };
        assert_eq!(take(&clock, &mut scripted, request).unwrap().ns, [10, 10, 10]);
        assert_eq!(clock.now_ns(), 1_000 + 3 * (700 + 10));
    }

    #[test]
    fn what_runs_beside_the_calls_begins_before_them_and_ends_after_them() {
        let clock = Clock::fake();
        let mut scripted = Scripted::new(&clock, 0);
        // Batches of three, three and one call; neither begin nor end is timed.
        let request = SampleRequest { mode: Mode::Streaming, samples: 1, calls: 7 };
        assert_eq!(take(&clock, &mut scripted, request).unwrap().ns, [70]);
        assert_eq!(scripted.beside, [true, false, true, false, true, false]);
        let request = SampleRequest { mode: Mode::Isolated, samples: 1, calls: 1 };
        assert_eq!(take(&clock, &mut scripted, request).unwrap().ns, [10]);
        assert_eq!(scripted.beside.len(), 8);
    }

    #[test]
    fn what_took_place_before_the_calls_counts_in_their_place() {
        let clock = Clock::fake();
        let mut scripted = Scripted { past_ns: Some(123_000), ..Scripted::new(&clock, 0) };
        let request = SampleRequest { mode: Mode::Streaming, samples: 1, calls: 1 };
        assert_eq!(take(&clock, &mut scripted, request).unwrap().ns, [123_000]);
    }

    #[test]
    fn what_a_device_has_still_to_do_is_timed() {
        let clock = Clock::fake();
        let mut scripted = Scripted::new(&clock, 500);
        let request = SampleRequest { mode: Mode::Streaming, samples: 1, calls: 7 };
        // Batches of three, three and one call.
        let taken = take(&clock, &mut scripted, request).unwrap();
        assert_eq!((taken.ns, taken.launches), (vec![70 + 3 * 500], Launches { calls: 7, ns: 70 }));
        assert_eq!(taken.device_ns, [1570.0], "neither refills nor meetings of ranks");
        let request = SampleRequest { mode: Mode::Isolated, samples: 1, calls: 1 };
        let taken = take(&clock, &mut scripted, request).unwrap();
        assert_eq!((taken.ns, taken.launches), (vec![510], Launches { calls: 1, ns: 10 }));
        assert!(
            taken.device_ns[0] <= 560.0,
            "from the agreed start, give or take the wait for it: {:?}",
            taken.device_ns
        );
    }
}

//! The paced wrapper: a backend made as slow as a link, for studies of slow networks on one machine. The data moves as
//! fast as the backend can; completion is held back until a deadline, asleep, so that with a progress thread the
//! caller's core is free.
//!
//! The rule. A group begins when its last rank has entered it and the link is free; it ends no earlier than
//! `latency + sum of S x bus factor / bandwidth` later; until then the link of each of its ranks is busy, for every
//! group of ranks that it is a member of. A ping_pong is two messages and pays twice; ranks that have no part in it
//! wait for nothing.
//!
//! When the last rank entered is known exactly: the times of entry (or when the link becomes free, if later) travel as
//! one more 8-byte max all_reduce in front of each group, launched together with it. Its cost is hidden below the
//! deadline. Rejected: own entry + cost (a rank that comes early would leave before the data could be there); end of the
//! inner operation + cost (adds the inner operation's time to every figure). The price: every paced operation
//! synchronises, and the clocks of the ranks must agree, which those of one host do. On a fake clock the added
//! all_reduce takes its simulated time, so that there, too, the rule holds exactly where the paced link is the slower.

mod deadline;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use device::{Queue, Region, Slice};
use terms::{Collective, Direction, Dtype, Reduce, Seconds, Space};
use trace::Clock;

use crate::{Abort, Call, Communicator, Devices, Error, Options, Pace, Result, Shape, Ticket, Wait};

/// A communicator as slow as a link.
pub struct Paced {
    inner: Box<dyn Communicator>,
    pace: Pace,
    abort: Abort,
    link: Arc<Link>,
    /// Started and not known to be complete, oldest first.
    flying: VecDeque<Flight>,
    /// The calls of the group that is being started: kept, so that a start allocates nothing.
    launched: Vec<Call>,
}

/// A rank's link, shared by all groups that the rank is a member of.
struct Link {
    clock: Clock,
    may_spin: bool,
    busy_until_ns: AtomicU64,
    /// Eight bytes each, for times of entry.
    free: Mutex<Vec<Slice>>,
}

/// A group between its start and its end.
struct Flight {
    number: u64,
    /// Taken once the inner group is complete and the deadline is known.
    toll: Option<Toll>,
    deadline_ns: u64,
}

/// What a group pays: this long from the last entry. None: this rank has no part in it.
struct Toll {
    entry: Slice,
    lasts_ns: Option<u64>,
}

impl Paced {
    /// Slows `inner` down to `pace`.
    pub fn new(inner: Box<dyn Communicator>, pace: Pace, abort: Abort, options: &Options) -> Self {
        let link = Link {
            clock: inner.clock(),
            may_spin: !options.oversubscribed,
            busy_until_ns: AtomicU64::new(0),
            free: Mutex::default(),
        };
        Self::over(inner, pace, abort, Arc::new(link))
    }

    fn over(inner: Box<dyn Communicator>, pace: Pace, abort: Abort, link: Arc<Link>) -> Self {
        Self { inner, pace, abort, link, flying: VecDeque::new(), launched: Vec::new() }
    }

    /// Starts the group with the all_reduce of the times of entry in front.
    fn launch(&mut self, group: &[Call], after: &Queue) -> Result<(Ticket, Toll)> {
        // Before the time of entry is put into the queue: a refused group must leave no trace.
        group.iter().try_for_each(|call| call.validate(self.inner.shape()))?;
        let toll = Toll { entry: self.link.take()?, lasts_ns: cost_ns(group, self.inner.shape(), self.pace) };
        let (link, entry) = (self.link.clone(), toll.entry.clone());
        after.submit(move || link.enter(&entry));
        self.launched.push(Call {
            op: Collective::AllReduce,
            input: toll.entry.clone(),
            output: toll.entry.clone(),
            dtype: Dtype::I64,
            reduce: Reduce::Max,
            peer: 0,
            direction: Direction::OneWay,
            counts: None,
        });
        self.launched.extend_from_slice(group);
        let started = self.inner.start(&self.launched, after);
        self.launched.clear();
        Ok((started?, toll))
    }

    /// The deadline of the group, and with it those of all groups before it. Its inner group is complete.
    fn settle_through(&mut self, number: u64) -> u64 {
        let mut latest = 0;
        for flight in self.flying.iter_mut().take_while(|flight| flight.number <= number) {
            if let Some(toll) = flight.toll.take() {
                flight.deadline_ns = self.link.reserve_time(toll);
            }
            latest = latest.max(flight.deadline_ns);
        }
        latest
    }

    fn forget_through(&mut self, number: u64) {
        while self.flying.front().is_some_and(|flight| flight.number <= number) {
            self.flying.pop_front();
        }
    }

    /// Whether the inner communicator was asked about this group and has completed it.
    fn has_moved(&self, number: u64) -> bool {
        self.flying.iter().any(|flight| flight.number == number && flight.toll.is_none())
    }

    /// Has `queue` wait for the deadlines of all groups up to `number`, which it runs behind already.
    fn hold(&mut self, number: u64, queue: &Queue) {
        while self.flying.front().is_some_and(|flight| flight.number <= number) {
            let Some(flight) = self.flying.pop_front() else { return };
            let (link, abort) = (self.link.clone(), self.abort.clone());
            queue.submit(move || {
                let deadline_ns = flight.toll.map_or(flight.deadline_ns, |toll| link.reserve_time(toll));
                // An abort ends the wait; the caller learns of it from its next call.
                let _ = deadline::wait_until(&link.clock, deadline_ns, link.may_spin, &abort);
            });
        }
    }
}

impl Link {
    /// Room for a time of entry.
    fn take(&self) -> Result<Slice> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let fresh = || Region::host(8).map(|region| region.whole());
        let failed = |source| Error::System { what: "map 8 bytes of memory".to_owned(), source };
        free.map_or_else(|| fresh().map_err(failed), Ok)
    }

    /// The rank enters now, or when its link becomes free.
    fn enter(&self, entry: &Slice) {
        let begin_ns = self.clock.now_ns().max(self.busy_until_ns.load(Ordering::Acquire));
        // SAFETY: eight aligned bytes that belong to one group at a time; the inner communicator reads them only after
        // the queue on which this runs has come to the group.
        unsafe { entry.ptr().cast::<i64>().write(begin_ns as i64) };
    }

    /// When the complete group may end; its link is busy until then. Zero: at once.
    fn reserve_time(&self, toll: Toll) -> u64 {
        // SAFETY: as in `enter`; the group is complete, so nobody writes there.
        let last_entry_ns = unsafe { toll.entry.ptr().cast::<i64>().read() } as u64;
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(toll.entry);
        let Some(lasts_ns) = toll.lasts_ns else { return 0 };
        // The link may have become busier since this rank entered: another group was in flight then.
        let deadline_ns = last_entry_ns.max(self.busy_until_ns.load(Ordering::Acquire)) + lasts_ns;
        self.busy_until_ns.fetch_max(deadline_ns, Ordering::AcqRel);
        deadline_ns
    }
}

/// What the group costs on a link of this pace; None where the rank has no part in it.
fn cost_ns(group: &[Call], shape: &Shape, pace: Pace) -> Option<u64> {
    let (mut messages, mut bytes) = (0, 0.0);
    for call in group {
        let round_trip = call.op == Collective::PingPong;
        if round_trip && shape.rank != 0 && shape.rank != call.peer {
            continue;
        }
        let times = if round_trip { 2 } else { 1 };
        let size = call.bytes(shape) as f64;
        messages = messages.max(times);
        bytes += f64::from(times) * call.op.bus_factor(shape.size) * size;
    }
    let time = Seconds(f64::from(messages) * pace.latency.0 + bytes / pace.bandwidth.0);
    (messages > 0).then(|| (time.0 * 1e9).round() as u64)
}

impl Communicator for Paced {
    fn shape(&self) -> &Shape {
        self.inner.shape()
    }

    fn alloc(&mut self, bytes: usize, space: Space) -> Result<Arc<Region>> {
        self.inner.alloc(bytes, space)
    }

    fn start(&mut self, group: &[Call], after: &Queue) -> Result<Ticket> {
        if group.is_empty() {
            return self.inner.start(group, after);
        }
        let (ticket, toll) = self.launch(group, after)?;
        self.flying.push_back(Flight { number: ticket.number, toll: Some(toll), deadline_ns: 0 });
        if ticket.done {
            // Work that runs inside `start` also waits there: nothing overlaps that would not without the pace.
            let deadline_ns = self.settle_through(ticket.number);
            self.forget_through(ticket.number);
            deadline::wait_until(&self.link.clock, deadline_ns, self.link.may_spin, &self.abort)?;
        }
        Ok(ticket)
    }

    fn finish(&mut self, ticket: &mut Ticket, how: Wait<'_>) -> Result<bool> {
        let number = ticket.number;
        if !self.has_moved(number) && !self.inner.finish(ticket, how)? {
            return Ok(false);
        }
        // Said by the inner communicator, which knows nothing of deadlines.
        ticket.done = false;
        match how {
            Wait::On(queue) if !queue.is_host() => {
                self.hold(number, queue);
                return Ok(true);
            }
            Wait::Poll if !self.link.clock.is_fake() => {
                if self.link.clock.now_ns() < self.settle_through(number) {
                    self.abort.check()?;
                    return Ok(false);
                }
            }
            // A fake clock moves for nobody who only looks at it.
            Wait::Host | Wait::On(_) | Wait::Poll => {
                let deadline_ns = self.settle_through(number);
                deadline::wait_until(&self.link.clock, deadline_ns, self.link.may_spin, &self.abort)?;
            }
        }
        self.forget_through(number);
        ticket.done = true;
        Ok(true)
    }

    fn peer_view(&self, region: &Arc<Region>, peer: u32) -> Option<Arc<Region>> {
        self.inner.peer_view(region, peer)
    }

    fn split(&mut self, color: Option<u32>, key: u32) -> Result<Option<Box<dyn Communicator>>> {
        let child = self.inner.split(color, key)?;
        let paced = child.map(|child| Self::over(child, self.pace, self.abort.clone(), self.link.clone()));
        Ok(paced.map(|child| Box::new(child) as Box<dyn Communicator>))
    }

    fn check_in_flight(&mut self) -> Result<()> {
        self.inner.check_in_flight()
    }

    fn abandon(&mut self) {
        self.inner.abandon();
    }

    fn clock(&self) -> Clock {
        self.inner.clock()
    }

    fn devices(&self) -> Devices {
        self.inner.devices()
    }

    fn path(&self, call: &Call) -> &'static str {
        self.inner.path(call)
    }
}

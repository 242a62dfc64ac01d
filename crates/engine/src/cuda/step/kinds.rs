//! Which kind of work a GPU does when: points of its stream between commands of different kinds.

use std::cell::RefCell;
use std::sync::Arc;

use device::cuda::{Event, Gpu, Stream};

use super::errors::refused;
use crate::{Error, Kind, Kinds};

/// See the module's documentation.
pub(super) struct Noted {
    gpu: Arc<Gpu>,
    stream: Arc<Stream>,
    points: RefCell<Points>,
}

#[derive(Default)]
struct Points {
    is_on: bool,
    /// What begins at each of the first events.
    begun: Vec<Kind>,
    events: Vec<Event>,
}

impl Points {
    /// Records a point behind all that the stream was given.
    fn record(&mut self, gpu: &Arc<Gpu>, stream: &Stream) -> Result<(), Error> {
        if self.events.len() == self.begun.len() {
            self.events.push(Event::timed(gpu).map_err(refused)?);
        }
        stream.record(&self.events[self.begun.len()]).map_err(refused)
    }
}

impl Noted {
    pub(super) fn new(gpu: &Arc<Gpu>, stream: &Arc<Stream>) -> Self {
        Self { gpu: gpu.clone(), stream: stream.clone(), points: RefCell::default() }
    }

    /// Begins to note kinds.
    pub(super) fn begin(&self) {
        let mut points = self.points.borrow_mut();
        points.is_on = true;
        points.begun.clear();
    }

    /// Whether kinds are noted: operations are then given singly.
    pub(super) fn is_on(&self) -> bool {
        self.points.borrow().is_on
    }

    /// What the stream is given from now on is of this kind.
    pub(super) fn enter(&self, kind: Kind) -> Result<(), Error> {
        let mut points = self.points.borrow_mut();
        if points.is_on && points.begun.last() != Some(&kind) {
            points.record(&self.gpu, &self.stream)?;
            points.begun.push(kind);
        }
        Ok(())
    }

    /// What was noted, once the stream has run all that it was given. Nothing is noted any more.
    pub(super) fn end(&self) -> Result<Kinds, Error> {
        let mut points = self.points.borrow_mut();
        points.is_on = false;
        points.record(&self.gpu, &self.stream)?;
        self.stream.synchronise().map_err(refused)?;
        let Points { begun, events, .. } = &*points;
        let at = |point: &Event| point.since(&events[0]).map(|ns| ns.round() as u64).map_err(refused);
        let times = events[..=begun.len()].iter().map(at).collect::<Result<Vec<u64>, Error>>()?;
        let mut kinds = Kinds { span_ns: times[begun.len()], ..Kinds::default() };
        for (kind, time) in begun.iter().zip(times.windows(2)) {
            *kinds.ns.entry(*kind).or_default() += time[1].saturating_sub(time[0]);
        }
        Ok(kinds)
    }
}

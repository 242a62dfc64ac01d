//! The communicators of a rank: one for each axis of the mesh that it shares with others.

use std::collections::HashMap;

use comm::{Abort, Call, Communicator, Options, Progress, Threaded, Ticket, Wait};
use device::Queue;
use engine::Axis;
use terms::Space;

use crate::mesh::{Coordinate, Mesh};
use crate::recipe::Recipe;

/// Looks at a queue between two looks at what may have gone wrong: the end of a step is seen at once, and a rank that is lost within
/// a fraction of a millisecond.
const LOOKS: u64 = 64;

/// See the module's documentation. [`Axis::World`] is the caller's.
pub(crate) struct Groups {
    groups: HashMap<Axis, Box<dyn Communicator>>,
}

/// Who belongs together along an axis: color and key of a rank, or no color.
fn membership(axis: Axis, mesh: Mesh, at: Coordinate) -> (Option<u32>, u32) {
    let color = |of: usize| Some(of as u32);
    let replica = at.data * mesh.tensor + at.tensor;
    match axis {
        Axis::Data => (color(at.pipeline * mesh.tensor + at.tensor), at.data as u32),
        Axis::Tensor => (color(at.pipeline * mesh.data + at.data), at.tensor as u32),
        Axis::Link(link) => {
            let lower = link as usize;
            let upper = (lower + 1) % mesh.pipeline;
            match at.pipeline {
                stage if stage == lower => (color(replica), 0),
                stage if stage == upper => (color(replica), 1),
                _ => (None, 0),
            }
        }
        Axis::Ends => {
            let is_end = at.pipeline == 0 || at.pipeline + 1 == mesh.pipeline;
            (is_end.then_some(replica as u32), u32::from(at.pipeline > 0))
        }
        Axis::World => (Some(0), 0),
    }
}

/// The axes of a recipe's mesh that hold more than one rank, in the order in which all ranks split.
fn axes(recipe: &Recipe) -> Vec<Axis> {
    let mesh = recipe.mesh;
    let mut axes = Vec::new();
    if mesh.data > 1 {
        axes.push(Axis::Data);
    }
    if mesh.tensor > 1 {
        axes.push(Axis::Tensor);
    }
    if mesh.pipeline > 1 {
        let links = if recipe.chunks > 1 { mesh.pipeline } else { mesh.pipeline - 1 };
        axes.extend((0..links as u32).map(Axis::Link));
        axes.push(Axis::Ends);
    }
    axes
}

/// Ranks of each group that this rank opens.
pub(crate) fn sizes(recipe: &Recipe, at: Coordinate) -> Vec<u32> {
    let mesh = recipe.mesh;
    let size = |axis: Axis| match axis {
        Axis::Data => mesh.data,
        Axis::Tensor => mesh.tensor,
        Axis::Link(_) | Axis::Ends => 2,
        Axis::World => mesh.ranks(),
    };
    let opens = |axis: &Axis| membership(*axis, mesh, at).0.is_some();
    axes(recipe).into_iter().filter(opens).map(|axis| size(axis) as u32).collect()
}

/// The name of this rank's group along an axis, the same on all its ranks, and how many those are.
pub(crate) fn named(axis: Axis, mesh: Mesh, at: Coordinate) -> (String, u32) {
    let color = membership(axis, mesh, at).0.unwrap_or_default();
    let (name, ranks) = match axis {
        Axis::Data => (format!("data {color}"), mesh.data),
        Axis::Tensor => (format!("tensor {color}"), mesh.tensor),
        Axis::Link(link) => (format!("link {link} of replica {color}"), 2),
        Axis::Ends => (format!("ends of replica {color}"), 2),
        Axis::World => ("world".to_owned(), mesh.ranks()),
    };
    (name, ranks as u32)
}

impl Groups {
    /// Splits the world along every axis. Collective. A group that may overlap the computation gets a thread of its own if
    /// nothing else makes it proceed, and memory is the host's: what brings that of a GPU to the host waits for it.
    pub(crate) fn new(
        recipe: &Recipe,
        at: Coordinate,
        space: Space,
        world: &mut dyn Communicator,
        abort: &Abort,
        options: &Options,
    ) -> comm::Result<Self> {
        let mut groups = HashMap::new();
        for axis in axes(recipe) {
            let (color, key) = membership(axis, recipe.mesh, at);
            let Some(group) = world.split(color, key)? else { continue };
            let overlaps = recipe.overlap && space == Space::Host && matches!(axis, Axis::Data | Axis::Link(_));
            let waits = matches!(group.shape().capabilities.progress, Progress::Caller | Progress::Poll);
            let group: Box<dyn Communicator> =
                if overlaps && waits { Box::new(Threaded::new(group, abort.clone(), options)?) } else { group };
            groups.insert(axis, group);
        }
        Ok(Self { groups })
    }

    fn group<'a>(&'a mut self, axis: Axis, world: &'a mut dyn Communicator) -> &'a mut dyn Communicator {
        match self.groups.get_mut(&axis) {
            Some(group) => &mut **group,
            None => world,
        }
    }

    /// Begins an operation behind what the queue was given.
    pub(crate) fn start(
        &mut self,
        axis: Axis,
        call: &Call,
        after: &Queue,
        world: &mut dyn Communicator,
    ) -> comm::Result<Ticket> {
        self.group(axis, world).start(std::slice::from_ref(call), after)
    }

    /// What the queue is given from now on runs behind the operation.
    pub(crate) fn finish(
        &mut self,
        axis: Axis,
        ticket: &mut Ticket,
        before: &Queue,
        world: &mut dyn Communicator,
    ) -> comm::Result<()> {
        if !ticket.done {
            self.group(axis, world).finish(ticket, Wait::On(before))?;
        }
        Ok(())
    }

    /// Waits until all that a device's queue was given is done. Ends early where that may never be: by an abort, or where a
    /// communicator has lost a peer. Does not sleep: a pause would be part of every step.
    pub(crate) fn wait(&mut self, queue: &Queue, world: &mut dyn Communicator, abort: &Abort) -> comm::Result<()> {
        let end = queue.record();
        end.drive();
        for turn in 1_u64.. {
            if end.is_done() {
                break;
            }
            std::hint::spin_loop();
            if turn % LOOKS == 0 {
                abort.check()?;
                world.check_in_flight()?;
                self.groups.values_mut().try_for_each(|group| group.check_in_flight())?;
            }
        }
        Ok(())
    }

    /// Ends all that is in flight where it stands: a device's queue waits for no peer any more.
    pub(crate) fn abandon(&mut self, world: &mut dyn Communicator) {
        self.groups.values_mut().for_each(|group| group.abandon());
        world.abandon();
    }

    /// Ranks along an axis.
    pub(crate) fn size(&self, axis: Axis) -> Option<u32> {
        self.groups.get(&axis).map(|group| group.shape().size)
    }

    /// This rank among those along an axis.
    pub(crate) fn rank(&self, axis: Axis) -> Option<u32> {
        self.groups.get(&axis).map(|group| group.shape().rank)
    }

    /// This rank's group along an axis, if it has one.
    pub(crate) fn get(&mut self, axis: Axis) -> Option<&mut Box<dyn Communicator>> {
        self.groups.get_mut(&axis)
    }
}

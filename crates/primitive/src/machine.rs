//! What computes on a rank's buffers: threads of the host, or a GPU, where work is only given to a stream and runs in its order.

use comm::{Call, Communicator, Ticket, Wait};
use contract::failure;
use device::Queue;
use device::cuda::Event;
use measure::Failure;

use super::on_gpu::OnGpu;
use super::product::Multiplier;

/// What computes.
pub(super) enum Machine {
    /// Threads of this rank.
    Host(Multiplier),
    /// This rank's GPU.
    Gpu(Box<OnGpu>),
}

/// An operation that may proceed while this rank computes.
#[must_use]
pub(super) enum Moving {
    /// An operation on the host's buffers.
    Host(Ticket),
    /// An operation on a GPU's buffers. It begins once its products are there, and is given to the device once the next
    /// computation was: a backend that keeps the calling thread busy moves data meanwhile.
    Gpu {
        /// Not given yet.
        call: Option<Call>,
        /// Behind what it sends, until it is given; then behind the operation.
        point: Event,
    },
}

impl Machine {
    /// The GPU; None for the host.
    pub(super) fn gpu(&self) -> Option<&OnGpu> {
        match self {
            Self::Gpu(gpu) => Some(gpu),
            Self::Host(_) => None,
        }
    }

    /// Starts an operation. What was computed so far comes before it.
    pub(super) fn start(&self, comm: &mut dyn Communicator, call: &Call) -> Result<Moving, Failure> {
        match self {
            Self::Host(_) => comm.start(std::slice::from_ref(call), &Queue::host()).map(Moving::Host).map_err(failure),
            Self::Gpu(gpu) => Ok(Moving::Gpu { call: Some(call.clone()), point: gpu.computed()? }),
        }
    }

    /// Lets an operation proceed where the backend needs the caller for it.
    pub(super) fn poll(&self, comm: &mut dyn Communicator, moving: Option<&mut Moving>) -> Result<(), Failure> {
        match (moving, self) {
            (Some(Moving::Host(ticket)), _) if !ticket.done => {
                ticket.done = comm.finish(ticket, Wait::Poll).map_err(failure)?;
                Ok(())
            }
            (Some(Moving::Gpu { call, point }), Self::Gpu(gpu)) => match call.take() {
                Some(call) => gpu.give(comm, &call, point),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// What this rank computes from now on comes after an operation.
    pub(super) fn wait(&self, comm: &mut dyn Communicator, mut moving: Moving) -> Result<(), Failure> {
        if matches!(moving, Moving::Gpu { .. }) {
            self.poll(comm, Some(&mut moving))?;
        }
        match (moving, self) {
            (Moving::Host(mut ticket), _) if !ticket.done => {
                comm.finish(&mut ticket, Wait::Host).map(drop).map_err(failure)
            }
            (Moving::Gpu { point, .. }, Self::Gpu(gpu)) => gpu.follow(point),
            _ => Ok(()),
        }
    }

    /// Ends an operation that nothing is computed with: a device goes on without it.
    pub(super) fn leave(&self, comm: &mut dyn Communicator, moving: Moving) -> Result<(), Failure> {
        match (moving, self) {
            (Moving::Gpu { mut call, point }, Self::Gpu(gpu)) => {
                call.take().map_or(Ok(()), |call| gpu.give(comm, &call, &point))?;
                gpu.spare(point);
                Ok(())
            }
            (moving, _) => self.wait(comm, moving),
        }
    }

    /// Runs an operation between computations.
    pub(super) fn run(&self, comm: &mut dyn Communicator, call: &Call) -> Result<(), Failure> {
        match self {
            Self::Host(_) => comm.run(call).map_err(failure),
            Self::Gpu(gpu) => gpu.run(comm, call),
        }
    }
}

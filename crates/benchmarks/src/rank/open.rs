//! How a rank joins its world: the backend, opened as the world's fields say, behind the operation hook.

use std::sync::Arc;

use comm::{Abort, Bootstrap, Communicator, MpiProgress, Observed, Options, Pace, Place, SimNoise};
use measure::{Failure, WorldSpec};
use record::Problem;
use terms::{Bandwidth, Seconds};
use trace::{Hook, StatusSlot};

use super::RankWork;
use crate::RankContext;
use crate::benchmark::failure;
use crate::fields::{Common, World};

/// Opens a world's backend on this rank, behind the operation hook, ready for commands. Collective. `cores` are those
/// that ranks of this host may use.
///
/// # Errors
/// What could not be opened.
pub fn open_rank(
    spec: &WorldSpec,
    bootstrap: &mut dyn Bootstrap,
    slot: Arc<dyn AsRef<StatusSlot> + Send + Sync>,
    oversubscribed: bool,
    cores: Vec<u32>,
) -> Result<(RankWork, Abort), Failure> {
    let place = bootstrap.place();
    let unreadable = |problem: Problem| Failure::new(problem.message);
    let common = Common::of(&spec.fields).map_err(unreadable)?;
    let oversubscribed = oversubscribed || computes_beside(&common, &place, cores.len());
    let options = options(World::of(&spec.fields).map_err(unreadable)?, oversubscribed);
    let name = common.backend.unwrap_or_default();
    let (comm, abort) = comm::open(&name, bootstrap, &options).map_err(failure)?;
    let clock = comm.clock();
    let hook = Arc::new(Hook::new(place.rank, clock.clone(), slot));
    let comm: Box<dyn Communicator> = Box::new(Observed::new(comm, hook.clone()));
    let Place { rank, size: ranks, index, .. } = place;
    let context = RankContext { rank, ranks, index, comm, hook, clock, abort: abort.clone(), options, cores };
    Ok((RankWork::new(context)?, abort))
}

/// Whether what exchanges beside the computation shares its cores: in worlds that train, every rank has threads that
/// compute and one that waits for others, and a wait that spins would take the core of what it waits for.
fn computes_beside(common: &Common, place: &Place, cores: usize) -> bool {
    common.threads.is_some_and(|threads| place.size > 1 && place.here as usize * (threads as usize + 1) > cores)
}

/// The backend's options, from the world's fields.
fn options(world: World, oversubscribed: bool) -> Options {
    let pace = |bandwidth: Option<f64>, latency: Option<f64>| {
        Some(Pace { bandwidth: Bandwidth(bandwidth?), latency: Seconds(latency.unwrap_or(0.0)) })
    };
    let link = pace(world.link_bandwidth, world.link_latency).or_else(|| {
        // Only the latency was given: the bandwidth is the model's own.
        let latency = Seconds(world.link_latency?);
        Some(Pace { latency, ..comm::sim::DEFAULT_LINK })
    });
    let noise = world.noise.map(|sigma| SimNoise {
        sigma,
        correlation: world.noise_correlation.unwrap_or(0.0),
        // The same on every rank: the noise is the operation's, not the rank's.
        seed: world.noise_seed.unwrap_or(1),
    });
    let polls = world.mpi_progress.as_deref() == Some("poll");
    let mpi = comm::MpiOptions {
        library: world.mpi_library,
        progress: if polls { MpiProgress::Poll } else { MpiProgress::None },
        largest: None,
        ucc: world.mpi_collectives.as_deref() == Some("ucc"),
    };
    Options {
        mpi,
        progress_thread: world.progress_thread,
        pace: pace(world.pace_bandwidth, world.pace_latency),
        oversubscribed,
        progress_core: None,
        link,
        noise,
    }
}

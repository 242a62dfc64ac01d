//! How a rank joins its world: the backend, opened as the world's fields say, behind the operation hook.

use std::sync::Arc;

use comm::{Abort, Bootstrap, Communicator, Observed, Options, Pace, Place};
use measure::{Failure, WorldSpec};
use terms::{Bandwidth, FieldError, Seconds};
use trace::{Hook, StatusSlot, nvtx};

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
    let common = Common::of(&spec.fields)?;
    let oversubscribed = oversubscribed || computes_beside(&common, &place, cores.len());
    let name = common.backend.unwrap_or_default();
    let options = options(spec, &name, oversubscribed)?;
    let (comm, abort) = comm::open(&name, bootstrap, &options).map_err(failure)?;
    let clock = comm.clock();
    if let Some(ranges) = nvtx::ranges() {
        ranges.name_rank(place.rank, place.size);
    }
    let hook = Arc::new(Hook::new(place.rank, clock.clone(), slot).telling(nvtx::ranges()));
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
fn options(spec: &WorldSpec, backend: &str, oversubscribed: bool) -> Result<Options, FieldError> {
    let world = World::of(&spec.fields)?;
    let pace = world
        .pace_bandwidth
        .map(|bandwidth| Pace { bandwidth: Bandwidth(bandwidth), latency: Seconds(world.pace_latency.unwrap_or(0.0)) });
    let own = comm::backend(backend).map(|backend| comm::own_of(backend, &spec.fields)).unwrap_or_default();
    Ok(Options { own, progress_thread: world.progress_thread, pace, oversubscribed, progress_core: None })
}

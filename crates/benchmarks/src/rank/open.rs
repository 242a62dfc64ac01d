//! How a rank joins its world: the backend, opened as the world's fields say, behind the operation hook.

use std::sync::Arc;

use comm::{Abort, Bootstrap, Communicator, MpiProgress, Observed, Options, Pace, Place, SimNoise};
use measure::{Failure, WorldSpec};
use serde_json::Value;
use terms::{Bandwidth, Seconds};
use trace::{Hook, StatusSlot};

use super::RankWork;
use crate::RankContext;
use crate::benchmark::failure;

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
    let name = spec.fields.get("backend").and_then(Value::as_str).unwrap_or_default();
    let oversubscribed = oversubscribed || computes_beside(spec, &place, cores.len());
    let options = options(spec, oversubscribed);
    let (comm, abort) = comm::open(name, bootstrap, &options).map_err(failure)?;
    let clock = comm.clock();
    let hook = Arc::new(Hook::new(place.rank, clock.clone(), slot));
    let comm: Box<dyn Communicator> = Box::new(Observed::new(comm, hook.clone()));
    let Place { rank, size: ranks, index, .. } = place;
    let context = RankContext { rank, ranks, index, comm, hook, clock, abort: abort.clone(), options, cores };
    Ok((RankWork::new(context)?, abort))
}

/// Whether what exchanges beside the computation shares its cores: in worlds that train, every rank has threads that
/// compute and one that waits for others, and a wait that spins would take the core of what it waits for.
fn computes_beside(spec: &WorldSpec, place: &Place, cores: usize) -> bool {
    let threads = spec.fields.get("threads").and_then(Value::as_u64);
    threads.is_some_and(|threads| place.size > 1 && place.here as usize * (threads as usize + 1) > cores)
}

/// The backend's options, from the world's fields.
fn options(spec: &WorldSpec, oversubscribed: bool) -> Options {
    let number = |name: &str| spec.fields.get(name).and_then(Value::as_f64);
    let pace = |bandwidth: &str, latency: &str| {
        let bandwidth = Bandwidth(number(bandwidth)?);
        Some(Pace { bandwidth, latency: Seconds(number(latency).unwrap_or(0.0)) })
    };
    let link = pace("link_bandwidth", "link_latency").or_else(|| {
        // Only the latency was given: the bandwidth is the model's own.
        let latency = Seconds(number("link_latency")?);
        Some(Pace { latency, ..comm::sim::DEFAULT_LINK })
    });
    let noise = number("noise").map(|sigma| SimNoise {
        sigma,
        correlation: number("noise_correlation").unwrap_or(0.0),
        // The same on every rank: the noise is the operation's, not the rank's.
        seed: number("noise_seed").unwrap_or(1.0) as u64,
    });
    let text = |name: &str| spec.fields.get(name).and_then(Value::as_str);
    let mpi = comm::MpiOptions {
        library: text("mpi_library").map(str::to_owned),
        progress: if text("mpi_progress") == Some("poll") { MpiProgress::Poll } else { MpiProgress::None },
        largest: None,
        ucc: text("mpi_collectives") == Some("ucc"),
    };
    Options {
        mpi,
        progress_thread: spec.fields.get("progress_thread").and_then(Value::as_bool).unwrap_or(false),
        pace: pace("pace_bandwidth", "pace_latency"),
        oversubscribed,
        progress_core: None,
        link,
        noise,
    }
}

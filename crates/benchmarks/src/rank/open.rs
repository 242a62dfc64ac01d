//! How a rank joins its world: the backend, opened as the world's fields say, behind the operation hook.

use std::sync::Arc;

use comm::{Abort, Bootstrap, Communicator, HostBootstrap, Observed, RankPlacement};
use contract::{Common, Joining, RankContext, failure, options_of};
use measure::{Failure, WorldSpec};
use trace::{Clock, Hook, StatusPage, nvtx};

use super::RankWork;

/// Opens a world's backend on this rank, behind the operation hook, ready for commands. Collective. `cores` are those
/// that ranks of this host may use.
///
/// # Errors
/// What could not be opened.
pub fn open_rank(
    spec: &WorldSpec,
    bootstrap: &mut dyn Bootstrap,
    slot: Arc<dyn StatusPage>,
    oversubscribed: bool,
    cores: Vec<u32>,
) -> Result<(RankWork, Abort), Failure> {
    let (place, begun_ns) = (bootstrap.place(), Clock::default().now_ns());
    let common = Common::of(&spec.fields)?;
    let oversubscribed = any(bootstrap, oversubscribed || computes_beside(&common, &place, cores.len()))?;
    // All ranks have given their answer: the last one has begun, too.
    let met_ns = Clock::default().now_ns();
    let name = common.backend.unwrap_or_default();
    let options = options_of(&spec.fields, &name, oversubscribed)?;
    let (comm, abort) = match spec.is_apart() {
        true => comm::open(&name, &mut HostBootstrap::new(bootstrap).map_err(failure)?, &options),
        false => comm::open(&name, bootstrap, &options),
    }
    .map_err(failure)?;
    let joining = Joining { waited_ns: met_ns - begun_ns, opened_ns: Clock::default().now_ns() - met_ns };
    let clock = comm.clock();
    if let Some(ranges) = nvtx::ranges() {
        ranges.name_rank(place.rank, place.size);
    }
    let hook = Arc::new(Hook::new(place.rank, clock.clone(), slot).telling(nvtx::ranges()));
    let comm: Box<dyn Communicator> = Box::new(Observed::new(comm, hook.clone()));
    let RankPlacement { rank, size: ranks, host, index, .. } = place;
    let abort_too = abort.clone();
    let context =
        RankContext { rank, ranks, host, index, comm, hook, clock, abort: abort_too, options, cores, joining };
    Ok((RankWork::new(context)?, abort))
}

/// Whether it holds for any rank. Collective: what depends on it, such as who meets whom when, must be the same on all ranks,
/// and hosts differ in their cores.
fn any(bootstrap: &mut dyn Bootstrap, own: bool) -> Result<bool, Failure> {
    let all = bootstrap.all_gather(&[u8::from(own)]).map_err(failure)?;
    Ok(all.iter().any(|of_rank| of_rank.first() == Some(&1)))
}

/// Whether the threads that exchange share cores with the computation. In worlds that train, every rank has threads that
/// compute and one that waits for others; a wait that spins would take the core of what it waits for.
fn computes_beside(common: &Common, place: &RankPlacement, cores: usize) -> bool {
    common.threads.is_some_and(|threads| place.size > 1 && place.here as usize * (threads as usize + 1) > cores)
}

#[cfg(test)]
mod tests {
    use comm::threads;

    use super::*;

    /// Hosts differ in their cores; a world in which only some ranks yield, or meet, hangs.
    #[test]
    fn what_holds_for_one_rank_holds_for_all() {
        for (own, all) in [([false, true, false], true), ([false; 3], false)] {
            let world = threads(3, &Abort::default());
            let ranks: Vec<_> = world.into_iter().zip(own).collect();
            let answers: Vec<bool> = std::thread::scope(|scope| {
                let asked = |(mut bootstrap, own)| scope.spawn(move || any(&mut bootstrap, own).unwrap());
                let all: Vec<_> = ranks.into_iter().map(asked).collect();
                all.into_iter().map(|rank| rank.join().unwrap()).collect()
            });
            assert_eq!(answers, [all; 3]);
        }
    }
}

//! The rank's half: joins its world, obeys commands, answers. Runs in a process that the coordinator started.

mod argument;
mod bootstrap;
mod exhaustion;
mod guardian;
mod place;
mod seat;

use std::ffi::OsString;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use control::{ChannelError, FromRank, Invitation, RankChannel, ToRank, join};
use measure::{Failure, RankSide, Reply, WorldSpec};
use process::{CoreMask, core_of, host_name, inherited_memory, sealed_memory_at};

use crate::departure::Departure;
use crate::pytorch;
use crate::status::{MappedSlot, StatusPage};
use crate::{Environment, Variables};

pub use argument::is_rank;
use argument::{ARGUMENT, find_argument, find_seat, find_server};
pub(crate) use argument::{argument, launched_argument, python_server_argument, server_argument};
use bootstrap::ControlBootstrap;
pub use guardian::Guardian;
use place::place;
pub(crate) use seat::{
    ADAPTERS, Adapter, COORDINATOR, JOB_COMPLETION_INDEX, LOCAL_WORLD_SIZE, SECRET_FILE, Seat, WORLD_SIZE,
    launcher_number,
};

/// What a rank knows when it starts.
pub struct RankContext {
    /// The world that it belongs to.
    pub spec: WorldSpec,
    /// This rank, from 0.
    pub rank: u32,
    /// Ranks in the world.
    pub size: u32,
    /// Ranks of the world on this host's cores.
    pub here: u32,
    /// The exchange with the other ranks. Works while the rank starts and while it obeys a command; collective.
    pub bootstrap: Box<dyn comm::Bootstrap>,
    /// This rank's slot of the status page, for its operation hook.
    pub slot: Arc<dyn trace::StatusPage>,
    /// More ranks than cores share this host.
    pub oversubscribed: bool,
    /// The cores that ranks of this host may use, in the order in which they take them.
    pub cores: Vec<u32>,
    /// The core that this process is bound to; None: not bound.
    pub core: Option<u32>,
    /// Ends communicators when the coordinator is gone: give it every [`comm::Abort`].
    pub guardian: Guardian,
}

/// The life of a rank process: joins the world that the arguments name, calls `make` once, and obeys until the
/// coordinator lets it go. To be called first of all in `main`, on the main thread, when [`is_rank`] says so; the
/// process should end when it returns.
///
/// `environment`: what this process's environment says, by which a launcher tells its rank, and where its programs are.
///
/// A failure of `make` is reported to the coordinator, which ends the world.
///
/// # Errors
/// Why the rank left otherwise than asked; the program may write it to standard error, which the coordinator keeps, and
/// should exit with its [`Departure::code`].
pub fn rank_main(
    args: &[OsString],
    environment: Environment<'_>,
    make: &mut dyn FnMut(RankContext) -> Result<Box<dyn RankSide>, Failure>,
) -> Result<(), Departure> {
    // A number that is not text is refused as what it is.
    let variable = |name: &str| environment(name).map(|value| value.to_string_lossy().into_owned());
    if let Some((socket, python)) = find_server(args) {
        return Err(Departure::NoForkServer(pytorch::become_server(socket, python, environment)));
    }
    let Accepted { rank, invitation, memory, page } = accept(args, &variable)?;
    let instead = pytorch::is_asked(&invitation.spec).then(|| {
        let across = (!invitation.hosts.is_empty()).then_some(invitation.address);
        pytorch::become_python(rank, [&memory[0], &memory[1]], &invitation.spec, across, environment)
    });
    drop(memory);
    // Not before: Python gets the environment as it is.
    exhaustion::end_at_once();
    let slot = MappedSlot::new(Arc::new(page), rank);
    let slot: Arc<dyn trace::StatusPage> = Arc::new(slot);
    let host = host_name();
    let channel = join(&invitation, rank, &host)?;
    let guardian = Guardian::start(channel.stream()?, slot.clone(), &invitation.cores).map_err(Departure::System)?;
    let channel = Arc::new(Mutex::new(channel));
    let place = place(&invitation, rank, host);
    let here = place.here + invitation.co_located;
    let context = RankContext {
        rank,
        size: place.size,
        here,
        oversubscribed: here as usize > invitation.cores.len(),
        core: if invitation.bound { core_of(place.index, &invitation.cores) } else { None },
        bootstrap: Box::new(ControlBootstrap::new(channel.clone(), place)),
        slot,
        cores: invitation.cores,
        spec: invitation.spec,
        guardian: guardian.clone(),
    };
    let made = catch_unwind(AssertUnwindSafe(|| instead.map_or_else(|| make(context), Err)));
    let made = made.map_err(|payload| Departure::from_panic(&*payload))?;
    let (side, failure) = match made {
        Ok(side) => (Some(side), None),
        Err(failure) => (None, Some(failure)),
    };
    send(&channel, &FromRank::Started(failure))?;
    serve(&channel, &guardian, side)
}

/// What a rank's process was started with.
struct Accepted {
    rank: u32,
    invitation: Invitation,
    /// The memory of the invitation and of the status page.
    memory: [File; 2],
    page: StatusPage,
}

/// Takes over what the arguments name.
fn accept(args: &[OsString], variable: Variables<'_>) -> Result<Accepted, Departure> {
    let no = |why: String| Departure::NotInvited(why);
    let text = find_argument(args).ok_or_else(|| no(format!("no argument `{ARGUMENT}...`")))?;
    let parts: Vec<&str> = text.split(',').collect();
    let &[rank, invitation, status] = parts.as_slice() else {
        return Err(no(format!("`{ARGUMENT}{text}` is not a rank and two descriptors")));
    };
    let (seat, numbered) = find_seat(rank);
    let take = |place: &str| match (seat, place.parse()) {
        (None, Ok(descriptor)) => inherited_memory(descriptor),
        (None, Err(_)) => Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "no descriptor")),
        (Some(_), _) => sealed_memory_at(place),
    };
    let invited = take(invitation).map_err(|error| no(format!("descriptor {invitation}: {error}")))?;
    let invitation = Invitation::from_memory(&invited).map_err(|error| no(format!("the invitation: {error}")))?;
    let rank = match (seat, numbered) {
        (Some(seat), None) => seat.rank(invitation.spec.ranks, variable).map_err(no)?,
        (_, number) => {
            let number = number.unwrap_or(rank);
            number.parse().map_err(|_| no(format!("`{number}` is not a rank")))?
        }
    };
    if rank >= invitation.spec.ranks {
        return Err(no("the rank is not one of the world".to_owned()));
    }
    let memory = take(status).map_err(|error| no(format!("descriptor {status}: {error}")))?;
    let page = StatusPage::map(&memory, invitation.spec.ranks).map_err(|error| no(format!("status page: {error}")))?;
    if seat.is_some() {
        // A child of the coordinator was bound before its program was loaded.
        let index = place(&invitation, rank, String::new()).index;
        let core = core_of(index, &invitation.cores).filter(|_| invitation.bound);
        core.map_or(Ok(()), |core| CoreMask::new(&[core]).bind_this_thread()).map_err(Departure::System)?;
    }
    Ok(Accepted { rank, invitation, memory: [invited, memory], page })
}

fn send(channel: &Mutex<RankChannel>, message: &FromRank) -> Result<(), ChannelError> {
    channel.lock().unwrap_or_else(PoisonError::into_inner).send(message)
}

/// Obeys until the coordinator says leave. Without a side (it could not be made), that is the only command to obey.
fn serve(
    channel: &Mutex<RankChannel>,
    guardian: &Guardian,
    mut side: Option<Box<dyn RankSide>>,
) -> Result<(), Departure> {
    loop {
        guardian.rest();
        let message = channel.lock().unwrap_or_else(PoisonError::into_inner).receive()?;
        guardian.work();
        match (message, &mut side) {
            (ToRank::Leave, _) => return Ok(()),
            (ToRank::Command(command), Some(present)) => {
                match catch_unwind(AssertUnwindSafe(|| present.obey(&command))) {
                    Ok(reply) => answer(channel, reply)?,
                    Err(payload) => {
                        // Nothing is torn down: a communicator's end may wait for peers, and the panic is the news.
                        std::mem::forget(side.take());
                        return Err(Departure::from_panic(&*payload));
                    }
                }
            }
            _ => return Err(ChannelError::Protocol("a message that is out of place".to_owned()).into()),
        }
    }
}

/// Sends a reply, or, where it cannot be sent, that it cannot.
fn answer(channel: &Mutex<RankChannel>, reply: Reply) -> Result<(), ChannelError> {
    // JSON has no word for them, and the coordinator could not read the whole reply.
    let finite = match &reply {
        Reply::Numbers(numbers) => numbers.iter().all(|number| number.is_finite()),
        Reply::Ready(ready) => ready.flops.is_finite(),
        _ => true,
    };
    let unusable = || Reply::Failed(Failure::new("the rank measured a value that is not a finite number"));
    let message = FromRank::Reply(Box::new(if finite { reply } else { unusable() }));
    match send(channel, &message) {
        Err(ChannelError::TooLong(error)) => {
            let failure = Failure::new(format!("the rank's reply does not fit: {error}"));
            send(channel, &FromRank::Reply(Box::new(Reply::Failed(failure))))
        }
        sent => sent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_arguments_are_recognised_and_checked() {
        assert!(is_rank(&["rankmark", &argument(3, 10, 11)]));
        assert!(!is_rank(&["rankmark", "run", "rank=3"]));
        for wrong in [
            "__rank=",
            "__rank=0,1",
            "__rank=0,1,2",
            "__rank=x,y,z",
            "__rank=-1,9999999,9999998",
            "__rank=pmi,/proc/self/exe,/x",
            "__rank=pmi:,/proc/self/exe,/x",
            "__rank=nobody:1,/proc/self/exe,/x",
        ] {
            let departure = accept(&[OsString::from(wrong)], &|_| None).err();
            assert!(matches!(departure, Some(Departure::NotInvited(_))), "{wrong}: {departure:?}");
        }
    }
}

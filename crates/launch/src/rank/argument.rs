//! The hidden argument that makes a program a rank of a world.

use std::ffi::OsStr;
use std::os::fd::RawFd;

use super::Seat;

/// How it begins: `__rank=RANK,INVITATION,STATUS`. Of a child of the coordinator the rank is a number, and the others are
/// descriptors that it inherits; of a rank that another program starts, the rank is where that program tells it
/// ([`Seat`]), or follows the seat (`ompi:3`), and the others are paths of the coordinator's descriptors.
pub(super) const ARGUMENT: &str = "__rank=";

/// The argument of a child of the coordinator.
pub(crate) fn argument(rank: u32, invitation: RawFd, status: RawFd) -> String {
    format!("{ARGUMENT}{rank},{invitation},{status}")
}

/// The argument of a rank that another program starts. `rank`: where the world numbers it otherwise than that program does.
pub(crate) fn launched_argument(seat: Seat, rank: Option<u32>, invitation: &str, status: &str) -> String {
    let rank = rank.map_or_else(String::new, |rank| format!("{NUMBERED}{rank}"));
    format!("{ARGUMENT}{}{rank},{invitation},{status}", seat.name())
}

/// Stands between a seat and a rank that the seat does not tell.
const NUMBERED: char = ':';

/// The seat in the argument of a rank that another program starts, and the rank where the argument has it.
pub(super) fn find_seat(text: &str) -> (Option<Seat>, Option<&str>) {
    match text.split_once(NUMBERED) {
        Some((seat, rank)) => (Seat::of_name(seat), Some(rank)),
        None => (Seat::of_name(text), None),
    }
}

/// What stands in place of the rank in the argument of a fork server: `__rank=server,SOCKET,PYTHON`.
const SERVER: &str = "server,";

/// The argument of a fork server: of this Python, if one is named. It inherits the socket.
pub(crate) fn server_argument(socket: RawFd, python: Option<&str>) -> String {
    format!("{ARGUMENT}{SERVER}{socket},{}", python.unwrap_or_default())
}

/// The argument for its Python: with room for that of a rank, which each rank writes over it.
pub(crate) fn python_server_argument(socket: &str) -> String {
    format!("{:40}", format!("{ARGUMENT}{SERVER}{socket}"))
}

/// The socket and the Python of a fork server, where the arguments are those of one.
pub(super) fn find_server<S: AsRef<OsStr>>(args: &[S]) -> Option<(&str, Option<&str>)> {
    let (socket, python) = find_argument(args)?.strip_prefix(SERVER)?.split_once(',')?;
    Some((socket, Some(python).filter(|python| !python.is_empty())))
}

/// Whether these arguments (with or without the program's name) are those of a rank process.
pub fn is_rank<S: AsRef<OsStr>>(args: &[S]) -> bool {
    find_argument(args).is_some()
}

/// What stands behind its beginning.
pub(super) fn find_argument<S: AsRef<OsStr>>(args: &[S]) -> Option<&str> {
    args.iter().find_map(|argument| argument.as_ref().to_str()?.strip_prefix(ARGUMENT))
}

//! The hidden argument that makes a program a rank of a world.

use std::ffi::OsStr;
use std::os::fd::RawFd;

use super::Seat;

/// How it begins: `__rank=RANK,INVITATION,STATUS`. Of a child of the coordinator the rank is a number, and the others are
/// descriptors that it inherits; of a rank that another program starts, the rank is where that program tells it
/// ([`Seat`]), and the others are paths of the coordinator's descriptors.
pub(super) const ARGUMENT: &str = "__rank=";

/// The argument of a child of the coordinator.
pub(crate) fn argument(rank: u32, invitation: RawFd, status: RawFd) -> String {
    format!("{ARGUMENT}{rank},{invitation},{status}")
}

/// The argument of a rank that another program starts.
pub(crate) fn launched_argument(seat: Seat, invitation: &str, status: &str) -> String {
    format!("{ARGUMENT}{},{invitation},{status}", seat.name())
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

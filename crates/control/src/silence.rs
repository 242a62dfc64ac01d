//! How it is noticed that another host cannot be reached any more.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl, set_tcp_user_timeout,
};

/// A host from which nothing has come for so long, not even the kernel's own answers, is lost. In seconds.
pub const SILENT: u32 = 10;
/// A coordinator whose host answers, and that has said nothing itself for so long, stands still. In seconds.
pub const STANDSTILL: u32 = 60;
/// A connection on which nothing was said for so long is asked whether it lives, and again after each [`ASKED_AGAIN`].
const ASKED: u32 = 4;
const ASKED_AGAIN: u32 = 2;

/// Has the kernel find out when the other end's host cannot be reached any more: the connection then ends with an error,
/// [`SILENT`] seconds later. Connections within this host need none of it.
///
/// # Errors
/// When the system refuses.
pub(crate) fn notice_silence(stream: &TcpStream) -> io::Result<()> {
    if stream.peer_addr()?.ip().is_loopback() {
        return Ok(());
    }
    let seconds = |seconds: u32| Duration::from_secs(seconds.into());
    set_socket_keepalive(stream, true)?;
    set_tcp_keepidle(stream, seconds(ASKED))?;
    set_tcp_keepintvl(stream, seconds(ASKED_AGAIN))?;
    set_tcp_keepcnt(stream, (SILENT - ASKED) / ASKED_AGAIN)?;
    set_tcp_user_timeout(stream, SILENT * 1000)?;
    Ok(())
}

/// Whether a connection ended because nothing reaches the other host, rather than because the other end closed it.
pub(crate) fn is_silence(error: &io::Error) -> bool {
    use io::ErrorKind::{HostUnreachable, NetworkDown, NetworkUnreachable, TimedOut};
    matches!(error.kind(), TimedOut | HostUnreachable | NetworkUnreachable | NetworkDown)
}

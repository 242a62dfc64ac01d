//! Signals: their names, and what this process does when one comes. Through `libc`: `rustix` leaves signal handlers to
//! the C library, which has its own.

use std::io;

/// What a handler is: it may interrupt anything, so it must be async-signal-safe.
pub(crate) type Handler = extern "C" fn(libc::c_int);

/// "SIGKILL"; "signal 40" where it has no name.
pub fn signal_name(signal: i32) -> String {
    const NAMES: [(i32, &str); 20] = [
        (libc::SIGHUP, "SIGHUP"),
        (libc::SIGINT, "SIGINT"),
        (libc::SIGQUIT, "SIGQUIT"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGTRAP, "SIGTRAP"),
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGKILL, "SIGKILL"),
        (libc::SIGUSR1, "SIGUSR1"),
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGUSR2, "SIGUSR2"),
        (libc::SIGPIPE, "SIGPIPE"),
        (libc::SIGALRM, "SIGALRM"),
        (libc::SIGTERM, "SIGTERM"),
        (libc::SIGSTOP, "SIGSTOP"),
        (libc::SIGTSTP, "SIGTSTP"),
        (libc::SIGXCPU, "SIGXCPU"),
        (libc::SIGXFSZ, "SIGXFSZ"),
        (libc::SIGSYS, "SIGSYS"),
    ];
    let name = NAMES.iter().find(|(number, _)| *number == signal);
    name.map_or_else(|| format!("signal {signal}"), |(_, name)| (*name).to_owned())
}

/// Calls the handler whenever this signal comes; system calls that it interrupts go on.
pub(crate) fn handle(signal: libc::c_int, handler: Handler) -> io::Result<()> {
    // SAFETY: all zeros is a valid sigaction; the handlers of this crate do only what is async-signal-safe.
    let refused = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, &action, std::ptr::null_mut())
    };
    if refused < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub(crate) fn is_ignored(signal: libc::c_int) -> io::Result<bool> {
    // SAFETY: all zeros is a valid sigaction, and the call only fills it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signal, std::ptr::null(), &mut action) < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(action.sa_sigaction == libc::SIG_IGN)
    }
}

/// From now on the signal does what it does by itself. Async-signal-safe.
pub(crate) fn restore(signal: libc::c_int) -> io::Result<()> {
    dispose(signal, libc::SIG_DFL)
}

/// From now on the signal does nothing, in what this process becomes neither. Async-signal-safe.
pub(crate) fn ignore(signal: libc::c_int) -> io::Result<()> {
    dispose(signal, libc::SIG_IGN)
}

fn dispose(signal: libc::c_int, disposition: libc::sighandler_t) -> io::Result<()> {
    // SAFETY: neither of the two dispositions runs code of ours.
    if unsafe { libc::signal(signal, disposition) } == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Makes sure that the ends of children can be waited for. The process that started this one may have ignored SIGCHLD, which
/// programs inherit; the system would then throw away how a child ended.
///
/// # Errors
/// When the system refuses.
pub fn keep_children() -> io::Result<()> {
    if is_ignored(libc::SIGCHLD)? { restore(libc::SIGCHLD) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_names() {
        assert_eq!(signal_name(libc::SIGKILL), "SIGKILL");
        assert_eq!(signal_name(40), "signal 40");
    }
}

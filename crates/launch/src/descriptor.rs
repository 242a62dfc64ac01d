//! Descriptors that ranks inherit: memory without a name, sealed against resizing, and the passing on of its number.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Memory of `bytes` zeros without a name, whose size can never change: a mapping of it cannot fault. Closed on exec.
///
/// # Errors
/// When the system has no memory for it.
pub(crate) fn sealed_memory(name: &std::ffi::CStr, bytes: u64) -> io::Result<File> {
    // SAFETY: `name` is a terminated string; the call touches nothing else.
    let descriptor = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that was created just now and belongs to nobody else.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
    let length = libc::off_t::try_from(bytes).map_err(|_| io::ErrorKind::FileTooLarge)?;
    // Reserved now: a page that cannot be had later would be a SIGBUS in whoever touches it.
    // SAFETY: a plain call on an open descriptor.
    let refused = unsafe { libc::posix_fallocate(descriptor, 0, length) };
    if refused != 0 {
        return Err(io::Error::from_raw_os_error(refused));
    }
    // SAFETY: a plain call on an open descriptor.
    if unsafe { libc::fcntl(descriptor, libc::F_ADD_SEALS, SEALS) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}

const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// Takes over a descriptor that this process inherited under a number that it was told, if it is memory sealed as
/// [`sealed_memory`] seals it. A number that somebody made up names something else (or nothing), and is left alone.
///
/// # Errors
/// When the number names no such memory.
pub(crate) fn inherited_memory(number: RawFd) -> io::Result<File> {
    // SAFETY: asking for seals changes nothing, whatever the number names.
    let seals = unsafe { libc::fcntl(number, libc::F_GET_SEALS) };
    if seals < 0 {
        return Err(io::Error::last_os_error());
    }
    if seals & SEALS != SEALS {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the memory is not sealed"));
    }
    // SAFETY: sealed memory can only have come from the coordinator, which gave it to this process to own.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(number) });
    // What this process starts itself shall not inherit it again.
    // SAFETY: a plain call on an open descriptor.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}

/// Opens memory that another process of the same user holds under this path below its `/proc/PID/fd`, if it is sealed as
/// [`sealed_memory`] seals it.
///
/// # Errors
/// When the path names no such memory, or the kernel lets only others open it.
pub(crate) fn sealed_memory_at(path: &str) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    // SAFETY: a plain call on an open descriptor.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    if seals < 0 {
        return Err(io::Error::last_os_error());
    }
    if seals & SEALS != SEALS {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the memory is not sealed"));
    }
    Ok(file)
}

/// Where other processes of this user find a descriptor of this process.
pub(crate) fn path_of(file: &File) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())
}

/// Lets the next program image of this process keep the descriptor. Async-signal-safe: called between fork and exec.
///
/// # Errors
/// When the number names no descriptor.
pub(crate) fn keep_on_exec(number: RawFd) -> io::Result<()> {
    // SAFETY: a plain call; a wrong number is answered with an error.
    if unsafe { libc::fcntl(number, libc::F_SETFD, 0) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A pipe, both ends closed on exec; the end that is read never blocks.
///
/// # Errors
/// When the system has no descriptors left.
pub(crate) fn output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for both descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: descriptors that were created just now and belong to nobody else.
    let (read, write) = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
    // Only the reading end: the other end's flags are its own.
    // SAFETY: a plain call on an open descriptor.
    if unsafe { libc::fcntl(read.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((read, write))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::IntoRawFd;

    #[test]
    fn only_sealed_memory_is_taken_over() {
        let memory = sealed_memory(c"rankmark-test", 4096).unwrap();
        assert!(memory.set_len(8192).is_err(), "sealed against growing");
        assert!(sealed_memory_at(&path_of(&memory)).is_ok());
        assert!(sealed_memory_at("/proc/self/exe").is_err());
        assert!(inherited_memory(memory.into_raw_fd()).is_ok());
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert!(inherited_memory(file.as_raw_fd()).is_err());
        assert!(inherited_memory(-1).is_err());
        assert!(inherited_memory(1_000_000).is_err());
        assert!(file.metadata().is_ok(), "left alone");
    }
}

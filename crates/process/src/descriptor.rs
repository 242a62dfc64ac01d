//! Descriptors that processes share: memory without a name, sealed against resizing, and the passing on of its number.

use std::ffi::CStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::fs::{
    FallocateFlags, MemfdFlags, OFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, fcntl_setfl,
    memfd_create,
};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::net::SocketType;
use rustix::net::sockopt::socket_type;
use rustix::pipe::{PipeFlags, pipe_with};

/// Memory of `bytes` zeros without a name. Its size can never change, so a mapping of it cannot fault. Closed on exec.
///
/// # Errors
/// When the system has no memory for it.
pub fn sealed_memory(name: &CStr, bytes: u64) -> io::Result<File> {
    let file = File::from(memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
    // Reserved now: a page that cannot be had later would be a SIGBUS in the process that touches it.
    fallocate(&file, FallocateFlags::empty(), 0, bytes)?;
    fcntl_add_seals(&file, SEALS)?;
    Ok(file)
}

/// Memory without a name that grows as a file does, with this content, to be read from its beginning. Closed on exec.
///
/// # Errors
/// When the system has no memory for it.
pub(crate) fn memory_of(name: &CStr, content: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create(name, MemfdFlags::CLOEXEC)?);
    file.write_all(content)?;
    file.rewind()?;
    Ok(file)
}

const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

fn check_seals(memory: impl AsFd) -> io::Result<()> {
    if fcntl_get_seals(memory)?.contains(SEALS) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "the memory is not sealed"))
}

/// Takes over a descriptor that this process inherited under a known number, if it is memory sealed as
/// [`sealed_memory`] seals it. A number that somebody made up names something else (or nothing), and is left alone.
///
/// # Errors
/// When the number names no such memory.
pub fn inherited_memory(number: RawFd) -> io::Result<File> {
    if number < 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no descriptor"));
    }
    // SAFETY: asking for seals changes nothing, whatever the number names.
    check_seals(unsafe { BorrowedFd::borrow_raw(number) })?;
    // SAFETY: sealed memory can only have come from the process that started this one, which gave it to this process to own.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(number) });
    // What this process starts itself shall not inherit it again.
    fcntl_setfd(&file, FdFlags::CLOEXEC)?;
    Ok(file)
}

/// A copy, closed on exec, of a stream socket that this process inherited under a known number. The number itself stays open for
/// the processes that this one starts. A number that names something else is left alone.
///
/// # Errors
/// When the number names no such socket.
pub fn inherited_socket(number: RawFd) -> io::Result<OwnedFd> {
    let refusal = || io::Error::new(io::ErrorKind::InvalidInput, format!("descriptor {number} is not a stream socket"));
    if number < 0 {
        return Err(refusal());
    }
    // SAFETY: it is asked for its kind and copied, which changes nothing, whatever the number names.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    if socket_type(borrowed).map_err(|_| refusal())? != SocketType::STREAM {
        return Err(refusal());
    }
    Ok(fcntl_dupfd_cloexec(borrowed, 3)?)
}

/// Opens memory that another process of the same user holds under this path below its `/proc/PID/fd`, if it is sealed as
/// [`sealed_memory`] seals it.
///
/// # Errors
/// When the path names no such memory, or the kernel lets only others open it.
pub fn sealed_memory_at(path: &str) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    check_seals(&file)?;
    Ok(file)
}

/// Where other processes of this user find a descriptor of this process.
pub fn path_of(file: &File) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())
}

/// Lets the next program image of this process keep the descriptor. Async-signal-safe: called between fork and exec, too.
///
/// # Errors
/// When it is not a descriptor.
pub fn keep_on_exec(descriptor: impl AsFd) -> io::Result<()> {
    Ok(fcntl_setfd(descriptor, FdFlags::empty())?)
}

/// A pipe, both ends closed on exec; the end that is read never blocks.
///
/// # Errors
/// When the system has no descriptors left.
pub fn output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    // Only the reading end: the other end's flags are its own.
    fcntl_setfl(&read, OFlags::NONBLOCK)?;
    Ok((read, write))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::IntoRawFd;

    #[test]
    fn only_sealed_memory_is_taken_over() {
        let memory = sealed_memory(c"process-test", 4096).unwrap();
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

    #[test]
    fn only_a_stream_socket_is_copied() {
        let (own, mut other) = std::os::unix::net::UnixStream::pair().unwrap();
        let copy = inherited_socket(own.as_raw_fd()).unwrap();
        assert!(rustix::io::fcntl_getfd(&copy).unwrap().contains(FdFlags::CLOEXEC));
        drop(copy);
        other.write_all(b"x").unwrap();
        assert_eq!(rustix::io::read(&own, &mut [0; 8]), Ok(1), "the number itself stays open");
        let datagrams = std::os::unix::net::UnixDatagram::unbound().unwrap();
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        for number in [-1, 1_000_000, datagrams.as_raw_fd(), file.as_raw_fd()] {
            let why = inherited_socket(number).unwrap_err().to_string();
            assert_eq!(why, format!("descriptor {number} is not a stream socket"));
        }
    }
}

//! Messages with descriptors over a socket that two processes share: nothing listens, and nothing has a path.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::IoSlice;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv,
    sendmsg, socketpair,
};

/// Descriptors in one message, at most.
const MOST: usize = 4;

/// One end of a socket of whole messages.
#[derive(Debug)]
pub struct Courier {
    socket: OwnedFd,
}

impl Courier {
    /// This process's end, and the end for a child to inherit. Both are closed on exec.
    ///
    /// # Errors
    /// When the system has no descriptors left.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let (socket, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Self { socket }, other))
    }

    /// Readable once a message has arrived, or the other end is closed.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends a message, and copies of at most four descriptors.
    ///
    /// # Errors
    /// When the other end is closed, or the message is too long.
    pub fn send(&self, message: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if descriptors.len() > MOST || !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors"));
        }
        sendmsg(&self.socket, &[IoSlice::new(message)], &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Takes the message that has arrived; empty once the other end is closed. What is beyond the buffer is lost.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn receive<'b>(&self, buffer: &'b mut [u8]) -> io::Result<&'b [u8]> {
        let (_, length) = recv(&self.socket, &mut *buffer, RecvFlags::empty())?;
        Ok(&buffer[..length.min(buffer.len())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn messages_keep_their_bounds_and_the_end_is_an_empty_one() {
        let (here, there) = Courier::pair().unwrap();
        let there = UnixDatagram::from(there);
        let null = std::fs::File::open("/dev/null").unwrap();
        here.send(b"one", &[null.as_fd(), null.as_fd()]).unwrap();
        here.send(b"two", &[]).unwrap();
        let mut buffer = [0; 16];
        assert_eq!([there.recv(&mut buffer).unwrap(), there.recv(&mut buffer).unwrap()], [3, 3]);
        there.send(b"three").unwrap();
        assert_eq!(here.receive(&mut buffer).unwrap(), b"three");
        assert!(here.send(b"many", &[null.as_fd(); MOST + 1]).is_err());
        drop(there);
        assert_eq!(here.receive(&mut buffer).unwrap(), b"");
        assert!(here.send(b"late", &[]).is_err());
    }
}

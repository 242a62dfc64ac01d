//! How rank 0 passes descriptors of shared memory to its peers: every rank is connected to it over an abstract Unix socket.
//! Used when a communicator opens and when it allocates, never in between.
//!
//! A star and not a mesh: n connections in rank 0 and one in the others, instead of n each. Peers must know the token
//! that their rank gathered through the bootstrap and must run under the same user.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

use crate::{Abort, Error, Result};

/// A peer that takes longer than this to connect or to pass a descriptor is lost.
const DEADLINE: Duration = Duration::from_secs(30);
/// A secret of one rank, gathered through the bootstrap.
pub(crate) type Token = [u8; 16];

/// This rank's connections.
#[derive(Debug)]
pub(crate) enum Star {
    /// Rank 0: one connection a peer, in rank order.
    Hub(Vec<UnixStream>),
    /// A rank other than 0: the connection to rank 0.
    Spoke(UnixStream),
}

/// What a rank prepares before the bootstrap's exchange.
#[derive(Debug)]
pub(crate) struct Invitation {
    listener: UnixListener,
    /// The abstract name to connect to.
    pub(crate) name: Token,
}

fn random() -> Result<Token> {
    let mut bytes = [0; 16];
    let system = |error: getrandom::Error| Error::System {
        what: "random bytes".to_owned(),
        source: io::Error::other(error.to_string()),
    };
    getrandom::fill(&mut bytes).map_err(system)?;
    Ok(bytes)
}

/// A fresh secret.
///
/// # Errors
/// When the system has no randomness to give.
pub(crate) fn token() -> Result<Token> {
    random()
}

fn address(name: &Token) -> io::Result<SocketAddr> {
    let hex: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
    SocketAddr::from_abstract_name(format!("rankmark-{hex}"))
}

fn system(what: &str) -> impl Fn(io::Error) -> Error {
    let what = what.to_owned();
    move |source| Error::System { what: what.clone(), source }
}

impl Invitation {
    /// Listens under a random name.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn new() -> Result<Self> {
        let name = random()?;
        let listen = || {
            let listener = UnixListener::bind_addr(&address(&name)?)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let listener = listen().map_err(system("listen on a Unix socket"))?;
        Ok(Self { listener, name })
    }

    /// Accepts ranks 1.. with these tokens (`tokens[0]` is this rank's). Strangers are dropped.
    ///
    /// # Errors
    /// [`Error::PeerGone`] for the first rank that did not come in time.
    pub(crate) fn accept(self, tokens: &[Token], abort: &Abort) -> Result<Star> {
        let deadline = Instant::now() + DEADLINE;
        let mut peers: Vec<Option<UnixStream>> = tokens.iter().map(|_| None).collect();
        while let Some(missing) = (1..peers.len()).find(|rank| peers[*rank].is_none()) {
            abort.check()?;
            match self.listener.accept() {
                Ok((stream, _)) => {
                    // A process that fails the handshake is not a rank of this world and must not end it.
                    if let Ok((rank, stream)) = admit(stream, tokens) {
                        peers[rank] = Some(stream);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if Instant::now() > deadline {
                        return Err(Error::PeerGone(terms::Rank(missing as u32)));
                    }
                    poll(self.listener.as_fd(), Duration::from_millis(20));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(system("accept on a Unix socket")(error)),
            }
        }
        Ok(Star::Hub(peers.into_iter().flatten().collect()))
    }
}

/// Waits until the stream has something to read (also its end).
fn readable(stream: &UnixStream, rank: usize, abort: &Abort) -> Result<()> {
    let deadline = Instant::now() + DEADLINE;
    while !poll(stream.as_fd(), Duration::from_millis(20)) {
        abort.check()?;
        if Instant::now() > deadline {
            return Err(Error::PeerGone(terms::Rank(rank as u32)));
        }
    }
    Ok(())
}

/// Waits until the descriptor is readable (true), or some time has passed.
fn poll(fd: BorrowedFd<'_>, time: Duration) -> bool {
    let mut entry = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid entry.
    unsafe { libc::poll(&raw mut entry, 1, time.as_millis() as libc::c_int) > 0 }
}

/// Rank 0's half of the handshake: user, rank, token; then its own token back.
fn admit(stream: UnixStream, tokens: &[Token]) -> io::Result<(usize, UnixStream)> {
    use io::{Read, Write};
    let stranger = || io::Error::from(io::ErrorKind::PermissionDenied);
    stream.set_nonblocking(false)?;
    // Short: a stranger that connects and says nothing must not use up the ranks' time.
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    same_user(&stream)?;
    let mut hello = [0; 20];
    (&stream).read_exact(&mut hello)?;
    let rank = u32::from_le_bytes([hello[0], hello[1], hello[2], hello[3]]) as usize;
    let known = rank > 0 && tokens.get(rank).is_some_and(|token| equal(token, &hello[4..]));
    if !known {
        return Err(stranger());
    }
    (&stream).write_all(&tokens[0])?;
    stream.set_read_timeout(Some(DEADLINE))?;
    Ok((rank, stream))
}

/// Compares without telling by the time taken how much agreed.
fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

/// Refuses a peer of another user.
fn same_user(stream: &UnixStream) -> io::Result<()> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    let fd = stream.as_raw_fd();
    // SAFETY: a call on an owned descriptor, with room for its result.
    let got =
        unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut peer).cast(), &raw mut len) };
    // SAFETY: no arguments, cannot fail.
    let own = unsafe { libc::geteuid() };
    if got == 0 && peer.uid == own { Ok(()) } else { Err(io::Error::from(io::ErrorKind::PermissionDenied)) }
}

/// The half of a rank other than 0: connects to rank 0.
///
/// # Errors
/// [`Error::PeerGone`] when rank 0 is not there or is not who it should be.
pub(crate) fn connect(name: &Token, rank: u32, own: &Token, hubs: &Token, abort: &Abort) -> Result<Star> {
    use io::{Read, Write};
    let greet = || {
        let stream = UnixStream::connect_addr(&address(name)?)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        same_user(&stream)?;
        let mut hello = rank.to_le_bytes().to_vec();
        hello.extend_from_slice(own);
        (&stream).write_all(&hello)?;
        Ok(stream)
    };
    let what = "connect to rank 0 over a Unix socket";
    let stream = greet().map_err(system(what))?;
    readable(&stream, 0, abort)?;
    let mut answer = [0; 16];
    (&stream).read_exact(&mut answer).map_err(system(what))?;
    if equal(&answer, hubs) {
        Ok(Star::Spoke(stream))
    } else {
        Err(system(what)(io::ErrorKind::PermissionDenied.into()))
    }
}

impl Star {
    /// Gives rank 0's descriptor to every other rank: one message each. `own`: that descriptor on rank 0, or None where it
    /// could not be made, which all hear then. Returns what arrived; on rank 0 nothing does. Collective.
    ///
    /// # Errors
    /// A lost peer.
    pub(crate) fn pass(&self, own: Option<BorrowedFd<'_>>, abort: &Abort) -> Result<Option<OwnedFd>> {
        match self {
            Self::Hub(peers) => {
                for (peer, stream) in (1..).zip(peers) {
                    send(stream, own).map_err(gone(peer))?;
                }
                Ok(None)
            }
            Self::Spoke(hub) => {
                readable(hub, 0, abort)?;
                receive(hub).map_err(gone(0))
            }
        }
    }

    /// The bits that all ranks set. Two messages a rank, and no shared memory. Collective.
    ///
    /// # Errors
    /// A lost peer.
    pub(crate) fn agree(&self, bits: u8, abort: &Abort) -> Result<u8> {
        use io::{Read, Write};
        let (mut byte, mut all) = ([bits], bits);
        match self {
            Self::Hub(peers) => {
                for (peer, mut stream) in (1..).zip(peers) {
                    readable(stream, peer as usize, abort)?;
                    stream.read_exact(&mut byte).map_err(gone(peer))?;
                    all &= byte[0];
                }
                for (peer, mut stream) in (1..).zip(peers) {
                    stream.write_all(&[all]).map_err(gone(peer))?;
                }
                Ok(all)
            }
            Self::Spoke(hub) => {
                let mut stream = hub;
                stream.write_all(&byte).map_err(gone(0))?;
                readable(hub, 0, abort)?;
                stream.read_exact(&mut byte).map_err(gone(0))?;
                Ok(byte[0])
            }
        }
    }
}

/// The error for a rank that hung up.
fn gone(rank: u32) -> impl Fn(io::Error) -> Error {
    move |_| Error::PeerGone(terms::Rank(rank))
}

/// Room for one descriptor in a control message, aligned as its header wants.
#[repr(C, align(8))]
struct Control([u8; 32]);

/// Sends one byte: 1 with a descriptor, 0 without.
fn send(stream: &UnixStream, file: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut byte = [u8::from(file.is_some())];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    let mut control = Control([0; 32]);
    // SAFETY: `msghdr` is plain data, for which zeros are valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    if let Some(file) = file {
        // SAFETY: arithmetic only; the control buffer above is aligned and larger than the space of one descriptor, so the
        // first header and its data lie inside it.
        unsafe {
            message.msg_control = (&raw mut control.0).cast();
            message.msg_controllen = libc::CMSG_SPACE(size_of::<i32>() as u32) as usize;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(size_of::<i32>() as u32) as usize;
            libc::CMSG_DATA(header).cast::<i32>().write_unaligned(file.as_raw_fd());
        }
    }
    loop {
        // SAFETY: every pointer of the message points to a live local.
        let sent = unsafe { libc::sendmsg(stream.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
        if sent == 1 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Receives what [`send`] sends.
fn receive(stream: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut byte = [0u8];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    let mut control = Control([0; 32]);
    // SAFETY: `msghdr` is plain data, for which zeros are valid.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control.0).cast();
    message.msg_controllen = size_of::<Control>();
    let got = loop {
        // SAFETY: every pointer of the message points to a live local.
        let got = unsafe { libc::recvmsg(stream.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
        if got >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            break got;
        }
    };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel filled the control buffer; the header is read only if it is there and is of the right kind,
    // and then holds one descriptor that is now ours.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if got == 1 && byte[0] == 0 && header.is_null() {
            return Ok(None);
        }
        let right = got == 1
            && !header.is_null()
            && (*header).cmsg_level == libc::SOL_SOCKET
            && (*header).cmsg_type == libc::SCM_RIGHTS
            && (*header).cmsg_len == libc::CMSG_LEN(size_of::<i32>() as u32) as usize;
        if right {
            Ok(Some(OwnedFd::from_raw_fd(libc::CMSG_DATA(header).cast::<i32>().read_unaligned())))
        } else {
            Err(io::Error::from(io::ErrorKind::UnexpectedEof))
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::io::Read;

    /// Descriptors that pass grow with the ranks and not with their square: one message to each peer.
    #[test]
    fn each_peer_is_sent_one_descriptor() {
        for peers in [1, 4, 16] {
            let pairs: Vec<_> = (0..peers).map(|_| UnixStream::pair().unwrap()).collect();
            let (own, theirs): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            let hub = Star::Hub(own);
            let file = std::fs::File::open("/proc/self/exe").unwrap();
            hub.pass(Some(file.as_fd()), &Abort::default()).unwrap();
            for stream in &theirs {
                assert!(receive(stream).unwrap().is_some());
                stream.set_nonblocking(true).unwrap();
                let more = (&*stream).read(&mut [0]).unwrap_err();
                assert_eq!(more.kind(), io::ErrorKind::WouldBlock, "one message a peer");
            }
            hub.pass(None, &Abort::default()).unwrap();
            theirs.iter().for_each(|stream| assert!(receive(stream).unwrap().is_none(), "there is no file"));
        }
    }

    #[test]
    fn all_hear_what_all_agree_on() {
        let (one, other) = (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        let hub = Star::Hub(vec![one.0, other.0]);
        let spokes = [(one.1, 0b11), (other.1, 0b10)];
        let heard = std::thread::scope(|scope| {
            let spokes = spokes
                .map(|(stream, bits)| scope.spawn(move || Star::Spoke(stream).agree(bits, &Abort::default()).unwrap()));
            let own = hub.agree(0b11, &Abort::default()).unwrap();
            [own].into_iter().chain(spokes.map(|spoke| spoke.join().unwrap())).collect::<Vec<_>>()
        });
        assert_eq!(heard, [0b10; 3]);
    }

    #[test]
    fn a_peer_that_hung_up_is_named() {
        let (own, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        let lost = Star::Hub(vec![own]).agree(1, &Abort::default());
        assert!(matches!(lost, Err(Error::PeerGone(terms::Rank(1)))), "{lost:?}");
    }
}

//! An exchange of byte strings among the ranks of one host, over Unix sockets: a star around rank 0, which collects
//! every rank's bytes and sends all of them to all. Threads and processes alike.
//!
//! Never deadlocks by construction: the others write, then read; rank 0 reads from each in rank order, then writes to
//! each. Sockets live in the abstract namespace, so nothing is left behind in the file system. Anyone on the host may
//! connect there, so a process that does must show a token that travelled by the bootstrap.

use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

use terms::Rank;

use crate::{Abort, Bootstrap, Error, RankPlacement, Result};

/// Bounds how late a raised abort is seen.
const POLL: Duration = Duration::from_millis(20);
/// Ranks that do not connect in this time never will: they all have the address already.
const CONNECT: Duration = Duration::from_secs(30);
/// A stranger that connects and says nothing may not keep the ranks waiting.
const GREETING: Duration = Duration::from_secs(1);
/// No rank sends more in one message (the engine sends a few megabytes): a larger length is garbage.
const LONGEST: u64 = 1 << 30;

/// One rank's end of the star.
pub(crate) struct Sockets {
    place: RankPlacement,
    abort: Abort,
    /// To rank 0; of rank 0: to ranks 1.., in order.
    links: Vec<UnixStream>,
}

impl Sockets {
    /// Joins `members` (ranks of the bootstrap, this one among them); the first becomes rank 0. Collective over all
    /// ranks of the bootstrap: those that join nothing give no members.
    pub(crate) fn join(bootstrap: &mut dyn Bootstrap, members: Option<&[u32]>, abort: &Abort) -> Result<Option<Self>> {
        let place = bootstrap.place();
        let rank = members.and_then(|members| members.iter().position(|member| *member == place.rank));
        let mut listener = None;
        let mut address = Vec::new();
        if rank == Some(0) {
            let name = random()?;
            listener = Some(listen(&name)?);
            address = name.into_iter().chain(random()?).collect();
        }
        let addresses = bootstrap.all_gather(&address)?;
        let (Some(rank), Some(members)) = (rank, members) else { return Ok(None) };
        let (name, token) = addresses[members[0] as usize]
            .split_at_checked(16)
            .ok_or_else(|| Error::Mismatch(format!("{} gave no address to connect to", Rank(members[0]))))?;
        let links = match &listener {
            Some(listener) => accept(listener, token, members.len() - 1, abort)?,
            None => vec![connect(name, token, rank as u32)?],
        };
        for link in &links {
            let set = link.set_read_timeout(Some(POLL)).and_then(|()| link.set_write_timeout(Some(POLL)));
            set.map_err(|source| Error::System { what: "set a socket's time-out".to_owned(), source })?;
        }
        let place = RankPlacement::alone(rank as u32, members.len() as u32, place.host);
        Ok(Some(Self { place, abort: abort.clone(), links }))
    }

    fn send(&mut self, link: usize, bytes: &[u8]) -> Result<()> {
        self.write(link, &(bytes.len() as u64).to_ne_bytes())?;
        self.write(link, bytes)
    }

    fn receive(&mut self, link: usize) -> Result<Vec<u8>> {
        let mut length = [0; 8];
        self.read(link, &mut length)?;
        let length = u64::from_ne_bytes(length);
        if length > LONGEST {
            return Err(Error::Mismatch(format!("{} announced a message of {length} bytes", self.peer(link))));
        }
        let mut bytes = vec![0; length as usize];
        self.read(link, &mut bytes)?;
        Ok(bytes)
    }

    fn peer(&self, link: usize) -> Rank {
        Rank(if self.place.rank == 0 { link as u32 + 1 } else { 0 })
    }

    fn write(&mut self, link: usize, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let written = self.links[link].write(bytes);
            bytes = &bytes[self.progress(link, written)?..];
        }
        Ok(())
    }

    fn read(&mut self, link: usize, mut bytes: &mut [u8]) -> Result<()> {
        while !bytes.is_empty() {
            let read = self.links[link].read(bytes);
            let read = self.progress(link, read)?;
            bytes = &mut bytes[read..];
        }
        Ok(())
    }

    /// Bytes that moved; a time-out moved none and polls the abort.
    fn progress(&self, link: usize, moved: io::Result<usize>) -> Result<usize> {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, Interrupted, TimedOut, WouldBlock};
        match moved {
            Ok(0) => Err(Error::PeerGone(self.peer(link))),
            Ok(moved) => Ok(moved),
            Err(error) if matches!(error.kind(), WouldBlock | TimedOut | Interrupted) => {
                self.abort.check()?;
                Ok(0)
            }
            Err(error) if matches!(error.kind(), BrokenPipe | ConnectionReset) => Err(Error::PeerGone(self.peer(link))),
            Err(source) => Err(Error::System { what: format!("talk to {}", self.peer(link)), source }),
        }
    }
}

impl Bootstrap for Sockets {
    fn place(&self) -> RankPlacement {
        self.place.clone()
    }

    fn all_gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.abort.check()?;
        if self.place.rank == 0 {
            let mut all = vec![bytes.to_vec()];
            for link in 0..self.links.len() {
                all.push(self.receive(link)?);
            }
            for link in 0..self.links.len() {
                for bytes in &all {
                    self.send(link, bytes)?;
                }
            }
            return Ok(all);
        }
        self.send(0, bytes)?;
        (0..self.place.size).map(|_| self.receive(0)).collect()
    }
}

fn random() -> Result<[u8; 16]> {
    let mut bytes = [0; 16];
    let system = |error: getrandom::Error| Error::System {
        what: "draw a random name".to_owned(),
        source: io::Error::other(error.to_string()),
    };
    getrandom::fill(&mut bytes).map_err(system)?;
    Ok(bytes)
}

fn address(name: &[u8]) -> io::Result<SocketAddr> {
    let name: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
    SocketAddr::from_abstract_name(format!("rankmark-{name}"))
}

fn listen(name: &[u8]) -> Result<UnixListener> {
    let listener = address(name).and_then(|address| UnixListener::bind_addr(&address)).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    listener.map_err(|source| Error::System { what: "open a Unix socket".to_owned(), source })
}

fn connect(name: &[u8], token: &[u8], rank: u32) -> Result<UnixStream> {
    let stream = address(name).and_then(|address| UnixStream::connect_addr(&address)).and_then(|mut stream| {
        stream.write_all(token)?;
        stream.write_all(&rank.to_ne_bytes())?;
        Ok(stream)
    });
    stream
        .map_err(|source| Error::System { what: "reach rank 0 through a Unix socket on this host".to_owned(), source })
}

/// Links to ranks 1..=`others`, in rank order. A process without the token is turned away.
fn accept(listener: &UnixListener, token: &[u8], others: usize, abort: &Abort) -> Result<Vec<UnixStream>> {
    let mut links: Vec<Option<UnixStream>> = (0..others).map(|_| None).collect();
    let deadline = Instant::now() + CONNECT;
    while let Some(absent) = links.iter().position(Option::is_none) {
        match listener.accept() {
            Ok((stream, _)) => {
                if let Some((stream, rank)) = greeted(stream, token) {
                    let link = (rank as usize).checked_sub(1).and_then(|index| links.get_mut(index));
                    if let Some(link) = link.filter(|link| link.is_none()) {
                        *link = Some(stream);
                    }
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                abort.check()?;
                if Instant::now() > deadline {
                    return Err(Error::PeerGone(Rank(absent as u32 + 1)));
                }
                std::thread::sleep(Duration::from_micros(200));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => return Err(Error::System { what: "accept a rank".to_owned(), source }),
        }
    }
    Ok(links.into_iter().flatten().collect())
}

/// The stream and the rank that it says it is, if it knows the token.
fn greeted(mut stream: UnixStream, token: &[u8]) -> Option<(UnixStream, u32)> {
    let (mut shown, mut rank) = ([0; 16], [0; 4]);
    stream.set_nonblocking(false).ok()?;
    stream.set_read_timeout(Some(GREETING)).ok()?;
    stream.read_exact(&mut shown).ok()?;
    stream.read_exact(&mut rank).ok()?;
    (shown == token).then(|| (stream, u32::from_ne_bytes(rank)))
}

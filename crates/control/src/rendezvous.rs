//! Where ranks find the coordinator: a listening socket that lives only while a world starts, so that a running world
//! has no open port at all.
//!
//! Anybody may connect to it. A peer that has not proved itself gets [`HANDSHAKE_LIMIT`] of time and
//! [`MAX_HANDSHAKE`] bytes a message; beyond [`Rendezvous::room`] such peers the oldest makes room for the newest. A
//! genuine rank that is crowded out comes again until the world's own time is over ([`crate::join()`]).

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use process::{Interest, PollSet};

use crate::auth::{Nonce, Role, Secret};
use crate::connection::Connection;
use crate::frame::{Decoder, MAX_HANDSHAKE, encode};
use crate::message::{Answer, Challenge, Distrust, Hello, PROTOCOL, ToRank, read, write};
use crate::silence::notice_silence;

/// How long a peer may take to prove itself.
pub const HANDSHAKE_LIMIT: Duration = Duration::from_secs(2);

/// Connections taken at once before those that are there get their turn: a flood must not starve them.
const TAKEN_AT_ONCE: usize = 16;

/// Most peers with another secret that are reported.
const STRANGERS: usize = 16;

/// The listening socket of one world, and the peers that have not proved themselves yet.
pub struct Rendezvous {
    listener: TcpListener,
    secret: Secret,
    joined: Vec<bool>,
    pending: VecDeque<Pending>,
    /// What peers with another secret said of themselves, which proves nothing.
    strangers: Vec<Hello>,
    /// Where the listener and the pending peers stand in the current wait.
    first: usize,
}

/// A rank that has proved itself.
pub struct Joined {
    /// What it said of itself.
    pub hello: Hello,
    /// Connection to the rank.
    pub connection: Connection,
}

struct Pending {
    stream: TcpStream,
    decoder: Decoder,
    since: Instant,
    stage: JoinStage,
}

enum JoinStage {
    Hello,
    Answer { hello: Hello, bytes: Vec<u8>, nonce: Nonce },
}

/// What became of a peer that had its turn.
enum Turn {
    Waits(Pending),
    Joins(Box<Joined>),
    Dropped,
}

impl Rendezvous {
    /// Listens at this address, on a free port where that is 0, for the ranks of a world of `size`.
    ///
    /// # Errors
    /// When it is not an address of this host, or the port is not available.
    pub fn open(address: SocketAddr, secret: Secret, size: u32) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        // The standard library asks for a short queue, which a flood would fill: connecting then takes seconds.
        rustix::net::listen(&listener, 4096)?;
        let (joined, pending, strangers) = (vec![false; size as usize], VecDeque::new(), Vec::new());
        Ok(Self { listener, secret, joined, pending, strangers, first: 0 })
    }

    /// Where ranks connect to.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Whether every rank has joined.
    pub fn is_complete(&self) -> bool {
        self.joined.iter().all(|joined| *joined)
    }

    /// Peers that came with another secret, by what they said of themselves: the first of each rank.
    pub fn strangers(&self) -> &[Hello] {
        &self.strangers
    }

    fn remember(&mut self, hello: Hello) {
        let known = self.strangers.iter().any(|stranger| stranger.rank == hello.rank);
        if !known && self.strangers.len() < STRANGERS && (hello.rank as usize) < self.joined.len() {
            self.strangers.push(hello);
        }
    }

    /// Peers that may be on their way to prove themselves at once.
    fn room(&self) -> usize {
        64 + 2 * self.joined.len()
    }

    /// Adds what to wait for.
    pub fn register(&mut self, polls: &mut PollSet) {
        self.first = polls.add(self.listener.as_fd(), Interest::Read);
        for pending in &self.pending {
            polls.add(pending.stream.as_fd(), Interest::Read);
        }
    }

    /// When the next peer's time is over.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.pending.front().map(|oldest| oldest.since + HANDSHAKE_LIMIT)
    }

    /// Serves each peer that has news, lets new peers in, and sends away those that ran out of time. Returns the ranks
    /// that joined.
    pub fn serve(&mut self, polls: &PollSet, now: Instant) -> Vec<Joined> {
        let mut joined = Vec::new();
        let waiting = std::mem::take(&mut self.pending);
        for (index, pending) in waiting.into_iter().enumerate() {
            if polls.happened(self.first + 1 + index) {
                self.turn(pending, &mut joined);
            } else if now < pending.since + HANDSHAKE_LIMIT {
                self.pending.push_back(pending);
            }
        }
        if polls.happened(self.first) {
            self.let_in(now, &mut joined);
        }
        joined
    }

    fn let_in(&mut self, now: Instant, joined: &mut Vec<Joined>) {
        for _ in 0..TAKEN_AT_ONCE {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    let set = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
                    if set.and_then(|()| notice_silence(&stream)).is_err() {
                        continue;
                    }
                    if self.pending.len() >= self.room() {
                        self.make_room();
                    }
                    let decoder = Decoder::new(MAX_HANDSHAKE);
                    // A genuine rank's hello is there as soon as its connection is.
                    self.turn(Pending { stream, decoder, since: now, stage: JoinStage::Hello }, joined);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Out of descriptors, most likely: the oldest makes room, and the next wait tries again.
                Err(_) => {
                    self.make_room();
                    return;
                }
            }
        }
    }

    /// Drops the oldest peer that has said nothing yet, or else the oldest: those in the middle of proving themselves
    /// are rather genuine.
    fn make_room(&mut self) {
        let silent = self.pending.iter().position(|pending| matches!(pending.stage, JoinStage::Hello));
        self.pending.remove(silent.unwrap_or(0));
    }

    fn turn(&mut self, pending: Pending, joined: &mut Vec<Joined>) {
        match self.advance(pending) {
            Turn::Waits(pending) => self.pending.push_back(pending),
            Turn::Joins(rank) => joined.push(*rank),
            Turn::Dropped => {}
        }
    }

    /// Reads what a peer has sent and answers it. Whatever is wrong, the peer is dropped without a word: only those
    /// that know the secret get an answer.
    fn advance(&mut self, mut pending: Pending) -> Turn {
        loop {
            match pending.decoder.next_frame() {
                Ok(Some(bytes)) => match self.step(pending, bytes) {
                    Turn::Waits(next) => pending = next,
                    end => return end,
                },
                Ok(None) => {
                    let mut piece = [0; 2048];
                    match pending.stream.read(&mut piece) {
                        Ok(0) => return Turn::Dropped,
                        Ok(count) => pending.decoder.extend(&piece[..count]),
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Turn::Waits(pending),
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(_) => return Turn::Dropped,
                    }
                }
                Err(_) => return Turn::Dropped,
            }
        }
    }

    fn step(&mut self, pending: Pending, bytes: Vec<u8>) -> Turn {
        match pending.stage {
            JoinStage::Hello => self.challenge(pending, bytes).map_or(Turn::Dropped, Turn::Waits),
            JoinStage::Answer { hello, bytes: presented, nonce } => {
                let answer = read::<Answer>(&bytes).ok();
                let distrusted = || read::<Distrust>(&bytes).is_ok_and(|word| word.another_secret);
                let proved = |answer: &Answer| self.secret.verifies(&answer.proof, Role::Rank, &presented, &nonce);
                if !answer.as_ref().is_some_and(proved) {
                    if answer.is_some() || distrusted() {
                        self.remember(hello);
                    }
                    return Turn::Dropped;
                }
                let session = self.secret.session(Role::Coordinator, &presented, &nonce);
                self.admit(hello, Connection::new(pending.stream, pending.decoder, session))
            }
        }
    }

    fn challenge(&self, mut pending: Pending, bytes: Vec<u8>) -> Option<Pending> {
        let hello: Hello = read(&bytes).ok()?;
        let nonce = Nonce::fresh().ok()?;
        let challenge = Challenge { nonce, proof: self.secret.proof(Role::Coordinator, &bytes, &nonce) };
        let frame = encode(&write(&challenge).ok()?).ok()?;
        // A new connection has room for these few bytes; one that has not is not a rank's.
        if pending.stream.write(&frame).ok()? != frame.len() {
            return None;
        }
        pending.stage = JoinStage::Answer { hello, bytes, nonce };
        Some(pending)
    }

    /// A peer that knows the secret: it learns that it belongs here, or why it does not.
    fn admit(&mut self, hello: Hello, mut connection: Connection) -> Turn {
        let size = self.joined.len();
        let refusal = match self.joined.get(hello.rank as usize) {
            _ if hello.version != PROTOCOL => {
                Some(format!("the coordinator speaks version {PROTOCOL}, this rank version {}", hello.version))
            }
            _ if hello.size as usize != size => Some(format!("the world has {size} ranks, not {}", hello.size)),
            None => Some(format!("rank {} is not one of {size}", hello.rank)),
            Some(true) => Some(format!("rank {} has joined already", hello.rank)),
            Some(false) => None,
        };
        if let Some(reason) = refusal {
            let _ = connection.send(&ToRank::Refused(reason));
            return Turn::Dropped;
        }
        if connection.send(&ToRank::Welcome).is_err() {
            return Turn::Dropped;
        }
        self.joined[hello.rank as usize] = true;
        Turn::Joins(Box::new(Joined { hello, connection }))
    }
}

#[cfg(test)]
mod tests;

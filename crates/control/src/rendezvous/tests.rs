//! Strangers one by one: what each may send, and that a genuine rank gets in all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use measure::WorldSpec;
use serde_json::Map;

use super::*;
use crate::auth::{Proof, Session};
use crate::error::ChannelError;
use crate::frame::MAX_FRAME;
use crate::invitation::Invitation;
use crate::join::join;

/// A rendezvous that is served by a thread of its own until it is complete or stopped; gives who joined, in order.
struct Served {
    address: SocketAddr,
    secret: Secret,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(Rendezvous, Vec<Joined>)>,
}

fn serve(size: u32) -> Served {
    let secret = Secret::fresh().unwrap();
    let mut rendezvous = Rendezvous::open("127.0.0.1:0".parse().unwrap(), secret.clone(), size).unwrap();
    let (address, stop) = (rendezvous.address().unwrap(), Arc::new(AtomicBool::new(false)));
    let stopped = stop.clone();
    let thread = std::thread::spawn(move || {
        let (mut polls, mut all) = (PollSet::default(), Vec::new());
        while !rendezvous.is_complete() && !stopped.load(Ordering::Relaxed) {
            polls.clear();
            rendezvous.register(&mut polls);
            polls.wait(Some(Duration::from_millis(10))).unwrap();
            all.extend(rendezvous.serve(&polls, Instant::now()));
        }
        (rendezvous, all)
    });
    Served { address, secret, stop, thread }
}

impl Served {
    fn invitation(&self, secret: &Secret, size: u32, wait: Duration) -> Invitation {
        let spec = WorldSpec { ranks: size, fields: Map::new() };
        Invitation::new(self.address, secret, wait, (vec![0], false), spec)
    }

    /// A genuine rank joins.
    fn join(&self, rank: u32, size: u32) -> Result<(), ChannelError> {
        let invitation = self.invitation(&self.secret, size, Duration::from_secs(20));
        join(&invitation, rank, "here").map(drop)
    }

    fn stop(self) -> (Rendezvous, Vec<u32>) {
        self.stop.store(true, Ordering::Relaxed);
        let (rendezvous, joined) = self.thread.join().unwrap();
        (rendezvous, joined.iter().map(|joined| joined.hello.rank).collect())
    }

    fn connect(&self) -> Talk {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        Talk { stream, decoder: Decoder::new(MAX_HANDSHAKE) }
    }
}

/// A stranger's end of a connection.
struct Talk {
    stream: TcpStream,
    decoder: Decoder,
}

impl Talk {
    fn say(&mut self, payload: &[u8]) {
        // The other side may have hung up already, as it should.
        let _ = self.stream.write_all(&encode(payload).unwrap());
    }

    /// The next frame; None when the other side hung up.
    fn hear(&mut self) -> Option<Vec<u8>> {
        let mut piece = [0; 512];
        loop {
            if let Some(frame) = self.decoder.next_frame().unwrap() {
                return Some(frame);
            }
            match self.stream.read(&mut piece) {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.decoder.extend(&piece[..count]),
            }
        }
    }

    fn is_hung_up(&mut self) -> bool {
        let begin = Instant::now();
        self.hear().is_none() && begin.elapsed() < Duration::from_secs(8)
    }
}

fn hello(rank: u32, size: u32) -> Vec<u8> {
    let nonce = Nonce::fresh().unwrap();
    write(&Hello { version: PROTOCOL, rank, size, pid: 1, host: "there".to_owned(), nonce }).unwrap()
}

#[test]
fn ranks_join_in_any_order() {
    let served = serve(3);
    for rank in [2, 0, 1] {
        served.join(rank, 3).unwrap();
    }
    assert_eq!(served.thread.join().unwrap().1.iter().map(|joined| joined.hello.rank).collect::<Vec<_>>(), [2, 0, 1]);
}

#[test]
fn a_wrong_secret_is_found_out_by_both_sides() {
    let served = serve(1);
    let wrong = served.invitation(&Secret::fresh().unwrap(), 1, Duration::from_secs(5));
    assert!(matches!(join(&wrong, 0, "here"), Err(ChannelError::Impostor(_))));
    // A stranger that does not care who the coordinator is.
    let mut talk = served.connect();
    talk.say(&hello(0, 1));
    assert!(talk.hear().is_some(), "challenged");
    talk.say(&write(&Answer { proof: Proof([0; 32]) }).unwrap());
    assert!(talk.is_hung_up());
    served.join(0, 1).unwrap();
}

#[test]
fn a_reflected_proof_is_no_proof() {
    let served = serve(1);
    let mut talk = served.connect();
    talk.say(&hello(0, 1));
    let challenge: Challenge = read(&talk.hear().unwrap()).unwrap();
    talk.say(&write(&Answer { proof: challenge.proof }).unwrap());
    assert!(talk.is_hung_up());
    assert_eq!(served.stop().1, [0; 0]);
}

#[test]
fn a_replayed_handshake_is_no_proof() {
    let served = serve(2);
    // A whole genuine handshake of rank 1, recorded...
    let (mut talk, presented) = (served.connect(), hello(1, 2));
    talk.say(&presented);
    let challenge: Challenge = read(&talk.hear().unwrap()).unwrap();
    let proof = served.secret.proof(Role::Rank, &presented, &challenge.nonce);
    let answer = write(&Answer { proof }).unwrap();
    talk.say(&answer);
    let Session { mut opener, .. } = served.secret.session(Role::Rank, &presented, &challenge.nonce);
    let welcome = opener.open(talk.hear().unwrap()).unwrap();
    assert_eq!(read::<ToRank>(&welcome).unwrap(), ToRank::Welcome);
    // ...and played again, also as another rank's.
    for first in [presented, hello(0, 2)] {
        let mut talk = served.connect();
        talk.say(&first);
        assert!(talk.hear().is_some());
        talk.say(&answer);
        assert!(talk.is_hung_up());
    }
    assert_eq!(served.stop().1, [1]);
}

#[test]
fn a_rank_that_does_not_belong_is_told_why() {
    let served = serve(2);
    served.join(1, 2).unwrap();
    for (rank, size, why) in [(1, 2, "joined already"), (0, 3, "2 ranks, not 3"), (2, 2, "not one of 2")] {
        match served.join(rank, size) {
            Err(ChannelError::Refused(reason)) => assert!(reason.contains(why), "{reason}"),
            other => panic!("{why}: {other:?}"),
        }
    }
    served.join(0, 2).unwrap();
}

#[test]
fn garbage_and_long_frames_are_hung_up_on() {
    let served = serve(1);
    let long = (MAX_HANDSHAKE as u32 + 1).to_le_bytes();
    let longest = (MAX_FRAME as u32).to_le_bytes();
    let pieces: [&[u8]; 5] = [&[0xff; 64], &long, &longest, b"GET / HTTP/1.1\r\n\r\n", &[2, 0, 0, 0, b'{', b'}']];
    for piece in pieces {
        let mut talk = served.connect();
        talk.stream.write_all(piece).unwrap();
        assert!(talk.is_hung_up(), "{piece:?}");
    }
    served.join(0, 1).unwrap();
}

#[test]
fn who_takes_too_long_is_hung_up_on() {
    let served = serve(1);
    let mut slow = served.connect();
    slow.stream.write_all(&[100, 0, 0, 0]).unwrap();
    let begin = Instant::now();
    let dripping = std::thread::spawn(move || {
        // A byte now and then keeps nobody's time from running out.
        while slow.stream.write_all(b" ").is_ok() && begin.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(100));
        }
        begin.elapsed()
    });
    let took = dripping.join().unwrap();
    assert!((HANDSHAKE_LIMIT..HANDSHAKE_LIMIT * 3).contains(&took), "{took:?}");
    served.join(0, 1).unwrap();
}

#[test]
fn the_crowd_is_bounded_and_genuine_ranks_get_through() {
    let served = serve(2);
    let crowd: Vec<Talk> = (0..1000).map(|_| served.connect()).collect();
    served.join(0, 2).unwrap();
    let (rendezvous, joined) = served.stop();
    assert!(rendezvous.pending.len() <= rendezvous.room(), "{}", rendezvous.pending.len());
    assert_eq!((joined.as_slice(), crowd.len()), (&[0][..], 1000));
}

//! Getting in: connects, proves itself, checks that the coordinator proves itself too; again and again while the
//! rendezvous is crowded.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::auth::{Nonce, Role};
use crate::channel::{RankChannel, WatchedHost, next_frame};
use crate::error::ChannelError;
use crate::frame::{Decoder, MAX_HANDSHAKE, encode};
use crate::invitation::Invitation;
use crate::message::{Answer, Challenge, Distrust, Hello, PROTOCOL, ToRank, read, write};
use crate::rendezvous::HANDSHAKE_LIMIT;
use crate::silence::notice_silence;

/// The pause after the first failed attempt; doubled after each, up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// How long an attempt may take in all. A crowded coordinator may let the connection, the challenge and the welcome wait for
/// [`HANDSHAKE_LIMIT`] each.
const ATTEMPT_LIMIT: Duration = HANDSHAKE_LIMIT.saturating_mul(3);

/// Joins the world as `rank`. If the invitation names the coordinator's host, a few ranks tell the user once it is silent.
///
/// # Errors
/// When the coordinator refuses, is not who it should be, or cannot be reached within the invitation's wait.
pub fn join(invitation: &Invitation, rank: u32, host: &str) -> Result<RankChannel, ChannelError> {
    let deadline = Instant::now() + invitation.wait;
    let mut pause = FIRST_PAUSE;
    loop {
        match attempt(invitation, rank, host, ATTEMPT_LIMIT) {
            // Dropped, or nobody took the connection: the rendezvous is crowded.
            Err(ChannelError::Lost | ChannelError::Unreachable { .. }) if Instant::now() + pause < deadline => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            settled => return settled,
        }
    }
}

/// One attempt. The process that listens there is not known yet, so nothing it does may hold this rank for longer than `limit`.
fn attempt(invitation: &Invitation, rank: u32, host: &str, limit: Duration) -> Result<RankChannel, ChannelError> {
    let until = Some(Instant::now() + limit);
    let address = invitation.address;
    let secret = invitation.secret().map_err(ChannelError::System)?;
    let unreachable = |cause| ChannelError::Unreachable { address, cause };
    let mut stream = TcpStream::connect_timeout(&address, HANDSHAKE_LIMIT).map_err(unreachable)?;
    stream.set_nodelay(true).map_err(ChannelError::System)?;
    notice_silence(&stream).map_err(ChannelError::System)?;
    let hello = Hello {
        version: PROTOCOL,
        rank,
        size: invitation.spec.ranks,
        pid: std::process::id(),
        host: host.to_owned(),
        nonce: Nonce::fresh().map_err(ChannelError::System)?,
    };
    let presented = write(&hello).map_err(|error| ChannelError::Protocol(error.to_string()))?;
    stream.write_all(&encode(&presented)?).map_err(|_| ChannelError::Lost)?;

    let mut decoder = Decoder::new(MAX_HANDSHAKE);
    let frame = next_frame(&mut stream, &mut decoder, until, &|_| ChannelError::Lost)?;
    let challenge: Challenge = read(&frame).map_err(|error| ChannelError::Protocol(error.to_string()))?;
    if !secret.verifies(&challenge.proof, Role::Coordinator, &presented, &challenge.nonce) {
        // A user who set up this job wrongly looks at the coordinator's end first. A word that does not arrive changes nothing.
        let word =
            write(&Distrust { another_secret: true }).map_err(|error| ChannelError::Protocol(error.to_string()))?;
        let _ = stream.write_all(&encode(&word)?);
        return Err(ChannelError::Impostor(address));
    }
    let proof = secret.proof(Role::Rank, &presented, &challenge.nonce);
    let answer = write(&Answer { proof }).map_err(|error| ChannelError::Protocol(error.to_string()))?;
    stream.write_all(&encode(&answer)?).map_err(|_| ChannelError::Lost)?;

    let session = secret.session(Role::Rank, &presented, &challenge.nonce);
    let mut channel = RankChannel::new(stream, decoder, session);
    match channel.receive_until(until)? {
        ToRank::Welcome => {}
        ToRank::Refused(reason) => return Err(ChannelError::Refused(reason)),
        _ => return Err(ChannelError::Protocol("neither welcome nor refused".to_owned())),
    }
    channel.stream()?.set_read_timeout(None).map_err(ChannelError::System)?;
    if let Some(coordinator) = invitation.host.clone().filter(|_| is_speaker(rank, invitation.spec.ranks)) {
        channel.watch(WatchedHost { coordinator, own: host.to_owned() });
    }
    Ok(channel)
}

/// Whether a rank tells the user that the coordinator or its host is silent: a few ranks of many do. Rank 0 is one of them, because
/// the coordinator may stand still alone. If each host has as many
/// consecutive ranks as the first one, or ranks are dealt out one by one, one of them is on another host.
const fn is_speaker(rank: u32, size: u32) -> bool {
    rank == 0 || rank.is_power_of_two() || rank + 1 == size
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use measure::WorldSpec;
    use serde_json::Map;

    use super::*;
    use crate::auth::Secret;

    /// Where somebody listens who sends the beginning of a frame, and then a byte now and then.
    fn slow() -> std::net::SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(&[0, 1, 0, 0]).unwrap();
            while stream.write_all(b" ").is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        address
    }

    #[test]
    fn a_few_ranks_speak_and_one_of_them_is_on_another_host() {
        for ranks_of_a_host in 1..=16 {
            for hosts in 2..=20 {
                let size = ranks_of_a_host * hosts;
                assert!((ranks_of_a_host..size).any(|rank| is_speaker(rank, size)), "{ranks_of_a_host} x {hosts}");
            }
        }
        assert!((1..4096).filter(|rank| is_speaker(*rank, 4096)).count() <= 13);
    }

    const SHORT: Duration = Duration::from_millis(200);

    #[test]
    fn a_byte_now_and_then_keeps_no_rank_waiting() {
        let (secret, spec) = (Secret::fresh().unwrap(), WorldSpec { ranks: 1, fields: Map::new() });
        let invitation = Invitation::new(slow(), &secret, Duration::ZERO, (vec![0], false), spec);
        let begun = Instant::now();
        assert!(matches!(attempt(&invitation, 0, "here", SHORT), Err(ChannelError::Lost)));
        // Nor by the last message of the handshake.
        let session = secret.session(Role::Rank, b"hello", &Nonce::fresh().unwrap());
        let stream = TcpStream::connect(slow()).unwrap();
        let mut channel = RankChannel::new(stream, Decoder::new(MAX_HANDSHAKE), session);
        assert!(matches!(channel.receive_until(Some(Instant::now() + SHORT)), Err(ChannelError::Lost)));
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    }
}

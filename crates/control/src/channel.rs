//! The rank's end of its authenticated connection. Blocks: a rank without a command has nothing else to do.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::auth::Session;
use crate::error::ChannelError;
use crate::frame::{Decoder, MAX_FRAME};
use crate::message::{FromRank, ToRank, read, write};
use crate::rendezvous::HANDSHAKE_LIMIT;
use crate::silence::is_silence;

/// A connection to the coordinator, both sides having proved themselves.
pub struct RankChannel {
    stream: TcpStream,
    decoder: Decoder,
    session: Session,
    leaving: bool,
    watched: Option<WatchedHost>,
}

/// The coordinator's host, where this process tells the user that it is silent.
pub(crate) struct WatchedHost {
    /// Name of the coordinator's host.
    pub(crate) coordinator: String,
    /// Name of this process's host.
    pub(crate) own: String,
}

impl WatchedHost {
    /// What an error of the connection says to this process.
    fn explain(watched: Option<&Self>, error: &io::Error) -> ChannelError {
        match watched {
            Some(Self { coordinator, own }) if is_silence(error) => {
                ChannelError::Silent { coordinator: coordinator.clone(), own: own.clone() }
            }
            _ => ChannelError::Lost,
        }
    }
}

impl RankChannel {
    /// Over a stream that blocks; the decoder may hold the first bytes that the coordinator sent.
    pub(crate) fn new(stream: TcpStream, mut decoder: Decoder, session: Session) -> Self {
        decoder.allow(MAX_FRAME);
        Self { stream, decoder, session, leaving: false, watched: None }
    }

    /// Tells the user if the coordinator's host falls silent.
    pub(crate) fn watch(&mut self, host: WatchedHost) {
        self.watched = Some(host);
    }

    /// What an error says to this process if the coordinator stands still: [`ChannelError::Lost`] where others tell the user.
    pub fn standstill(&self) -> ChannelError {
        self.watched.as_ref().map_or(ChannelError::Lost, |WatchedHost { coordinator, own }| ChannelError::Standstill {
            coordinator: coordinator.clone(),
            own: own.clone(),
        })
    }

    /// Another handle to the socket, to watch it.
    ///
    /// # Errors
    /// When the system has no descriptors left.
    pub fn stream(&self) -> Result<TcpStream, ChannelError> {
        self.stream.try_clone().map_err(ChannelError::System)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// When the coordinator is gone, or the message too long.
    pub fn send(&mut self, message: &FromRank) -> Result<(), ChannelError> {
        let payload = write(message).map_err(|error| ChannelError::Protocol(error.to_string()))?;
        let frame = self.session.sealer.seal(&payload)?;
        self.stream.write_all(&frame).map_err(|error| WatchedHost::explain(self.watched.as_ref(), &error))
    }

    /// Waits for the next message. Once the coordinator said leave, that is the only answer.
    ///
    /// # Errors
    /// When the coordinator is gone, or sent what it should not.
    pub fn receive(&mut self) -> Result<ToRank, ChannelError> {
        self.receive_until(None)
    }

    /// As [`RankChannel::receive`], but no longer than until then, where a time is given.
    pub(crate) fn receive_until(&mut self, until: Option<Instant>) -> Result<ToRank, ChannelError> {
        if self.leaving {
            return Ok(ToRank::Leave);
        }
        let watched = self.watched.as_ref();
        let explain = |error: &io::Error| WatchedHost::explain(watched, error);
        let frame = next_frame(&mut self.stream, &mut self.decoder, until, &explain)?;
        self.open(frame)
    }

    /// A message that has arrived with the one before it.
    ///
    /// # Errors
    /// When it is none that the coordinator may send.
    pub fn arrived(&mut self) -> Result<Option<ToRank>, ChannelError> {
        let frame = self.decoder.next_frame().map_err(|error| ChannelError::Protocol(error.to_string()))?;
        frame.map(|frame| self.open(frame)).transpose()
    }

    fn open(&mut self, frame: Vec<u8>) -> Result<ToRank, ChannelError> {
        let broken = |error: &dyn std::error::Error| ChannelError::Protocol(error.to_string());
        let payload = self.session.opener.open(frame).map_err(|error| broken(&error))?;
        let message = read(&payload).map_err(|error| broken(&error))?;
        self.leaving = message == ToRank::Leave;
        Ok(message)
    }
}

/// Waits for the next whole frame; [`ChannelError::Lost`] at the end of the stream. Where a time is given, also then, however
/// often a byte comes, and where nothing comes for [`HANDSHAKE_LIMIT`]. `explain` says what an error of the stream means.
pub(crate) fn next_frame(
    stream: &mut TcpStream,
    decoder: &mut Decoder,
    until: Option<Instant>,
    explain: &dyn Fn(&io::Error) -> ChannelError,
) -> Result<Vec<u8>, ChannelError> {
    let mut piece = [0; 16 << 10];
    loop {
        if let Some(frame) = decoder.next_frame().map_err(|error| ChannelError::Protocol(error.to_string()))? {
            return Ok(frame);
        }
        if let Some(until) = until {
            stream.set_read_timeout(Some(patience(until)?)).map_err(ChannelError::System)?;
        }
        match stream.read(&mut piece) {
            Ok(0) => return Err(ChannelError::Lost),
            Ok(count) => decoder.extend(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(explain(&error)),
        }
    }
}

/// How long the next read may wait for its bytes.
fn patience(until: Instant) -> Result<Duration, ChannelError> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ChannelError::Lost) } else { Ok(left.min(HANDSHAKE_LIMIT)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_host_is_named_and_a_closed_connection_is_not() {
        let watched = WatchedHost { coordinator: "n1".to_owned(), own: "n2".to_owned() };
        for kind in [io::ErrorKind::TimedOut, io::ErrorKind::HostUnreachable] {
            let told = WatchedHost::explain(Some(&watched), &kind.into()).to_string();
            assert!(told.starts_with("n2 has heard nothing from n1, the host of rank 0, for 10 s: "), "{told}");
            assert!(told.ends_with("--exclude=n1"), "{told}");
            assert!(matches!(WatchedHost::explain(None, &kind.into()), ChannelError::Lost));
        }
        // The coordinator ended, and its host says why.
        let closed = WatchedHost::explain(Some(&watched), &io::ErrorKind::ConnectionReset.into());
        assert!(matches!(closed, ChannelError::Lost), "{closed}");
    }
}

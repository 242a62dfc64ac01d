//! The rank's end of its authenticated connection. Blocks: a rank without a command has nothing else to do.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use crate::control::{Decoder, FromRank, MAX_FRAME, Session, ToRank, read, write};

use super::Departure;

/// A connection to the coordinator, both sides having proved themselves.
pub(crate) struct RankChannel {
    stream: TcpStream,
    decoder: Decoder,
    session: Session,
    leaving: bool,
}

impl RankChannel {
    /// Over a stream that blocks; the decoder may hold the first bytes that the coordinator sent.
    pub(super) fn new(stream: TcpStream, mut decoder: Decoder, session: Session) -> Self {
        decoder.allow(MAX_FRAME);
        Self { stream, decoder, session, leaving: false }
    }

    /// Another handle to the socket, to watch it.
    pub(crate) fn stream(&self) -> Result<TcpStream, Departure> {
        self.stream.try_clone().map_err(Departure::System)
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, message: &FromRank) -> Result<(), Departure> {
        let payload = write(message).map_err(|error| Departure::Protocol(error.to_string()))?;
        let frame = self.session.sealer.seal(&payload)?;
        self.stream.write_all(&frame).map_err(|_| Departure::Lost)
    }

    /// Waits for the next message. Once told to leave, that is all there is.
    pub(crate) fn receive(&mut self) -> Result<ToRank, Departure> {
        if self.leaving {
            return Ok(ToRank::Leave);
        }
        let frame = next_frame(&mut self.stream, &mut self.decoder)?;
        self.open(frame)
    }

    /// A message that has arrived with the one before it.
    pub(crate) fn arrived(&mut self) -> Result<Option<ToRank>, Departure> {
        let frame = self.decoder.next_frame().map_err(|error| Departure::Protocol(error.to_string()))?;
        frame.map(|frame| self.open(frame)).transpose()
    }

    fn open(&mut self, frame: Vec<u8>) -> Result<ToRank, Departure> {
        let broken = |error: &dyn std::error::Error| Departure::Protocol(error.to_string());
        let payload = self.session.opener.open(frame).map_err(|error| broken(&error))?;
        let message = read(&payload).map_err(|error| broken(&error))?;
        self.leaving = message == ToRank::Leave;
        Ok(message)
    }
}

/// Waits for the next whole frame; [`Departure::Lost`] at the end of the stream or when the stream's time is over.
pub(super) fn next_frame(stream: &mut TcpStream, decoder: &mut Decoder) -> Result<Vec<u8>, Departure> {
    let mut piece = [0; 16 << 10];
    loop {
        if let Some(frame) = decoder.next_frame().map_err(|error| Departure::Protocol(error.to_string()))? {
            return Ok(frame);
        }
        match stream.read(&mut piece) {
            Ok(0) => return Err(Departure::Lost),
            Ok(count) => decoder.extend(&piece[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(Departure::Lost),
        }
    }
}

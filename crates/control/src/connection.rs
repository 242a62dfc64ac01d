//! The coordinator's end of one rank's authenticated connection. Never blocks: a stopped rank must not stop us.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use crate::auth::Session;
use crate::frame::{Decoder, MAX_FRAME};
use crate::message::{FromRank, ToRank, read_from_rank, write};
use crate::silence::is_silence;

/// How a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The rank closed it, or its process is gone.
    Closed,
    /// Nothing reaches its host any more.
    Silent,
    /// What arrived is not what a rank sends.
    Broken(String),
}

impl Lost {
    fn by(error: &io::Error) -> Self {
        if is_silence(error) { Self::Silent } else { Self::Closed }
    }
}

/// A connection to a rank that has proved itself.
pub struct Connection {
    stream: TcpStream,
    decoder: Decoder,
    session: Session,
    outgoing: Vec<u8>,
    sent: usize,
}

impl Connection {
    /// Over a stream that does not block; the decoder may hold the first bytes that the rank sent.
    pub(crate) fn new(stream: TcpStream, mut decoder: Decoder, session: Session) -> Self {
        decoder.allow(MAX_FRAME);
        Self { stream, decoder, session, outgoing: Vec::new(), sent: 0 }
    }

    /// To wait for.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Whether something is left to send once there is room.
    pub fn is_sending(&self) -> bool {
        self.sent < self.outgoing.len()
    }

    /// Sends a message, or keeps what there is no room for until [`Connection::flush`].
    ///
    /// # Errors
    /// When the connection is gone, or the message too long.
    pub fn send(&mut self, message: &ToRank) -> Result<(), Lost> {
        let payload = write(message).map_err(|error| Lost::Broken(error.to_string()))?;
        self.send_payload(&payload)
    }

    /// As [`Connection::send`], for a message that several ranks get and that is written once.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub fn send_payload(&mut self, payload: &[u8]) -> Result<(), Lost> {
        let frame = self.session.sealer.seal(payload).map_err(|error| Lost::Broken(error.to_string()))?;
        if self.is_sending() {
            self.outgoing.extend_from_slice(&frame);
        } else {
            (self.outgoing, self.sent) = (frame, 0);
        }
        self.flush()
    }

    /// Sends what there is room for.
    ///
    /// # Errors
    /// When the connection is gone.
    pub fn flush(&mut self) -> Result<(), Lost> {
        while self.is_sending() {
            match self.stream.write(&self.outgoing[self.sent..]) {
                Ok(0) => return Err(Lost::Closed),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Lost::by(&error)),
            }
        }
        Ok(())
    }

    /// Everything that has arrived. Messages that came before the end of the connection are given all the same.
    ///
    /// # Errors
    /// When the connection is gone, or carries what no rank sends.
    pub fn receive(&mut self, into: &mut Vec<FromRank>) -> Result<(), Lost> {
        let mut piece = [0; 64 << 10];
        loop {
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(Lost::Closed),
                Ok(count) => {
                    self.decoder.extend(&piece[..count]);
                    self.open_frames(into)?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return self.open_frames(into),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Lost::by(&error)),
            }
        }
    }

    fn open_frames(&mut self, into: &mut Vec<FromRank>) -> Result<(), Lost> {
        let broken = |error: &dyn std::error::Error| Lost::Broken(error.to_string());
        while let Some(bytes) = self.decoder.next_frame().map_err(|error| broken(&error))? {
            let payload = self.session.opener.open(bytes).map_err(|error| broken(&error))?;
            into.push(read_from_rank(&payload).map_err(|error| broken(&error))?);
        }
        Ok(())
    }
}

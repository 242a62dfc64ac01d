//! Why a rank's end of the control channel does not open, or ends.

use std::io;
use std::net::SocketAddr;

use crate::frame::FrameTooLong;
use crate::silence::{SILENT, STANDSTILL};

/// What is wrong with the control channel, as a rank sees it.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The coordinator could not be reached.
    #[error("the coordinator at {address} cannot be reached: {cause}")]
    Unreachable {
        /// Where it should listen.
        address: SocketAddr,
        /// What the last attempt found.
        cause: io::Error,
    },
    /// The process that listens there does not know the secret.
    #[error("the process that listens at {0} is not the coordinator of this world")]
    Impostor(SocketAddr),
    /// The coordinator does not want this rank.
    #[error("refused by the coordinator: {0}")]
    Refused(String),
    /// The coordinator is gone.
    #[error("the coordinator is gone")]
    Lost,
    /// Nothing reaches the coordinator's host any more. Only a few of a launcher's processes say so ([`crate::join()`]).
    #[error(
        "{own} has heard nothing from {coordinator}, the host of rank 0, for {} s: {coordinator} is lost or frozen, or the network \
         between them. Finished cases are in the record. Start again without {coordinator}, with srun by --exclude={coordinator}",
        SILENT
    )]
    Silent {
        /// Name of the coordinator's host.
        coordinator: String,
        /// Name of this process's host.
        own: String,
    },
    /// The coordinator's host answers, and the coordinator does not. Only a few of a launcher's processes say so.
    #[error(
        "{own} has heard nothing from Rankmark on {coordinator}, the host of rank 0, for {} s, although {coordinator} answers: its \
         processes were stopped or frozen, or it is short of memory. Finished cases are in the record. Start again without \
         {coordinator}, with srun by --exclude={coordinator}",
        STANDSTILL
    )]
    Standstill {
        /// Name of the coordinator's host.
        coordinator: String,
        /// Name of this process's host.
        own: String,
    },
    /// The coordinator sent something that it should not.
    #[error("the control channel is broken: {0}")]
    Protocol(String),
    /// A message is too long for the channel. Nothing was sent.
    #[error(transparent)]
    TooLong(#[from] FrameTooLong),
    /// The system refused something.
    #[error("the system refused: {0}")]
    System(io::Error),
}

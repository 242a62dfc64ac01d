//! Why a rank leaves otherwise than asked.

use std::any::Any;
use std::io;

use crate::control::FrameTooLong;
use crate::verdict::signal_name;

/// Why a rank left otherwise than asked.
#[derive(Debug, thiserror::Error)]
pub enum Departure {
    /// Nobody started this process as a rank.
    #[error("this is the argument of a rank process, which only a coordinator can start: {0}")]
    NotInvited(String),
    /// The coordinator could not be reached.
    #[error("the coordinator at {address} cannot be reached: {cause}")]
    Unreachable {
        /// Where it should listen.
        address: std::net::SocketAddr,
        /// What the last attempt found.
        cause: io::Error,
    },
    /// Whoever listens there does not know the secret.
    #[error("whoever listens at {0} is not the coordinator of this world")]
    Impostor(std::net::SocketAddr),
    /// The coordinator does not want this rank.
    #[error("refused by the coordinator: {0}")]
    Refused(String),
    /// The coordinator that the process of rank 0 starts did not make itself known.
    #[error("rank {rank} of {launcher} finds no coordinator, which the process of rank 0 should have started: {cause}")]
    NoCoordinator {
        /// Who started this process.
        launcher: &'static str,
        /// Its rank.
        rank: u32,
        /// What the last look found.
        cause: String,
    },
    /// The coordinator that this process started.
    #[error("the coordinator {0}; the cases that it finished are in the record")]
    CoordinatorDied(String),
    /// The coordinator is gone.
    #[error("the coordinator is gone")]
    Lost,
    /// Ended by a signal while it waited for its coordinator.
    #[error("interrupted by {} before its coordinator was there", signal_name(*.0))]
    Interrupted(i32),
    /// Its launcher ended while it waited for its coordinator.
    #[error("{}", crate::adopted::launcher_ended(.0, "this host"))]
    LauncherEnded(String),
    /// The coordinator sent something that it should not.
    #[error("the control channel is broken: {0}")]
    Protocol(String),
    /// A message is too long for the channel. Nothing was sent.
    #[error(transparent)]
    TooLong(#[from] FrameTooLong),
    /// The system refused something.
    #[error("the system refused: {0}")]
    System(io::Error),
    /// The rank's work panicked, with this message. The place is on standard error, and may be buried there under a
    /// backtrace.
    #[error("the rank panicked: {0}")]
    Panicked(String),
}

/// The exit code of a rank that panicked, as the standard library's.
pub(crate) const PANICKED: i32 = 101;
/// The exit code of a rank that lost its coordinator.
pub(crate) const ORPHANED: i32 = 70;

impl Departure {
    /// From what a caught panic carries.
    pub(super) fn from_panic(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Self::Panicked(text.unwrap_or("without a message").to_owned())
    }

    /// The process's exit code.
    pub const fn code(&self) -> i32 {
        match self {
            Self::NotInvited(_) => 2,
            Self::Lost | Self::CoordinatorDied(_) => ORPHANED,
            Self::Panicked(_) => PANICKED,
            // As a run that was interrupted.
            Self::Interrupted(signal) => 128 + *signal,
            Self::Unreachable { .. }
            | Self::NoCoordinator { .. }
            | Self::LauncherEnded(_)
            | Self::Impostor(_)
            | Self::Refused(_)
            | Self::Protocol(_)
            | Self::TooLong(_)
            | Self::System(_) => 71,
        }
    }
}

//! Why a rank, or a process that keeps the place of one, leaves otherwise than asked.

use std::any::Any;
use std::io;

use control::ChannelError;
use process::signal_name;
use terms::Error;

/// Why a rank left otherwise than asked.
#[derive(Debug, thiserror::Error)]
pub enum Departure {
    /// Nobody started this process as a rank.
    #[error("this is the argument of a rank process, which only a coordinator can start: {0}")]
    NotInvited(String),
    /// The control channel did not open, or ended.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The coordinator has said nothing for long, although its host answers.
    #[error(transparent)]
    Standstill(ChannelError),
    /// The coordinator that the process of rank 0 starts did not make itself known.
    #[error(
        "rank {rank} of {launcher} cannot find the coordinator, which the process of rank 0 should have started: {cause}"
    )]
    NoCoordinator {
        /// Who started this process.
        launcher: &'static str,
        /// Rank of this process.
        rank: u32,
        /// What the last look found.
        cause: String,
    },
    /// The coordinator that this process started.
    #[error("the coordinator {0}; the cases that it finished are in the record")]
    CoordinatorDied(String),
    /// Ended by a signal while it waited for its coordinator.
    #[error("interrupted by {} before its coordinator was there", signal_name(*.0))]
    Interrupted(i32),
    /// The launcher ended while the rank waited for its coordinator.
    #[error("{}", launcher_ended(.0, "this host"))]
    LauncherEnded(String),
    /// A fork server could not start.
    #[error("the fork server could not start: {0}")]
    NoForkServer(String),
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

/// The error that a user sees when a process leaves in this way.
impl From<Departure> for Error {
    fn from(departure: Departure) -> Self {
        let error = Self::new(departure.to_string());
        match departure {
            Departure::NotInvited(cause) => {
                Self::new("this is the argument of a rank process, which only a coordinator can start").cause(cause)
            }
            Departure::NoCoordinator { launcher, rank, cause } => Self::new(format!(
                "rank {rank} of {launcher} cannot find the coordinator, which the process of rank 0 should have started"
            ))
            .cause(cause),
            Departure::Channel(ChannelError::Unreachable { address, cause }) => {
                Self::new(format!("the coordinator at {address} cannot be reached")).cause(cause.to_string())
            }
            _ => error,
        }
    }
}

impl Departure {
    /// From what a caught panic carries.
    pub(crate) fn from_panic(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Self::Panicked(text.unwrap_or("without a message").to_owned())
    }

    /// Whether the coordinator is gone, so that nobody is left to report to.
    pub const fn is_orphaned(&self) -> bool {
        matches!(self, Self::Channel(ChannelError::Lost) | Self::Standstill(ChannelError::Lost))
    }

    /// The process's exit code.
    pub const fn code(&self) -> i32 {
        match self {
            Self::NotInvited(_) => 2,
            Self::Channel(ChannelError::Lost | ChannelError::Silent { .. })
            | Self::Standstill(_)
            | Self::CoordinatorDied(_) => ORPHANED,
            Self::Panicked(_) => PANICKED,
            // As a run that was interrupted.
            Self::Interrupted(signal) => 128 + *signal,
            Self::NoForkServer(_) | Self::System(_) => 71,
            Self::Channel(_) | Self::NoCoordinator { .. } | Self::LauncherEnded(_) => 71,
        }
    }
}

/// Why a run ends with its launcher. `host`: "this host", "on node-b".
pub(crate) fn launcher_ended(title: &str, host: &str) -> String {
    format!("the launcher's process {title}, {host}, ended while its ranks were needed")
}

//! The exchange of small byte strings among ranks, through the coordinator.

use std::sync::{Arc, Mutex, PoisonError};

use comm::{Bootstrap, Error, RankPlacement};
use control::{ChannelError, FromRank, Hex, RankChannel, ToRank};

/// The bootstrap of a rank process. Uses the control channel, so it works only where the coordinator listens: while the
/// rank starts, and while it obeys a command.
pub(super) struct ControlBootstrap {
    channel: Arc<Mutex<RankChannel>>,
    place: RankPlacement,
}

impl ControlBootstrap {
    /// The bootstrap of the rank at this place.
    pub(super) fn new(channel: Arc<Mutex<RankChannel>>, place: RankPlacement) -> Self {
        Self { channel, place }
    }
}

impl Bootstrap for ControlBootstrap {
    fn place(&self) -> RankPlacement {
        self.place.clone()
    }

    fn all_gather(&mut self, bytes: &[u8]) -> comm::Result<Vec<Vec<u8>>> {
        let mut channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        channel.send(&FromRank::Gather(Hex(bytes.to_vec()))).map_err(to_comm)?;
        match channel.receive().map_err(to_comm)? {
            ToRank::Gathered(parts) if parts.len() == self.place.size as usize => {
                Ok(parts.into_iter().map(|Hex(part)| part).collect())
            }
            ToRank::Leave => Err(Error::Aborted),
            _ => Err(Error::Mismatch("the coordinator answered an exchange with something else".to_owned())),
        }
    }
}

fn to_comm(error: ChannelError) -> Error {
    match error {
        ChannelError::Lost => Error::Aborted,
        ChannelError::TooLong(error) => Error::InvalidCall(format!("the exchange does not fit: {error}")),
        other => Error::System { what: "exchange".to_owned(), source: std::io::Error::other(other) },
    }
}

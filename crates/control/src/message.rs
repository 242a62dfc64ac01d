//! The messages, as JSON: readable in a debugger, and the same for a rank in another language.

use std::net::SocketAddr;
use std::time::Duration;

use measure::{Command, Failure, Reply, WorldSpec};
use process::Exit;
use record::{Machine, Processor};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use terms::outside;

use crate::auth::{Nonce, Proof};

/// The version of the protocol. A rank of another version is refused, with both numbers.
pub const PROTOCOL: u32 = 1;

/// A rank presents itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hello {
    /// [`PROTOCOL`] of the rank.
    pub version: u32,
    /// Which rank it is.
    pub rank: u32,
    /// Ranks in the world that it belongs to.
    pub size: u32,
    /// Process number of the rank on its host.
    pub pid: u32,
    /// Name of the rank's host.
    pub host: String,
    /// Nonce of the rank.
    pub nonce: Nonce,
}

/// The coordinator proves itself, and challenges.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Challenge {
    /// Nonce of the coordinator.
    pub nonce: Nonce,
    /// Proof of the coordinator.
    pub proof: Proof,
}

/// The rank proves itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Proof of the rank.
    pub proof: Proof,
}

/// Instead of an [`Answer`]: the coordinator's proof is wrong to this rank, which leaves. Not sealed, since the two have
/// different secrets: it changes what the coordinator says and nothing that it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distrust {
    /// Whether it is because of the proof.
    pub another_secret: bool,
}

/// From the coordinator to a rank, sealed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToRank {
    /// The rank belongs here.
    Welcome,
    /// The rank does not belong here, for this reason.
    Refused(String),
    /// Do this.
    Command(Box<Command>),
    /// The outcome of an exchange: every rank's bytes, in rank order.
    Gathered(Vec<Hex>),
    /// The world ends in peace.
    Leave,
    /// To a process that a launcher of others started: start a rank.
    Serve {
        /// Names the world, once.
        world: Nonce,
        /// Hidden argument of the rank's process.
        argument: String,
        /// What its environment has besides, name and value.
        environment: Vec<(String, String)>,
    },
    /// To the same on another host, which makes there what a rank here finds in the coordinator's memory.
    ServeRemote(Box<Remote>),
    /// To the same: end the rank of this world, if it is there.
    End(Nonce),
    /// To the same on another host: tell what the clock there shows. The number comes back.
    Clock(u32),
    /// To the same, on any host: listen for connections of other hosts, and tell where. The number comes back.
    Listen(u32),
    /// To the same: try to connect to these places, where others listen. The number comes back.
    Reach {
        /// Of the question.
        number: u32,
        /// Where others listen.
        places: Vec<SocketAddr>,
    },
    /// To the same, on any host: which links went down there since the process joined. The number comes back.
    Links(u32),
    /// To the same, on any host: the coordinator is alive. Nobody answers.
    Alive,
    /// To a process that a launcher of others started: the run is over, with this exit code.
    Dismissed(u8),
}

/// What a rank on another host needs in addition to the secret, which does not travel: the world's secret follows from the
/// run's and `world`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Remote {
    /// Names the world, once.
    pub world: Nonce,
    /// Where its coordinator listens.
    pub address: SocketAddr,
    /// How long a rank tries to get in.
    pub wait: Duration,
    /// The cores that ranks of that host may use.
    pub cores: Vec<u32>,
    /// Whether each rank is bound to one of them.
    pub bound: bool,
    /// Which host each rank is on.
    pub hosts: Vec<u32>,
    /// Ranks of other hosts that have the same cores.
    pub co_located: u32,
    /// The world.
    pub spec: WorldSpec,
    /// What the rank's environment has besides, name and value.
    pub environment: Vec<(String, String)>,
    /// The rank's number, where the world numbers it otherwise than the launcher does.
    pub rank: Option<u32>,
}

/// What a process that a launcher of others started says of its host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Here {
    /// The kernel's name for the time since it booted: tells apart hosts of one name.
    pub boot: String,
    /// The cores that the launcher lets the process use.
    pub cores: Vec<Processor>,
    /// The interface that has the address of its end of this connection; None for loopback.
    pub interface: Option<String>,
    /// The host.
    pub machine: Machine,
    /// The arguments that it was started with; what may be secret is masked.
    pub command: Vec<String>,
}

/// From a rank to the coordinator, sealed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromRank {
    /// Ready to take commands, or why not.
    Started(Option<Failure>),
    /// The answer to a command.
    Reply(Box<Reply>),
    /// This rank's part of an exchange.
    Gather(Hex),
    /// Where a process is that a launcher of others started.
    Here(Box<Here>),
    /// From such a process on another host: what its rank of this world shows on the status page there.
    Shows {
        /// The world.
        world: Nonce,
        /// The slot, as `trace::StatusSlot::words` gives it.
        words: [u64; 2],
        /// Whether the rank's process is stopped.
        stopped: bool,
    },
    /// From such a process on another host: what the clock there shows.
    Clock {
        /// Number of the question.
        number: u32,
        /// CLOCK_MONOTONIC_RAW.
        at_ns: u64,
    },
    /// From such a process, on any host: where it listens for connections of other hosts.
    Listens {
        /// Of the question.
        number: u32,
        /// Where; None if it cannot.
        place: Option<SocketAddr>,
    },
    /// From such a process: which of the places it could not connect to, and why.
    Reached {
        /// Of the question.
        number: u32,
        /// The index of each such place, and the reason.
        failures: Vec<(u32, String)>,
    },
    /// From such a process: the interfaces of its host whose link went down or came back since it joined.
    Links {
        /// Of the question.
        number: u32,
        /// Each such interface, and how often.
        changed: Vec<(String, u64)>,
    },
    /// From such a process, on any host: this process of its launcher ("`orted` (pid 4711)") has ended.
    LauncherEnded(String),
    /// From a process that a launcher of others started: its rank of this world has ended.
    Ended {
        /// The world.
        world: Nonce,
        /// The rank's process.
        pid: u32,
        /// How.
        exit: Exit,
    },
}

/// A message that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an unreadable message: {0}")]
pub struct Unreadable(String);

/// Reads a message. Bounded by the length of the bytes; nesting is bounded by the parser (128 levels).
///
/// # Errors
/// When the bytes are not such a message.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Unreadable> {
    serde_json::from_slice(bytes).map_err(|error| Unreadable(error.to_string()))
}

/// Reads a message of a rank. Its texts are from outside: of libraries, of Python, of the case.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_from_rank(bytes: &[u8]) -> Result<FromRank, Unreadable> {
    record::from_json(bytes).map_err(|error| Unreadable(error.to_string()))
}

/// A message's bytes.
///
/// # Errors
/// When it cannot be written as JSON; none of the messages here provokes that.
pub fn write<T: Serialize>(message: &T) -> Result<Vec<u8>, Unreadable> {
    // A rank gets what the user wrote.
    let text = serde_json::to_string(message).map_err(|error| Unreadable(error.to_string()))?;
    Ok(outside::original_json(&text).into_owned().into_bytes())
}

/// Bytes, written as hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hex(pub Vec<u8>);

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&digits(&self.0))
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        undigits(&text).map(Self).ok_or_else(|| serde::de::Error::custom("bytes are written as pairs of hex digits"))
    }
}

/// 32 bytes as 64 digits.
macro_rules! hex32 {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(&digits(&self.0))
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let Hex(bytes) = Hex::deserialize(from)?;
                bytes.try_into().map(Self).map_err(|_| serde::de::Error::custom("64 hex digits are needed"))
            }
        }
    };
}

hex32!(Nonce);
hex32!(Proof);

fn digits(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn undigits(text: &str) -> Option<Vec<u8>> {
    let value = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(value(*high)? << 4 | value(*low)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn messages_read_back() {
        let hello =
            Hello { version: 1, rank: 3, size: 4, pid: 4711, host: "node-b".to_owned(), nonce: Nonce([0xa5; 32]) };
        let bytes = write(&hello).unwrap();
        assert!(bytes.len() < crate::frame::MAX_HANDSHAKE);
        assert_eq!(read::<Hello>(&bytes).unwrap(), hello);
        let gathered = ToRank::Gathered(vec![Hex(vec![0, 255]), Hex(Vec::new())]);
        assert_eq!(read::<ToRank>(&write(&gathered).unwrap()).unwrap(), gathered);
        let reply = FromRank::Reply(Box::new(Reply::Samples(vec![0, u64::MAX])));
        assert_eq!(read::<FromRank>(&write(&reply).unwrap()).unwrap(), reply);
        for wrong in [r#"{"nonce":"00"}"#, r#"{"proof":"xy"}"#, r#""Leav""#, "", "[[[["] {
            assert!(read::<Answer>(wrong.as_bytes()).is_err() && read::<ToRank>(wrong.as_bytes()).is_err(), "{wrong}");
        }
        let deep = "[".repeat(100_000);
        assert!(read::<FromRank>(deep.as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = read::<Hello>(&bytes);
            let _ = read::<Challenge>(&bytes);
            let _ = read::<Answer>(&bytes);
            let _ = read::<ToRank>(&bytes);
            let _ = read::<FromRank>(&bytes);
        }

        #[test]
        fn bytes_read_back_from_digits(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            prop_assert_eq!(undigits(&digits(&bytes)), Some(bytes));
        }
    }
}

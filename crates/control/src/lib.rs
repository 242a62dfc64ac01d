//! The control channel: how a coordinator and its ranks find each other, prove who they are, and what they say. Knows
//! sockets and messages; never how a rank is started, nor what becomes of a world when one is lost.
//!
//! A connection begins with a mutual challenge and response over a secret that never travels:
//!
//! ```text
//! rank         hello      {version, rank, size, pid, host, nonce}
//! coordinator  challenge  {nonce, proof that it knows the secret}
//! rank         answer     {proof that it knows the secret}, or that it has another secret, and leaves
//! coordinator  welcome, or why not                                   from here on every frame is sealed
//! ```
//!
//! A sealed frame ends in an HMAC-SHA256 over its number and its bytes, under a key of this connection and direction:
//! an attacker who takes over an authenticated connection can neither forge, repeat, drop nor reorder. On loopback that would
//! need privileges that could as well read the ranks' memory; on a network it would not, and commands are few, so that
//! there is one protocol for both. `cargo bench -p rankmark-launch` measures it: 0.07 ms for
//! the 100 kB of 10,000 samples.

pub mod reach;

mod auth;
mod channel;
mod connection;
mod error;
mod frame;
mod invitation;
mod join;
mod message;
mod rendezvous;
mod silence;

pub use auth::{Forged, Nonce, Opener, Proof, Role, Sealer, Secret, Session};
pub use channel::RankChannel;
pub use connection::{Connection, Lost};
pub use error::ChannelError;
pub use frame::{Decoder, FrameTooLong, MAX_FRAME, MAX_HANDSHAKE, encode};
pub use invitation::Invitation;
pub use join::join;
pub use message::{
    Answer, Challenge, Distrust, FromRank, Hello, Here, Hex, PROTOCOL, Remote, ToRank, Unreadable, read, write,
};
pub use rendezvous::{HANDSHAKE_LIMIT, Joined, Rendezvous};
pub use silence::{SILENT, STANDSTILL};

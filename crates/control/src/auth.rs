//! Proving knowledge of the secret without sending it, and sealing frames with keys made from it.
//!
//! HMAC-SHA256 (RFC 2104, FIPS 180-4). Comparisons take the same time whatever differs.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::frame::{FrameTooLong, MAX_FRAME};

const LENGTH: usize = 32;

/// 256 bits that only a coordinator and its ranks know. Never travels and is never written: ranks inherit it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; LENGTH]);

/// 256 bits that are used once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nonce(pub [u8; LENGTH]);

/// Proof that its sender knows the secret. Compared only by [`Secret::verifies`].
#[derive(Clone, Copy, Debug)]
pub struct Proof(pub [u8; LENGTH]);

/// Who proves, so that nobody's proof can be sent back to where it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The coordinator.
    Coordinator,
    /// A rank.
    Rank,
}

impl Role {
    const fn label(self) -> &'static str {
        match self {
            Self::Coordinator => "coordinator",
            Self::Rank => "rank",
        }
    }
}

impl Secret {
    /// A new one.
    ///
    /// # Errors
    /// When the system has no randomness to give.
    pub fn fresh() -> std::io::Result<Self> {
        random().map(Self)
    }

    /// The secret of one world of a run with this secret. A process that knows the run's secret needs only the nonce, which is
    /// not a secret.
    #[must_use]
    pub fn of_world(&self, world: &Nonce) -> Self {
        Self(self.derive("world", Role::Coordinator, &[], world).finalize().into_bytes().into())
    }

    /// From bytes that somebody gave to all processes of a job.
    #[must_use]
    pub fn given(bytes: &[u8]) -> Self {
        Self(keyed(bytes).chain_update("rankmark control given\n").finalize().into_bytes().into())
    }

    /// The secret of one job; this secret may serve many jobs. A handshake cannot be repeated in another job: both
    /// sides bring nonces of their own.
    #[must_use]
    pub fn of_job(&self, job: &str) -> Self {
        Self(keyed(&self.0).chain_update("rankmark control job\n").chain_update(job).finalize().into_bytes().into())
    }

    /// One that was inherited.
    pub const fn from_bytes(bytes: [u8; LENGTH]) -> Self {
        Self(bytes)
    }

    /// For the memory that ranks inherit, and nowhere else.
    pub const fn bytes(&self) -> &[u8; LENGTH] {
        &self.0
    }

    /// The proof of `role` in the handshake that began with these bytes of hello (version, rank, size and the rank's
    /// nonce among them) and this nonce of the coordinator.
    pub fn proof(&self, role: Role, hello: &[u8], nonce: &Nonce) -> Proof {
        Proof(self.derive("proof", role, hello, nonce).finalize().into_bytes().into())
    }

    /// Whether the proof is that of `role` in this handshake.
    pub fn verifies(&self, proof: &Proof, role: Role, hello: &[u8], nonce: &Nonce) -> bool {
        self.derive("proof", role, hello, nonce).verify_slice(&proof.0).is_ok()
    }

    /// The keys of the connection that this handshake opened, for the side of `role`.
    pub fn session(&self, role: Role, hello: &[u8], nonce: &Nonce) -> Session {
        let key = |sender| {
            let key = self.derive("key", sender, hello, nonce).finalize().into_bytes();
            keyed(&key)
        };
        let peer = if role == Role::Rank { Role::Coordinator } else { Role::Rank };
        Session { sealer: Sealer { key: key(role), next: 0 }, opener: Opener { key: key(peer), next: 0 } }
    }

    fn derive(&self, purpose: &str, role: Role, hello: &[u8], nonce: &Nonce) -> Hmac<Sha256> {
        // Lengths are fixed or written before what they measure, so that no two inputs run together alike.
        keyed(&self.0)
            .chain_update(format!("rankmark control {purpose} {}\n", role.label()))
            .chain_update((hello.len() as u64).to_le_bytes())
            .chain_update(hello)
            .chain_update(nonce.0)
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl Nonce {
    /// A new one.
    ///
    /// # Errors
    /// When the system has no randomness to give.
    pub fn fresh() -> std::io::Result<Self> {
        random().map(Self)
    }
}

fn random() -> std::io::Result<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(bytes)
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    <Hmac<Sha256> as KeyInit>::new_from_slice(key).expect("HMAC takes keys of any length")
}

/// What seals and opens both directions of one connection.
pub struct Session {
    /// For what is sent.
    pub sealer: Sealer,
    /// For what arrives.
    pub opener: Opener,
}

/// Seals what is sent on one connection.
pub struct Sealer {
    key: Hmac<Sha256>,
    next: u64,
}

/// Opens what arrives on one connection.
pub struct Opener {
    key: Hmac<Sha256>,
    next: u64,
}

/// A frame that does not carry the seal that it must: forged, repeated, out of order, or cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame with a wrong seal")]
pub struct Forged;

impl Sealer {
    /// The whole frame around this payload: length, payload, seal.
    ///
    /// # Errors
    /// When it would be longer than [`MAX_FRAME`].
    pub fn seal(&mut self, payload: &[u8]) -> Result<Vec<u8>, FrameTooLong> {
        let length = payload.len() + LENGTH;
        if length > MAX_FRAME {
            return Err(FrameTooLong { length, limit: MAX_FRAME });
        }
        let mut frame = Vec::with_capacity(4 + length);
        frame.extend_from_slice(&(length as u32).to_le_bytes());
        frame.extend_from_slice(payload);
        let tag = self.key.clone().chain_update(self.next.to_le_bytes()).chain_update(payload).finalize();
        frame.extend_from_slice(&tag.into_bytes());
        self.next += 1;
        Ok(frame)
    }
}

impl Opener {
    /// The payload of a frame's bytes (without its length).
    ///
    /// # Errors
    /// [`Forged`]; nothing after that can be trusted.
    pub fn open(&mut self, mut bytes: Vec<u8>) -> Result<Vec<u8>, Forged> {
        let payload = bytes.len().checked_sub(LENGTH).ok_or(Forged)?;
        let expected = self.key.clone().chain_update(self.next.to_le_bytes()).chain_update(&bytes[..payload]);
        expected.verify_slice(&bytes[payload..]).map_err(|_| Forged)?;
        self.next += 1;
        bytes.truncate(payload);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: &[u8] = b"hello";

    fn sessions() -> (Session, Session) {
        let (secret, nonce) = (Secret::fresh().unwrap(), Nonce::fresh().unwrap());
        (secret.session(Role::Coordinator, HELLO, &nonce), secret.session(Role::Rank, HELLO, &nonce))
    }

    #[test]
    fn proofs_bind_role_hello_nonce_and_secret() {
        let (secret, nonce) = (Secret::from_bytes([7; 32]), Nonce([9; 32]));
        let proof = secret.proof(Role::Rank, HELLO, &nonce);
        assert!(secret.verifies(&proof, Role::Rank, HELLO, &nonce));
        assert!(!secret.verifies(&proof, Role::Coordinator, HELLO, &nonce), "reflected");
        assert!(!secret.verifies(&proof, Role::Rank, b"hallo", &nonce), "another rank's");
        assert!(!secret.verifies(&proof, Role::Rank, HELLO, &Nonce([8; 32])), "replayed");
        assert!(!Secret::from_bytes([6; 32]).verifies(&proof, Role::Rank, HELLO, &nonce), "wrong secret");
        assert_eq!(format!("{secret:?}"), "Secret");
    }

    #[test]
    fn sealed_frames_open_once_in_order_and_unchanged() {
        let (mut coordinator, mut rank) = sessions();
        let frames: Vec<_> = [&b"one"[..], b"", b"three"].map(|text| coordinator.sealer.seal(text).unwrap()).into();
        let body = |index: usize| frames[index][4..].to_vec();
        let mut changed = body(0);
        changed[0] ^= 1;
        assert_eq!(rank.opener.open(changed), Err(Forged));
        assert_eq!(rank.opener.open(body(1)), Err(Forged), "out of order");
        assert_eq!(rank.opener.open(body(0)).as_deref(), Ok(&b"one"[..]));
        assert_eq!(rank.opener.open(body(0)), Err(Forged), "repeated");
        assert_eq!(rank.opener.open(body(1)).as_deref(), Ok(&b""[..]));
        assert_eq!(coordinator.opener.open(body(2)), Err(Forged), "sent back");
        assert_eq!(rank.opener.open(vec![0; 31]), Err(Forged), "cut");
    }
}

"""Proving knowledge of the secret without sending it, and sealing frames: mirrors `launch::control::auth`."""

from __future__ import annotations

import hashlib
import hmac

LENGTH = 32
MAX_FRAME = 64 << 20
COORDINATOR = "coordinator"
RANK = "rank"


class Forged(Exception):
    """A frame that does not carry the seal that it must."""


def _derive(secret: bytes, purpose: str, role: str, hello: bytes, nonce: bytes) -> bytes:
    label = f"rankmark control {purpose} {role}\n".encode()
    return hmac.digest(secret, label + len(hello).to_bytes(8, "little") + hello + nonce, hashlib.sha256)


def proof(secret: bytes, role: str, hello: bytes, nonce: bytes) -> bytes:
    """The proof of `role` in the handshake that began with these bytes of hello and this nonce of the coordinator."""
    return _derive(secret, "proof", role, hello, nonce)


def verifies(given: bytes, secret: bytes, role: str, hello: bytes, nonce: bytes) -> bool:
    """Whether the proof is that of `role` in this handshake. Takes the same time whatever differs."""
    return hmac.compare_digest(given, proof(secret, role, hello, nonce))


def key(secret: bytes, sender: str, hello: bytes, nonce: bytes) -> bytes:
    """The key of what `sender` sends on the connection that this handshake opened."""
    return _derive(secret, "key", sender, hello, nonce)


class Sealer:
    """Seals what is sent on one connection."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._next = 0

    def seal(self, payload: bytes) -> bytes:
        """The whole frame around this payload: length, payload, seal."""
        length = len(payload) + LENGTH
        if length > MAX_FRAME:
            raise ValueError(f"a frame of {length} bytes, where at most {MAX_FRAME} are allowed")
        tag = hmac.digest(self._key, self._next.to_bytes(8, "little") + payload, hashlib.sha256)
        self._next += 1
        return length.to_bytes(4, "little") + payload + tag


class Opener:
    """Opens what arrives on one connection."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._next = 0

    def open(self, frame: bytes) -> bytes:
        """The payload of a frame's bytes (without its length)."""
        payload, tag = frame[:-LENGTH], frame[-LENGTH:]
        expected = hmac.digest(self._key, self._next.to_bytes(8, "little") + payload, hashlib.sha256)
        if len(frame) < LENGTH or not hmac.compare_digest(tag, expected):
            raise Forged("a frame with a wrong seal")
        self._next += 1
        return payload

"""Getting in, and the rank's end of the authenticated connection: mirrors `launch::rank::{join, channel}`."""

from __future__ import annotations

import json
import os
import socket
import time
from typing import Any

from . import auth

PROTOCOL = 1
HANDSHAKE_LIMIT_S = 2.0
# How long an attempt may take in all: connection, challenge and welcome may wait for HANDSHAKE_LIMIT_S each.
ATTEMPT_LIMIT_S = 3 * HANDSHAKE_LIMIT_S
MAX_HANDSHAKE = 4 << 10
FIRST_PAUSE_S = 0.005
LONGEST_PAUSE_S = 0.2

TO_RANK = ("Welcome", "Refused", "Command", "Gathered", "Leave")
FROM_RANK = ("Started", "Reply", "Gather")

ORPHANED = 70
BROKEN = 71
NOT_INVITED = 2
PANICKED = 101


class Departure(Exception):
    """Why the rank leaves otherwise than asked."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Lost(Departure):
    """The coordinator is gone."""

    def __init__(self) -> None:
        super().__init__(ORPHANED, "the coordinator is gone")


class Invitation:
    """What a rank inherits: where to connect, the secret, and the world that it belongs to."""

    def __init__(self, parts: dict[str, Any]) -> None:
        host, _, port = parts["address"].rpartition(":")
        self.address = (host.strip("[]"), int(port))
        self.secret = bytes.fromhex(parts["secret"])
        self.wait_s = parts["wait"]["secs"] + parts["wait"]["nanos"] / 1e9
        self.cores: list[int] = parts["cores"]
        # Which host each rank is on; empty where all are on one.
        self.hosts: list[int] = parts["hosts"]
        self.ranks: int = parts["spec"]["ranks"]
        self.fields: dict[str, Any] = parts["spec"]["fields"]
        if len(self.secret) != auth.LENGTH:
            raise Departure(NOT_INVITED, "the invitation holds no secret")

    def local(self, rank: int) -> int:
        """How many ranks of lower numbers are on the rank's host."""
        return self.hosts[:rank].count(self.hosts[rank]) if self.hosts else rank

    def fullest(self) -> int:
        """Ranks of the host that has the most."""
        return max(map(self.hosts.count, set(self.hosts))) if self.hosts else self.ranks


class Channel:
    """A connection to the coordinator, both sides having proved themselves."""

    def __init__(self, stream: socket.socket, sealer: auth.Sealer, opener: auth.Opener) -> None:
        self.stream = stream
        self._sealer = sealer
        self._opener = opener

    def send(self, kind: str, content: Any) -> None:
        """Sends a message. A number that JSON has no word for is refused before anything is sent."""
        assert kind in FROM_RANK
        text = json.dumps({kind: content}, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
        # A path that is not UTF-8 holds what no other language reads in JSON.
        payload = text.encode(errors="replace")
        frame = self._sealer.seal(payload)
        try:
            self.stream.sendall(frame)
        except OSError:
            raise Lost from None

    def receive(self, until: float | None = None) -> tuple[str, Any]:
        """Waits for the next message: its kind, and what it holds. `until`: as that of `read_exactly`."""
        try:
            message = json.loads(self._opener.open(read_frame(self.stream, auth.MAX_FRAME, until)))
        except (auth.Forged, ValueError) as error:
            raise Departure(BROKEN, f"the control channel is broken: {error}") from None
        kind, content = variant(message)
        if kind not in TO_RANK:
            raise Departure(BROKEN, f"the control channel is broken: a message `{kind}` is not known here")
        return kind, content

    def all_gather(self, part: bytes) -> list[bytes]:
        """Every rank's bytes, in rank order. Works while the rank starts and while it obeys a command."""
        self.send("Gather", part.hex())
        kind, content = self.receive()
        if kind != "Gathered":
            raise Departure(BROKEN, "the coordinator answered an exchange with something else")
        return [bytes.fromhex(text) for text in content]


def variant(message: Any) -> tuple[str, Any]:
    """An enum's name and content, as serde writes it: a bare name, or a map of one entry."""
    if isinstance(message, str):
        return message, None
    if isinstance(message, dict) and len(message) == 1:
        return next(iter(message.items()))
    raise Departure(BROKEN, "the control channel is broken: not a message")


def read_exactly(stream: socket.socket, count: int, until: float | None = None) -> bytes:
    """So many bytes, or `Lost`: also at this time of the monotonic clock, however often a byte comes."""
    pieces = bytearray()
    while len(pieces) < count:
        try:
            if until is not None:
                stream.settimeout(_patience_s(until))
            piece = stream.recv(count - len(pieces))
        except OSError:
            raise Lost from None
        if not piece:
            raise Lost
        pieces += piece
    return bytes(pieces)


def _patience_s(until: float) -> float:
    """How long the next read may wait for its bytes."""
    left_s = until - time.monotonic()
    if left_s <= 0:
        raise Lost
    return min(left_s, HANDSHAKE_LIMIT_S)


def read_frame(stream: socket.socket, limit: int, until: float | None = None) -> bytes:
    """The next whole frame's bytes. `until`: as that of `read_exactly`."""
    length = int.from_bytes(read_exactly(stream, 4, until), "little")
    if length > limit:
        text = f"a frame of {length} bytes, where at most {limit} are allowed"
        raise Departure(BROKEN, f"the control channel is broken: {text}")
    return read_exactly(stream, length, until)


def join(invitation: Invitation, rank: int, host: str) -> Channel:
    """Joins the world as `rank`; again and again while the rendezvous is crowded."""
    deadline = time.monotonic() + invitation.wait_s
    pause = FIRST_PAUSE_S
    while True:
        try:
            return _attempt(invitation, rank, host, ATTEMPT_LIMIT_S)
        except (Lost, ConnectionError, TimeoutError) as error:
            if time.monotonic() + pause >= deadline:
                if isinstance(error, Departure):
                    raise
                place = "{}:{}".format(*invitation.address)
                raise Departure(BROKEN, f"the coordinator at {place} cannot be reached: {error}") from None
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE_S)


def _attempt(invitation: Invitation, rank: int, host: str, limit_s: float) -> Channel:
    """One attempt. Nobody knows yet who listens there, so nothing it does may hold this rank for longer than that."""
    until = time.monotonic() + limit_s
    secret = invitation.secret
    stream = socket.create_connection(invitation.address, timeout=HANDSHAKE_LIMIT_S)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    nonce = os.urandom(auth.LENGTH).hex()
    about = {"version": PROTOCOL, "rank": rank, "size": invitation.ranks, "pid": os.getpid()}
    hello = json.dumps({**about, "host": host, "nonce": nonce}).encode()
    _send_plain(stream, hello)
    challenge = json.loads(read_frame(stream, MAX_HANDSHAKE, until))
    theirs = bytes.fromhex(challenge["nonce"])
    if not auth.verifies(bytes.fromhex(challenge["proof"]), secret, auth.COORDINATOR, hello, theirs):
        place = "{}:{}".format(*invitation.address)
        raise Departure(BROKEN, f"the process that listens at {place} is not the coordinator of this world")
    _send_plain(stream, json.dumps({"proof": auth.proof(secret, auth.RANK, hello, theirs).hex()}).encode())
    sealer = auth.Sealer(auth.key(secret, auth.RANK, hello, theirs))
    opener = auth.Opener(auth.key(secret, auth.COORDINATOR, hello, theirs))
    channel = Channel(stream, sealer, opener)
    kind, content = channel.receive(until)
    if kind == "Refused":
        raise Departure(BROKEN, f"refused by the coordinator: {content}")
    if kind != "Welcome":
        raise Departure(BROKEN, "the control channel is broken: neither welcome nor refused")
    stream.settimeout(None)
    return channel


def _send_plain(stream: socket.socket, payload: bytes) -> None:
    try:
        stream.sendall(len(payload).to_bytes(4, "little") + payload)
    except OSError:
        raise Lost from None

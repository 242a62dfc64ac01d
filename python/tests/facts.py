"""Prints what the package takes for granted of the coordinator, as JSON, for a test of the coordinator to compare."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rankmark_worker import auth, channel, rank, status
from rankmark_worker.pattern import Pattern
from rankmark_worker.random_floats import Random, rounded

SECRET, NONCE, HELLO = bytes([7]) * 32, bytes([9]) * 32, b"hello"


def protocol() -> dict[str, object]:
    """Names, places and proofs."""
    sealer = auth.Sealer(auth.key(SECRET, auth.RANK, HELLO, NONCE))
    return {
        "version": channel.PROTOCOL,
        "to_rank": channel.TO_RANK,
        "from_rank": channel.FROM_RANK,
        "commands": rank.COMMANDS,
        "probes": rank.PROBES,
        "operations": status.OPERATIONS,
        "slot": [status.SLOT_BYTES, status.OPERATION_AT, status.HEARTBEAT_AT],
        "proofs": [auth.proof(SECRET, role, HELLO, NONCE).hex() for role in (auth.COORDINATOR, auth.RANK)],
        "sealed": [sealer.seal(text).hex() for text in (b"one", b"")],
        "limits": [auth.MAX_FRAME, channel.MAX_HANDSHAKE],
    }


def patterns(wanted: list[list[object]]) -> list[list[object]]:
    """For each `[op, dtype, reduce, ranks, in_place]`: exact calls, and elements of inputs and results."""
    found: list[list[object]] = []
    for op, dtype, reduce, ranks, in_place in wanted:
        pattern = Pattern(str(op), str(dtype), str(reduce), int(str(ranks)), bool(in_place), 5)
        inputs = [[pattern.input(index, element) for element in range(40)] for index in range(pattern.ranks)]
        reduced = pattern.reduced(min(2, pattern.max_calls()), 0, inputs) if pattern.reduces else []
        found.append([pattern.max_calls(), inputs[-1], reduced])
    return found


def random_floats(wanted: list[list[object]]) -> list[list[object]]:
    """For each `[op, dtype, reduce, ranks, in_place]`: bounded calls, inputs of the last rank as the type holds them,
    and results with their bounds.
    """
    found: list[list[object]] = []
    for op, dtype, reduce, ranks, in_place in wanted:
        random = Random(str(op), str(dtype), str(reduce), int(str(ranks)), bool(in_place), 5)
        columns = [
            [rounded(random.dtype, random.input(rank, index)) for rank in range(random.ranks)] for index in range(40)
        ]
        results = [random.result(column, min(2, random.max_calls())) for column in columns] if random.reduces else []
        # Every input of the last rank: a number that is rounded in two ways is rare.
        last = [rounded(random.dtype, value) for value in random.inputs(random.ranks - 1)]
        found.append([random.max_calls(), last, results])
    return found


if __name__ == "__main__":
    asked = json.loads(sys.argv[1]) if len(sys.argv) > 1 else None
    told = random_floats(asked["random"]) if isinstance(asked, dict) else patterns(asked) if asked else protocol()
    print(json.dumps(told))

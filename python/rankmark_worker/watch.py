"""Results of one rank, compared bit by bit outside of the timed part: the first one with that of rank 0, later ones
with the first. Mirrors `collective::watch` and `contract::bits`; a test compares what both say of the same results.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from decimal import ROUND_DOWN, ROUND_HALF_UP, ROUND_UP, Context, Decimal
from typing import Any, Protocol

import torch

from . import initial

# Elements that are kept one by one, and blocks from a power of two to the next.
SINGLE, PARTS = 64, 8
# Numbers of calls whose results are kept: one call, and as many as sums in place go on.
KEPT = 2
# Elements that are mixed or compared at a time: each takes some words of memory.
PIECE = 1 << 20
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
MASK = (1 << 64) - 1
LOWEST = -1 << 63


class Peers(Protocol):
    """The ranks of the world, as the comparison needs them."""

    def of_rank_0(self, own: torch.Tensor) -> torch.Tensor:
        """What rank 0 holds where this rank holds `own`, of the same length, in memory of the host. Collective."""


def mix(value: torch.Tensor) -> torch.Tensor:
    """A well-mixed word of each of many: `contract::bits::mix`."""
    return initial.mix(value + initial.STEP)


def words(result: torch.Tensor) -> torch.Tensor:
    """The bits of each element."""
    size = result.element_size()
    held = result.view(BITS[size]).to(torch.int64)
    return held if size == 8 else held & ((1 << 8 * size) - 1)


def blocks(elements: int) -> Iterator[tuple[int, int]]:
    """Blocks of so many elements behind the single ones: begin and end. The last one may be cut off."""
    begin = SINGLE
    while begin < elements:
        end = min(elements, begin + (1 << (begin.bit_length() - 1)) // PARTS)
        yield begin, end
        begin = end


def in_short(dtype: str, result: torch.Tensor) -> dict[str, Any]:
    """A result in short: its first elements, and digests of blocks of the others."""
    width = 2 * result.element_size()
    values = "".join(f"{word & MASK:0{width}x}" for word in words(result[:SINGLE]).tolist())
    digests = "".join(f"{_digest(result, *block):016x}" for block in blocks(result.numel()))
    return {"dtype": dtype, "elements": result.numel(), "values": values, "blocks": digests}


def _digest(result: torch.Tensor, begin: int, end: int) -> int:
    total = 0
    for at in range(begin, end, PIECE):
        to = min(end, at + PIECE)
        total += int(mix(words(result[at:to]) ^ mix(torch.arange(at, to))).sum())
    return total & MASK


def text(dtype: torch.dtype, value: float) -> str:
    """The shortest number that only this value of the type has, without an exponent: as native ranks write it."""
    if not math.isfinite(value):
        return "NaN" if value != value else "inf" if value > 0 else "-inf"
    # Of two that are as near, the larger one. `repr` takes the even one.
    roundings, exact = (ROUND_HALF_UP, ROUND_UP, ROUND_DOWN), Decimal(value)
    contexts = (Context(digits, rounding) for digits in range(1, 18) for rounding in roundings)
    rounded = (context.create_decimal(exact) for context in contexts)
    plain = format(next(one for one in rounded if _reads_as(dtype, float(one), value)), "f")
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def _reads_as(dtype: torch.dtype, read: float, value: float) -> bool:
    if dtype == torch.float64:
        return read == value
    # The narrow types as f32.
    try:
        return struct.pack("<f", read) == struct.pack("<f", value)
    except OverflowError:
        return False


def short(value: float) -> str:
    """`8.4e-8`: as native ranks write a bound."""
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits}e{int(exponent)}"


def difference(dtype: torch.dtype, one: torch.Tensor, other: torch.Tensor) -> dict[str, Any] | None:
    """How two results of equal length differ; None where all bits are the same."""
    bits = BITS[one.element_size()]
    if torch.equal(one.view(bits), other.view(bits)):
        return None
    found: dict[str, Any] | None = None
    for at in range(0, one.numel(), PIECE):
        ours, theirs = one[at : at + PIECE], other[at : at + PIECE]
        differing = (ours.view(bits) != theirs.view(bits)).nonzero().flatten()
        if differing.numel() == 0:
            continue
        ours, theirs = ours[differing], theirs[differing]
        values = ours.to(torch.float64), theirs.to(torch.float64)
        relative = (values[0] - values[1]).abs() / torch.maximum(values[0].abs(), values[1].abs())
        # Two zeros of different signs are equal numbers, and what is not a number is at no distance.
        finite = torch.where(relative.isfinite(), relative, torch.zeros_like(relative))
        if found is None:
            first, shown = at + int(differing[0]), [text(dtype, float(value[0])) for value in values]
            found = {"first": first, "end": first + 1, "values": shown, "ulps": 0, "relative": 0.0, "different": 0}
        found["ulps"] = max(found["ulps"], _ulps(ours, theirs))
        found["relative"] = max(found["relative"], float(finite.max()))
        found["different"] += differing.numel()
    return found


def _ulps(one: torch.Tensor, other: torch.Tensor) -> int:
    """The most floats of a type from one to the other."""
    places = _places(one), _places(other)
    # Two's complement: the distance of any two, as a number without a sign.
    apart = torch.maximum(*places) - torch.minimum(*places)
    return (int((apart ^ LOWEST).max()) ^ LOWEST) & MASK


def _places(values: torch.Tensor) -> torch.Tensor:
    """Floats counted from zero."""
    held, sign = words(values), 8 * values.element_size() - 1
    if sign == 63:
        return torch.where(held < 0, -(held & ((1 << 63) - 1)), held)
    return torch.where(held >> sign == 1, -(held & ((1 << sign) - 1)), held)


class Watch:
    """See the module's documentation."""

    def __init__(self, dtype: str, is_common: bool, peers: Peers) -> None:
        self.dtype = dtype
        # Whether all ranks must hold the same.
        self.is_common = is_common
        self.peers = peers
        # The first result after so many calls from fresh inputs.
        self.firsts: dict[int, torch.Tensor] = {}
        self.noted: dict[str, Any] = {"bits": None, "results": 0, "calls": None, "with_rank_0": False, "ranks": None}

    def note(self, calls: int, result: torch.Tensor, own: int | None = None) -> None:
        """Takes in what `calls` calls from fresh inputs left, in memory of the host. Collective. `own`: elements of the
        first operation, where a call makes several; None: all.
        """
        noted = self.noted
        first = self.firsts.get(calls)
        if first is not None:
            noted["results"] += 1
            found = difference(result.dtype, first, result) if noted["calls"] is None else None
            if found is not None:
                noted["calls"] = [noted["results"], found]
            return
        if len(self.firsts) == KEPT:
            return
        if self.is_common:
            found = difference(result.dtype, self.peers.of_rank_0(result), result)
            noted["with_rank_0"] = True
            noted["ranks"] = noted["ranks"] or found
        if not self.firsts and result.numel():
            # Other cases are compared by index, and at one of a later operation they have another input.
            noted["bits"] = in_short(self.dtype, result[:own])
        noted["results"] += 1
        self.firsts[calls] = result

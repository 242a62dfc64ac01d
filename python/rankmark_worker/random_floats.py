"""Random floats: inputs whose sums depend on the order of the additions, and a bound for every result. Needs no torch.

Mirrors `collective::random`, which derives the bound. A test compares both bit by bit.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce as fold

from .pattern import PERIOD, REDUCING, UNBOUNDED, mix

# Bits of the mantissa that are stored, and the smallest float above zero.
DIGITS = {"f64": 52, "f32": 23, "f16": 10, "bf16": 7}
SMALLEST = {"f64": 2.0**-1074, "f32": 2.0**-149, "f16": 2.0**-24, "bf16": 2.0**-133}
# Exponents (base 2) that sums in place may grow to.
TOP = {"f16": 15.0, "f64": 1000.0}
# Bounds reach less than this share of the sum of all magnitudes.
WIDEST = 0.5
# The unit roundoff of f64, in which results are computed for comparison.
OURS = 2.0**-53


def growth(u: float, roundings: float) -> float:
    """(1 + u)^roundings - 1."""
    return math.expm1(roundings * math.log1p(u))


def rounded(dtype: str, value: float) -> float:
    """The value as the type holds it. The narrow types round through f32, as torch does."""
    if dtype == "f64":
        return value
    if dtype == "bf16":
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
        bits += 0x7FFF + (bits >> 16 & 1)
        return float(struct.unpack("<f", struct.pack("<I", bits & 0xFFFF_0000))[0])
    single = float(struct.unpack("<f", struct.pack("<f", value))[0])
    return single if dtype == "f32" else float(struct.unpack("<e", struct.pack("<e", single))[0])


@dataclass(frozen=True)
class Random:
    """How one case fills its buffers."""

    op: str
    dtype: str
    reduce: str
    ranks: int
    in_place: bool
    seed: int

    # Its numbers are floats.
    floats = True

    @property
    def reduces(self) -> bool:
        return self.op in REDUCING

    @property
    def computes(self) -> bool:
        """Whether results are rounded, and depend on the order of operations."""
        return self.reduces and self.reduce in ("sum", "avg", "prod")

    @property
    def grows(self) -> bool:
        """Whether each call adds up what the one before left on all ranks."""
        return self.in_place and self.op == "all_reduce" and self.reduce == "sum"

    @property
    def roundoff(self) -> float:
        """Half the distance from 1 to the next float."""
        return 2.0 ** -(DIGITS[self.dtype] + 1)

    def input(self, rank: int, index: int) -> float:
        """What `rank` holds at element `index` of its input, before it is rounded to the type."""
        bits = mix(mix(index ^ mix(self.seed)) ^ mix(rank + 1))
        # Uniform in (-1, 1), and with all digits of an f64 however small: numbers on a grid would have exact sums.
        more = mix(bits)
        half = more >> 1
        zeros = (half & -half).bit_length() - 1 if half else 64
        size = (1.0 + (bits >> 12) / 2.0**52) * 0.5 ** (1 + min(zeros, 20))
        if not self.reduces or self.reduce != "prod":
            return -size if more & 1 else size
        # Factors whose product stays well inside of every type: at most 1.9^10, or e^9.
        factor = 1.0 + (0.9 if self.ranks <= 10 else 9.0 / self.ranks) * size
        factor = factor if bits & 1 else 1.0 / factor
        return -factor if more & 1 else factor

    def inputs(self, rank: int) -> list[float]:
        """The inputs of `rank`, as a table, before they are rounded to the type."""
        return [self.input(rank, index) for index in range(PERIOD)]

    def max_calls(self) -> int:
        """How many calls in a row stay bounded, and in the type's range; `UNBOUNDED`: any number."""
        if not self.in_place or not self.computes or (self.ranks == 1 and self.grows):
            return UNBOUNDED
        if not self.grows:
            return 1
        in_range = TOP.get(self.dtype, 126.0) / math.log2(self.ranks)
        bounded = math.log1p(WIDEST) / ((self.ranks - 1) * math.log1p(self.roundoff))
        return max(1, int(min(in_range, bounded)))

    def results(self, calls: int) -> list[tuple[float, float]]:
        """What `calls` calls of a reduction leave at each element, and how far a result may be off."""
        columns = zip(*(self.inputs(rank) for rank in range(self.ranks)))
        return [self.result([rounded(self.dtype, value) for value in column], calls) for column in columns]

    def result(self, inputs: Iterable[float], calls: int) -> tuple[float, float]:
        """The same of one element: `inputs` are those of all ranks, as the type holds them."""
        n, held = float(self.ranks), list(inputs)
        if self.reduce in ("min", "max"):
            return (min(held) if self.reduce == "min" else max(held)), 0.0
        if self.reduce == "prod":
            product = math.prod(held)
            return product, abs(product) * self._off(n - 1.0)
        # One after the other: newer versions of `sum` compensate their errors.
        total, size = fold(lambda so_far, value: (so_far[0] + value, so_far[1] + abs(value)), held, (0.0, 0.0))
        if self.reduce == "avg":
            return total / n, size / n * self._off(n + 1.0) + n * SMALLEST[self.dtype]
        calls = calls if self.grows else 1
        grown = n ** (calls - 1)
        return total * grown, size * grown * (self._off(calls * (n - 1.0)) + growth(OURS, 4.0 * calls))

    def _off(self, roundings: float) -> float:
        return growth(self.roundoff, roundings) + growth(OURS, roundings + 2.0)

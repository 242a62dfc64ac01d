"""What buffers hold: inputs whose results are exact in every type, so that the check needs no tolerance.

Mirrors `suite::collective::pattern`, which derives it; a test compares both number by number. Floats of every width are
Python floats (f64), integers of every width Python integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

# Elements after which a pattern repeats: prime, so that no power-of-two displacement maps it to itself.
PERIOD = 8191
UNBOUNDED = (1 << 64) - 1
MASK = (1 << 64) - 1

EXACT = {
    "bf16": 1 << 8,
    "u8": 255,
    "f16": 1 << 11,
    "f32": 1 << 24,
    "i32": (1 << 31) - 1,
    "f64": 1 << 53,
    "i64": (1 << 63) - 1,
}
FLOATS = ("f32", "f64", "f16", "bf16")
REDUCING = ("all_reduce", "reduce_scatter", "reduce")
# Exponents (base 2): what sums in place start below zero by, and how far they may grow above it.
ROOM = {"f32": 100, "bf16": 100, "f64": 900, "f16": 12}
TOP = {"f64": 1000.0, "f16": 14.0}
CHOICES = ((4, 64), (4, 16), (4, 4), (3, 4), (2, 4), (2, 2), (1, 2), (1, 1))

Number = float


def mix(value: int) -> int:
    """A well-mixed 64-bit value of its argument (the finaliser of splitmix64)."""
    value = (value + 0x9E37_79B9_7F4A_7C15) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58_476D_1CE4_E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D0_49BB_1331_11EB) & MASK
    return value ^ (value >> 31)


def odd(n: int) -> int:
    """What is left of n without its factors of two."""
    return n // (n & -n)


@dataclass(frozen=True)
class Pattern:
    """How one case fills its buffers and what comes out."""

    op: str
    dtype: str
    reduce: str
    ranks: int
    in_place: bool
    seed: int

    @property
    def reduces(self) -> bool:
        return self.op in REDUCING

    @property
    def floats(self) -> bool:
        return self.dtype in FLOATS

    @property
    def grows(self) -> bool:
        """Whether every call multiplies what is in the buffer."""
        return self.in_place and self.op == "all_reduce" and self.reduce == "sum"

    @cached_property
    def widths(self) -> tuple[int, int]:
        """Sums: at most so many ranks give a value other than zero to an element, each of at most so much."""
        if not self.reduces:
            return (0, 0)
        n, exact = self.ranks, EXACT[self.dtype]
        choices = [(min(n, width), spread) for width, spread in CHOICES]
        if self.grows:
            for width, spread in choices:
                if width * spread * n <= exact:
                    return (width, spread)
        for width, spread in choices:
            largest = width * spread
            if self.reduce == "sum":
                fits = largest <= exact
            elif self.reduce == "avg":
                fits = largest * (odd(n) if self.floats else n) <= exact
            else:
                fits = True
            if fits:
                return (width, spread)
        raise ValueError(f"{self.reduce} of {self.dtype} over {n} ranks has no exact result")

    def input(self, rank: int, index: int) -> Number:
        """What `rank` holds at element `index` of its input, before any call."""
        noise = mix(index ^ mix(self.seed))
        turn = (rank + index) % self.ranks
        width, spread = self.widths
        if not self.reduces or self.reduce in ("min", "max"):
            return self._number(mix(noise ^ rank) % min(EXACT[self.dtype], 1 << 20))
        if self.reduce == "prod":
            return self._number(1 + (noise >> turn) % 2 if turn < 3 else 1)
        if turn >= width:
            return self._number(0)
        value = 1 + ((noise + turn) & MASK) % spread
        if self.reduce == "avg":
            return self._number(self.ranks * value)
        if self.grows and self.floats:
            return float(value) * 2.0 ** -ROOM[self.dtype]
        return self._number(value)

    def _number(self, value: int) -> Number:
        return float(value) if self.floats else value

    def max_calls(self) -> int:
        """How many calls in a row give exact results from fresh inputs; `UNBOUNDED`: any number."""
        if not self.in_place or not self.reduces or self.reduce in ("min", "max"):
            return UNBOUNDED
        width, spread = self.widths
        largest, exact, n = float(width * spread), float(EXACT[self.dtype]), self.ranks
        if self.op == "all_reduce" and self.reduce == "avg":
            return UNBOUNDED
        if self.reduce in ("prod", "avg"):
            return 1
        if n == 1:
            return UNBOUNDED
        if self.op != "all_reduce":
            return max(1, math.floor(exact / largest))
        return 1 + int(max(0.0, self._growth(largest, exact)))

    def _growth(self, largest: float, exact: float) -> float:
        """Calls after the first whose sums stay exact integers in their odd parts, and in the type's range."""
        n = self.ranks
        room = exact / (largest * (n - 1 if n % 2 == 0 else n))

        def by_digits(base: int) -> float:
            if room < 1.0:
                return 0.0
            return 1.0 + math.floor(math.log(room) / math.log(base)) if base > 1 else math.inf

        if not self.floats:
            return by_digits(n)
        exponents = TOP.get(self.dtype, 120.0) + ROOM[self.dtype] - math.log2(largest)
        return min(by_digits(odd(n)), float(math.floor(exponents / math.log2(n))))

    def inputs(self, rank: int) -> list[Number]:
        """The inputs of `rank`, as a table."""
        return [self.input(rank, index) for index in range(PERIOD)]

    def reduced(self, calls: int, own: int, inputs: list[list[Number]]) -> list[Number]:
        """What a reduction leaves at each element after `calls` calls, on `own` rank; `inputs` of all ranks."""
        fold = FOLDS[self.reduce]
        once = [fold(column) for column in zip(*inputs)]
        if self.reduce == "avg":
            once = [value / self.ranks if self.floats else value // self.ranks for value in once]
        if not self.in_place or self.reduce != "sum" or calls <= 1:
            return once
        more, n = calls - 1, self.ranks
        if self.op != "all_reduce":
            return [value + more * (value - held) for value, held in zip(once, inputs[own])]
        if not self.floats:
            return [value * n**more for value in once]
        # In two steps: the factor alone may leave the range in which its product with a small sum lies.
        half = more // 2
        return [value * float(n) ** half * float(n) ** (more - half) for value in once]


def _product(column: tuple[Number, ...]) -> Number:
    return math.prod(column)


FOLDS: dict[str, Callable[[tuple[Number, ...]], Number]] = {
    "sum": sum,
    "avg": sum,
    "prod": _product,
    "min": min,
    "max": max,
}

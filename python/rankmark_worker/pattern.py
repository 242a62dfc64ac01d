"""What buffers hold: inputs with results that are exact in every type, so that the check needs no tolerance.

Mirrors `collective::pattern`, which derives it; a test compares both number by number. Floats of every
width are Python floats (f64), integers of every width Python integers.
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

# The largest sums; of what only moves, the largest inputs.
EXACT = {
    "bf16": 1 << 8,
    "i8": 127,
    "u8": 255,
    "f16": 1 << 11,
    "f32": 1 << 24,
    "i32": (1 << 31) - 1,
    "u32": (1 << 32) - 1,
    "f64": 1 << 53,
    "i64": (1 << 63) - 1,
    "u64": (1 << 63) - 1,
    "f8e4m3": 255,
    "f8e5m2": 255,
}
FLOATS = ("f32", "f64", "f16", "bf16")
# Bits of the types without a sign.
UNSIGNED = {"u8": 8, "u32": 32, "u64": 64}
REDUCING = ("all_reduce", "reduce_scatter", "reduce")
# Exponents (base 2): what sums in place start below zero by, and how far they may grow above it.
ROOM = {"f32": 100, "bf16": 100, "f64": 900, "f16": 12}
TOP = {"f64": 1000.0, "f16": 14.0}
# Sums: values of one rank at most; sums that differ by less are made to differ, by so many powers of two.
SPREADS = (64, 16, 4, 2)
ALIKE = 4
HALVINGS = 3
# Products: twos that the type holds.
TWOS = {"i8": 6, "u8": 7, "f16": 14, "i32": 30, "u32": 31, "i64": 62, "u64": 63}

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


def widest(n: int) -> int:
    """The largest odd number of ranks with equal values that are added up on the way to the sum of all n."""
    return n - 1 if n % 2 == 0 else n


@dataclass(frozen=True)
class Share:
    """Who gives how much to an element of a sum: mirrors `collective::share`."""

    width: int
    bonus: int
    spread: int
    floats: bool

    @staticmethod
    def of(ranks: int, most: int, floats: bool) -> Share:
        """The widest share of so many ranks with a sum of at most `most`."""
        width = min(ranks, most)
        room = most - width
        for spread in SPREADS:
            if width * (spread - 1) <= room:
                return Share(width, width, spread, floats)
        return Share(width, room, 2, floats)

    @property
    def alike(self) -> bool:
        """Whether sums hardly differ on their own."""
        return self.bonus * (self.spread - 1) < ALIKE

    @property
    def largest(self) -> int:
        """The largest sum."""
        return self.width + self.bonus * (self.spread - 1)

    @property
    def digits(self) -> int:
        """The largest odd part of a sum."""
        return odd(self.width) if self.bonus == 0 and self.floats else self.largest

    def value(self, turn: int, noise: int) -> int:
        """What the rank of this turn gives to an element with this noise, before halvings."""
        thin = self.alike and not self.floats and noise >> 63 == 1
        if turn >= (self.width // 2 if thin else self.width):
            return 0
        return 1 + (mix(noise ^ turn) % self.spread if turn < self.bonus else 0)

    def halvings(self, noise: int) -> int:
        """How often an element with this noise is halved, in floats."""
        return (noise >> 32) % HALVINGS if self.alike else 0


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
    def share(self) -> Share:
        """Of sums and averages: who gives how much to an element."""
        n, exact, floats = self.ranks, EXACT[self.dtype], self.floats
        if self.reduce == "avg":
            return self._average_share()
        if self.grows:
            most = exact // (widest(n) if floats else n)
            if most >= n:
                return Share.of(n, most, floats)
            if floats and odd(n) * widest(n) <= exact:
                return Share.of(n, n, floats)
        return Share.of(n, exact, floats)

    def _average_share(self) -> Share:
        n, exact, floats = self.ranks, EXACT[self.dtype], self.floats
        most = exact // (odd(n) if floats else n)
        if most == 0:
            raise ValueError(f"avg of {self.dtype} over {n} ranks has no exact result")
        if not floats or not self.in_place or self.op != "all_reduce":
            return Share.of(n, most, floats)
        if exact // widest(n) >= n:
            return Share.of(n, exact // widest(n), floats)
        if odd(n) * widest(n) <= exact:
            return Share.of(n, n, floats)
        equal = 1 << (min(n, most).bit_length() - 1)
        return Share.of(equal, equal, floats) if widest(n) <= exact else Share.of(n, most, floats)

    def input(self, rank: int, index: int) -> Number:
        """What `rank` holds at element `index` of its input, before any call."""
        noise = mix(index ^ mix(self.seed))
        turn = (rank + index) % self.ranks
        values = min(EXACT[self.dtype], 1 << 20)
        if not self.reduces:
            return self._number(mix(noise ^ rank) % values)
        if self.reduce in ("min", "max"):
            value = mix(noise ^ turn) % (values // 2)
            # Without a sign the larger half has the highest bit.
            larger = 1 << (UNSIGNED[self.dtype] - 1) if self.dtype in UNSIGNED else values // 2
            return self._number(value + (larger if (turn == 0) == (self.reduce == "max") else 0))
        if self.reduce == "prod":
            two = turn < TWOS.get(self.dtype, 100) and mix(noise ^ turn) % 2 == 0
            return self._number(2 if two else 1 if self.dtype in UNSIGNED else -1)
        value = self.share.value(turn, noise) * (self.ranks if self.reduce == "avg" else 1)
        if not self.floats:
            return value
        # n times a sum would leave the range of f16 otherwise.
        room = ROOM[self.dtype] if self.grows else 6 if self.reduce == "avg" and self.dtype == "f16" else 0
        return float(value) * 2.0 ** (-room - self.share.halvings(noise))

    def _number(self, value: int) -> Number:
        return float(value) if self.floats else value

    def max_calls(self) -> int:
        """How many calls in a row give exact results from fresh inputs; `UNBOUNDED`: any number."""
        if not self.in_place or not self.reduces or self.reduce in ("min", "max"):
            return UNBOUNDED
        if self.reduce == "prod":
            return 1
        share, exact, n = self.share, EXACT[self.dtype], self.ranks
        if self.op == "all_reduce" and self.reduce == "avg":
            return UNBOUNDED if not self.floats or share.digits * widest(n) <= exact else 1
        if self.reduce == "avg":
            return 1
        if n == 1:
            return UNBOUNDED
        if self.op != "all_reduce":
            return max(1, exact // share.largest)
        return 1 + int(max(0.0, self._growth()))

    def _growth(self) -> float:
        """Calls after the first that keep sums exact integers in their odd parts, and in the type's range."""
        n, share = self.ranks, self.share
        room = EXACT[self.dtype] / (share.digits * widest(n))

        def by_digits(base: int) -> float:
            if room < 1.0:
                return 0.0
            return 1.0 + math.floor(math.log(room) / math.log(base)) if base > 1 else math.inf

        if not self.floats:
            return by_digits(n)
        exponents = TOP.get(self.dtype, 120.0) + ROOM[self.dtype] - math.log2(share.largest)
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

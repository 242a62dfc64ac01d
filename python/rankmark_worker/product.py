"""Operands with a known product, and attention with a known result, so that every element is checked without computing
it again. Mirrors `primitive::{pattern, attention}`, which derive them; a test compares both.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .rank import TOLD, WrongReport

MASK = (1 << 64) - 1
# How sequences move from row to row, column to column, and expert to expert.
ALPHA, BETA, GAMMA = 7, 11, 17
# How far each refill displaces rows: what a call left before it is not right after it.
SHIFT = 97
PERIODS = (251, 241)
# Whole numbers up to this are exact.
EXACT = {torch.float32: 1 << 24, torch.float64: 1 << 53, torch.bfloat16: 1 << 8, torch.float16: 1 << 11}
# Elements that are compared at a time.
CHUNK = 1 << 20
# Error of torch's exponential of vectors, in units of the last place.
EXPONENTIAL = 20


class Pattern:
    """Two sequences of small whole numbers: rows of A displace the one, columns of B the other."""

    def __init__(self, seed: int, depth: int, block: int, narrow: bool) -> None:
        self.period = next((period for period in PERIODS if block % period), PERIODS[0])
        most = 1 if narrow else 7
        amplitude = min(max(int(math.sqrt((1 << 24) / max(depth, 1))), 1), most)
        # xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators".
        state = (seed * 0x9E37_79B9_7F4A_7C15) & MASK | 1
        drawn = []
        for _ in range(2 * self.period):
            state ^= state >> 12
            state = (state ^ state << 25) & MASK
            state ^= state >> 27
            number = (state * 0x2545_F491_4F6C_DD1D & MASK) >> 33
            drawn.append(number % (2 * amplitude + 1) - amplitude)
        self.rows = torch.tensor(drawn[: self.period])
        self.columns = torch.tensor(drawn[self.period :])
        self.shift = 0

    def displace(self) -> None:
        """Other rows from now on."""
        self.shift = (self.shift + SHIFT) % self.period

    def classes(self, rows: Tensor) -> Tensor:
        """Where the sequence of each row begins. Rows of one class are equal."""
        return (ALPHA * rows + self.shift) % self.period

    def fill_rows(self, to: Tensor, rows: Tensor, depth: int) -> None:
        """Fills A: these rows, with the depth from `depth` on."""
        fill(to, self.row_values(depth, to.shape[1]), self.classes(rows))

    def row_values(self, depth: int, length: int) -> Tensor:
        """Rows of A, one for each class."""
        begins = torch.arange(self.period)[:, None] + depth
        return self.rows[(begins + torch.arange(length)) % self.period]

    def fill_columns(self, to: Tensor, depth: int, expert: int) -> None:
        """Fills B: the depth from `depth` on, for an expert."""
        length, columns = to.shape
        values = self.columns[(torch.arange(self.period)[:, None] + BETA * torch.arange(columns)) % self.period]
        fill(to, values, (torch.arange(depth, depth + length) + self.column(expert)) % self.period)

    def column(self, expert: int) -> int:
        """Where the sequence of an expert's columns begins."""
        return GAMMA * expert % self.period

    def table(self, depth: int, length: int) -> Tensor:
        """Sums over a part of the depth, by the class of the row and where the column begins; in whole numbers, which
        no library of fast products computes."""
        begins = torch.arange(self.period)[:, None] + depth
        places = (begins + torch.arange(self.period)) % self.period
        rows, columns = self.rows[places], self.columns[places]
        whole, rest = divmod(length, self.period)
        sums = whole * (rows @ columns.T) if whole else torch.zeros(self.period, self.period, dtype=torch.int64)
        return (sums + rows[:, :rest] @ columns[:, :rest].T).double()

    def product(self, table: Tensor, columns: int, expert: int) -> Tensor:
        """Rows of the product, one for each class."""
        return table[:, (self.column(expert) + BETA * torch.arange(columns)) % self.period]


def fill(to: Tensor, values: Tensor, classes: Tensor) -> None:
    """Fills rows, each with that of its class."""
    values = values.to(to.device, to.dtype)
    if to.numel():
        torch.index_select(values, 0, classes.to(to.device), out=to)


def rounding(dtype: torch.dtype, largest: float) -> float:
    """How far a sum may be off that is rounded to the type once."""
    exact = float(EXACT[dtype])
    return 0.0 if largest <= exact else largest / exact


class Comparison:
    """Compares, on a rank, and counts."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.report = WrongReport()

    def rows(self, got: Tensor, values: Tensor, classes: Tensor, tolerance: float) -> None:
        """Compares each row with that of its class."""
        count = max(1, CHUNK // max(1, got.shape[1]))
        self.report.compared += got.numel()
        for begin in range(0, got.shape[0], count):
            held = got[begin : begin + count].double().cpu()
            wanted = values[classes[begin : begin + count]].double()
            # A NaN is within no tolerance.
            wrong = ~((held - wanted).abs() <= tolerance)
            if wrong.any():
                self.tell(held, wanted, wrong, begin * got.shape[1])

    def tell(self, held: Tensor, wanted: Tensor, wrong: Tensor, first: int) -> None:
        """Counts wrong elements, and keeps a few."""
        places = wrong.flatten().nonzero().flatten()
        self.report.count += len(places)
        for index in places[: max(0, TOLD - len(self.report.first))].tolist():
            texts = {"expected": str(wanted.flatten()[index].item()), "got": str(held.flatten()[index].item())}
            self.report.first.append({"rank": self.rank, "index": first + index, **texts})


PERIOD = PERIODS[0]
PRIME = (1 << 31) - 1


def value(which: int, index: Tensor) -> Tensor:
    """-1, 0 or 1, by index. `which` tells queries, keys and values apart: two steps of a generator modulo 2^31 - 1."""
    mixed = (index % PERIOD + 1 + 1000 * which) * 48271 % PRIME
    return ((mixed * 48271 % PRIME) >> 7) % 3 - 1


class Attention:
    """Queries, keys and values, and what their attention must be."""

    def __init__(self, tokens: int, heads: int, width: int, ranks: int) -> None:
        self.tokens, self.heads, self.width, self.ranks = tokens, heads, width, ranks
        self.rows = tokens // ranks
        self.shift = 0
        self.expected, self.tolerance = self.result()

    def displace(self) -> None:
        """Other queries from now on."""
        self.shift = (self.shift + SHIFT) % PERIOD

    def index(self, tokens: Tensor, steps: tuple[int, int, int]) -> Tensor:
        """Indices by token, head and feature."""
        token, head, feature = steps
        heads, features = torch.arange(self.heads)[:, None] * head, torch.arange(self.width) * feature
        return tokens[:, None, None] * token + heads + features

    def queries(self, tokens: Tensor) -> Tensor:
        """Of these tokens, `[tokens, heads, width]`."""
        return value(0, self.index(tokens + self.shift, (7, 5, 1)))

    def panel(self, tokens: Tensor) -> Tensor:
        """Keys and values of these tokens, `[tokens, 2, heads, width]`. A value tells the panel that it is of: one that
        is left out shows, however alike the tokens of all panels are."""
        keys = value(1, self.index(tokens, (11, 7, 3)))
        values = value(2, self.index(tokens, (13, 3, 2))) + (tokens // self.rows)[:, None, None]
        return torch.stack((keys, values), dim=1)

    def result(self) -> tuple[Tensor, float]:
        """The result in f64, `[heads, class of the query, width]`, and how far f32 may be off: that of
        `primitive::attention`, where the exponential adds its error to both sums."""
        tokens, classes = torch.arange(self.tokens), torch.arange(PERIOD)
        counts = torch.zeros(PERIOD, dtype=torch.float64).index_add_(
            0, tokens % PERIOD, torch.ones(self.tokens, dtype=torch.float64)
        )
        panels = torch.zeros(PERIOD, dtype=torch.float64)
        panels.index_add_(0, tokens % PERIOD, (tokens // self.rows).double())
        queries = value(0, self.index(classes, (7, 5, 1))).double().transpose(0, 1)
        keys = value(1, self.index(classes, (11, 7, 3))).double().transpose(0, 1)
        values = value(2, self.index(classes, (13, 3, 2))).double().transpose(0, 1)
        scores = queries @ keys.transpose(1, 2) / math.sqrt(self.width)
        weights = scores.exp()
        sums = (weights @ counts)[..., None]
        expected = ((weights * counts) @ values + (weights @ panels)[..., None]) / sums
        unit, largest = 1.0 / EXACT[torch.float32], 1.0 + self.ranks
        highest = float(scores.abs().max())
        return expected, (2.0 * self.tokens + 8.0 * highest + 10.0 + 2.0 * EXPONENTIAL) * unit * largest

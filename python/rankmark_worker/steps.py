"""What a primitive's rank computes, and how: the implementations that need torch alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}

Run = Callable[[], None]


@dataclass
class Step:
    """A call of an implementation. Only `run` is timed."""

    run: Run
    # What the buffers hold before it, beside the operands: nothing, products, or what was gathered.
    given: str = "operands"
    # What it leaves, to be compared.
    leaves: tuple[str, ...] = ("result",)
    path: str = "c10d"
    # Whether the result is summed up in place, call by call.
    grows: bool = False
    # After a refill: takes over operands.
    filled: Run = lambda: None
    # Before results are looked at: hands them over.
    settle: Run = lambda: None


class Task:
    """What a rank computes: sizes are those of the whole problem."""

    def __init__(self, recipe: dict[str, Any], rank: int, place: torch.device) -> None:
        self.scheme: str = recipe["scheme"]
        self.m, self.n, self.k, self.ranks = (int(recipe[name]) for name in ("m", "n", "k", "ranks"))
        self.options: dict[str, Any] = recipe["options"]
        self.dtype = DTYPES[recipe["dtype"]]
        self.seed = int(recipe["seed"])
        self.place = place
        # Where every rank computes the whole problem, each is rank 0 of its own.
        self.rank = rank if self.ranks > 1 else 0
        self.rows = self.m // self.ranks
        self.cut = self.scheme == "scatter_last"
        self.summed = self.scheme in ("scatter_last", "reduce_last")
        self.depth = self.k // self.ranks if self.cut else self.k
        self.whole_depth = self.k * self.ranks if self.scheme == "reduce_last" else self.k
        # Tokens of a rank for each expert.
        self.tokens: list[int] = recipe["tokens"]
        self.received = [self.tokens[self.rank]] * self.ranks

    def begin(self, rank: int) -> int:
        """Where a rank's part of the depth begins."""
        return rank * self.depth if self.summed else 0

    def empty(self, *shape: int) -> Tensor:
        """A buffer."""
        return torch.empty(shape, dtype=self.dtype, device=self.place)


class Site(Protocol):
    """What an implementation works on."""

    task: Task
    own: Tensor
    other: Tensor
    output: Tensor

    def multiply(self) -> None:
        """The product alone."""

    def there(self) -> None:
        """The collective before the product."""

    def back(self) -> None:
        """The collective after it."""

    def communicated(self) -> tuple[str, tuple[str, ...]]:
        """What communication alone is given and leaves."""


def compute_only(site: Site) -> Step:
    """No communication."""
    return Step(site.multiply, "gathered", ("products",), "torch")


def communication_only(site: Site) -> Step:
    """No computation."""

    def run() -> None:
        site.there()
        site.back()

    given, leaves = site.communicated()
    return Step(run, given, leaves, grows=site.task.scheme == "reduce_last")


def sequential(site: Site) -> Step:
    """One after the other."""

    def run() -> None:
        site.there()
        site.multiply()
        site.back()

    return Step(run)

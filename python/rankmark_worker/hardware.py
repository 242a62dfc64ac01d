"""What a device can do, on one rank: mirrors `hardware`. The recipe leaves nothing open.

A call makes several passes and then waits for the device, so that starting them takes little of its time.
"""

from __future__ import annotations

import os
import socket
import statistics
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from .group import TorchGroup, first_line, freed, waits
from .primitive import Primitive
from .rank import Failure, Prepared, WrongReport
from .status import now_ns

UNBOUNDED = 1 << 63
# What the loops of STREAM multiply by.
FACTOR = 3.0
# Values repeat after so many elements, a prime; a refill displaces them.
PERIOD, SHIFT = 1021, 409
# What is only written holds this before the first call: no result of a loop, and no byte that is sent.
UNWRITTEN, UNWRITTEN_BYTE = -1.0, 255
# Bytes that a call goes through at least: on a GPU starting a pass and waiting for it takes some 10 us.
CALL_BYTES = {"cpu": 8 << 20, "cuda": 1 << 30}
# Elements that are compared at once: what a comparison needs beside the arrays stays small.
COMPARED = 1 << 24


def prepare(values: dict[str, Any], rank: int, group: TorchGroup, fullest: int) -> Prepared:
    """Allocates. Fills nothing yet. `fullest`: ranks of the host that has the most."""
    recipe = values["recipe"]
    try:
        if "product" in recipe:
            return Primitive(recipe["product"], rank, group.size, group.place)
        if "rounds" in recipe:
            return Pairs(recipe, rank, group, fullest)
        return Copies(recipe, rank, group.place) if "bytes" in recipe else Loop(recipe, rank, group.place)
    except (RuntimeError, MemoryError) as error:
        raise Failure(
            f"{recipe['test']} of torch {torch.__version__}: {first_line(error)}", "allocate" in str(error)
        ) from None


def passes(place: torch.device, counted: int) -> int:
    """Passes of a call, each through so many bytes."""
    return max(1, CALL_BYTES[place.type] // max(1, counted))


class Case:
    """What all tests have in common."""

    max_calls = UNBOUNDED
    checks = 1
    steps = False
    past_ns: int | None = None
    # A call waits for the device.
    waits: Callable[[], None] | None = None
    freed: Callable[[], None] | None = None
    flops = 0.0
    traffic_bytes = 0
    messages = 1

    def __init__(self, recipe: dict[str, Any], rank: int) -> None:
        self.rank, self.test = rank, recipe["test"]
        self.seed = int(recipe["seed"])
        self.path = f"torch {torch.__version__}"

    def details(self) -> dict[str, Any]:
        """What computed."""
        return {"loop": self.path}


class Loop(Case):
    """A loop of STREAM over arrays of f64. All values are whole and small, so that results are exact."""

    def __init__(self, recipe: dict[str, Any], rank: int, place: torch.device) -> None:
        super().__init__(recipe, rank)
        count, self.place = int(recipe["elements"]), place
        self.freed = freed(place)
        names = "abc" if self.test in ("add", "triad") else "ac"
        self.arrays = {name: torch.empty(count, dtype=torch.float64, device=place) for name in names}
        self.messages = passes(place, count * int(recipe["counted_bytes"]))
        self.path = f"{self.path} ({place.type})"
        self.wait = waits(place)
        self.one = self.pass_of()

    def pass_of(self) -> Callable[[], object]:
        """One pass."""
        a, c = self.arrays["a"], self.arrays["c"]
        b = self.arrays.get("b", a)
        return {
            "copy": lambda: c.copy_(a),
            "scale": lambda: torch.mul(a, FACTOR, out=c),
            "add": lambda: torch.add(a, b, out=c),
            "triad": lambda: torch.add(a, b, alpha=FACTOR, out=c),
        }[self.test]

    def run(self) -> None:
        """One call."""
        one = self.one
        for _ in range(self.messages):
            one()
        self.wait()

    def table(self) -> dict[str, torch.Tensor]:
        """A period of what the arrays are given and must get."""
        index = torch.arange(PERIOD, dtype=torch.float64, device=self.place)
        a = (index + self.seed) % PERIOD
        b = (2.0 * index + self.seed) % PERIOD
        results = {"copy": a, "scale": FACTOR * a, "add": a + b, "triad": a + FACTOR * b}
        return {"a": a, "b": b, "c": results[self.test]}

    def refill(self) -> None:
        """Fresh inputs."""
        self.seed = (self.seed + SHIFT) % PERIOD
        table = self.table()
        for name, array in self.arrays.items():
            if name == "c":
                array.fill_(UNWRITTEN)
            else:
                repeat(array, table[name])
        self.wait()

    def check(self, _calls: int) -> WrongReport:
        """Compares every element of every array: inputs stay as they are, too."""
        report, table = WrongReport(), self.table()
        for name, array in self.arrays.items():
            report.add(compare(array, table[name], self.rank))
        return report

    def corrupt(self, element: int) -> None:
        """Changes an element of the result."""
        result = self.arrays["c"]
        if result.numel():
            result[element % result.numel()] += 1.0


def repeat(array: torch.Tensor, table: torch.Tensor) -> None:
    """Fills an array with a table, over and over."""
    whole = array.numel() // table.numel() * table.numel()
    array[:whole].view(-1, table.numel()).copy_(table)
    array[whole:].copy_(table[: array.numel() - whole])


def compare(array: torch.Tensor, table: torch.Tensor, rank: int) -> WrongReport:
    """Compares every element with a table that repeats."""
    report = WrongReport(compared=array.numel())
    step = COMPARED // table.numel() * table.numel()
    for begin in range(0, array.numel(), step):
        part = array[begin : begin + step]
        wanted = table.repeat(-(-part.numel() // table.numel()))[: part.numel()]
        places = torch.nonzero(part != wanted).flatten()
        report.count += places.numel()
        if places.numel() and not report.first:
            first = int(places[0])
            told = {"expected": str(wanted[first].item()), "got": str(part[first].item())}
            report.first.append({"rank": rank, "index": begin + first, **told})
    return report


class Copies(Case):
    """Copies between pinned memory of the host and memory of the device."""

    def __init__(self, recipe: dict[str, Any], rank: int, place: torch.device) -> None:
        super().__init__(recipe, rank)
        count, on_gpu = int(recipe["bytes"]), place.type == "cuda"
        self.freed = freed(place)
        host = torch.empty(count, dtype=torch.uint8, pin_memory=on_gpu)
        device = torch.empty(count, dtype=torch.uint8, device=place)
        self.source, self.target = (host, device) if self.test == "host_to_device" else (device, host)
        self.messages = passes(place, count)
        self.path = f"{self.path}, {'pinned' if on_gpu else 'ordinary'} memory"
        self.wait = waits(place)

    def run(self) -> None:
        """One call."""
        for _ in range(self.messages):
            self.target.copy_(self.source, non_blocking=True)
        self.wait()

    def table(self, place: torch.device) -> torch.Tensor:
        """A period of what is copied."""
        return ((torch.arange(PERIOD) + self.seed) % 251).to(device=place, dtype=torch.uint8)

    def refill(self) -> None:
        """Fresh inputs."""
        self.seed = (self.seed + SHIFT) % PERIOD
        repeat(self.source, self.table(self.source.device))
        self.target.fill_(UNWRITTEN_BYTE)
        self.wait()

    def check(self, _calls: int) -> WrongReport:
        """Compares every byte."""
        return compare(self.target, self.table(self.target.device), self.rank)

    def corrupt(self, element: int) -> None:
        """Changes a byte of the copy."""
        if self.target.numel():
            self.target[element % self.target.numel()] ^= 1


class Pairs(Case):
    """Messages between pairs of ranks: a call is a tournament. Two ranks meet before they take the time."""

    def __init__(self, recipe: dict[str, Any], rank: int, group: TorchGroup, fullest: int) -> None:
        super().__init__(recipe, rank)
        self.group, self.both = group, recipe["test"] == "both_ways"
        self.freed = freed(group.place)
        count, self.exchanges = int(recipe["bytes"]), int(recipe["messages"])
        rounds = [[tuple(pair) for pair in one] for one in recipe["rounds"]]
        # All ranks must agree, also those of a host with other cores.
        self.at_once = bool(group.tell(int(fullest <= len(os.sched_getaffinity(0)))))
        self.rounds = rounds if self.at_once else [[pair] for one in rounds for pair in one]
        partners = {other for one in rounds for pair in one if rank in pair for other in pair if other != rank}
        self.sent = {other: self.buffer(count) for other in sorted(partners)}
        self.got = {other: self.buffer(count) for other in self.sent}
        self.times: dict[int, list[float]] = {other: [] for other in self.sent}
        how = "pairs at once" if self.at_once else "one pair at a time"
        self.path = f"{dist.get_backend()} of torch {torch.__version__}, {how}"
        self.wait = waits(group.place)

    def buffer(self, count: int) -> torch.Tensor:
        """Room for a message."""
        return torch.empty(count, dtype=torch.uint8, device=self.group.place)

    def exchange(self, other: int) -> None:
        """One message each way: one after the other, or at once."""
        sent, got = self.sent[other], self.got[other]
        if self.both:
            works = dist.batch_isend_irecv([dist.P2POp(dist.isend, sent, other), dist.P2POp(dist.irecv, got, other)])
            for work in works:
                work.wait()
        elif self.rank < other:
            dist.send(sent, other)
            dist.recv(got, other)
        else:
            dist.recv(got, other)
            dist.send(sent, other)

    def run(self) -> None:
        """All rounds."""
        try:
            for pairs in self.rounds:
                self.group.barrier()
                pair = next((pair for pair in pairs if self.rank in pair), None)
                if pair is not None:
                    self.meet(pair[1] if pair[0] == self.rank else pair[0])
        except RuntimeError as error:
            raise Failure(f"{self.test}: {first_line(error)}") from None

    def meet(self, other: int) -> None:
        """Messages of a pair. The first shows both that the other is there."""
        self.exchange(other)
        self.wait()
        begin = now_ns()
        for _ in range(self.exchanges):
            self.exchange(other)
        self.wait()
        one_way = 1 if self.both else 2
        self.times[other].append((now_ns() - begin) / 1e9 / (self.exchanges * one_way))

    def table(self, sender: int, receiver: int) -> torch.Tensor:
        """A period of the message from one rank to another; never `UNWRITTEN_BYTE`."""
        index = torch.arange(PERIOD) + 31 * sender + 17 * receiver + self.seed
        return (index % 251).to(device=self.group.place, dtype=torch.uint8)

    def refill(self) -> None:
        """Fresh messages."""
        self.seed = (self.seed + 1) % PERIOD
        for other, message in self.sent.items():
            repeat(message, self.table(self.rank, other))
            self.got[other].fill_(UNWRITTEN_BYTE)
        self.wait()

    def check(self, _calls: int) -> WrongReport:
        """Compares every byte that arrived."""
        report = WrongReport()
        for other, message in self.got.items():
            report.add(compare(message, self.table(other, self.rank), self.rank))
        return report

    def corrupt(self, element: int) -> None:
        """Changes a byte that arrived."""
        message = next(iter(self.got.values()))
        message[element % message.numel()] ^= 1

    def details(self) -> dict[str, Any]:
        """The median time of a message to each rank, in seconds, since it was last asked."""
        medians = {str(other): statistics.median(times) for other, times in self.times.items() if times}
        self.times = {other: [] for other in self.times}
        ways = "both" if self.both else "one"
        return {"pairs": medians, "ways": ways, "host": socket.gethostname(), "at_once": self.at_once}

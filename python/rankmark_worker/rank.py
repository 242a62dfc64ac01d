"""The rank's side of a case: obeys the coordinator's commands. Mirrors `benchmarks::rank` and `measure::timing`.

The coordinator decides how much is sampled; between the two clock readings of a sample there is nothing but calls.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from .channel import BROKEN, Departure, variant
from .inject import parse
from .process import only_core, peak_bytes, switches
from .status import SLOT_BYTES, Hook, Slot, now_ns

COMMANDS = ("Prepare", "Sample", "Check", "Probe", "Clocks", "Observe", "Finish")
PROBES = ("Canary", "Limit", "Arrivals", "Overhead", "Begin")

START_AHEAD_NS = 50_000
START_MARGIN = 4
# Comparing batches in the middle takes at most about this share of the time between two comparisons.
MIDWAY_SHARE = 0.03
# How many wrong elements a rank tells of; it counts all.
TOLD = 8


class Failure(Exception):
    """Why the rank could not obey. The rank itself goes on."""

    def __init__(self, text: str, lacking: bool = False) -> None:
        super().__init__(text)
        self.lacking = lacking

    def message(self) -> dict[str, Any]:
        """As the coordinator reads it."""
        return {"error": {"what": str(self)}, "lacking": self.lacking}


@dataclass
class WrongReport:
    """Wrong elements on this rank."""

    count: int = 0
    compared: int = 0
    first: list[dict[str, Any]] = field(default_factory=list)

    def message(self) -> dict[str, Any]:
        """As the coordinator reads it."""
        return {"count": self.count, "compared": self.compared, "first": self.first}

    def add(self, more: WrongReport) -> None:
        """Adds what another comparison found."""
        self.count += more.count
        self.compared += more.compared
        self.first += more.first[: max(0, TOLD - len(self.first))]


@dataclass
class Midway:
    """Which batches in the middle of a case are compared: mirrors `benchmarks::midway`."""

    calls: int = 0
    next: int = 0
    ended_ns: int | None = None
    report: WrongReport = field(default_factory=WrongReport)

    def due(self, calls: int) -> bool:
        """Whether what so many calls since the last refill left is to be compared now."""
        return calls > 0 and self.calls + calls >= self.next

    def until_next(self, begun_ns: int, ended_ns: int) -> int:
        """Calls until the next comparison, after one that took from one time to the other."""
        cost = (ended_ns - begun_ns) / MIDWAY_SHARE
        if self.ended_ns is None:
            return int(cost / 100.0)
        return math.ceil(self.calls * cost / max(1, begun_ns - self.ended_ns))


class Group(Protocol):
    """The ranks of the world, as the measuring code needs them for itself."""

    size: int

    def barrier(self) -> None:
        """All ranks meet."""

    def tell(self, word: int) -> int:
        """Rank 0's word goes to all ranks."""


class Prepared(Protocol):
    """A case, ready on this rank."""

    max_calls: int
    # What a call's time is divided by: one-way messages, or operations in flight, where that of one counts.
    messages: int
    # Whether calls are steps of one series: then none is made beside those that are asked for.
    steps: bool
    # Checks from fresh inputs before a case is timed and after each trial: 0, where a step follows from the one before.
    checks: int
    # Nanoseconds that count as a sample in place of the calls' time: of what took place before any call.
    past_ns: int | None
    # Waits for what calls have started; None where a call ends only when it is done.
    waits: Callable[[], None] | None
    # Gives memory back to the device, once nothing refers to the case; None where that needs nothing.
    freed: Callable[[], None] | None
    # Operations of a call, and bytes that it must read and write: 0, where torch's way of doing it is not known.
    flops: float
    traffic_bytes: int
    path: str

    def run(self) -> None:
        """One call: the only thing that is timed."""

    def refill(self) -> None:
        """Fresh inputs, as before the first call."""

    def check(self, calls: int) -> WrongReport:
        """Compares every element with what `calls` calls since the last refill must have left."""

    def corrupt(self, element: int) -> None:
        """Changes an element of the output."""

    def details(self) -> dict[str, Any]:
        """What it noted for the benchmark's metrics."""


# By the benchmark's name: what prepares a case from its values.
Benchmarks = dict[str, Callable[[dict[str, Any]], Prepared]]


class RankWork:
    """One rank, ready for commands."""

    def __init__(self, group: Group, hook: Hook, rank: int, benchmarks: Benchmarks) -> None:
        self._group = group
        self._hook = hook
        self._rank = rank
        self._benchmarks = benchmarks
        self._case: Prepared | None = None
        self._checks = 1
        self._calls = 0
        self._midway = Midway()
        self._missed_starts = 0
        # What this rank computes before each call of a chain (`mode: decode`).
        self._compute_ns = 0
        self._start_ahead_ns: int | None = None
        # From what the clock of rank 0's host shows to what this one's does.
        self._there = translation(None)

    def obey(self, command: Any) -> dict[str, Any]:
        """Does what the command says, and gives the reply that belongs to it."""
        kind, content = variant(command)
        try:
            if kind == "Prepare":
                return {"Ready": self._prepare(content["case"], content["check"])}
            if kind == "Sample":
                return {"Samples": self._sample(content)}
            if kind == "Check":
                return {"Checked": self._check().message()}
            if kind == "Probe":
                return {"Numbers": self._probe(*variant(content))}
            if kind == "Clocks":
                self._there = translation(content[self._rank])
                return {"Numbers": []}
            if kind == "Observe":
                return {"Finished": self._observe()}
            if kind == "Finish":
                return {"Finished": self._finish()}
        except Failure as failure:
            return {"Failed": failure.message()}
        raise Departure(BROKEN, f"the control channel is broken: a command `{kind}` is not known here")

    def _prepare(self, case: dict[str, Any], check: bool) -> dict[str, Any]:
        self._case = None
        values = {"bytes_requested": case.get("bytes_requested"), **case["settings"], **case["parameters"]}
        texts = values.get("inject") or []
        texts = texts.split() if isinstance(texts, str) else texts
        try:
            injections = [parse(text) for text in texts]
        except ValueError as error:
            raise Failure(str(error)) from None
        make = self._benchmarks.get(case["benchmark"])
        if make is None:
            raise Failure(f"PyTorch ranks do not support benchmark `{case['benchmark']}`", True)
        prepared = make(values)
        # Of a step of training, what DistributedDataParallel does, as far as others can see.
        usual = "barrier" if case["benchmark"] == "startup" else "all_reduce"
        operation = values.get("op") or (values.get("recipe") or {}).get("operation") or usual
        self._hook.begin_case(operation, injections)
        self._hook.corrupt, self._hook.pending = prepared.corrupt, prepared.waits
        self._case, self._missed_starts, self._midway = prepared, 0, Midway()
        self._checks = prepared.checks
        self._compute_ns = int(1e9 * float(values.get("compute_s") or 0.0))
        self._refill()
        wrong = self._check() if check else WrongReport()
        bound = 0 if prepared.max_calls >= 1 << 63 else prepared.max_calls
        return {
            "traffic_bytes": prepared.traffic_bytes,
            "flops": prepared.flops,
            "max_calls": bound,
            "messages": prepared.messages,
            "steps": prepared.steps,
            "path": prepared.path,
            "limits": [],
            "wrong": wrong.message(),
        }

    def _running(self) -> Prepared:
        if self._case is None:
            raise Failure("no case is prepared")
        return self._case

    def _refill(self) -> None:
        self._running().refill()
        self._midway.calls += self._calls
        self._calls = 0

    def _call(self) -> None:
        self._calls += 1
        self._hook.call(self._running().run)
        self._hook.wait()

    def _sample(self, request: dict[str, Any]) -> list[int]:
        ways = {"isolated": self._isolated, "decode": self._decode}
        one = ways.get(request["mode"], lambda: self._streaming(request["calls"]))
        if request["mode"] == "decode":
            # From here on, the calls themselves keep ranks together.
            self._group.barrier()
        return [one() for _ in range(request["samples"])]

    def _streaming(self, calls: int) -> int:
        """`calls` calls back to back, in batches where values would leave the exact range: fresh inputs between them,
        outside the timing."""
        left, total = calls, 0
        call, run, wait = self._hook.call, self._running().run, self._hook.wait
        while left > 0:
            batch = self._make_room(left)
            self._group.barrier()
            rounds = range(batch)
            begin = now_ns()
            for _ in rounds:
                call(run)
            wait()
            total += now_ns() - begin
            self._calls += batch
            left -= batch
        past_ns = self._running().past_ns
        return total if past_ns is None else past_ns

    def _isolated(self) -> int:
        """One call from an agreed instant: from that instant, not from when this rank got there."""
        self._make_room(1)
        self._group.barrier()
        ahead = self._start_ahead()
        start = self._there(self._group.tell(now_ns() + ahead))
        self._missed_starts += int(now_ns() > start)
        while now_ns() < start:
            pass
        self._call()
        return max(0, now_ns() - start)

    def _decode(self) -> int:
        """One call of a chain, from when this rank enters it until it has its result."""
        self._make_room(1)
        until = now_ns() + self._compute_ns
        while now_ns() < until:
            pass
        begin = now_ns()
        self._call()
        return now_ns() - begin

    def _start_ahead(self) -> int:
        """How far ahead a start must lie, by the median of a few rounds of telling and meeting. Collective."""
        if self._start_ahead_ns is None:
            rounds = []
            for _ in range(9):
                begin = now_ns()
                self._group.tell(begin)
                self._group.barrier()
                rounds.append(now_ns() - begin)
            self._start_ahead_ns = max(START_AHEAD_NS, int(START_MARGIN * statistics.median(rounds)))
        return self._start_ahead_ns

    def _make_room(self, wanted: int) -> int:
        bound = self._running().max_calls
        # What grows is compared at its end, before the refill; what stays the same after any call.
        at_end = self._calls >= bound or bound >= 1 << 63
        if at_end and self._checks > 0 and self._midway.due(self._calls):
            self._look_midway()
        if self._calls >= bound:
            self._refill()
        return min(wanted, bound - self._calls)

    def _look_midway(self) -> None:
        """Compares what the batch that has just ended left, and refills. Collective."""
        midway, begun = self._midway, now_ns()
        midway.report.add(self._running().check(self._calls))
        self._refill()
        self._group.barrier()
        midway.next = self._group.tell(midway.until_next(begun, now_ns()))
        midway.calls, midway.ended_ns = 0, now_ns()

    def _check(self) -> WrongReport:
        """Checks what the last calls left; then, from fresh inputs and outputs, what one call does: a call that did
        nothing would leave the right result of the call before it."""
        case, report = self._running(), self._midway.report
        self._midway.report = WrongReport()
        if self._calls > 0:
            self._group.barrier()
            report.add(case.check(self._calls))
        for _ in range(self._checks):
            self._refill()
            self._group.barrier()
            self._call()
            self._group.barrier()
            report.add(case.check(self._calls))
        if self._checks > 0:
            self._refill()
        return report

    def _probe(self, kind: str, content: Any) -> list[float]:
        if kind == "Canary":
            return self._canary()
        if kind == "Limit":
            return [0.0] * content["rounds"]
        if kind == "Arrivals":
            return self._arrivals(content["operations"], content.get("stagger_ns", 0))
        if kind == "Overhead":
            return self._overhead()
        if kind == "Begin":
            self._refill()
            return []
        raise Departure(BROKEN, f"the control channel is broken: a probe `{kind}` is not known here")

    def _canary(self) -> list[float]:
        """`[ns of a barrier, voluntary, involuntary context switches, 0, 0, 0, ns of processor time, only core]`.

        A barrier is the median of bursts; switches are counted from the start. The zeros tell states of the machine
        apart: only native ranks measure them.
        The last is the only core that this process may run on, from 1; 0 where it may run on several.
        """
        bursts = []
        for _ in range(9):
            begin = now_ns()
            for _ in range(5):
                self._group.barrier()
            bursts.append((now_ns() - begin) / 5)
        used = float(time.process_time_ns())
        return [statistics.median(bursts), *switches(), 0.0, 0.0, 0.0, used, only_core()]

    def _arrivals(self, operations: int, stagger_ns: int) -> list[float]:
        spans: list[int] = []
        self._hook.spans = spans
        left = operations
        while left > 0:
            batch = self._make_room(left)
            self._group.barrier()
            for operation in range(operations - left, operations - left + batch):
                if stagger_ns > 0 and operation % self._group.size == self._rank:
                    _pause(stagger_ns)
                self._call()
            left -= batch
        self._hook.spans = None
        return [float(ns) for ns in spans]

    def _overhead(self) -> list[float]:
        """`[ns of an empty sample, ns that the hook adds to a call]`."""
        empty = []
        for _ in range(1000):
            begin = now_ns()
            empty.append(now_ns() - begin)
        hook = Hook(Slot(bytearray(SLOT_BYTES), 0), 0)
        hook.begin_case("barrier", [])
        bursts = []
        for _ in range(21):
            begin = now_ns()
            for _ in range(1000):
                hook.call(_nothing)
            bursts.append((now_ns() - begin) / 1000)
        return [float(statistics.median(empty)), float(statistics.median(bursts))]

    def _observe(self) -> dict[str, Any]:
        details = self._case.details() if self._case is not None else {}
        observed = {"peak_bytes": peak_bytes(), "operations": self._hook.count, "details": details}
        return {**observed, "missed_starts": self._missed_starts}

    def _finish(self) -> dict[str, Any]:
        observed = self._observe()
        freed = self._case.freed if self._case is not None else None
        self._case, self._hook.pending, self._hook.corrupt = None, None, lambda element: None
        if freed is not None:
            freed()
        return observed


def translation(fit: dict[str, Any] | None) -> Callable[[int], int]:
    """What this host's clock shows when that of rank 0's host shows so much: mirrors `measure::ClockFit::there`. None:
    they are one."""
    if fit is None:
        return lambda here_ns: here_ns
    start, offset, slope = int(fit["from_ns"]), int(fit["offset_ns"]), float(fit["slope"])
    return lambda here_ns: here_ns + offset + round(slope * (here_ns - start))


def _pause(ns: int) -> None:
    """Lets time pass without giving the core up: a rank that sleeps would come late by much more."""
    until = now_ns() + ns
    while now_ns() < until:
        pass


def _nothing() -> None:
    pass

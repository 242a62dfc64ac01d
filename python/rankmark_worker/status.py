"""The status page and the operation hook: mirrors `launch::status` and `trace::point`.

"Entered k" and "left k" are one store each, of eight aligned bytes, to this rank's slot; only this rank writes it.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import time
from collections.abc import Callable

from .inject import Injection

SLOT_BYTES = 256
OPERATION_AT = 0
HEARTBEAT_AT = 8

# In the order of `terms::Collective`: the status page tells an operation by its place here.
OPERATIONS = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "broadcast",
    "reduce",
    "all_to_all",
    "all_to_allv",
    "gather",
    "scatter",
    "send_recv",
    "ping_pong",
    "barrier",
)


def now_ns() -> int:
    """Nanoseconds of the clock that every process of a host shares and that is never slewed."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


class Slot:
    """This rank's line on the status page."""

    def __init__(self, page: mmap.mmap | bytearray, rank: int) -> None:
        self.operation = ctypes.c_uint64.from_buffer(page, rank * SLOT_BYTES + OPERATION_AT)
        self._heartbeat = ctypes.c_uint64.from_buffer(page, rank * SLOT_BYTES + HEARTBEAT_AT)

    def beat(self) -> None:
        """One more heartbeat."""
        self._heartbeat.value += 1


class Hook:
    """Every operation of a case passes through `call`: the status page, spans, injected faults."""

    def __init__(self, slot: Slot, rank: int) -> None:
        self._word = slot.operation
        self._rank = rank
        self._code = 0
        self._armed: list[Injection] = []
        self.count = 0
        self.spans: list[int] | None = None
        self.corrupt: Callable[[int], None] = lambda element: None
        # Waits for what calls have started; None where a call ends only when it is done.
        self.pending: Callable[[], None] | None = None

    def begin_case(self, operation: str, injections: list[Injection]) -> None:
        """A new case: operations count from 0 again, and these faults are armed (those of other ranks are ignored)."""
        self._code = (OPERATIONS.index(operation) + 1) << 1
        self._armed = [injection for injection in injections if injection.rank == self._rank]
        self.count = 0
        self._word.value = 0

    def call(self, run: Callable[[], None]) -> None:
        """Runs one operation."""
        if self._armed or self.spans is not None:
            self._call_observed(run)
            return
        word = (self.count << 16) | self._code
        self._word.value = word | 1
        run()
        self._word.value = word
        self.count += 1

    def wait(self) -> None:
        """Waits for what calls have started and left to a device: inside the last of them, as others see it."""
        if self.pending is None:
            return
        word = self._word.value
        self._word.value = word | 1
        self.pending()
        self._word.value = word

    def _call_observed(self, run: Callable[[], None]) -> None:
        hits = [injection for injection in self._armed if injection.hits(self.count)]
        delay = sum(injection.delay_s for injection in hits)
        if delay > 0.0:
            time.sleep(delay)
        begin = now_ns()
        word = (self.count << 16) | self._code
        self._word.value = word | 1
        for injection in hits:
            if injection.kind == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if injection.kind == "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
        run()
        if self.pending is not None:
            self.pending()
        self._word.value = word
        self.count += 1
        if self.spans is not None:
            self.spans += [begin, now_ns()]
        for injection in hits:
            if injection.kind == "wrong":
                self.corrupt(injection.element)

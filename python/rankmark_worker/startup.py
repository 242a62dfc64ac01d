"""The stages of start-up on one rank: joining, the first call, a later one, one more process group.

Mirrors `collective::startup`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.distributed as dist

from .collective import Collective
from .group import PATIENCE, TorchGroup, first_line, freed, waits
from .rank import Failure, Prepared, WrongReport

# The call of a case that names none.
OP, BYTES = "all_reduce", 64 << 10


def prepare(values: dict[str, Any], rank: int, group: TorchGroup) -> Prepared:
    """Allocates, and opens what must be open before. Collective."""
    call = {"op": OP, "bytes": BYTES, "dtype": "f32", "reduce": "sum", "seed": values.get("seed", 1)}
    call.update({name: values[name] for name in ("op", "bytes") if values.get(name) is not None})
    calls = Calls(call, rank, group)
    stage, cold = values["stage"], values["start"] == "cold"
    if stage == "join":
        return Joined(calls) if cold else Again(calls)
    if stage == "communicator":
        return Split(calls, int(values.get("communicators", 0)), cold)
    if stage == "first_call" and cold:
        return ColdCall(calls)
    return WarmCall(calls, stage == "first_call")


class Calls:
    """Makes the call of a case on any group of all ranks."""

    def __init__(self, values: dict[str, Any], rank: int, group: TorchGroup) -> None:
        self.values, self.rank, self.group = values, rank, group

    def on(self, within: Any = None) -> Collective:
        """The call on this group; None: on that of the world. It is filled, and was not made yet."""
        try:
            call = Collective(self.values, self.rank, self.group.size, self.group.place, within)
        except (RuntimeError, MemoryError) as error:
            raise Failure(first_line(error), "allocate" in str(error)) from None
        call.refill()
        return call

    def open(self) -> Any:
        """One more group of all ranks. Collective."""
        try:
            return dist.new_group(timeout=PATIENCE)
        except (RuntimeError, ValueError) as error:
            raise Failure(f"new_group: {first_line(error)}") from None

    def close(self, within: Any) -> None:
        """Closes such a group. Collective: what a rank has not read yet would be discarded."""
        self.group.barrier()
        try:
            dist.destroy_process_group(within)
        except (RuntimeError, ValueError) as error:
            raise Failure(f"destroy_process_group: {first_line(error)}") from None

    def prove(self, within: Any = None) -> WrongReport:
        """Makes the call from fresh inputs, and compares. Collective."""
        call = self.on(within)
        call.run()
        self.wait()
        return call.check(1)

    def wait(self) -> None:
        """Until calls are complete."""
        waits(self.group.place)()


class Stage:
    """What all stages have in common."""

    max_calls = 1
    messages = 1
    steps = True
    checks = 1
    past_ns: int | None = None
    flops = 0.0
    traffic_bytes = 0
    path = ""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        place = calls.group.place
        self.waits: Callable[[], None] | None = waits(place) if place.type == "cuda" else None
        self.freed: Callable[[], None] | None = freed(place)

    def run(self) -> None:
        """Nothing, where the stage is over."""

    def refill(self) -> None:
        """Nothing."""

    def check(self, calls: int) -> WrongReport:
        """Shows that ranks can communicate."""
        raise NotImplementedError

    def corrupt(self, element: int) -> None:
        """No element, where there is no call."""

    def details(self) -> dict[str, Any]:
        """Nothing beside times."""
        return {}


class Joined(Stage):
    """The joining of this rank's process, which is over."""

    checks = 0
    path = "init_process_group"

    def __init__(self, calls: Calls) -> None:
        super().__init__(calls)
        joining = calls.group.joining
        self.past_ns = joining.waited_ns + joining.opened_ns

    def check(self, calls: int) -> WrongReport:
        return self.calls.prove() if calls else WrongReport()

    def details(self) -> dict[str, Any]:
        return {"opened_ns": self.calls.group.joining.opened_ns}


class Again(Stage):
    """Joining again, between ranks that can communicate already."""

    path = "init_process_group again"

    def __init__(self, calls: Calls) -> None:
        super().__init__(calls)
        give_back, self.freed = self.freed, lambda: self._end(give_back)

    def run(self) -> None:
        self.calls.group.rejoin()

    def refill(self) -> None:
        """What was joined is left."""
        if dist.is_initialized():
            self.calls.group.leave()

    def check(self, calls: int) -> WrongReport:
        return self.calls.prove() if calls else WrongReport()

    def _end(self, give_back: Callable[[], None] | None) -> None:
        """The next case of these ranks needs a group."""
        if not dist.is_initialized():
            self.calls.group.rejoin()
        if give_back is not None:
            give_back()


class Split(Stage):
    """One more group of all ranks."""

    path = "new_group"

    def __init__(self, calls: Calls, others: int, cold: bool) -> None:
        super().__init__(calls)
        # No check from fresh inputs comes before the first one of the processes.
        self.checks = 0 if cold else 1
        self.made: Any = None
        self.others = [calls.open() for _ in range(others)]
        give_back, self.freed = self.freed, lambda: self._end(give_back)

    def run(self) -> None:
        self.made = self.calls.open()

    def refill(self) -> None:
        """The last one is closed."""
        if self.made is not None:
            made, self.made = self.made, None
            self.calls.close(made)

    def check(self, calls: int) -> WrongReport:
        return self.calls.prove(self.made) if calls else WrongReport()

    def _end(self, give_back: Callable[[], None] | None) -> None:
        self.refill()
        for other in self.others:
            self.calls.close(other)
        self.others = []
        if give_back is not None:
            give_back()


class ColdCall(Stage):
    """The first call of its kind in fresh processes: on the group of all ranks."""

    # No check from fresh inputs comes before the call that is timed: it would be the first.
    checks = 0

    def __init__(self, calls: Calls) -> None:
        super().__init__(calls)
        self.call = calls.on()
        self.path = self.call.path

    def run(self) -> None:
        self.call.run()

    def refill(self) -> None:
        self.call.refill()

    def check(self, calls: int) -> WrongReport:
        return self.call.check(calls)

    def corrupt(self, element: int) -> None:
        self.call.corrupt(element)


class WarmCall(Stage):
    """A call on a group that was opened for it, or on one that has made such calls."""

    def __init__(self, calls: Calls, first: bool) -> None:
        super().__init__(calls)
        self.first = first
        self.within = calls.open()
        self.call = calls.on(self.within)
        self.path = self.call.path
        if not first:
            self.call.run()
            calls.wait()
        give_back, self.freed = self.freed, lambda: self._end(give_back)

    def run(self) -> None:
        self.call.run()

    def refill(self) -> None:
        """Fresh inputs; for a first call, on a new group."""
        if not self.first:
            self.call.refill()
            return
        self.calls.close(self.within)
        self.within = self.calls.open()
        self.call = self.calls.on(self.within)

    def check(self, calls: int) -> WrongReport:
        return self.call.check(calls)

    def corrupt(self, element: int) -> None:
        self.call.corrupt(element)

    def _end(self, give_back: Callable[[], None] | None) -> None:
        self.calls.close(self.within)
        if give_back is not None:
            give_back()

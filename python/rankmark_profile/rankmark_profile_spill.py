"""What survives a rank that is killed: the time of each step, and where it went, written when the step ends.

Writes:
    spill-<R>.jsonl    JSON lines. The first says who the rank is, and which steps were to be traced. Each other line
                       is a step: [number, its end in ns since 1970, ns, 1 if it was traced, phases]. A phase is
                       [letter, ns from the step's beginning, ns]: i input, f the outermost call of a module outside of
                       a backward pass, b backward, o optimizer, w waiting in a call of torch.distributed.

A line is one write into a file that the kernel keeps, so it is there after SIGKILL. With its phases it takes
about 20 us.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
import torch.utils.data.dataloader

if TYPE_CHECKING:
    from rankmark_profile_agent import Agent

# A long training does not fill the disk.
MOST_STEPS = 10_000
# Of one step: with many micro-batches, the last ones are left out.
MOST_PHASES = 64


class Descheduled:
    """How long the thread that makes this object waits for a processor although it could run."""

    def __init__(self) -> None:
        self.file: int | None = None
        with contextlib.suppress(OSError):
            self.file = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)

    def seconds(self) -> float | None:
        """So far; None where the kernel does not count it."""
        if self.file is None:
            return None
        try:
            return int(os.pread(self.file, 96, 0).split()[1]) / 1e9
        except (OSError, ValueError, IndexError):
            return None


class Spill:
    """The file of one rank. An error ends it, and never the job."""

    def __init__(self) -> None:
        self.file: int | None = None
        self.path = ""
        self.head = 0
        self.steps = 0
        # Of the step that runs: its thread, phases that have ended, and those that have not.
        self.thread: int | None = None
        self.begun_ns = 0
        self.phases: list[list[Any]] = []
        self.inside: dict[str, int] = {}

    def open(self, path: str, head: Mapping[str, Any], is_only: bool) -> bool:
        """Begins the file. False where it has to be the only one, and another process has one."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | (os.O_EXCL if is_only else os.O_TRUNC)
        try:
            self.file = os.open(path, flags, 0o644)
        except FileExistsError:
            return False
        except OSError:
            return True
        line = json.dumps(head).encode() + b"\n"
        self.path, self.head = path, len(line)
        self.write(line)
        return True

    def write(self, line: bytes) -> None:
        if self.file is not None:
            try:
                os.write(self.file, line)
            except OSError:
                # The disk is full, or the folder is gone.
                self.close()

    def close(self) -> None:
        file, self.file = self.file, None
        if file is not None:
            with contextlib.suppress(OSError):
                os.close(file)

    def rename(self, path: str) -> None:
        """The rank has another number than it had."""
        if self.file is not None and path != self.path:
            with contextlib.suppress(OSError):
                os.replace(self.path, path)
                self.path = path

    def restart(self) -> None:
        """Steps end somewhere else than was thought: what is written of them does not count."""
        self.steps = 0
        if self.file is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self.file, self.head)

    # Steps and their phases.

    def begin_step(self) -> None:
        self.thread = threading.get_ident()
        self.phases = []
        self.begun_ns = time.monotonic_ns()

    def end_step(self, number: int, at_ns: int, is_traced: bool) -> None:
        if self.file is None or self.steps >= MOST_STEPS:
            return
        self.steps += 1
        # What still runs, such as an optimizer with a closure, ends here.
        running = [[letter, begun - self.begun_ns, at_ns - begun] for letter, begun in self.inside.items()]
        phases = [phase for phase in self.phases + running if phase[1] >= 0 and phase[2] >= 0]
        now_ns = time.time_ns() - (time.monotonic_ns() - at_ns)
        line = [number, now_ns, at_ns - self.begun_ns, int(is_traced), phases]
        self.write(json.dumps(line, separators=(",", ":")).encode() + b"\n")

    @contextlib.contextmanager
    def phase(self, letter: str) -> Iterator[None]:
        """Times what runs in it, but for other threads, and inside of its own kind."""
        if self.thread is None or threading.get_ident() != self.thread or letter in self.inside:
            yield
            return
        begun_ns = self.inside[letter] = time.monotonic_ns()
        try:
            yield
        finally:
            self.inside.pop(letter, None)
            self.add_phase(letter, begun_ns)

    def add_phase(self, letter: str, begun_ns: int) -> None:
        if begun_ns >= self.begun_ns and len(self.phases) < MOST_PHASES:
            self.phases.append([letter, begun_ns - self.begun_ns, time.monotonic_ns() - begun_ns])


def watch_phases(agent: Agent) -> None:
    """Tells the spill of an agent its phases."""
    for owner, method, letter in [
        (torch.utils.data.dataloader._BaseDataLoaderIter, "__next__", "i"),
        (getattr(torch.distributed, "Work", None), "wait", "w"),
    ]:
        inside(agent, owner, method, letter)


def watch_forward(agent: Agent) -> None:
    """Marks the outermost call of a module. Wrappers such as DistributedDataParallel mark themselves in a trace; models
    that none wraps, such as stages of a pipeline, do not."""
    module = torch.nn.Module
    original = module.__call__
    is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)
    spill, is_inside = agent.spill, agent.spill.inside

    @functools.wraps(original)
    def watched_by_rankmark(self: Any, *args: Any, **kwargs: Any) -> Any:
        # What torch.compile traces must not hold this. Modules in modules are many, and leave by the second test.
        if is_compiling() or "f" in is_inside or threading.get_ident() != spill.thread or agent.backwards:
            return original(self, *args, **kwargs)
        agent.has_pass = True
        with spill.phase("f"), agent.mark("rankmark forward"):
            return original(self, *args, **kwargs)

    with contextlib.suppress(TypeError, AttributeError):
        module.__call__ = watched_by_rankmark


def inside(agent: Agent, owner: Any, method: str, letter: str) -> None:
    original = getattr(owner, method, None)
    if original is None:
        return
    is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)
    spill = agent.spill

    @functools.wraps(original)
    def watched_by_rankmark(*args: Any, **kwargs: Any) -> Any:
        # What torch.compile traces must not hold this.
        if is_compiling() or spill.thread is None:
            return original(*args, **kwargs)
        with spill.phase(letter):
            return original(*args, **kwargs)

    # A class that cannot be changed has no such phase.
    with contextlib.suppress(TypeError, AttributeError):
        setattr(owner, method, watched_by_rankmark)

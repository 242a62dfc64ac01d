"""Traces a window of training steps in one rank of a job that `rankmark profile` starts.

sitecustomize.py loads this module once torch is imported. It never changes what the job computes, and its failures end
in a file instead of in the job.

A step ends when `step()` of the first optimizer returns. Where the script calls `torch.profiler.profile.step()`, the
step ends there. Step 0 has no start, so it is not measured. While the script's own profiler runs, this agent starts
none.

Reads:
    RANKMARK_PROFILE_DIR           the folder for results
    RANKMARK_PROFILE_STEPS         "first:last", the steps to trace, last not included; 10:20 unless given
    RANKMARK_PROFILE_SECONDS       a number, in place of steps: trace this long, from step 5 on
    RANKMARK_PROFILE_HANG_SECONDS  a number: write a hang file after this long without a step; 0 or absent: never
    RANK, WORLD_SIZE               used until torch.distributed is initialized
Writes, each file whole or not at all:
    trace-rank<R>.json.gz          the PyTorch profiler's trace, or a copy of the script's own first export
    flight-rank<R>.pickle          the Flight Recorder at the end of the window
    steps-<R>.json                 step times in seconds and notes: at the end of the window, 20 steps later, at exit
    hang-rank<R>.json              the Flight Recorder and the Python stack of a rank that ended no step for long
    hang-flight-rank<R>.pickle     the Flight Recorder at that time, with the stack of each collective
    error-<pid>.txt                tracebacks of this agent's own failures

Fields of the JSON files that do not explain themselves:
    step_found_by                  "optimizer", "profiler" (the script's own), or null where no step was found
    trace                          "agent", "script" (a copy), "nsys", or null where there is none
    traced_step_s                  the steps of the trace in order, from first_traced_step on
    traced_descheduled_s           how long the thread of each traced step waited for a processor although it could run;
                                   null where the kernel does not count it
    untraced_step_s                the others, without step 0 and without the first one after the window: in it, other
                                   ranks may still write their traces. At most 10,000 steps are kept.
    step_ended_after_s             the rank was slow and went on; null where it ended no further step
    process_ended                  "normal" or "exception", where no further step ended; null where it was killed
    stack                          frames of the thread that trains, innermost first
A window of seconds may hold one step more in one rank than in another.
"""

from __future__ import annotations

import atexit
import contextlib
import gzip
import json
import os
import shutil
import signal
import socket
import statistics
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.profiler
from rankmark_profile_torch import flight_json, flight_pickle, group_timeout_s, install, is_profiling, report, stack

DEFAULT_STEPS = "10:20"
# In a window of seconds, the steps before it.
WARM_UP_STEPS = 5
# Untraced steps after the window, until the file of steps is written again.
STEPS_AFTER = 20
# A long training does not fill the memory.
MOST_STEPS = 10_000
# A hang is longer than this many median steps: slow steps are not hangs.
HANG_STEPS = 10
# The share of the process group's timeout after which a hang is written down. Later the collective counts as completed.
TIMEOUT_SHARE = 0.8


def window_of(text: str) -> tuple[int, int]:
    """The first step to trace, and the one after the last."""
    first, _, last = text.partition(":")
    try:
        window = int(first), int(last)
    except ValueError:
        window = -1, -1
    if not 0 <= window[0] < window[1]:
        raise ValueError(f"RANKMARK_PROFILE_STEPS is {text!r}: valid values: first:last, such as {DEFAULT_STEPS}")
    return window


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


class Agent:
    """The steps, the profiler and the files of this rank."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.folder = environment["RANKMARK_PROFILE_DIR"]
        seconds = environment.get("RANKMARK_PROFILE_SECONDS")
        steps = environment.get("RANKMARK_PROFILE_STEPS")
        self.seconds = float(seconds) if seconds and not steps else None
        self.first, self.last = window_of(steps or DEFAULT_STEPS)
        if self.seconds is not None:
            self.first = WARM_UP_STEPS
        self.hang_s = float(environment.get("RANKMARK_PROFILE_HANG_SECONDS") or 0)
        self.rank = int(environment.get("RANK") or 0)
        self.world = int(environment.get("WORLD_SIZE") or 1)
        self.backend: str | None = None
        # A forked process has this object too, and must leave the files alone.
        self.pid = os.getpid()
        self.thread = threading.main_thread().ident
        self.notes: list[str] = []
        self.is_broken = False

        self.found_by: str | None = None
        self.optimizer: weakref.ref[Any] | None = None
        self.ended = 0
        self.last_ns: int | None = None
        self.untraced_s: list[float] = []
        self.traced_s: list[float] = []
        self.descheduled: Descheduled | None = None
        self.descheduled_s: list[float | None] = []
        self.last_descheduled_s: float | None = None
        self.recent_s: list[float] = []

        # before, open, after: of the window.
        self.state = "before"
        self.opened_step = 0
        self.opened_ns = 0
        self.has_waited = False
        self.after_window = 0
        self.profiler: Any = None
        self.span: Any = None
        self.trace: str | None = None
        self.is_busy = False
        self.is_ours = False
        self.is_theirs_running = False

        self.exits = threading.Event()
        self.hang_limit_s = self.hang_s
        self.hang: dict[str, Any] | None = None

    # Steps.

    def optimizer_stepped(self, optimizer: Any) -> None:
        """Ends a step if this is the first optimizer; if that one is gone, this one takes its place."""
        if self.found_by == "profiler":
            return
        if self.optimizer is None or self.optimizer() is None:
            self.optimizer = weakref.ref(optimizer)
        if self.optimizer() is optimizer:
            self.step_ended(time.monotonic_ns(), "optimizer")

    def step_ended(self, at_ns: int, found_by: str) -> None:
        if self.is_broken or os.getpid() != self.pid:
            return
        if self.last_ns is None:
            self.begin(found_by)
        elif threading.get_ident() != self.thread:
            return
        else:
            self.add((at_ns - self.last_ns) / 1e9)
        self.ended += 1
        self.is_busy = True
        try:
            self.move()
        finally:
            self.is_busy = False
            # Work of this agent is in no step.
            if self.state == "open" and self.descheduled is not None:
                self.last_descheduled_s = self.descheduled.seconds()
            self.last_ns = time.monotonic_ns()

    def begin(self, found_by: str) -> None:
        """The first step has ended."""
        self.found_by = found_by
        self.thread = threading.get_ident()
        self.descheduled = Descheduled()
        self.look_at_group()
        timeout_s = group_timeout_s()
        if timeout_s is not None:
            self.hang_limit_s = min(self.hang_s, TIMEOUT_SHARE * timeout_s)
        if self.hang_s > 0 and not any(thread.name == "rankmark-hang" for thread in threading.enumerate()):
            threading.Thread(target=self.watch, name="rankmark-hang", daemon=True).start()

    def add(self, duration_s: float) -> None:
        """Files the time of a step."""
        self.recent_s.append(duration_s)
        if len(self.recent_s) > 200:
            self.recent_s = self.recent_s[-100:]
        if self.hang is not None and self.hang["step_ended_after_s"] is None:
            self.hang["step_ended_after_s"] = duration_s
        is_traced = self.state == "open" or (self.is_theirs_running and is_profiling())
        if self.has_waited:
            # Other ranks may still have been writing their traces during this step.
            self.has_waited = False
        elif len(self.untraced_s) + len(self.traced_s) < MOST_STEPS:
            (self.traced_s if is_traced else self.untraced_s).append(duration_s)
            if is_traced:
                self.descheduled_s.append(self.waited_for_processor())

    def waited_for_processor(self) -> float | None:
        """In the step that has just ended."""
        now_s = None if self.descheduled is None else self.descheduled.seconds()
        last_s = self.last_descheduled_s
        return None if now_s is None or last_s is None else now_s - last_s

    def move(self) -> None:
        """Opens or closes the window between two steps."""
        if self.state == "open":
            self.end_span()
            if self.is_over():
                self.close()
            else:
                self.begin_span()
        elif self.state == "before":
            if self.ended >= max(self.first, 1) and self.can_open():
                self.open()
        else:
            self.after_window += 1
            if self.after_window == STEPS_AFTER:
                self.write_steps()

    def can_open(self) -> bool:
        return not self.is_theirs_running and self.found_by == "optimizer"

    def is_over(self) -> bool:
        if self.seconds is not None:
            return time.monotonic_ns() - self.opened_ns >= self.seconds * 1e9
        return self.ended - self.opened_step >= self.last - max(self.first, 1)

    # The window.

    @contextlib.contextmanager
    def ours(self) -> Iterator[None]:
        """In it, calls of profilers are those of this agent."""
        self.is_ours = True
        try:
            yield
        finally:
            self.is_ours = False

    def open(self) -> None:
        activities = [torch.profiler.ProfilerActivity.CPU]
        # A job that has not used the GPU so far must not begin to because of us.
        if torch.cuda.is_initialized():
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        with self.ours(), warnings.catch_warnings():
            # What it says of several cycles; this is one.
            warnings.filterwarnings("ignore", message=".*clears events at the end of each cycle")
            # Shapes give the sizes of gloo's collectives.
            self.profiler = torch.profiler.profile(activities=activities, record_shapes=True)
            self.profiler.start()
        self.state = "open"
        self.opened_step = self.ended
        self.opened_ns = time.monotonic_ns()
        self.begin_span()

    def begin_span(self) -> None:
        self.span = torch.profiler.record_function(f"ProfilerStep#{self.ended}")
        self.span.__enter__()

    def end_span(self) -> None:
        span, self.span = self.span, None
        if span is not None:
            span.__exit__(None, None, None)

    def close(self, unfinished: bool = False) -> None:
        """Stops the profiler and writes what it has. The last span is no step if it is unfinished."""
        self.end_span()
        profiler, self.profiler, self.state = self.profiler, None, "after"
        self.look_at_group()
        plain = self.path(f"trace-rank{self.rank}.json")
        with self.ours():
            profiler.stop()
            profiler.export_chrome_trace(plain)
        rename = (f'"ProfilerStep#{self.ended}"'.encode(), b'"unfinished step"') if unfinished else None
        self.pack(plain, rename)
        os.remove(plain)
        self.trace = "agent"
        self.has_waited = True
        self.write_flight(f"flight-rank{self.rank}.pickle")
        self.write_steps()

    def pack(self, source: str, rename: tuple[bytes, bytes] | None = None) -> None:
        """Writes the compressed trace from a plain or a compressed one."""
        name = f"trace-rank{self.rank}.json.gz"
        target = self.path(name)
        with open(source, "rb") as file:
            opened = gzip.open if file.read(2) == b"\x1f\x8b" else open
        # Level 1: the job waits.
        with opened(source, "rb") as plain, gzip.open(target, "wb", compresslevel=1) as packed:
            if rename is None:
                shutil.copyfileobj(plain, packed, 1 << 20)
            else:
                packed.writelines(line.replace(*rename) for line in plain)
        os.replace(target, os.path.join(self.folder, name))

    # The script's own profiler.

    def they_prepare(self) -> None:
        """The script starts its profiler. There can be one only, and it goes first."""
        if self.state == "open":
            self.notes.append("the window ended early: the script started its own profiler")
            self.close(unfinished=True)
        self.is_theirs_running = True

    def they_stopped(self, *_: Any) -> None:
        self.is_theirs_running = False

    def they_step(self) -> None:
        """Ends a step where the script tells its own profiler."""
        if self.state != "before":
            return
        if self.found_by == "optimizer":
            # It was called first. Steps end in one place only.
            self.ended, self.last_ns = 0, None
            self.untraced_s.clear()
            self.recent_s.clear()
        self.step_ended(time.monotonic_ns(), "profiler")

    def they_stepped(self, *_: Any) -> None:
        """Their profiler may have written a trace, which is in no step."""
        if self.found_by == "profiler":
            self.last_ns = time.monotonic_ns()

    def they_exported(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Keeps a copy of the first trace that the script writes, unless there is one of ours."""
        if self.trace is not None or self.state == "open":
            return
        self.look_at_group()
        self.pack(str(args[0] if args else kwargs["path"]))
        self.trace = "script"
        self.write_flight(f"flight-rank{self.rank}.pickle")
        self.write_steps()

    # Files.

    def look_at_group(self) -> None:
        """Who this rank is, while the group is there to ask."""
        dist = torch.distributed
        if dist.is_available() and dist.is_initialized():
            self.rank, self.world, self.backend = dist.get_rank(), dist.get_world_size(), str(dist.get_backend())

    def path(self, name: str) -> str:
        """A temporary name beside the one that readers look for."""
        return os.path.join(self.folder, f".{self.pid}-{name}")

    def write(self, name: str, content: bytes, is_last_resort: bool = False) -> None:
        """Writes a file whole. The last resort leaves a file of that name as it is."""
        temporary, path = self.path(name), os.path.join(self.folder, name)
        with open(temporary, "wb") as file:
            file.write(content)
        if is_last_resort and os.path.exists(path):
            os.remove(temporary)
        else:
            os.replace(temporary, path)

    def write_json(self, name: str, content: Mapping[str, Any], is_last_resort: bool = False) -> None:
        self.write(name, json.dumps(content).encode(), is_last_resort)

    def identity(self) -> dict[str, Any]:
        place = {"rank": self.rank, "world": self.world, "host": socket.gethostname(), "pid": self.pid}
        return {**place, "backend": self.backend}

    def write_steps(self, is_last_resort: bool = False) -> None:
        content = {
            **self.identity(),
            "torch": str(torch.__version__),
            "step_found_by": self.found_by,
            "steps_ended": self.ended,
            "first_traced_step": None if self.trace in (None, "script") else self.opened_step,
            "untraced_step_s": self.untraced_s,
            "traced_step_s": self.traced_s,
            "traced_descheduled_s": None if None in self.descheduled_s else self.descheduled_s,
            "trace": self.trace,
            "notes": self.notes,
        }
        self.write_json(f"steps-{self.rank}.json", content, is_last_resort)

    def write_flight(self, name: str) -> None:
        dump = flight_pickle(self.backend)
        if dump:
            self.write(name, dump)

    # Hangs.

    def watch(self) -> None:
        """A daemon thread: the rank may stay in a collective that releases the interpreter's lock."""
        while not self.exits.wait(max(0.05, min(0.5, self.hang_limit_s / 20))):
            try:
                self.look()
            except Exception:
                report(self.folder)
                return

    def look(self) -> None:
        last_ns, recent_s = self.last_ns, self.recent_s[-100:]
        if self.is_broken or self.is_busy or last_ns is None or len(recent_s) < 3:
            return
        if self.hang is not None and self.hang["step_ended_after_s"] is not None:
            # It was slow, and no hang.
            self.write_json(f"hang-rank{self.rank}.json", self.hang)
            self.hang = None
        waited_s, median_s = (time.monotonic_ns() - last_ns) / 1e9, statistics.median(recent_s)
        if self.hang is None and waited_s > self.hang_limit_s and waited_s > HANG_STEPS * median_s:
            self.hang = self.describe_hang(waited_s, median_s)
            if self.last_ns != last_ns:
                # The step ended while its recorder was read.
                self.hang = None
                return
            self.write_json(f"hang-rank{self.rank}.json", self.hang)
            self.write_flight(f"hang-flight-rank{self.rank}.pickle")

    def describe_hang(self, waited_s: float, median_s: float) -> dict[str, Any]:
        return {
            **self.identity(),
            "time_unix_ns": time.time_ns(),
            "since_last_step_s": waited_s,
            "median_step_s": median_s,
            "steps_ended": self.ended,
            "stack": stack(sys._current_frames().get(self.thread or 0)),
            "flight_recorder": flight_json(self.backend),
            "step_ended_after_s": None,
            "process_ended": None,
        }

    # The end.

    def give_up(self) -> None:
        """Leaves the job alone after a failure."""
        self.is_broken = True
        self.notes.append(f"the agent failed: see error-{self.pid}.txt")
        profiler, self.profiler, self.state = self.profiler, None, "after"
        if profiler is not None:
            with contextlib.suppress(Exception), self.ours():
                self.end_span()
                profiler.stop()

    def finish(self) -> None:
        """Runs at exit, also after an exception."""
        self.exits.set()
        if os.getpid() != self.pid:
            return
        has_failed = getattr(sys, "last_type", None) is not None
        if self.state == "open":
            self.notes.append("the job ended before the window did")
            if has_failed and torch.cuda.is_initialized():
                # Stopping waits for the GPU, which may be in a collective that never ends.
                self.notes.append("no trace: the script failed while the GPU was traced")
            else:
                self.close(unfinished=True)
        elif self.state == "before":
            self.notes.append(self.why_no_window())
        if self.hang is not None:
            if self.hang["step_ended_after_s"] is None:
                self.hang["process_ended"] = "exception" if has_failed else "normal"
            self.write_json(f"hang-rank{self.rank}.json", self.hang)
        is_launcher = "torch.distributed.run" in sys.modules and self.found_by is None
        if not is_launcher:
            # A helper of a rank, such as a compiler's worker, has the rank's environment and ends no step.
            self.write_steps(is_last_resort=self.found_by is None and self.trace is None)

    def why_no_window(self) -> str:
        if self.trace is not None:
            return "the trace is a copy of the one that the script's own profiler wrote"
        if self.is_theirs_running or self.found_by == "profiler":
            return "no trace: the script's own profiler was used, and it exported none"
        if self.found_by is None:
            return "no trace: no step was found, because no torch.optim.Optimizer.step() was called"
        return f"no trace: the job ended after {self.ended} steps, and the window begins at step {max(self.first, 1)}"


def start(agent: Agent | None = None) -> None:
    """Installs the agent in this process: this module's own unless another one is given."""
    agent = agent or Agent(os.environ)

    def finish() -> None:
        try:
            agent.finish()
        except Exception:
            report(agent.folder)

    def terminated(number: int, _: object) -> None:
        # A signal may come while the agent itself writes. Then there is nothing more to keep.
        if not agent.is_busy:
            agent.notes.append("the process was asked to end")
            finish()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    atexit.register(finish)
    # By default SIGTERM ends a process without its exit functions. A handler of the script's own stays.
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, terminated)
    install(agent)

"""Traces a window of training steps in one rank of a job that `rankmark profile` starts.

sitecustomize.py loads this module once torch is imported. It never changes what the job computes, and its failures end
in a file instead of in the job.

A step ends when `step()` of the first optimizer returns, or, if that runs in hooks of the backward pass, when the pass
returns: PyTorch's profiler must not start or stop while the autograd engine runs. Calls for further groups of
parameters, as DeepSpeed makes them, end no step. Where the script calls
`torch.profiler.profile.step()`, the step ends there. A script that makes no optimizer of torch.optim ends a step with
each backward pass. Step 0 has no start, so it is not measured. While the script's own profiler runs, this agent starts
none.

Reads:
    RANKMARK_PROFILE_DIR           the folder for results
    RANKMARK_PROFILE_STEPS         "first:last", the steps to trace, last not included; 10:20 unless given.
                                   "first:last:seconds": for at least so long, and at most four times as many steps
    RANKMARK_PROFILE_SECONDS       a number, in place of steps: trace this long, from step 5 on
    RANKMARK_PROFILE_HANG_SECONDS  a number: write a hang file after this long without a step; 0 or absent: never
    RANK, WORLD_SIZE               used until torch.distributed is initialized. Without them, one process of the job is
                                   rank 0: the first that ends a step.
Writes, each file whole or not at all:
    trace-rank<R>.json.gz          the PyTorch profiler's trace, or a copy of the script's own first export
    flight-rank<R>.pickle          the Flight Recorder at the end of the window
    again-<R>.json                 the same of a rank that torchrun started again, until it ends its first step
    steps-<R>.json                 step times in seconds and notes: at the end of the window, 20 steps later, at exit
    spill-<R>.jsonl                each step, when it ends: see rankmark_profile_spill.py
    hang-rank<R>.json              the Flight Recorder and the Python stack of a rank that ended no step for long
    hang-flight-rank<R>.pickle     the Flight Recorder at that time, with the stack of each collective
    error-<pid>.txt                tracebacks of this agent's own failures

Fields of the JSON files that do not explain themselves:
    step_found_by                  "optimizer", "profiler" (the script's own), "backward", "gradient" (a call of
                                   torch.autograd.grad), or null where no step was found
    ended                          how the process ended: {"how": "exit" or "exception", ...}. A process that a signal
                                   ends, or that calls os._exit, leaves null, or no file.
    trace                          "agent", "script" (a copy), "nsys", or null where there is none
    traced_step_s                  the steps of the trace in order, from first_traced_step on
    traced_descheduled_s           how long the thread of each traced step waited for a processor although it could run;
                                   null where the kernel does not count it
    window_unix_s                  when the window began and ended, in seconds since 1970; null where there was none, or
                                   it is still open
    untraced_step_s                the others, without step 0 and without the first one after the window: in it, other
                                   ranks may still write their traces. At most 10,000 steps are kept.
    step_ended_after_s             the rank was slow and went on; null where it ended no further step
    process_ended                  "normal" or "exception", where no further step ended; null where it was killed
    stack                          frames of the thread that trains, innermost first
    transfer                       {"operation": "send" or "recv", "peer": rank} that this thread is in, or null
    restarts                       how often torchrun restarted the ranks before this attempt
A window of seconds may hold one step more in one rank than in another.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import multiprocessing
import multiprocessing.util
import os
import signal
import socket
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.profiler
from rankmark_profile_ends import end_of, uncaught
from rankmark_profile_hang import watch_hang
from rankmark_profile_spill import Descheduled, Spill
from rankmark_profile_torch import flight_pickle, in_autograd, install, is_profiling, pack, report, why_no_trace
from rankmark_profile_window import Window

# Untraced steps after the window, until the file of steps is written again.
STEPS_AFTER = 20
# A long training does not fill the memory.
MOST_STEPS = 10_000
# Where steps may end. A later one of these says it better, until the window begins.
FOUND_BY = ["gradient", "backward", "optimizer", "profiler"]

BY_PASSES = "each backward pass counts as a step, because no `step()` of an optimizer of torch.optim was seen"


class Agent:
    """The steps, the profiler and the files of this rank."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.folder = environment["RANKMARK_PROFILE_DIR"]
        self.window = Window(environment)
        self.restarts = int(environment.get("TORCHELASTIC_RESTART_COUNT") or 0)
        self.hang_s = float(environment.get("RANKMARK_PROFILE_HANG_SECONDS") or 0)
        self.is_rank = "RANK" in environment
        self.rank = int(environment.get("RANK") or 0)
        self.world = int(environment.get("WORLD_SIZE") or 1)
        self.backend: str | None = None
        # A forked process has this object too, and must leave the files alone.
        self.pid = os.getpid()
        self.thread = threading.main_thread().ident
        self.notes: list[str] = []
        self.is_broken = False

        self.found_by: str | None = None
        # A fork of the process that had this agent, and a second training of the command.
        self.is_adopted = self.is_other = False
        # Backward passes so far. Below zero they end no step: an optimizer was made, and its steps are awaited.
        self.passes = 0
        self.optimizer: weakref.ref[Any] | None = None
        # Whether a forward or backward pass began since the optimizer ended a step, and what it has updated since then:
        # the first parameter of each call.
        self.has_pass = False
        self.updated: set[int] = set()
        # Threads that are in a backward pass, and whether the optimizer stepped in one.
        self.backwards: list[int] = []
        self.has_stepped_inside = False
        self.ended = 0
        self.last_ns: int | None = None
        self.untraced_s: list[float] = []
        self.traced_s: list[float] = []
        self.descheduled: Descheduled | None = None
        self.descheduled_s: list[float | None] = []
        self.last_descheduled_s: float | None = None
        self.recent_s: list[float] = []
        self.spill = Spill()

        # before, open, after: of the window.
        self.state = "before"
        self.opened_step = 0
        self.opened_ns = 0
        self.window_unix_s: list[float] = []
        self.has_waited = False
        self.after_window = 0
        self.profiler: Any = None
        self.span: Any = None
        self.trace: str | None = None
        self.is_busy = False
        self.is_ours = False
        self.is_theirs_running = False
        # Whether the script calls its step().
        self.is_theirs_told = False
        # Whether it has kept the window from beginning.
        self.is_blocked = False
        # Whether the last step ended where the autograd engine ran, outside of any call that is watched.
        self.has_only_inside = False

        self.exits = threading.Event()
        self.hang_limit_s = self.hang_s
        # With the shortest timeout of a group: after so long, a collective counts as completed.
        self.hang_most_s = float("inf")
        self.hang: dict[str, Any] | None = None
        # The end of a step after which the rank was seen to move, and how long after it.
        self.moved = (0, 0.0)

        self.end: dict[str, Any] | None = None
        self.is_finishing = False

    # Steps.

    def optimizer_stepped(self, optimizer: Any) -> None:
        """Ends a step if this is the first optimizer; if that one is gone, this one takes its place."""
        if self.optimizer is None or self.optimizer() is None:
            self.optimizer = weakref.ref(optimizer)
        if self.optimizer() is not optimizer:
            return
        at_ns = time.monotonic_ns()
        if self.backwards:
            self.has_stepped_inside = True
        elif not self.is_next_group(optimizer):
            self.step_ended(at_ns, "optimizer")

    def is_next_group(self, optimizer: Any) -> bool:
        """Whether this call updates more parameters for a step that has ended already. DeepSpeed's ZeRO puts one group
        of parameters after the other into its optimizer, and calls `step()` for each. Other jobs end a step with each
        call: without a pass, such as one that a CUDA graph replays, they update the parameters of the call before."""
        first = next((id(one) for group in optimizer.param_groups for one in group["params"]), None)
        is_more = not self.has_pass and bool(self.updated) and first not in self.updated and first is not None
        if not is_more:
            self.updated.clear()
            self.has_pass = False
        if first is not None:
            self.updated.add(first)
        return is_more

    def backward_ended(self, found_by: str) -> None:
        """Ends a step whose optimizer ran in this pass, or of a script that updates its parameters by itself."""
        if self.backwards or in_autograd():
            # A pass inside of another one.
            return
        if self.has_stepped_inside:
            self.has_stepped_inside = False
            self.step_ended(time.monotonic_ns(), "optimizer")
        elif self.found_by != "optimizer":
            self.passes += 1
            if self.passes > 0:
                self.step_ended(time.monotonic_ns(), found_by)

    def step_ended(self, at_ns: int, found_by: str) -> None:
        if self.is_broken or self.is_finishing or os.getpid() != self.pid:
            return
        if self.found_by not in (None, found_by):
            # Steps end in one place only.
            if self.state != "before" or FOUND_BY.index(found_by) < FOUND_BY.index(str(self.found_by)):
                return
            self.ended, self.last_ns = 0, None
            self.untraced_s.clear()
            self.recent_s.clear()
            self.spill.restart()
            self.found_by = found_by
        elif self.last_ns is None:
            self.begin(found_by)
        elif threading.get_ident() != self.thread:
            return
        else:
            self.add(at_ns)
        if self.is_broken:
            return
        self.ended += 1
        self.is_busy = True
        try:
            # Where the engine runs, the profiler crashes the process if it starts or stops.
            self.has_only_inside = in_autograd()
            if not self.has_only_inside:
                self.move()
        finally:
            self.is_busy = False
            # Work of this agent is in no step.
            if self.state == "open" and self.descheduled is not None:
                self.last_descheduled_s = self.descheduled.seconds()
            self.spill.begin_step()
            self.last_ns = self.spill.begun_ns

    def begin(self, found_by: str) -> None:
        """The first step has ended."""
        self.found_by = found_by
        self.thread = threading.get_ident()
        self.descheduled = Descheduled()
        self.look_at_group()
        window = self.window
        steps = None if window.seconds is not None else [window.first, window.last]
        head = {**self.identity(), "window": steps, "window_s": window.seconds, "restarts": self.restarts}
        if not self.spill.open(os.path.join(self.folder, f"spill-{self.rank}.jsonl"), head, is_only=not self.is_rank):
            # Another process is rank 0, and this is another training of the same command.
            self.is_broken = self.is_other = True
            self.write(f"other-{self.pid}.json", b"{}")
            return
        if self.is_rank and self.trace is None:
            # A launcher may have started this rank before.
            earlier = ["trace-rank{}.json.gz", "flight-rank{}.pickle", "steps-{}.json", "again-{}.json"]
            for name in [*earlier, "hang-rank{}.json", "hang-flight-rank{}.pickle"]:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(os.path.join(self.folder, name.format(self.rank)))
        # Processes of multiprocessing run no functions of atexit.
        if multiprocessing.parent_process() is not None:
            multiprocessing.util.Finalize(self, finish, args=(self,), exitpriority=100)
        watch_hang(self)

    def add(self, at_ns: int) -> None:
        """Files the time of a step."""
        duration_s = (at_ns - (self.last_ns or at_ns)) / 1e9
        self.recent_s.append(duration_s)
        if len(self.recent_s) > 200:
            self.recent_s = self.recent_s[-100:]
        if self.hang is not None and self.hang["step_ended_after_s"] is None:
            self.hang["step_ended_after_s"] = duration_s
        is_traced = self.state == "open" or (self.is_theirs_running and is_profiling())
        self.spill.end_step(self.ended, at_ns, is_traced)
        if self.has_waited:
            # Other ranks may still have been writing their traces during this step.
            self.has_waited = False
        elif len(self.untraced_s) + len(self.traced_s) < MOST_STEPS:
            (self.traced_s if is_traced else self.untraced_s).append(duration_s)
            if is_traced:
                self.descheduled_s.append(self.waited_for_processor(duration_s))

    def waited_for_processor(self, step_s: float) -> float | None:
        """In the step that has just ended. It is read a moment after the step, so a wait in between does not count."""
        now_s = None if self.descheduled is None else self.descheduled.seconds()
        last_s = self.last_descheduled_s
        return None if now_s is None or last_s is None else min(now_s - last_s, step_s)

    def move(self) -> None:
        """Opens or closes the window between two steps."""
        if self.state == "open":
            self.end_span()
            if self.is_over():
                self.close()
            else:
                self.begin_span()
        elif self.state == "before":
            is_due = self.ended >= self.window.first
            if is_due and self.can_open():
                self.open()
            self.is_blocked = is_due and self.state == "before"
        else:
            self.after_window += 1
            if self.after_window == STEPS_AFTER:
                self.write_steps()

    def can_open(self) -> bool:
        return not self.is_theirs_running and self.found_by != "profiler"

    def is_over(self) -> bool:
        return self.window.is_over(self.ended - self.opened_step, (time.monotonic_ns() - self.opened_ns) / 1e9)

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
        if self.found_by in ("backward", "gradient"):
            self.notes.append(BY_PASSES)
        self.opened_step = self.ended
        self.opened_ns = time.monotonic_ns()
        self.window_unix_s = [time.time()]
        self.begin_span()

    def begin_span(self) -> None:
        self.span = torch.profiler.record_function(f"ProfilerStep#{self.ended}")
        self.span.__enter__()

    def mark(self, name: str) -> contextlib.AbstractContextManager[Any]:
        """A stretch of this name in the trace, while there is one."""
        return torch.profiler.record_function(name) if self.state == "open" else contextlib.nullcontext()

    def end_span(self) -> None:
        span, self.span = self.span, None
        if span is not None:
            span.__exit__(None, None, None)

    def close(self, unfinished: bool = False) -> None:
        """Stops the profiler and writes what it has. The last span is not a step if it is unfinished."""
        self.end_span()
        self.window_unix_s = [*self.window_unix_s[:1], time.time()]
        profiler, self.profiler, self.state = self.profiler, None, "after"
        self.look_at_group()
        plain, packed = self.path(f"trace-rank{self.rank}.json"), f"trace-rank{self.rank}.json.gz"
        rename = (f'"ProfilerStep#{self.ended}"'.encode(), b'"unfinished step"') if unfinished else None
        try:
            with self.ours():
                profiler.stop()
                profiler.export_chrome_trace(plain)
            pack(plain, (self.path(packed), os.path.join(self.folder, packed)), rename)
        finally:
            # Also where the disk is full: the job needs it.
            for left in (plain, self.path(packed)):
                with contextlib.suppress(FileNotFoundError):
                    os.remove(left)
        self.trace = "agent"
        self.has_waited = True
        self.write_flight(f"flight-rank{self.rank}.pickle")
        self.write_steps()

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
        self.is_theirs_told = True
        if self.state == "before":
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
        packed = f"trace-rank{self.rank}.json.gz"
        pack(str(args[0] if args else kwargs["path"]), (self.path(packed), os.path.join(self.folder, packed)))
        self.trace = "script"
        self.write_flight(f"flight-rank{self.rank}.pickle")
        self.write_steps()

    # Files.

    def look_at_group(self) -> None:
        """Who this rank is, while the group is there to ask."""
        if not self.is_rank and "RANK" in os.environ:
            # What starts ranks by a fork tells it to the fork.
            self.rank, self.world = int(os.environ["RANK"]), int(os.environ.get("WORLD_SIZE") or 1)
            self.is_rank = True
        dist = torch.distributed
        if dist.is_available() and dist.is_initialized():
            self.rank, self.world, self.backend = dist.get_rank(), dist.get_world_size(), str(dist.get_backend())
            self.is_rank = True
            self.spill.rename(os.path.join(self.folder, f"spill-{self.rank}.jsonl"))

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

    def write_steps(self, name: str = "steps", is_last_resort: bool = False) -> None:
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
            "window_unix_s": self.window_unix_s if len(self.window_unix_s) == 2 else None,
            "notes": self.notes,
            "ended": self.end,
            "restarts": self.restarts,
        }
        self.write_json(f"{name}-{self.rank}.json", content, is_last_resort)

    def write_flight(self, name: str) -> None:
        dump = flight_pickle(self.backend)
        if dump:
            self.write(name, dump)

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
        """Runs at exit, also after an exception, once."""
        if os.getpid() != self.pid or self.is_finishing:
            return
        self.is_finishing = True
        self.exits.set()
        if threading.current_thread() is threading.main_thread():
            # A DataLoader raises an exception in whatever runs when its workers end.
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.end = end_of(uncaught())
        has_failed = self.end["how"] == "exception"
        if self.found_by is not None and self.state == "open":
            # A launcher that has lost a rank may not wait for the trace.
            self.write_steps()
        if self.state == "open":
            if not self.window.has_enough(self.ended - self.opened_step):
                self.notes.append("the job ended before the window did")
            if has_failed and torch.cuda.is_initialized():
                # Stopping waits for the GPU, which may be in a collective that never ends.
                self.notes.append("no trace: the script failed while the GPU was traced")
            elif self.backwards:
                self.notes.append("no trace: another thread was in a backward pass when the script ended")
            else:
                self.close(unfinished=True)
        elif self.state == "before" and not self.is_broken:
            self.notes.append(self.why_no_window())
        if self.hang is not None:
            if self.hang["step_ended_after_s"] is None:
                self.hang["process_ended"] = "exception" if has_failed else "normal"
            self.write_json(f"hang-rank{self.rank}.json", self.hang)
        is_silent = self.found_by is None and self.trace is None
        if is_silent and (self.is_adopted or "torch.distributed.run" in sys.modules):
            # A launcher, or a helper that this process has made by a fork.
            return
        if not self.is_other:
            # A helper of a rank, such as a compiler's worker, has the rank's environment and ends no step.
            self.write_steps(is_last_resort=is_silent)
            if is_silent and has_failed and self.restarts > 0:
                # The file of an attempt that trained stays; this one failed before a step.
                self.write_steps("again")

    def why_no_window(self) -> str:
        return why_no_trace(self)

    def adopt(self) -> None:
        """A fork of this process: if no step has ended so far, this may be the process that trains."""
        if self.found_by is None and self.trace is None and not self.is_theirs_running and not self.is_broken:
            self.pid = os.getpid()
            self.thread = threading.main_thread().ident
            self.is_adopted = True


def finish(agent: Agent) -> None:
    """Ends the agent. Its failure must not reach the job."""
    try:
        agent.finish()
    except Exception:
        report(agent.folder)


def start(agent: Agent | None = None) -> None:
    """Installs the agent in this process: this module's own unless another one is given.

    No signal is handled: Python runs a handler only between two of its instructions, so a rank that waits in native
    code would outlive SIGTERM. What such a rank leaves is its spill.
    """
    ours = agent or Agent(os.environ)
    atexit.register(finish, ours)
    os.register_at_fork(after_in_child=ours.adopt)
    install(ours)
    if ours.restarts > 0 and ours.is_rank:
        # Until it ends a step, nothing else says that there is this attempt.
        ours.write_steps("again")

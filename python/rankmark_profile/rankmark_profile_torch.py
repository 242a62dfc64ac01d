"""What the agent takes from PyTorch: where steps end, where profilers start, and what the Flight Recorder holds.

It reads no variables, and writes only error-<pid>.txt. Names that begin with an underscore are private to PyTorch, so
code here expects that a version lacks them.
"""

from __future__ import annotations

import functools
import gzip
import inspect
import json
import os
import pickle
import shutil
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Callable

import torch
import torch.profiler
from rankmark_profile_spill import watch_forward, watch_phases
from torch.autograd import profiler as low_profiler
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

if TYPE_CHECKING:
    from rankmark_profile_agent import Agent

MOST_FRAMES = 256
# After an optimizer was made: so many backward passes without a step of one. A compiled step is not seen.
PASSES_WITHOUT_STEP = 64


def report(folder: str) -> None:
    """Appends the exception that is being handled to the error file."""
    try:
        with open(os.path.join(folder, f"error-{os.getpid()}.txt"), "a", encoding="utf-8") as file:
            traceback.print_exc(file=file)
    except Exception:
        pass


def stack(frame: FrameType | None) -> list[dict[str, Any]]:
    """The frames of a thread, innermost first."""
    frames: list[dict[str, Any]] = []
    while frame is not None and len(frames) < MOST_FRAMES:
        code = frame.f_code
        frames.append({"name": code.co_name, "filename": code.co_filename, "line": frame.f_lineno})
        frame = frame.f_back
    return frames


def is_profiling() -> bool:
    """Whether a profiler records."""
    return bool(getattr(low_profiler, "_is_profiler_enabled", True))


def in_autograd() -> bool:
    """Whether this thread runs for the autograd engine, as hooks do. Before PyTorch 2.1 it is not known."""
    task = getattr(torch._C, "_current_graph_task_id", None)
    return task is not None and task() != -1


def pack(source: str, target: tuple[str, str], rename: tuple[bytes, bytes] | None = None) -> None:
    """Writes a compressed trace from a plain or a compressed one: under a temporary name, and then under its own."""
    with open(source, "rb") as file:
        opened = gzip.open if file.read(2) == b"\x1f\x8b" else open
    # Level 1: the job waits.
    with opened(source, "rb") as plain, gzip.open(target[0], "wb", compresslevel=1) as packed:
        if rename is None:
            shutil.copyfileobj(plain, packed, 1 << 20)
        else:
            packed.writelines(line.replace(*rename) for line in plain)
    os.replace(*target)


def group_timeout_s() -> float | None:
    """The shortest timeout of the default group; None where this PyTorch does not say."""
    try:
        group = torch.distributed.distributed_c10d._get_default_group()
        backends = [group._get_backend(device) for device in group._device_types]
        return min(float(backend.options._timeout.total_seconds()) for backend in backends)
    except Exception:
        return None


def flight_dumps(kind: str, backend: str | None) -> Iterator[bytes]:
    """Dumps of the recorders. In new versions each backend has its own; before, NCCL's had another name."""
    c10d = torch._C._distributed_c10d
    backends = ["gloo"] if backend == "gloo" else ["nccl", "gloo"]
    calls: list[tuple[str, dict[str, str]]] = [(f"_dump_fr_trace{kind}", {"backend": name}) for name in backends]
    calls += [(f"_dump_nccl_trace{kind}", {}), (f"_dump_fr_trace{kind}", {})]
    for name, arguments in calls:
        try:
            dump = getattr(c10d, name)(**arguments)
        except Exception:
            # This version or build does not have it.
            continue
        yield dump.encode() if isinstance(dump, str) else bytes(dump)


def first_with_entries(dumps: Iterator[bytes], read: Callable[[bytes], Any]) -> tuple[bytes, Any] | None:
    """The first dump that holds a collective, else the first."""
    first = None
    for dump in dumps:
        content = read(dump)
        if content.get("entries"):
            return dump, content
        first = first or (dump, content)
    return first


def flight_pickle(backend: str | None) -> bytes | None:
    # A pickle that this process wrote: safe to read.
    found = first_with_entries(flight_dumps("", backend), pickle.loads)
    return found and found[0]


def flight_json(backend: str | None) -> Any:
    found = first_with_entries(flight_dumps("_json", backend), json.loads)
    return found and found[1]


def codes(found: Any) -> Iterator[CodeType]:
    """The code of a module's, a class's or a function's functions, those inside of others too."""
    if isinstance(found, CodeType):
        yield found
        for constant in found.co_consts:
            if isinstance(constant, CodeType):
                yield from codes(constant)
    elif isinstance(found, FunctionType):
        yield from codes(inspect.unwrap(found).__code__)
    elif isinstance(found, (ModuleType, type)):
        for member in vars(found).values():
            if getattr(member, "__module__", "").startswith("rankmark_profile"):
                yield from codes(member)


def stay_uncompiled() -> bool:
    """Keeps torch.compile away from the agent's functions. Otherwise it compiles the agent's frames between two frames
    of the job, once for each module, and then gives up on them and on what they call. False if it cannot be kept away.
    """
    frames = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
    if frames is None:
        # Before PyTorch 2.0 nothing is compiled.
        return True
    skip = getattr(frames, "skip_code", None)
    if skip is None and hasattr(frames, "set_code_exec_strategy"):
        strategy = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.DEFAULT)
        skip = functools.partial(skip_with, frames.set_code_exec_strategy, strategy)
    if skip is None:
        return False
    for name in [name for name in sys.modules if name.startswith("rankmark_profile")]:
        for code in codes(sys.modules[name]):
            skip(code)
    return True


def skip_with(set_strategy: Callable[..., None], strategy: Any, code: CodeType) -> None:
    set_strategy(code, strategy)


def install(agent: Agent) -> None:
    """Puts the agent where steps end and where profilers start."""
    if stay_uncompiled():
        watch_forward(agent)
    watch_optimizers(agent)
    watch_phases(agent)
    watch_backward(agent, "backward")
    watch_backward(agent, "grad")
    # All profilers come down to these.
    for name, method in [("profile", "_prepare_trace"), ("emit_nvtx", "__enter__"), ("emit_itt", "__enter__")]:
        owner = getattr(low_profiler, name, None)
        around(agent, owner, method, before=agent.they_prepare)
        around(agent, owner, "__exit__", after=agent.they_stopped)
    around(agent, low_profiler.profile, "export_chrome_trace", after=agent.they_exported)
    around(agent, torch.profiler.profile, "step", before=agent.they_step, after=agent.they_stepped)


def guarded(agent: Agent, function: Callable[..., None], *arguments: Any) -> None:
    """Calls a function of this agent. Its failure must not reach the job."""
    if agent.is_broken or os.getpid() != agent.pid:
        return
    try:
        function(*arguments)
    except Exception:
        report(agent.folder)
        agent.give_up()


def watch_optimizers(agent: Agent) -> None:
    """Tells the agent when an optimizer has stepped."""
    is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)
    wrap = getattr(Optimizer, "profile_hook_step", None)
    # Optimizers whose step runs.
    stepping: list[int] = []

    def profile_hook_step(function: Callable[..., Any]) -> Callable[..., Any]:
        # PyTorch calls its step hooks inside of the optimizer's span. A profiler that stops there loses that span.
        inner = wrap(function) if wrap else function

        @functools.wraps(inner)
        def step(*args: Any, **kwargs: Any) -> Any:
            # A class that inherits its step may call `super().step()`, which is watched, too.
            if is_compiling() or id(args[0]) in stepping:
                return inner(*args, **kwargs)
            stepping.append(id(args[0]))
            try:
                with agent.spill.phase("o"):
                    result = inner(*args, **kwargs)
            finally:
                stepping.remove(id(args[0]))
            guarded(agent, agent.optimizer_stepped, args[0])
            return result

        step.is_rankmark = True  # type: ignore[attr-defined]
        return step

    def stepped(optimizer: Any, *_: Any) -> None:
        # For classes that had an instance before this agent came.
        if not is_compiling() and not hasattr(type(optimizer).step, "is_rankmark"):
            guarded(agent, agent.optimizer_stepped, optimizer)

    original = Optimizer.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        agent.passes = -PASSES_WITHOUT_STEP
        original(self, *args, **kwargs)

    Optimizer.__init__ = init
    if wrap:
        Optimizer.profile_hook_step = staticmethod(profile_hook_step)
    register_optimizer_step_post_hook(stepped)


def watch_backward(agent: Agent, name: str) -> None:
    """Tells the agent when gradients have been computed: no step ends before, and some end then."""
    original = getattr(torch.autograd, name)
    found_by = "backward" if name == "backward" else "gradient"

    @functools.wraps(original)
    def watched_by_rankmark(*args: Any, **kwargs: Any) -> Any:
        thread = threading.get_ident()
        agent.has_pass = True
        agent.backwards.append(thread)
        try:
            with agent.spill.phase("b"):
                result = original(*args, **kwargs)
        finally:
            agent.backwards.remove(thread)
        guarded(agent, agent.backward_ended, found_by)
        return result

    setattr(torch.autograd, name, watched_by_rankmark)


def around(
    agent: Agent,
    owner: Any,
    name: str,
    before: Callable[[], None] | None = None,
    after: Callable[[tuple[Any, ...], Mapping[str, Any]], None] | None = None,
) -> None:
    """Calls functions of the agent around a method of the script's own profilers."""
    original = getattr(owner, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if agent.is_ours:
            return original(self, *args, **kwargs)
        if before:
            guarded(agent, before)
        result = original(self, *args, **kwargs)
        if after:
            guarded(agent, after, args, kwargs)
        return result

    setattr(owner, name, method)


def why_no_trace(agent: Agent) -> str:
    """Why this rank has no trace, and what to do."""
    if agent.trace is not None:
        return "the trace is a copy of the one that the script's own profiler wrote"
    if agent.is_blocked and not agent.is_theirs_told:
        return (
            "no trace: the script's own profiler has a schedule, and waits for calls of its `step()`, which the script "
            "never makes. Call `profiler.step()` after each step, or run the job without its profiler"
        )
    if agent.is_blocked or agent.found_by == "profiler":
        return (
            "no trace: the script's own profiler was used, and it exported none. Let it export one "
            "(`on_trace_ready=lambda profiler: profiler.export_chrome_trace(PATH)`), or run the job without it"
        )
    if agent.found_by is None:
        return (
            "no trace: no step was found, because the script called neither `step()` of an optimizer of torch.optim, "
            "nor `backward()`, nor `torch.autograd.grad()`. Run its steps in a `torch.profiler.profile`, call `step()` "
            "of that after each of them, and export its trace: rankmark takes a copy"
        )
    if agent.has_only_inside:
        return (
            "no trace: all steps ended while the autograd engine ran, and PyTorch's profiler cannot start there. Steps "
            "were timed, without kernels and exchanges. Call `loss.backward()` or `torch.autograd.backward`"
        )
    first = agent.window.first
    if agent.window.seconds is None:
        hint = f"Run more steps, or name a window that begins earlier, such as --steps 1:{max(agent.ended, 2)}"
    else:
        hint = "Run more steps"
    return f"no trace: the job ended after {agent.ended} steps, and the window begins at step {first}. {hint}"

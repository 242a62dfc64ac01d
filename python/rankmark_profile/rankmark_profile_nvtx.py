"""Tells the steps and phases of one rank to a tool that records NVTX, such as nsys, in place of the PyTorch profiler.

sitecustomize.py loads this module where `rankmark profile --tool nsys` starts the job. The window of steps, the file of
steps and the files of a hang are those of rankmark_profile_agent.py.

Tells, in the window only, from the thread that trains:
    rankmark rank R of W           a mark: which rank this process is
    step N                         a range, which holds the following ones
    input, forward, backward, optimizer
                                   a batch of a DataLoader, the outermost call of a module, autograd, an optimizer

Reads:
    NVTX_INJECTION64_PATH          the library of the tool, which the tool itself sets. Without it, nothing is told.

PyTorch's own functions for NVTX exist in builds with CUDA only. So the library is opened here, as the headers of NVTX 3
(github.com/NVIDIA/NVTX, `nvtxTypes.h` and `nvtxInit.h`) open it.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import threading
import time
from collections.abc import Mapping
from typing import Any, Callable

import rankmark_profile_agent
import torch
from rankmark_profile_agent import Agent
from rankmark_profile_torch import guarded
from torch.optim.optimizer import register_optimizer_step_pre_hook

# Groups of functions, from 1 on, and how many functions each has, its unused first place included.
SIZES = [0, 16, 9, 16, 7, 16, 7]
# The group of the functions that are called, and their places in it.
CORE = 1
MARK, PUSH, POP = 2, 9, 11
# The tables that a library may ask for.
CALLBACKS, VERSION = 1, 3

Pointers = ctypes.POINTER(ctypes.c_void_p)
FunctionTable = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(Pointers), ctypes.POINTER(ctypes.c_uint))
Told = ctypes.CFUNCTYPE(None, ctypes.c_uint)
ExportTable = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint)
Text = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)
Nothing = ctypes.CFUNCTYPE(ctypes.c_int)


class CallbackTable(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_size_t), ("function_table", FunctionTable)]


class VersionTable(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_size_t), ("version", ctypes.c_uint), ("reserved", ctypes.c_uint), ("told", Told)]


class Tool:
    """The library of a tool, open as long as this process lives. Its tables are read by it at any time."""

    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path)
        # Where the library puts its functions, and pointers to these places.
        self.places = [(ctypes.c_void_p * max(size, 1))() for size in SIZES]
        self.tables = [self.table(places) for places in self.places]
        self.get_table = FunctionTable(self.function_table)
        self.told = Told(lambda version: None)
        self.callbacks = CallbackTable(ctypes.sizeof(CallbackTable), self.get_table)
        self.version = VersionTable(ctypes.sizeof(VersionTable), 3, 0, self.told)
        self.export = ExportTable(self.export_table)
        if not self.library.InitializeInjectionNvtx2(self.export):
            raise RuntimeError(f"{path}: its first function reports a failure")
        self.mark_text = self.function(MARK, Text)
        self.push_text = self.function(PUSH, Text)
        self.pop_text = self.function(POP, Nothing)

    @staticmethod
    def table(places: Any) -> Any:
        entries = [None] + [ctypes.addressof(places) + 8 * place for place in range(1, len(places))]
        return (ctypes.c_void_p * len(entries))(*entries)

    def function_table(self, module: int, table: Any, size: Any) -> int:
        if not 1 <= module < len(SIZES):
            return 0
        if table:
            table[0] = ctypes.cast(self.tables[module], Pointers)
        if size:
            size[0] = SIZES[module]
        return 1

    def export_table(self, number: int) -> int | None:
        tables: dict[int, ctypes.Structure] = {CALLBACKS: self.callbacks, VERSION: self.version}
        return ctypes.addressof(tables[number]) if number in tables else None

    def function(self, place: int, kind: Any) -> Callable[..., object]:
        address = self.places[CORE][place]
        return kind(address) if address else lambda *_: None

    def mark(self, text: str) -> None:
        self.mark_text(text.encode())

    def push(self, text: str) -> None:
        self.push_text(text.encode())

    def pop(self) -> None:
        self.pop_text()


class NvtxAgent(Agent):
    """Tells ranges where the other agent runs the PyTorch profiler."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        super().__init__(environment)
        path = environment.get("NVTX_INJECTION64_PATH")
        self.tool = Tool(path) if path else None
        # Names of the ranges that are open.
        self.ranges: list[str] = []

    def can_open(self) -> bool:
        # A profiler of the script does not disturb the tool.
        return self.tool is not None

    def open(self) -> None:
        self.look_at_group()
        if self.tool is not None:
            self.tool.mark(f"rankmark rank {self.rank} of {self.world}")
        self.state = "open"
        self.opened_step = self.ended
        self.opened_ns = time.monotonic_ns()
        self.begin_span()

    def mark(self, name: str) -> contextlib.AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def begin_span(self) -> None:
        self.push(f"step {self.ended}")

    def end_span(self) -> None:
        if self.ranges:
            self.pop(self.ranges[0])

    def close(self, unfinished: bool = False) -> None:
        # An unfinished step ends with the process, as the tool sees it.
        if not unfinished:
            self.end_span()
        self.state = "after"
        self.trace = "nsys"
        self.write_flight(f"flight-rank{self.rank}.pickle")
        self.write_steps()

    def why_no_window(self) -> str:
        if self.tool is None:
            return "no steps are reported: the tool did not name its library in NVTX_INJECTION64_PATH"
        return super().why_no_window()

    def they_prepare(self) -> None:
        pass

    def they_step(self) -> None:
        # Steps end in one place only: where the first optimizer's do.
        pass

    def they_exported(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        pass

    def optimizer_steps(self) -> None:
        self.push("optimizer")

    def optimizer_stepped(self, optimizer: Any) -> None:
        self.pop("optimizer")
        super().optimizer_stepped(optimizer)

    # Ranges.

    def push(self, name: str) -> bool:
        """Begins a range. False where none is told: outside of the window, in other threads, inside its own kind."""
        is_told = self.state == "open" and threading.get_ident() == self.thread and name not in self.ranges
        if is_told and self.tool is not None:
            self.tool.push(name)
            self.ranges.append(name)
        return is_told

    def pop(self, name: str) -> None:
        """Ends a range, and those inside it that an exception has left."""
        if threading.get_ident() != self.thread or name not in self.ranges:
            return
        while self.tool is not None and self.ranges:
            self.tool.pop()
            if self.ranges.pop() == name:
                return


def inside(agent: NvtxAgent, owner: Any, method: str, name: str) -> None:
    """Tells a range around a function of PyTorch."""
    original = getattr(owner, method, None)
    if original is None:
        return
    is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)

    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        # What torch.compile traces must not hold this.
        if is_compiling() or agent.state != "open" or agent.is_broken or not agent.push(name):
            return original(*args, **kwargs)
        try:
            return original(*args, **kwargs)
        finally:
            agent.pop(name)

    setattr(owner, method, function)


def start() -> None:
    """Installs the agent in this process."""
    agent = NvtxAgent(os.environ)
    rankmark_profile_agent.start(agent)
    inside(agent, torch.nn.Module, "__call__", "forward")
    inside(agent, torch.autograd, "backward", "backward")
    inside(agent, torch.utils.data.dataloader._BaseDataLoaderIter, "__next__", "input")
    register_optimizer_step_pre_hook(lambda *_: guarded(agent, agent.optimizer_steps))

"""How a call starts its operations: one that is waited for, or several on buffers of their own. Needs no torch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from .rank import Failure

# An operation of c10d with its buffers; takes `async_op`.
Operation = Callable[..., Any]
Call = Callable[[], object]


class Work(Protocol):
    """What c10d gives for an operation that was started."""

    def wait(self) -> object:
        """Returns when it is done."""


class All:
    """Several that were started, as one. c10d gives None for what this rank has no part in."""

    def __init__(self, started: Iterable[Work | None]) -> None:
        self.started = [work for work in started if work is not None]

    def wait(self) -> None:
        """Waits for each, also after one that failed: none may write to a buffer that is filled again."""
        failed: RuntimeError | None = None
        for work in self.started:
            try:
                work.wait()
            except RuntimeError as error:
                failed = failed or error
        if failed is not None:
            raise failed


def bind(form: str, operations: list[Operation], manager: Operation | None) -> Call:
    """The call of this form. `manager` is torch's `_coalescing_manager`, where it has one."""
    if form == "async":
        return lambda: _in_flight(operations)
    if form == "coalesced":
        if manager is None or "async_ops" not in inspect.signature(manager).parameters:
            raise Failure("this torch cannot coalesce operations (2.1 or later is needed)", True)
        coalesce: Callable[[], AbstractContextManager[object]] = manager
        return lambda: _coalesced(operations, coalesce)
    (operation,) = operations
    return operation


def _in_flight(operations: list[Operation]) -> None:
    started: list[Work | None] = []
    try:
        for operation in operations:
            started.append(operation(async_op=True))
    finally:
        All(started).wait()


def _coalesced(operations: list[Operation], manager: Callable[[], AbstractContextManager[object]]) -> None:
    with manager():
        for operation in operations:
            operation()

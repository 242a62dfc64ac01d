"""The fork server: imports torch once, then forks one rank for each request of its coordinator.

The coordinator's half is `launch::fork_server`. A rank becomes a child of the coordinator: it is forked by a process
between, and the kernel gives it to the coordinator when that one ends. All forks are Python's own, so every library is
told of them.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

from .channel import NOT_INVITED, ORPHANED, Departure
from .process import threads

ARGUMENT = "__rank=server,"
LONGEST = 4096
PR_SET_PDEATHSIG = 1


def is_asked(argument: str) -> bool:
    """Whether the argument is that of a fork server: `__rank=server,SOCKET`, and blanks that its ranks write over."""
    return argument.startswith(ARGUMENT)


def serve(argument: str, load: Callable[[], object], renew: Callable[[], object]) -> str:
    """Serves until the coordinator is gone. `load` imports what ranks need. Returns in each rank that was forked, with
    the rank's argument, after `renew`, which changes what no two ranks may share.
    """
    try:
        link = socket.socket(fileno=int(argument[len(ARGUMENT) :]))
        coordinator = os.getppid()
        link.send(json.dumps(ready(load)).encode())
        while True:
            request, descriptors, _, _ = socket.recv_fds(link, LONGEST, 3)
            if not request:
                os._exit(0)
            answer = fork(coordinator, json.loads(request)["rank"], descriptors)
            if answer is None:
                link.close()
                renew()
                return sys.argv[1]
            for descriptor in descriptors:
                os.close(descriptor)
            link.send(json.dumps(answer).encode())
    except (ValueError, OSError) as error:
        raise Departure(NOT_INVITED, f"this is not the fork server of a coordinator: {error}") from None


def ready(load: Callable[[], object]) -> Any:
    """Imports what ranks need. Says whether ranks can be forked from this process, and if not, why."""
    try:
        load()
    except BaseException:
        # Ranks that import it themselves report it.
        return "Missing"
    # Libraries that know of forks end their threads before one, and start them again when they are used.
    between = os.fork()
    if between == 0:
        os._exit(0)
    os.waitpid(between, 0)
    count = threads()
    if count > 1:
        return {"Refused": f"{count - 1} threads of its libraries still run, and a fork would lose them"}
    return "Ready"


def fork(coordinator: int, number: int, descriptors: list[int]) -> dict[str, Any] | None:
    """Forks a rank that is to be the coordinator's child. None in the rank itself; else what became of it."""
    start, go = os.pipe()
    heard, said = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        between = os.fork()
    except OSError as error:
        between, failure = -1, str(error)
    if between == 0:
        settled, settling = os.pipe()
        try:
            rank = os.fork()
        except OSError as error:
            os.write(said, str(error).encode())
            os._exit(1)
        if rank != 0:
            # The coordinator takes over a rank: once it has closed this.
            os.close(settling)
            os.read(settled, 1)
            os.write(said, str(rank).encode())
            os._exit(0)
        for end in (go, heard, said, settled):
            os.close(end)
        settle(number, descriptors)
        os.close(settling)
        await_parent(start, coordinator)
        return None
    os.close(start)
    os.close(said)
    if between > 0:
        forked = os.read(heard, LONGEST).decode()
        # The coordinator is its parent from now on.
        _, status = os.waitpid(between, 0)
        if status == 0 and forked.isdigit():
            os.write(go, b"!")
            answer: dict[str, Any] = {"Forked": int(forked)}
        else:
            answer = {"Failed": forked or f"the process between ended with status {status}"}
    else:
        answer = {"Failed": failure}
    os.close(go)
    os.close(heard)
    return answer


def settle(rank: int, descriptors: list[int]) -> None:
    """Makes this process what a rank is that starts alone."""
    take_argument(rank, descriptors)
    os.setsid()
    os.dup2(descriptors[2], 1)
    os.dup2(descriptors[2], 2)
    os.close(descriptors[2])


def await_parent(start: int, coordinator: int) -> None:
    """Waits until this process is a child of the coordinator. From then on the kernel ends it with that one."""
    if os.read(start, 1) != b"!":
        os._exit(ORPHANED)
    os.close(start)
    refused = ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    # Had the coordinator ended before that, nobody would ever send the signal.
    if refused or os.getppid() != coordinator:
        os._exit(ORPHANED)


def take_argument(rank: int, descriptors: list[int]) -> None:
    """Makes the argument that of a rank which has inherited these descriptors, also where `ps` looks."""
    argument = f"__rank={rank},{descriptors[0]},{descriptors[1]}"
    own = sys.argv[1].encode()
    with open("/proc/self/cmdline", "rb") as file:
        at = file.read().find(own)
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
        # After the name, which may hold blanks, from the third field on: `arg_start` is the 48th.
        begin = int(file.read().rpartition(")")[2].split()[45])
    if at >= 0 and begin > 0 and len(argument) <= len(own):
        ctypes.memmove(begin + at, argument.encode().ljust(len(own)), len(own))
    sys.argv[1:] = [argument]

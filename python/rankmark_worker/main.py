"""The life of the rank: joins the world that its argument names, opens torch's group, obeys until it may leave."""

from __future__ import annotations

import json
import mmap
import os
import socket
import sys
import traceback
from typing import Any

from . import fork_server
from .channel import BROKEN, NOT_INVITED, PANICKED, Channel, Departure, Invitation, join
from .guardian import Guardian
from .rank import Benchmarks, Failure, RankWork
from .status import SLOT_BYTES, Hook, Slot

ARGUMENT = "__rank="


def main(argument: str) -> None:
    """Never returns: ends the process without running the ends of what torch's threads still use."""
    code = PANICKED
    try:
        if fork_server.is_asked(argument):
            argument = fork_server.serve(argument, load, renew)
        serve(argument)
        code = 0
    except Departure as departure:
        print(f"error: {departure}", file=sys.stderr)
        code = departure.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def serve(argument: str) -> None:
    """Joins, starts, obeys."""
    rank, invitation, page = accept(argument)
    slot = Slot(page, rank)
    channel = join(invitation, rank, socket.gethostname())
    guardian = Guardian(channel.stream, slot, invitation.cores)
    try:
        work = start(channel, Hook(slot, rank), rank, invitation)
    except Failure as failure:
        channel.send("Started", failure.message())
        work = None
    else:
        channel.send("Started", None)
    while True:
        guardian.rest()
        kind, content = channel.receive()
        guardian.work()
        if kind == "Leave":
            return
        if kind != "Command" or work is None:
            raise Departure(BROKEN, "the control channel is broken: a message that is out of place")
        answer(channel, work.obey(content))


def load() -> None:
    """Imports all that ranks need, torch above all."""
    from . import collective, group, hardware, primitive, startup, training  # noqa: F401


def renew() -> None:
    """Does what a rank that is forked needs besides."""
    from . import group

    group.draw_other_numbers()


def start(channel: Channel, hook: Hook, rank: int, invitation: Invitation) -> RankWork:
    """Opens the process group. torch is imported only now, where its absence can be told."""
    try:
        from . import collective, group, hardware, primitive, startup, training
    except (AttributeError, ImportError, OSError, RuntimeError, ValueError) as error:
        # All but ImportError: a library that torch loads is missing, or does not fit.
        raise Failure(f"{sys.executable} (Python {sys.version.split()[0]}) has no PyTorch: {error}", True) from None
    fields, ranks = invitation.fields, invitation.ranks
    # As torchrun does. What fills and checks buffers must leave no threads behind that spin while calls are timed.
    if "threads" in fields or "OMP_NUM_THREADS" not in os.environ:
        group.compute_on(int(fields.get("threads", 1)))
    meet = group.meet_at(invitation.address[0]) if invitation.hosts else group.meet_in_memory
    if fields.get("rendezvous") == "tcp" and not invitation.hosts:
        # As under torchrun: each look-up in a file takes up to 10 ms.
        meet = group.meet_at("127.0.0.1")
    device, local = fields.get("device", "cpu"), invitation.local(rank)
    group.compute_exactly(device)
    opened = group.open_group(fields.get("backend", ""), channel, rank, ranks, meet, device, local)
    benchmarks: Benchmarks = {
        "collective": lambda case: collective.prepare(case, rank, opened),
        "hardware": lambda case: hardware.prepare(case, rank, opened, invitation.fullest()),
        "primitive": lambda case: primitive.prepare(case, rank, ranks, opened.place),
        "startup": lambda case: startup.prepare(case, rank, opened),
        "training": lambda case: training.prepare(case, rank, opened),
    }
    return RankWork(opened, hook, rank, benchmarks)


def answer(channel: Channel, reply: dict[str, Any]) -> None:
    """Sends a reply, or, where it cannot be sent, that it cannot."""
    try:
        channel.send("Reply", reply)
    except ValueError as error:
        channel.send("Reply", {"Failed": Failure(f"the rank's reply cannot be sent: {error}").message()})


def accept(argument: str) -> tuple[int, Invitation, mmap.mmap]:
    """Takes over what the argument names."""
    try:
        if not argument.startswith(ARGUMENT):
            raise ValueError(f"no argument `{ARGUMENT}...`")
        rank, invited, status = (int(part) for part in argument[len(ARGUMENT) :].split(","))
        invitation = Invitation(json.loads(os.pread(invited, os.fstat(invited).st_size, 0)))
        os.close(invited)
        page = mmap.mmap(status, SLOT_BYTES * invitation.ranks)
        os.close(status)
    except (ValueError, OSError, KeyError) as error:
        text = f"this is the argument of a rank process, which only a coordinator can start: {error}"
        raise Departure(NOT_INVITED, text) from None
    if not 0 <= rank < invitation.ranks:
        raise Departure(NOT_INVITED, "the rank is not one of the world")
    return rank, invitation, page

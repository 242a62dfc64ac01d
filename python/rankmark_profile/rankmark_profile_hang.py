"""Ranks that end no step for long: where they are, and what their Flight Recorder holds.

rankmark_profile_agent.py says which files a hang leaves, and what is in them.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from types import FrameType
from typing import TYPE_CHECKING, Any

from rankmark_profile_torch import flight_json, group_timeout_s, report, stack

if TYPE_CHECKING:
    from rankmark_profile_agent import Agent

# A hang is longer than this many median steps: slow steps are not hangs.
HANG_STEPS = 10
# The share of the process group's timeout after which a hang is written down. Later the collective counts as completed.
TIMEOUT_SHARE = 0.8
# A rank that begins a call in so long moves, such as in an evaluation: it does not hang.
MOVES_S = 1.0
# In the first step after the window ranks wait for others that write their traces: a hang is so many times longer.
WRITING = 4


def watch_hang(agent: Agent) -> None:
    """Starts a daemon thread: the rank may stay in a collective that releases the interpreter's lock."""
    timeout_s = group_timeout_s()
    if timeout_s is not None:
        agent.hang_most_s = TIMEOUT_SHARE * timeout_s
        agent.hang_limit_s = min(agent.hang_s, agent.hang_most_s)
    if agent.hang_s > 0 and not any(thread.name == "rankmark-hang" for thread in threading.enumerate()):
        threading.Thread(target=watch, args=(agent,), name="rankmark-hang", daemon=True).start()


def watch(agent: Agent) -> None:
    while not agent.exits.wait(max(0.05, min(0.5, agent.hang_limit_s / 20))):
        try:
            look(agent)
        except Exception:
            report(agent.folder)
            return


def look(agent: Agent) -> None:
    last_ns, recent_s = agent.last_ns, agent.recent_s[-100:]
    if agent.is_broken or agent.is_busy or last_ns is None or len(recent_s) < 3:
        return
    if agent.hang is not None and agent.hang["step_ended_after_s"] is not None:
        # It was slow, and no hang.
        agent.write_json(f"hang-rank{agent.rank}.json", agent.hang)
        agent.hang = None
    waited_s, median_s = (time.monotonic_ns() - last_ns) / 1e9, statistics.median(recent_s)
    limit_s = min(agent.hang_limit_s * WRITING, agent.hang_most_s) if agent.has_waited else agent.hang_limit_s
    since_ns, moved_s = agent.moved
    still_s = waited_s - (moved_s if since_ns == last_ns else 0.0)
    if agent.hang is None and still_s > limit_s and waited_s > HANG_STEPS * median_s:
        agent.hang = describe_hang(agent, waited_s, median_s)
        seen = calls(agent.hang["flight_recorder"])
        if agent.exits.wait(min(MOVES_S, agent.hang_limit_s / 10)):
            # What is known is written when the process ends.
            return
        if calls(flight_json(agent.backend)) != seen:
            agent.moved = (last_ns, waited_s)
            agent.hang = None
            return
        if agent.last_ns != last_ns:
            # The step ended meanwhile.
            agent.hang = None
            return
        agent.write_json(f"hang-rank{agent.rank}.json", agent.hang)
        agent.write_flight(f"hang-flight-rank{agent.rank}.pickle")


def calls(recorder: Any) -> tuple[int, int]:
    """How many calls a recorder holds, and the number of the last one: a rank that begins no call changes neither."""
    entries = recorder.get("entries") if isinstance(recorder, dict) else None
    numbers = [entry.get("record_id", -1) for entry in entries or []]
    return len(numbers), max(numbers, default=-1)


def transfer(frame: FrameType | None) -> dict[str, Any] | None:
    """The send or receive that a thread is in, with the rank on its other side: no recorder of gloo has it."""
    while frame is not None:
        name, side = frame.f_code.co_name, {"recv": "src", "send": "dst"}.get(frame.f_code.co_name)
        if side is not None and frame.f_code.co_filename.endswith("distributed_c10d.py"):
            peer = frame.f_locals.get(side)
            return {"operation": name, "peer": peer} if isinstance(peer, int) else None
        frame = frame.f_back
    return None


def describe_hang(agent: Agent, waited_s: float, median_s: float) -> dict[str, Any]:
    return {
        **agent.identity(),
        "time_unix_ns": time.time_ns(),
        "since_last_step_s": waited_s,
        "median_step_s": median_s,
        "steps_ended": agent.ended,
        "stack": stack(frame := sys._current_frames().get(agent.thread or 0)),
        "transfer": transfer(frame),
        "flight_recorder": flight_json(agent.backend),
        "step_ended_after_s": None,
        "process_ended": None,
    }

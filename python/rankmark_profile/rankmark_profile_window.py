"""Which steps are traced, as the variables say that `rankmark profile` sets."""

from __future__ import annotations

from collections.abc import Mapping

DEFAULT_STEPS = "10:20"
# In a window of seconds, the steps before it.
WARM_UP_STEPS = 5


def window_of(environment: Mapping[str, str]) -> tuple[int, int, float | None]:
    """The first step to trace, the one after the last, and in place of that one the seconds of a window of time."""
    steps, seconds = environment.get("RANKMARK_PROFILE_STEPS"), environment.get("RANKMARK_PROFILE_SECONDS")
    text = steps or DEFAULT_STEPS
    first, _, last = text.partition(":")
    try:
        window = int(first), int(last)
    except ValueError:
        window = -1, -1
    if not 0 <= window[0] < window[1]:
        raise ValueError(f"RANKMARK_PROFILE_STEPS is {text!r}: valid values: first:last, such as {DEFAULT_STEPS}")
    if seconds and not steps:
        return WARM_UP_STEPS, window[1], float(seconds)
    return (*window, None)

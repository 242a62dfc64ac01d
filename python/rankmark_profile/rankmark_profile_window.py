"""Which steps are traced, as the variables say that `rankmark profile` sets."""

from __future__ import annotations

from collections.abc import Mapping

DEFAULT_STEPS = "10:20"
# In a window of seconds, the steps before it.
WARM_UP_STEPS = 5
# A window that has to last takes at most so many times its steps.
LONGEST = 4


class Window:
    """The first step to trace, the one after the last, and in place of that one the seconds of a window of time."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        steps, seconds = environment.get("RANKMARK_PROFILE_STEPS"), environment.get("RANKMARK_PROFILE_SECONDS")
        text = steps or DEFAULT_STEPS
        first, last, *least = text.split(":")[:3] if ":" in text else ("", "")
        try:
            # Pauses come seconds apart: many short steps tell what 50 do not.
            self.first, self.last, self.least_s = int(first), int(last), float(least[0]) if least else 0.0
        except ValueError:
            self.first = self.last = -1
        if not 0 <= self.first < self.last:
            raise ValueError(f"RANKMARK_PROFILE_STEPS is {text!r}: valid values: first:last, such as {DEFAULT_STEPS}")
        self.seconds = float(seconds) if seconds and not steps else None
        if self.seconds is not None:
            self.first = WARM_UP_STEPS
        # Step 0 has no start.
        self.first = max(self.first, 1)

    def has_enough(self, steps: int) -> bool:
        """Whether so many steps are what was asked for."""
        return self.seconds is None and steps >= self.last - self.first

    def is_over(self, steps: int, passed_s: float) -> bool:
        """Whether it ends after so many steps and seconds."""
        if self.seconds is not None:
            return passed_s >= self.seconds
        lasts = passed_s >= self.least_s or steps >= LONGEST * (self.last - self.first)
        return self.has_enough(steps) and lasts

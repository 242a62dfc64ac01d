"""Injected faults, as plans write them: mirrors `trace::inject`."""

from __future__ import annotations

import re
from dataclasses import dataclass

UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}


@dataclass
class Injection:
    """One `--inject`."""

    kind: str
    rank: int = 0
    at: int = 0
    every: int = 0
    delay_s: float = 0.0
    element: int = 0

    def hits(self, k: int) -> bool:
        """Whether it happens in operation `k` of a case."""
        if self.every == 0:
            return k == self.at
        return k >= self.at and (k - self.at) % self.every == 0


def parse(text: str) -> Injection:
    """Reads one. The coordinator has refused what is wrong before any rank started."""
    kind, _, rest = text.partition(":")
    kind = kind.strip().lower()
    injection = Injection(kind)
    if kind in ("delay", "wrong"):
        injection.every = 1
    if kind == "delay":
        injection.delay_s = 1e-3
    for pair in filter(None, (pair.strip() for pair in rest.split(","))):
        name, _, value = pair.partition("=")
        name = name.strip()
        if name == "time":
            injection.delay_s = seconds(value)
        elif name in ("rank", "at", "every", "element"):
            setattr(injection, name, int(value))
        else:
            raise ValueError(f"`{kind}` takes no `{name}` (in `{text}`)")
    return injection


def seconds(text: str) -> float:
    """A duration: `5us`."""
    match = re.fullmatch(r"\s*([0-9.eE+-]+?)\s*(ns|us|µs|ms|s|min|h)\s*", text)
    if match is None:
        raise ValueError(f"`{text}` is not a duration")
    return float(match[1]) * UNITS[match[2].replace("µ", "u")]

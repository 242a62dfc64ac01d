"""What differs between the CPU and a GPU in training: clocks, memory, the peak, and how samples get there."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor

from . import process
from .status import now_ns

# Rows, columns and depth of the product that shows the peak of a GPU, how often it runs in a burst, and how long bursts
# go on: clocks rise after a while.
PEAK_SIZE, PEAK_RUNS, PEAK_S = 8192, 3, 0.5


class Device:
    """The CPU."""

    place = torch.device("cpu")

    def mark(self) -> Any:
        """Here, in the order of what is computed."""
        return now_ns()

    def seconds(self, since: Any, until: Any) -> float:
        """Between two marks, once both are past."""
        return float(until - since) / 1e9

    def ahead(self, made: Tensor) -> Tensor:
        """A sample's numbers, ready to be sent."""
        return made

    def take(self, ready: Tensor) -> Tensor:
        """They, on the device."""
        return ready

    def begin_memory(self) -> int:
        """What is held before a case, in bytes; from here on the most is noted."""
        process.reset_peak()
        return process.once(process.status("VmRSS"))

    def held_bytes(self) -> int:
        """The most that was held since, in bytes."""
        return process.once(process.status("VmHWM"))

    def peak_flops(self, dtype: torch.dtype) -> tuple[float, str]:
        """Operations a second that it reaches, and in what. A loop in Python would measure Python."""
        return 0.0, ""


class Gpu(Device):
    """A GPU: works on its own, while the host goes on."""

    def __init__(self, place: torch.device) -> None:
        self.place = place

    def mark(self) -> Any:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, since: Any, until: Any) -> float:
        return float(since.elapsed_time(until)) / 1e3

    def ahead(self, made: Tensor) -> Tensor:
        # Copied without the host only from there.
        return made.pin_memory()

    def take(self, ready: Tensor) -> Tensor:
        return ready.to(self.place, non_blocking=True)

    def begin_memory(self) -> int:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(self.place)
        return int(torch.cuda.memory_allocated(self.place))

    def held_bytes(self) -> int:
        return int(torch.cuda.max_memory_allocated(self.place))

    def peak_flops(self, dtype: torch.dtype) -> tuple[float, str]:
        return peak_of(self.place, dtype), f"torch mm of {PEAK_SIZE} rows, {torch.cuda.get_device_name(self.place)}"


def device_of(place: torch.device) -> Device:
    """What trains there."""
    return Device() if place.type == "cpu" else Gpu(place)


_PEAKS: dict[tuple[torch.device, torch.dtype], float] = {}


def peak_of(place: torch.device, dtype: torch.dtype) -> float:
    """Operations a second of the fastest of a few bursts of a large product; measured once."""
    if (place, dtype) not in _PEAKS:
        a, b = (torch.randn(PEAK_SIZE, PEAK_SIZE, device=place, dtype=torch.float32).to(dtype) for _ in range(2))
        best, bursts, begun = 0.0, 0, time.perf_counter()
        while bursts < 2 or time.perf_counter() - begun < PEAK_S:
            torch.cuda.synchronize(place)
            begin = time.perf_counter()
            for _ in range(PEAK_RUNS):
                torch.mm(a, b)
            torch.cuda.synchronize(place)
            best = max(best, 2.0 * PEAK_SIZE**3 * PEAK_RUNS / (time.perf_counter() - begin))
            bursts += 1
        _PEAKS[place, dtype] = best
        del a, b
        torch.cuda.empty_cache()
    return _PEAKS[place, dtype]

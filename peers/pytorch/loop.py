"""The reference program for Rankmark's measurement of gloo: all_reduce of f32, one call after another between two
barriers, the slowest rank's time.

`torchrun --nproc-per-node RANKS loop.py [--bind-core] SECONDS BYTES[:CALLS]...` prints, for each size, `BYTES
NANOSECONDS`: the median over samples of CALLS calls (else as many as take 50 ms) of the time of a call. `--bind-core`
leaves each rank one of the cores that it may use.
"""

from __future__ import annotations

import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

# Seconds of a sample: gloo is faster right after ranks have met, so that short ones show little of calls in a row.
SAMPLE = 5e-2


# Calls until sums of a few ranks' smallest and largest values would leave the range of f32, by far.
FINITE = 100


class Summed:
    """A buffer with values that grow with every call. It is filled again, untimed, before they are infinite."""

    def __init__(self, first: torch.Tensor) -> None:
        self.first, self.data, self.calls = first, first.clone(), 0

    def sample(self, calls: int) -> float:
        """This rank's seconds of `calls` calls, begun together."""
        if self.calls + calls > FINITE:
            self.data.copy_(self.first)
            self.calls = 0
        self.calls += calls
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(calls):
            dist.all_reduce(self.data)
        return time.perf_counter() - begin


def slowest(times: list[float]) -> list[float]:
    """Of each sample the slowest rank's seconds. Not between samples: ranks would meet once more."""
    all_times = torch.tensor(times, dtype=torch.float64)
    dist.all_reduce(all_times, dist.ReduceOp.MAX)
    return list(all_times.tolist())


def bind_core() -> None:
    """Threads that are made from here on, gloo's among them, are bound as this one is."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[int(os.environ["LOCAL_RANK"]) % len(cores)]})


def main() -> None:
    words = sys.argv[1:]
    if words[0] == "--bind-core":
        bind_core()
        del words[0]
    limit, cases = float(words[0]), [[int(number) for number in case.split(":")] for case in words[1:]]
    dist.init_process_group("gloo")
    for size, *asked in cases:
        # Not zeros, nor one small pattern again and again, with which large sizes take less.
        data = Summed(1e-30 * torch.randint(1, 65, (size // 4,)))
        calls = 1
        while (taken := slowest([data.sample(calls)])[0]) < SAMPLE:  # Warms up, too.
            calls *= 2
        if asked:
            taken *= asked[0] / calls
            (calls,) = asked
        samples = max(5, round(limit / taken))
        times = slowest([data.sample(calls) for _ in range(samples)])
        if dist.get_rank() == 0:
            print(size, round(statistics.median(times) / calls * 1e9, 1), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

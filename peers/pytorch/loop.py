"""The plain loop that Rankmark's measurement of gloo is held against: all_reduce of f32, one call after another between
two barriers, the slowest rank's time.

`torchrun --nproc-per-node RANKS loop.py SECONDS BYTES...` prints, for each size, `BYTES NANOSECONDS`: the median over
samples of the time of a call.
"""

from __future__ import annotations

import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import Tensor


def sample(data: Tensor, calls: int) -> float:
    """The slowest rank's seconds of `calls` calls, begun together."""
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(calls):
        dist.all_reduce(data)
    slowest = torch.tensor([time.perf_counter() - begin], dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return float(slowest)


def main() -> None:
    limit, sizes = float(sys.argv[1]), [int(size) for size in sys.argv[2:]]
    dist.init_process_group("gloo")
    for size in sizes:
        data = torch.zeros(size // 4)  # Sums stay zero: no overflow.
        # Really in a row: of 64 KiB and less, a call right after a barrier takes a quarter of the time.
        calls = 1
        while sample(data, calls) < 1e-2:  # Warms up, too.
            calls *= 2
        for _ in range(5):
            sample(data, calls)
        times: list[float] = []
        spent = 0.0
        while spent < limit:
            times.append(sample(data, calls))
            spent += times[-1]
        if dist.get_rank() == 0:
            print(size, round(statistics.median(times) / calls * 1e9, 1), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""Products of square matrices by torch, as its users have them: torch.mm, and torch._scaled_mm in fp8. Prints TFLOP/s.

    python products.py SIDE TYPE
"""

from __future__ import annotations

import statistics
import sys

import torch

TYPES = {"f32": torch.float32, "tf32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16}
WARM_S, SAMPLES, CALLS = 0.5, 10, 8


def product(side: int, kind: str):
    """A call, and nothing else."""
    if kind == "f8e4m3":
        left, right = (torch.randn(side, side, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
        one = torch.ones((), device="cuda")
        return lambda: torch._scaled_mm(left, right.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    if kind == "i8":
        left, right = (torch.randint(-128, 128, (side, side), device="cuda", dtype=torch.int8) for _ in range(2))
        return lambda: torch._int_mm(left, right)
    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    left, right = (torch.rand(side, side, device="cuda", dtype=TYPES[kind]) * 2 - 1 for _ in range(2))
    result = torch.empty(side, side, device="cuda", dtype=TYPES[kind])
    return lambda: torch.mm(left, right, out=result)


def main() -> None:
    side, kind = int(sys.argv[1]), sys.argv[2]
    call = product(side, kind)

    def timed(calls: int) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3

    warm = 0.0
    while warm < WARM_S:
        warm += timed(CALLS)
    seconds = statistics.median(timed(CALLS) / CALLS for _ in range(SAMPLES))
    print(2 * side**3 / seconds / 1e12)


if __name__ == "__main__":
    main()

"""Prints what the package says of the bits of results, as JSON, for a test of native ranks to compare."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

if importlib.util.find_spec("torch") is None:
    print("no torch", file=sys.stderr)
    sys.exit(3)

import torch

from rankmark_worker import collective, watch

WORDS = {"f64": torch.int64, "f32": torch.int32, "f16": torch.int16, "bf16": torch.int16}


def result(dtype: str, words: list[int]) -> torch.Tensor:
    """These bits, as numbers of a type."""
    width = 8 * collective.DTYPES[dtype].itemsize
    held = [word - (1 << width) if word >> (width - 1) else word for word in words]
    return torch.tensor(held, dtype=WORDS[dtype]).view(collective.DTYPES[dtype])


def main() -> None:
    """Of each `[dtype, one, other]`: the first in short, and how they differ."""
    told = []
    for dtype, one, other in json.loads(sys.argv[1]):
        first, second = result(dtype, one), result(dtype, other)
        # Pieces that are shorter than a block, too.
        watch.PIECE = 10
        told.append([watch.in_short(dtype, first), watch.difference(first.dtype, first, second)])
    print(json.dumps(told))


if __name__ == "__main__":
    main()

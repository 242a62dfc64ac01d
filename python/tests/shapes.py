"""Prints what the package makes of models, as JSON: for each `[name, dimensions, seed]` its parameters with our names
and layouts, and of the small ones the first initial values as bits of f64. Exit code 3: there is no torch.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

try:
    import torch
except ImportError as missing:
    print(missing, file=sys.stderr)
    sys.exit(3)

from rankmark_worker import models

# Larger parameters are compared by their shapes.
SMALL = 1 << 16


def about(name: str, dimensions: dict[str, float], seed: int) -> list[dict[str, object]]:
    """The parameters of one model."""
    with torch.device("meta"):
        model = models.build(name, dimensions).double()
    found: list[dict[str, object]] = []
    for ours, parameter in models.parameters_of(model):
        shape = list(models.to_ours(parameter).shape)
        first: list[int] = []
        if parameter.numel() <= SMALL:
            values = torch.empty(parameter.shape, dtype=torch.float64)
            models.fill(ours, values, model.deviation(ours) if parameter.dim() > 1 else 0.0, seed)
            flat = models.to_ours(values).reshape(-1)[:8].contiguous()
            first = [bits % 2**64 for bits in flat.view(torch.int64).tolist()]
        found.append({"name": ours, "shape": shape, "first": first})
    return found


if __name__ == "__main__":
    print(json.dumps([about(name, dimensions, seed) for name, dimensions, seed in json.loads(sys.argv[1])]))

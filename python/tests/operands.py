"""Prints what the package fills operands with, as JSON, for a test of the coordinator to compare. Exit code 3: there is
no torch.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

try:
    import torch
except ImportError as missing:
    print(missing, file=sys.stderr)
    sys.exit(3)

from rankmark_worker.primitive import Product
from rankmark_worker.product import Attention, Pattern
from rankmark_worker.steps import Task


def product(seed: int, depth: int, block: int, narrow: bool, refills: int) -> list[list[float]]:
    """Rows of A, of B for expert 2, and of their product, each from depth 3 on."""
    pattern = Pattern(seed, depth, block, narrow)
    for _ in range(refills):
        pattern.displace()
    rows = torch.arange(40, 45)
    a, b = torch.empty(5, 20), torch.empty(20, 7)
    pattern.fill_rows(a, rows, 3)
    pattern.fill_columns(b, 3, 2)
    values = pattern.product(pattern.table(3, depth), 7, 2)[pattern.classes(rows)]
    return [part.flatten().tolist() for part in (a, b, values)]


def summed(primitive: str, dtype: str, sizes: list[int], ranks: int, rank: int) -> list[list[float]]:
    """A rank's operands, its own products and its rows of the result, after a refill."""
    scheme = {"tp_rowwise": "scatter_last", "dp_all_reduce": "reduce_last"}[primitive]
    recipe = {"scheme": scheme, "options": {}, "dtype": dtype, "ranks": ranks, "seed": 1, "tokens": [0] * ranks}
    task = Task({**recipe, **dict(zip("mnk", sizes))}, rank, torch.device("cpu"))
    site = Product(task, rank)
    site.refill("products")
    products = site.products.clone()
    rows = torch.arange(rank * task.rows, (rank + 1) * task.rows) if task.cut else torch.arange(task.m)
    result = site.pattern.product(site.whole, task.n, 0)[site.pattern.classes(rows)]
    # Added to 0, a negative 0 is one without a sign.
    return [(part.double() + 0.0).flatten().tolist() for part in (site.own, site.other, products, result)]


def attention(tokens: int, heads: int, width: int, ranks: int, rank: int) -> list[list[float]]:
    """A rank's panel and queries, in the order of native ranks, and the result, after a refill."""
    known = Attention(tokens, heads, width, ranks)
    known.displace()
    own = torch.arange(rank * known.rows, (rank + 1) * known.rows)
    panel = known.panel(own).permute(2, 1, 0, 3)
    queries = known.queries(own).permute(1, 0, 2)
    result = known.expected[:, (own + known.shift) % known.expected.shape[1]]
    return [part.double().flatten().tolist() for part in (panel, queries, result)]


if __name__ == "__main__":
    wanted = json.loads(sys.argv[1])
    makers: dict[str, Callable[..., Any]] = {"products": product, "summed": summed}
    told = {name: [make(*case) for case in wanted[name]] for name, make in makers.items() if name in wanted}
    if "attention" in wanted:
        told["attention"] = attention(*wanted["attention"])
    print(json.dumps(told))

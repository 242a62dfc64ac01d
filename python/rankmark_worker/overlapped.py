"""Implementations of libraries that overlap a product with its collective on GPUs: torch's symmetric memory, and
TransformerEngine. Each is looked for when it is asked for; where it is absent, the case is skipped with the reason.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import Any

import torch
import torch.distributed as dist

from .group import first_line
from .rank import Failure
from .steps import Site, Step


def needs_gpu(site: Site, what: str) -> None:
    """Refuses buffers in ordinary memory."""
    if site.task.place.type != "cuda":
        raise Failure(f"{what} needs CUDA, but `device` is {site.task.place.type}", True)


def load(package: str) -> Any:
    """A package, or the words that it is missing."""
    try:
        return importlib.import_module(package)
    except (ImportError, OSError, RuntimeError) as error:
        name = package.split(".")[0]
        raise Failure(f"{sys.executable} has no {name}: {first_line(error)}", True) from None


def async_tp(site: Site) -> Step:
    """torch's asynchronous tensor parallelism: `torch.ops.symm_mem`."""
    symmetric = load("torch.distributed._symmetric_memory")
    needs_gpu(site, "torch's symmetric memory")
    name = dist.group.WORLD.group_name
    with warnings.catch_warnings():
        # torch 2.5 to 2.8 need it, and later ones say that they do not.
        warnings.simplefilter("ignore")
        getattr(symmetric, "enable_symm_mem_for_group", lambda _: None)(name)
    operation = "fused_all_gather_matmul" if site.task.scheme == "gather_first" else "fused_matmul_reduce_scatter"
    fused = getattr(torch.ops.symm_mem, operation, None)
    if fused is None:
        raise Failure(f"torch {torch.__version__} has no symm_mem.{operation}", True)

    def gather() -> None:
        _, (site.output,) = fused(site.own, [site.other], 0, name)

    def scatter() -> None:
        site.output = fused(site.own, site.other, "sum", 0, name)

    return Step(gather if site.task.scheme == "gather_first" else scatter, path=f"symm_mem.{operation}")


class Buffers:
    """The buffers of TransformerEngine's communication: there is one set in a process, of one shape."""

    base: Any = None

    @classmethod
    def open(cls, base: Any, site: Site) -> None:
        """Makes them as large as what is gathered, or what is scattered."""
        if cls.base is not None:
            cls.base.destroy_ub()
        cls.base = base
        task = site.task
        shape = [task.m, task.k if task.scheme == "gather_first" else task.n]
        base.initialize_ub(shape, task.ranks, dtype=task.dtype, bootstrap_backend="nccl")


def transformer_engine(site: Site) -> Step:
    """TransformerEngine's linear layer, with its communication overlapped by user buffers."""
    engine = load("transformer_engine.pytorch")
    needs_gpu(site, "TransformerEngine")
    task = site.task
    column = task.scheme == "gather_first"
    try:
        Buffers.open(load("transformer_engine.pytorch.module.base"), site)
        layer = engine.Linear(
            task.k,
            task.n * task.ranks if column else task.n,
            bias=False,
            params_dtype=task.dtype,
            device=task.place,
            sequence_parallel=True,
            parallel_mode="column" if column else "row",
            tp_group=dist.group.WORLD,
            tp_size=task.ranks,
            ub_overlap_ag=column,
            ub_overlap_rs=not column,
            ub_name="qkv" if column else "proj",
        )
    except (AssertionError, TypeError, ValueError) as error:
        raise Failure(f"TransformerEngine refuses the case: {first_line(error)}", True) from None

    def filled() -> None:
        with torch.no_grad():
            layer.weight.copy_(site.other.t())

    def run() -> None:
        with torch.no_grad():
            site.output = layer(site.own)

    version = getattr(load("transformer_engine"), "__version__", "of unknown version")
    return Step(run, path=f"TransformerEngine {version}", filled=filled)

"""The ranks that train one model together: torch's DistributedDataParallel, its FSDP2, or one rank alone; and whether
they hold the same.
"""

from __future__ import annotations

import contextlib
import inspect
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from . import initial
from .models import CHUNK, Model, fill, parameters_of
from .rank import Failure, WrongReport

BITS = {4: torch.int32, 8: torch.int64}


class Replicas:
    """One rank alone: nothing is exchanged."""

    words = "one rank"
    # Whether the wait for other ranks can be told from the backward pass.
    told = True
    # What calls the model.
    module: nn.Module

    def __init__(self, model: Model, recipe: dict[str, Any], ranks: int, place: torch.device) -> None:
        self.model, self.ranks, self.place = model, ranks, place
        self.module = self.wrap(recipe)
        deviations = {name: model.deviation(name) for name, each in parameters_of(model) if each.dim() > 1}
        # After wrapping: sharding puts other parameters in their places.
        self._named = [(name, each, deviations.get(name, 0.0)) for name, each in parameters_of(model)]

    def wrap(self, recipe: dict[str, Any]) -> nn.Module:
        """The module that exchanges gradients while it runs backward."""
        return self.model

    def exchanging(self, last: bool) -> contextlib.AbstractContextManager[Any]:
        """Around a micro-batch: what says whether gradients are exchanged with it."""
        return contextlib.nullcontext()

    def parameters(self) -> list[Tensor]:
        """What the optimizer changes."""
        return [parameter for _, parameter, _ in self._named]

    def restart(self, seed: int) -> None:
        """Initial values everywhere."""
        with torch.no_grad():
            for name, parameter, deviation in self._named:
                parameter.grad = None
                first, held = self.held(parameter)
                fill(name, held, deviation, seed, first)

    def held(self, parameter: Tensor) -> tuple[int, Tensor]:
        """What this rank holds of a parameter, and the number of its first element."""
        return 0, parameter.detach()

    def digest(self) -> int:
        """Of all bits of the parameters that this rank holds."""
        total = 0
        for parameter in self.parameters():
            total = (total * initial.STEP + int(digest(self.held(parameter)[1]))) % (1 << 64)
        return total

    def agreement(self) -> WrongReport:
        """Whether all ranks hold the same parameters, bit by bit: by digests. Collective."""
        own = torch.cat([digest(parameter.detach()) for parameter in self.parameters()])
        # The maximum of digests and of their complements is our own only if all are equal.
        both = torch.cat([own, ~own])
        dist.all_reduce(both, dist.ReduceOp.MAX)
        equal = (both == torch.cat([own, ~own])).view(2, -1).all(0).tolist()
        report = WrongReport()
        for (name, parameter, _), same in zip(self._named, equal):
            report.compared += parameter.numel()
            if not same:
                report.count += parameter.numel()
                report.first = report.first or [apart(name, parameter.numel())]
        return report


def apart(name: str, count: int) -> dict[str, Any]:
    """What is said of the first parameter that differs. The rank is filled in by the caller, which knows it."""
    return {"index": 0, "expected": f"what other ranks hold in `{name}`", "got": f"something else ({count} numbers)"}


def digest(values: Tensor) -> Tensor:
    """A 64-bit digest of all bits of a tensor, each number mixed with its place."""
    flat = values.contiguous().view(-1).view(BITS[values.element_size()])
    total = torch.zeros(1, dtype=torch.int64, device=flat.device)
    for first in range(0, flat.numel(), CHUNK):
        part = flat[first : first + CHUNK].long()
        place = torch.arange(first + 1, first + 1 + part.numel(), dtype=torch.int64, device=flat.device)
        total += initial.mix(part ^ initial.mix(place * initial.STEP)).sum()
    return total


class Distributed(Replicas):
    """DistributedDataParallel: every rank holds everything; gradients are averaged beside the backward pass."""

    words = "DistributedDataParallel"

    def wrap(self, recipe: dict[str, Any]) -> nn.Module:
        self._communicate = bool(recipe["communicate"])
        # Running statistics and tables of angles: nothing that training reads differs between ranks.
        known = inspect.signature(nn.parallel.DistributedDataParallel.__init__).parameters
        unsent = "forward_sync_buffers" if "forward_sync_buffers" in known else "broadcast_buffers"
        if self.place.type == "cuda" and recipe["synchronised"]:
            self.model = nn.SyncBatchNorm.convert_sync_batchnorm(self.model)
        return nn.parallel.DistributedDataParallel(
            self.model,
            device_ids=[self.place] if self.place.type == "cuda" else None,
            **{unsent: False},
            bucket_cap_mb=recipe["bucket"] / 2**20,
            gradient_as_bucket_view=bool(recipe["gradient_as_bucket_view"]),
            static_graph=bool(recipe["static_graph"]),
        )

    def exchanging(self, last: bool) -> contextlib.AbstractContextManager[Any]:
        # Gradients of all micro-batches are exchanged at once, with the last one.
        quiet = not (last and self._communicate)
        return self.module.no_sync() if quiet else contextlib.nullcontext()


class Sharded(Replicas):
    """FSDP2: gradients and optimizer state are cut among ranks; parameters too (3), or only between steps (2)."""

    # Ranks wait for parameters throughout both passes.
    told = False

    def wrap(self, recipe: dict[str, Any]) -> nn.Module:
        try:
            from torch.distributed.device_mesh import DeviceMesh
            from torch.distributed.fsdp import fully_shard
        except ImportError:
            raise Failure(f"torch {torch.__version__} has no FSDP2 (`fully_shard`)", True) from None
        again = recipe["sharded"] == 3
        self.words = f"fully_shard, reshard_after_forward={again}"
        # By itself torch would take GPUs where there are some, also for ranks that compute on the CPU.
        mesh = DeviceMesh.from_group(dist.group.WORLD, self.place.type)
        for block in self.model.blocks():
            fully_shard(block, mesh=mesh, reshard_after_forward=again)
        fully_shard(self.model, mesh=mesh, reshard_after_forward=again)
        return self.model

    def exchanging(self, last: bool) -> contextlib.AbstractContextManager[Any]:
        # With every micro-batch, as native ranks do: no rank has room for whole gradients. torch adds up the shards.
        self.model.set_requires_gradient_sync(True)
        return contextlib.nullcontext()

    def held(self, parameter: Tensor) -> tuple[int, Tensor]:
        # torch cuts the first dimension into runs of equal length; the last ones may be short or empty.
        rows = -(-parameter.shape[0] // self.ranks)
        first = min(dist.get_rank() * rows, parameter.shape[0])
        row = parameter.numel() // parameter.shape[0]
        return first * row, parameter.detach().to_local()

    def agreement(self) -> WrongReport:
        # What a rank holds is nobody else's.
        return WrongReport()


def open_replicas(model: Model, recipe: dict[str, Any], ranks: int, place: torch.device) -> Replicas:
    """The ranks' way of training together. Collective."""
    if ranks == 1:
        return Replicas(model, recipe, ranks, place)
    return (Sharded if recipe["sharded"] else Distributed)(model, recipe, ranks, place)

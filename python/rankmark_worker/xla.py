"""JAX's compiled product and collective. What overlaps is XLA's choice. JAX has its own connections between ranks,
opened with the first case that asks for it; operands and results are torch's, copied outside of what is timed.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from .group import first_line
from .overlapped import load
from .rank import Failure
from .steps import Site, Step

AXIS = "ranks"


class Ranks:
    """JAX, joined with its peers: once in a process."""

    jax: Any = None

    @classmethod
    def join(cls, site: Site) -> Any:
        """Collective."""
        if cls.jax is not None:
            return cls.jax
        task = site.task
        # XLA's threads, as many as torch's: it reads both when it starts.
        os.environ["NPROC"] = str(torch.get_num_threads())
        os.environ.setdefault("JAX_PLATFORMS", task.place.type)
        jax = load("jax")
        address = meeting(task.rank, task.ranks)
        try:
            jax.config.update("jax_enable_x64", True)
            if task.place.type == "cpu":
                jax.config.update("jax_cpu_collectives_implementation", "gloo")
            own = None if task.place.type == "cpu" else [task.place.index]
            jax.distributed.initialize(address, task.ranks, task.rank, own)
            if len(jax.devices()) != task.ranks:
                raise Failure(f"jax {jax.__version__} finds {len(jax.devices())} devices for {task.ranks} ranks", True)
        except (RuntimeError, ValueError, AttributeError) as error:
            raise Failure(f"jax {jax.__version__} could not start: {first_line(error)}", True) from None
        cls.jax = jax
        return jax


def meeting(rank: int, ranks: int) -> str:
    """Where the ranks of JAX meet: on a free port of rank 0's host. Collective."""
    with socket.create_server(("", 0)) as server:
        own = (socket.gethostname(), server.getsockname()[1])
        told: list[Any] = [None] * ranks
        dist.all_gather_object(told, own)
    hosts = {host for host, _ in told}
    host, port = told[0]
    return f"127.0.0.1:{port}" if len(hosts) == 1 else f"{host}:{port}"


def jax(site: Site) -> Step:
    """The product and its collective, compiled as one."""
    if site.task.ranks == 1:
        raise Failure("jax needs two ranks or more", True)
    load("jax")
    return Compiled(Ranks.join(site), site).step()


class Compiled:
    """A compiled function, its operands, and what it gave last."""

    def __init__(self, jax: Any, site: Site) -> None:
        self.jax, self.site = jax, site
        self.operands: tuple[Any, ...] = ()
        self.result: Any = None
        spec = jax.sharding.PartitionSpec
        rows, columns, all_of_it = spec(AXIS, None), spec(None, AXIS), spec(None, None)
        task = site.task
        scattered = task.scheme in ("scatter_last", "reduce_last")
        self.sides = (columns, rows) if scattered else (rows, all_of_it)
        result = rows if task.scheme == "scatter_last" else all_of_it
        self.mesh = jax.sharding.Mesh(jax.devices(), (AXIS,))
        function = self.function(task.scheme)
        self.call = jax.jit(mapped(jax)(function, mesh=self.mesh, in_specs=self.sides, out_specs=result))

    def function(self, scheme: str) -> Callable[[Any, Any], Any]:
        """What each rank does with its own parts."""
        lax = self.jax.lax

        def multiply(a: Any, b: Any) -> Any:
            return self.jax.numpy.matmul(a, b, precision=lax.Precision.HIGHEST)

        return {
            "gather_first": lambda a, b: multiply(lax.all_gather(a, AXIS, axis=0, tiled=True), b),
            "gather_last": lambda a, b: lax.all_gather(multiply(a, b), AXIS, axis=0, tiled=True),
            "scatter_last": lambda a, b: lax.psum_scatter(multiply(a, b), AXIS, scatter_dimension=0, tiled=True),
            "reduce_last": lambda a, b: lax.psum(multiply(a, b), AXIS),
        }[scheme]

    def step(self) -> Step:
        """Compiles with the first call after each refill; the first check makes it, before anything is timed."""
        return Step(self.run, path=f"jax {self.jax.__version__}", filled=self.filled, settle=self.settle)

    def run(self) -> None:
        """One call, until its result is there."""
        self.result = self.call(*self.operands).block_until_ready()

    def filled(self) -> None:
        """Copies the operands, and forgets the result."""
        self.result = None
        tensors = (self.site.own, self.site.other)
        self.operands = tuple(self.placed(tensor, side) for tensor, side in zip(tensors, self.sides))

    def placed(self, tensor: torch.Tensor, side: Any) -> Any:
        """This rank's part of an array of all ranks."""
        own = self.jax.numpy.array(self.jax.dlpack.from_dlpack(tensor.contiguous()), copy=True)
        ranks = self.site.task.ranks
        shape = tuple(size * ranks if name == AXIS else size for size, name in zip(tensor.shape, side))
        sharding = self.jax.sharding.NamedSharding(self.mesh, side)
        return self.jax.make_array_from_single_device_arrays(shape, sharding, [own])

    def settle(self) -> None:
        """Hands the last result to torch."""
        if self.result is not None:
            self.site.output = torch.from_dlpack(self.result.addressable_data(0)).clone()
            self.result = None


def mapped(jax: Any) -> Callable[..., Any]:
    """JAX's map over ranks, by its name and options of this version. It is not to prove that results are equal."""
    if hasattr(jax, "shard_map"):
        return lambda function, **about: jax.shard_map(function, check_vma=False, **about)
    older = load("jax.experimental.shard_map").shard_map
    return lambda function, **about: older(function, check_rep=False, **about)

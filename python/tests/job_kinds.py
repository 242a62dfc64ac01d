"""Training jobs of many kinds, small, which print what they compute: each loss, bit by bit.

    job_kinds.py KIND STEPS

Each rank of a job runs this file, or calls `run`. test_jobs.py runs them with and without the profiling agent, and
`cargo xtask job-kinds` with a fault that is planted.

Reads, where it is a program:
    WORK_S  how long each activation sleeps, in seconds, so that a step is long enough to be timed
    SLOW_S  how much longer those of rank 1 sleep
    FAULT   1: rank 0 alone evaluates, rank 1's checkpoints take longer, or another process shares rank 1's core, in the
            kinds that are named after these
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WORK_S = 0.0
FAULT = os.environ.get("FAULT") == "1"
BATCH, WIDTH = 8, 16
Losses = Iterator[float]
KINDS: dict[str, Callable[[int], Losses]] = {}


def kind(function: Callable[[int], Losses]) -> Callable[[int], Losses]:
    """Names a job by its function."""
    KINDS[function.__name__] = function
    return function


class Act(nn.Module):  # type: ignore[misc]
    """An activation that takes a while."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        time.sleep(WORK_S)
        return torch.relu(batch)


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), Act(), nn.Linear(WIDTH, WIDTH))


def loss_of(model: nn.Module) -> torch.Tensor:
    loss: torch.Tensor = model(torch.randn(BATCH, WIDTH)).square().mean()
    return loss


def descend(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> Losses:
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        optimizer.step()
        yield loss.item()


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.1)


@kind
def ddp(steps: int) -> Losses:
    model = DistributedDataParallel(network())
    return descend(model, sgd(model), steps)


@kind
def hooks_of_ddp(steps: int) -> Losses:
    """Gradients are exchanged in bfloat16, by a hook in C++'s reducer."""
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook

    model = DistributedDataParallel(network())
    model.register_comm_hook(None, bf16_compress_hook)
    return descend(model, sgd(model), steps)


@kind
def in_backward(steps: int) -> Losses:
    """An optimizer for each parameter, stepped by a hook as soon as there is a gradient."""
    model = network()
    optimizers = {parameter: torch.optim.AdamW([parameter]) for parameter in model.parameters()}

    def step(parameter: torch.Tensor) -> None:
        dist.all_reduce(parameter.grad)
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    for _ in range(steps):
        loss = loss_of(model)
        loss.backward()
        yield loss.item()


@kind
def fsdp1(steps: int) -> Losses:
    from torch.distributed.fsdp import FullyShardedDataParallel

    model = FullyShardedDataParallel(network(), device_id=torch.device("cpu"))
    return descend(model, sgd(model), steps)


@kind
def fsdp2(steps: int) -> Losses:
    from torch.distributed.fsdp import fully_shard

    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    model = network()
    for layer in [model[0], model[2], model]:
        fully_shard(layer, mesh=mesh)
    return descend(model, sgd(model), steps)


@kind
def hsdp(steps: int) -> Losses:
    """Sharded in one dimension of the mesh, replicated in the other."""
    from torch.distributed.fsdp import fully_shard

    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(), 1), mesh_dim_names=("replicate", "shard"))
    model = network()
    fully_shard(model, mesh=mesh)
    return descend(model, sgd(model), steps)


@kind
def tensor_parallel(steps: int) -> Losses:
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    model = parallelize_module(network(), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return descend(model, sgd(model), steps)


@kind
def pipeline(steps: int) -> Losses:
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    rank, world = dist.get_rank(), dist.get_world_size()
    model = network()
    stage = PipelineStage(model, rank, world, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
    optimizer = sgd(model)
    for _ in range(steps):
        optimizer.zero_grad()
        batch, target = torch.randn(BATCH, WIDTH), torch.randn(BATCH, WIDTH)
        losses: list[torch.Tensor] = []
        if rank == 0:
            schedule.step(batch)
        else:
            schedule.step(target=target, losses=losses)
        optimizer.step()
        yield float(sum(loss.item() for loss in losses))


@kind
def compiled(steps: int) -> Losses:
    """A compiled model: the number of its graphs is printed, which a function of the agent in it would change."""
    model = torch.compile(DistributedDataParallel(network()), backend="aot_eager")
    yield from descend(model, sgd(model), steps)
    yield from graphs()


def graphs() -> Losses:
    """What torch.compile made of the job, as numbers beside its losses."""
    from torch._dynamo.utils import counters

    yield from (float(counters["stats"][name]) for name in ["unique_graphs", "calls_captured"])
    yield float(sum(counters["graph_break"].values()))


@kind
def compiled_whole(steps: int) -> Losses:
    """A model that must be one graph."""
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
    yield from descend(torch.compile(model, backend="aot_eager", fullgraph=True), sgd(model), steps)
    yield from graphs()


@kind
def compiled_step(steps: int) -> Losses:
    """A compiled step of an optimizer."""
    model = DistributedDataParallel(network())
    optimizer = sgd(model)
    step = torch.compile(optimizer.step, backend="eager")
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        step()
        yield loss.item()
    yield from graphs()


@kind
def zero(steps: int) -> Losses:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = DistributedDataParallel(network())
    return descend(model, ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW), steps)


@kind
def join(steps: int) -> Losses:
    from torch.distributed.algorithms.join import Join

    model = DistributedDataParallel(network())
    optimizer = sgd(model)
    with Join([model]):
        for _ in range(steps - 3 * dist.get_rank()):
            loss = loss_of(model)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            yield loss.item()


class Doubled(torch.autograd.Function):  # type: ignore[misc]
    """Its backward pass computes a gradient by another one."""

    @staticmethod
    def forward(context: Any, batch: torch.Tensor) -> torch.Tensor:
        context.save_for_backward(batch)
        return 2 * batch

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        (batch,) = context.saved_tensors
        with torch.enable_grad():
            again = batch.detach().requires_grad_()
            (inner,) = torch.autograd.grad((2 * again).sum(), again)
        return gradient * inner


@kind
def functions(steps: int) -> Losses:
    """Functions of autograd, reentrant checkpoints, and second derivatives."""
    from torch.utils.checkpoint import checkpoint

    model = network()
    optimizer = sgd(model)
    for _ in range(steps):
        optimizer.zero_grad()
        batch = torch.randn(BATCH, WIDTH, requires_grad=True)
        loss = Doubled.apply(checkpoint(model, batch, use_reentrant=True)).square().mean()
        (slope,) = torch.autograd.grad(model(batch).sum(), batch, create_graph=True)
        (loss + slope.square().mean()).backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        yield loss.item()


@kind
def optimizers(steps: int) -> Losses:
    """Two models with an optimizer each, one of which has a closure."""
    first, second = DistributedDataParallel(network()), network()
    optimizer, other = sgd(first), torch.optim.LBFGS(second.parameters(), max_iter=2)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(first)
        loss.backward()
        optimizer.step()
        batch = torch.randn(BATCH, WIDTH)

        def closure(batch: torch.Tensor = batch) -> torch.Tensor:
            other.zero_grad()
            closed: torch.Tensor = second(batch).square().mean()
            closed.backward()
            return closed

        yield loss.item() + float(other.step(closure))


@kind
def accumulated(steps: int) -> Losses:
    """Several backward passes a step, and gradients that are exchanged in the last one only."""
    model = DistributedDataParallel(network())
    optimizer = sgd(model)
    for _ in range(steps):
        optimizer.zero_grad()
        with model.no_sync():
            loss_of(model).backward()
        loss = loss_of(model)
        loss.backward()
        optimizer.step()
        yield loss.item()


@kind
def local_sgd(steps: int) -> Losses:
    model = network()
    for number, loss in enumerate(descend(model, sgd(model), steps)):
        if number % 5 == 4:
            for parameter in model.parameters():
                dist.all_reduce(parameter.data)
        yield loss


@kind
def by_hand(steps: int) -> Losses:
    """No optimizer."""
    weights = torch.randn(WIDTH, WIDTH, requires_grad=True)
    for _ in range(steps):
        loss = (torch.randn(BATCH, WIDTH) @ weights).square().mean()
        (gradient,) = torch.autograd.grad(loss, weights)
        dist.all_reduce(gradient)
        with torch.no_grad():
            weights -= 0.1 * gradient
        yield loss.item()


@kind
def own_profiler(steps: int) -> Losses:
    """The script profiles itself."""
    model = DistributedDataParallel(network())
    schedule = torch.profiler.schedule(wait=2, warmup=1, active=4, repeat=2)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], schedule=schedule) as profiler:
        for loss in descend(model, sgd(model), steps):
            profiler.step()
            yield loss


class Rows(torch.utils.data.Dataset[torch.Tensor]):  # type: ignore[misc]
    def __len__(self) -> int:
        return 1 << 12

    def __getitem__(self, row: int) -> torch.Tensor:
        return torch.full((WIDTH,), float(row % 7))


def loaded(steps: int, context: str) -> Losses:
    """Batches come from other processes."""
    model = DistributedDataParallel(network())
    optimizer = sgd(model)
    loader = torch.utils.data.DataLoader(Rows(), BATCH, num_workers=1, multiprocessing_context=context)
    for _, batch in zip(range(steps), loader):
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        yield loss.item()


@kind
def forked_workers(steps: int) -> Losses:
    return loaded(steps, "fork")


@kind
def spawned_workers(steps: int) -> Losses:
    return loaded(steps, "spawn")


def alone(steps: int) -> None:
    """A training of its own, beside that of a rank."""
    torch.manual_seed(1)
    model = network()
    assert len(list(descend(model, sgd(model), steps))) == steps


@kind
def helpers(steps: int) -> Losses:
    """Each rank has another process that trains, too."""
    process = multiprocessing.get_context("fork").Process(target=alone, args=(steps,))
    process.start()
    yield from ddp(steps)
    process.join()
    yield float(process.exitcode or 0)


@kind
def failing(steps: int) -> Losses:
    """A rank fails after some steps, and takes the other one with it."""
    for number, loss in enumerate(ddp(steps)):
        if number == steps // 2:
            raise SystemExit(3 + dist.get_rank())
        yield loss


def in_some_steps(steps: int, every: int, pause: Callable[[nn.Module], None]) -> Losses:
    """DDP, with something else after some steps."""
    model = DistributedDataParallel(network())
    for number, loss in enumerate(descend(model, sgd(model), steps)):
        if number % every == every - 1:
            pause(model.module)
        yield loss


@kind
def evaluation(steps: int) -> Losses:
    def evaluate(model: nn.Module) -> None:
        if dist.get_rank() == 0 or not FAULT:
            with torch.no_grad():
                for _ in range(10):
                    loss_of(model)

    return in_some_steps(steps, 12, evaluate)


@kind
def checkpoints(steps: int) -> Losses:
    def save(model: nn.Module) -> None:
        torch.save(model.state_dict(), os.devnull)
        if FAULT and dist.get_rank() == 1:
            time.sleep(20 * WORK_S)

    return in_some_steps(steps, 15, save)


@kind
def shared_core(steps: int) -> Losses:
    """Ranks compute on a core each; another process shares that of rank 1."""
    rank, parent = int(os.environ["RANK"]), os.getpid()
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank % len(os.sched_getaffinity(0))]})
    if FAULT and rank == 1:
        if os.fork() == 0:
            while os.getppid() == parent:
                for _ in range(100_000):
                    pass
            os._exit(0)
        os.nice(6)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256)))
    optimizer = sgd(model)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(torch.randn(256, 256)).square().mean()
        loss.backward()
        optimizer.step()
        time.sleep(WORK_S)
        yield loss.item()


@kind
def waiting(steps: int) -> Losses:
    """One rank waits in native code, the other one sleeps."""
    yield from ddp(steps)
    print("waits", flush=True)
    if dist.get_rank() == 1:
        dist.recv(torch.zeros(1), 0)
    time.sleep(100)


def run(name: str, steps: int, work_s: float = 0.0) -> None:
    """Runs a job as one of its ranks."""
    global WORK_S
    WORK_S = work_s
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if not dist.is_initialized():
        dist.init_process_group("gloo")
    ends = []
    for loss in KINDS[name](steps):
        ends.append(time.monotonic())
        # In one write: other ranks print to the same place.
        sys.stdout.write(f"{loss.hex()} of rank {dist.get_rank()}\n")
    times = sorted(after - before for before, after in zip(ends[1:], ends[2:]))
    sys.stdout.write("trained\n")
    if work_s and dist.get_rank() == 0:
        print(f"median_s {statistics.median(times):.6f}", file=sys.stderr)
    # No rank leaves while another one reads what it sent.
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    slower = float(os.environ.get("SLOW_S", "0")) if os.environ.get("RANK") == "1" else 0.0
    run(sys.argv[1], int(sys.argv[2]), float(os.environ.get("WORK_S", "0")) + slower)

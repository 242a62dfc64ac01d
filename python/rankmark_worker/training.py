"""A training case on one rank: mirrors `training::prepared`. The coordinator sends a recipe that leaves
nothing open; models, initial values and samples are those of native ranks, and what runs is torch's own.
"""

from __future__ import annotations

import contextlib
import gc
import math
import statistics
import struct
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from . import models, process
from .channel import PANICKED, Departure
from .device import Device, device_of
from .group import TorchGroup, first_line, freed
from .rank import Failure, Prepared, WrongReport
from .replicas import Replicas, open_replicas
from .synthetic import Inputs, Places
from .watch import MASK, difference, in_short

# Steps that are repeated, and how often: mirrors `training::repeat`.
REPEATED, RUNS = 4, 2
PHASES = ("input", "forward", "backward", "communication", "optimizer")


def prepare(values: dict[str, Any], rank: int, group: TorchGroup) -> Prepared:
    """Builds everything. Collective."""
    ranks = group.size
    recipe = values["recipe"]
    # What the case before held: modules and their hooks refer to each other.
    gc.collect()
    try:
        training = Training(recipe, rank, ranks, device_of(group.place))
        if values.get("reproducible"):
            training.repeat()
        return training
    except (AttributeError, ImportError, LookupError, NotImplementedError, TypeError) as error:
        raise lacking(recipe, error) from None
    except (RuntimeError, MemoryError) as error:
        raise alone(ranks, first_line(error), "allocate" in str(error)) from None


def lacking(recipe: dict[str, Any], error: Exception) -> Failure:
    """That this torch is too old, or has no such thing."""
    return Failure(f"torch {torch.__version__} cannot train {recipe['model']}: {first_line(error)}", True)


def alone(ranks: int, text: str, lacks: bool = False) -> Exception:
    """What may have befallen this rank alone. Its peers wait for it in a collective then, and the end of its process is
    what their coordinator notices at once."""
    return Failure(text, lacks) if ranks == 1 else Departure(PANICKED, text)


class Training:
    """A training case, ready on this rank. A call is a step."""

    max_calls = 1 << 63
    messages = 1
    checks = 0
    steps = True
    past_ns: int | None = None
    # A step ends with its loss, which the device computes last.
    waits: Callable[[], None] | None = None
    freed: Callable[[], None] | None = None
    flops = 0.0
    traffic_bytes = 0
    # Processor time of steps, and since when it counts; None between steps.
    cpu_ns = 0
    since_ns: int | None = None

    def __init__(self, recipe: dict[str, Any], rank: int, ranks: int, device: Device) -> None:
        self.recipe, self.rank, self.ranks, self.device = recipe, rank, ranks, device
        double = recipe["precision"] == "f64"
        self.narrow = recipe["precision"] == "bf16"
        dtype = torch.float64 if double else torch.float32
        # Before memory counts.
        self.peak = device.peak_flops(torch.bfloat16 if self.narrow else dtype)
        self.freed = freed(device.place)
        self.base_bytes = device.begin_memory()
        model = models.build(recipe["model"], recipe["dimensions"])
        model = model.double() if double else model
        if len(model.shape) == 3 and not recipe["sharded"]:
            model = model.to(memory_format=torch.channels_last)
        model = model.to(device.place)
        micro, micros = int(recipe["micro_batch"]), int(recipe["micro_batches"])
        places = Places(rank * micro * micros, micro, micros, ranks * micro * micros)
        self.inputs = Inputs(model, int(recipe["seed"]), places, dtype, device)
        self.replicas: Replicas = open_replicas(model, recipe, ranks, device.place)
        self.call: Callable[[Tensor], Tensor] = self.replicas.module
        self.exchanges = ranks > 1 and bool(recipe["communicate"])
        self.word = torch.zeros(1, dtype=torch.float64, device=device.place)
        self.restart()
        if recipe["compile"]:
            self.compile()
        how = ", compiled" if recipe["compile"] else ""
        precision = "autocast to bfloat16" if self.narrow else str(dtype).split(".")[-1]
        self.path = f"{self.replicas.words}{how}, {precision}, torch {torch.__version__}"
        self.held_bytes = self.threads = 0
        # What repeated steps gave, where they were repeated.
        self.repeated: dict[str, Any] | None = None

    def compile(self) -> None:
        """By torch.compile, with a step that is forgotten: compiling is not part of what is timed."""
        graphs = try_compiler(self.device.place)
        self.call = torch.compile(self.replicas.module)
        self.step()
        if graphs() == 0:
            raise Failure(f"torch.compile compiled nothing of {self.recipe['model']}", True)
        self.restart()

    def restart(self) -> None:
        """Initial parameters, and an optimizer that has seen nothing."""
        self.replicas.restart(int(self.recipe["seed"]))
        self.optimizer = optimizer_of(self.recipe, self.replicas.parameters())
        self.inputs.restart()
        self.losses: list[float] = []
        self.laps: list[dict[str, float]] = []
        self.begin_cpu()

    def repeat(self) -> None:
        """Makes the first steps twice from the same parameters, and notes whether bits differ. Collective."""
        before: tuple[Tensor, int] | None = None
        noted: dict[str, Any] = {"bits": None, "results": 0, "calls": None, "with_rank_0": False, "ranks": None}
        for number in range(1, RUNS + 1):
            self.restart()
            for _ in range(REPEATED):
                self.run()
            losses, digest = torch.tensor(self.losses, dtype=torch.float64), self.replicas.digest()
            noted["results"] += 1
            if before is None:
                before, noted["bits"] = (losses, digest), in_short("f64", losses)
                continue
            apart = difference(torch.float64, before[0], losses)
            if apart is None and before[1] != digest:
                values = [f"parameters {each & MASK:016x}" for each in (before[1], digest)]
                apart = {"first": REPEATED - 1, "end": REPEATED, "values": values}
            if apart is not None and noted["calls"] is None:
                noted["calls"] = [number, apart]
        self.restart()
        self.repeated = noted

    def refill(self) -> None:
        """Back to the initial parameters."""
        if self.losses:
            self.restart()
        self.begin_cpu()

    def begin_cpu(self) -> None:
        """From now on processor time is that of steps; none has been counted."""
        self.cpu_ns, self.since_ns = 0, time.process_time_ns()

    def pause_cpu(self) -> None:
        """What follows does not belong to a step: `details` lets steps count again."""
        if self.since_ns is not None:
            self.cpu_ns, self.since_ns = self.cpu_ns + time.process_time_ns() - self.since_ns, None

    def run(self) -> None:
        """One step."""
        try:
            loss = self.step()
        except (AttributeError, NotImplementedError, TypeError) as error:
            # The last is of an argument that came with a later torch.
            raise lacking(self.recipe, error) from None
        except (RuntimeError, ValueError, MemoryError) as error:
            raise alone(self.ranks, f"step {len(self.losses) + 1}: {first_line(error)}") from None
        self.losses.append(loss)
        if not math.isfinite(loss):
            raise Failure(f"the loss of step {len(self.losses)} is {loss}")

    def step(self) -> float:
        """One step; gives the mean loss over all ranks' samples."""
        lap = Lap(self.device)
        batches = self.inputs.take()
        lap.ends("input")
        self.optimizer.zero_grad(set_to_none=True)
        lap.ends("optimizer")
        total = torch.zeros((), dtype=torch.float64, device=self.device.place)
        for number, (inputs, targets) in enumerate(batches):
            last = number + 1 == len(batches)
            with self.replicas.exchanging(last):
                loss = self.loss(inputs, targets) / len(batches)
                lap.ends("forward")
                if last and self.exchanges and self.replicas.told:
                    loss.register_hook(lap.computed_at_the_end)
                loss.backward()
                lap.ends_backward()
            total += loss.detach()
        if self.recipe["clip"] is not None:
            torch.nn.utils.clip_grad_norm_(self.replicas.parameters(), float(self.recipe["clip"]))
        self.optimizer.step()
        lap.ends("optimizer")
        if self.ranks > 1:
            self.word[0] = total
            dist.all_reduce(self.word)
            total = self.word[0] / self.ranks
            lap.ends("communication")
        loss = float(total)
        self.laps.append(lap.end())
        return loss

    def loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Mean over a micro-batch."""
        narrow = torch.autocast(self.device.place.type, torch.bfloat16) if self.narrow else contextlib.nullcontext()
        with narrow:
            logits = self.call(inputs)
            return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets)

    def check(self, calls: int) -> WrongReport:
        """Ranks must hold the same parameters, bit by bit, and every loss must be a number."""
        self.pause_cpu()
        self.threads = process.threads()
        self.held_bytes = self.device.held_bytes()
        # Without communication ranks go ways of their own, as asked.
        report = self.replicas.agreement() if self.exchanges else WrongReport()
        report.first = [{"rank": self.rank, **each} for each in report.first]
        report.compared += len(self.losses)
        report.count += sum(not math.isfinite(loss) for loss in self.losses)
        return report

    def corrupt(self, element: int) -> None:
        """Changes a number of the parameters, counted in the first of them."""
        with torch.no_grad():
            _, held = self.replicas.held(self.replicas.parameters()[0])
            if held.numel():
                held.view(-1)[element % held.numel()] += 1.0

    def details(self) -> dict[str, Any]:
        """What the coordinator makes metrics of: `training::notes`."""
        self.pause_cpu()
        phases: dict[str, Any] = {name: 0.0 for name in PHASES}
        if self.laps:
            phases = {name: statistics.median(lap[name] for lap in self.laps) for name in PHASES}
        if self.exchanges and not self.replicas.told:
            # It is inside of the passes, and nobody can tell how much.
            phases["backward"] += phases["communication"]
            phases["communication"] = None
        # A trial that ranks are kept for goes on with the next step.
        self.since_ns = time.process_time_ns()
        return {
            "loss_bits": [struct.unpack("<Q", struct.pack("<d", loss))[0] for loss in self.losses],
            "phases": phases,
            "communication_s": [lap["communication"] for lap in self.laps] if self.replicas.told else [],
            "cpu_s": self.cpu_ns / 1e9,
            "threads": self.threads,
            "base_bytes": self.base_bytes,
            "held_bytes": self.held_bytes,
            "peak_flops": self.peak[0],
            "peak_source": self.peak[1],
            "gemm_flops": 0.0,
            "stages": [],
            "micro_batches": [int(self.recipe["micro_batches"])] * self.ranks,
            "repeated": self.repeated,
        }


class Lap:
    """Where a step's time goes."""

    def __init__(self, device: Device) -> None:
        self._device = device
        # Where phases end, in order: on a device it is known only later when that was.
        self._ends: list[tuple[str, Any]] = [("", device.mark())]
        self._computed: Any = None

    def ends(self, phase: str) -> None:
        """What passed since the last phase belongs to this one."""
        self._ends.append((phase, self._device.mark()))

    def end(self) -> dict[str, float]:
        """Seconds of each phase, once the step is done."""
        seconds = dict.fromkeys(PHASES, 0.0)
        for (_, since), (phase, until) in zip(self._ends, self._ends[1:]):
            seconds[phase] += self._device.seconds(since, until)
        return seconds

    def computed_at_the_end(self, _gradient: Tensor) -> None:
        """As a hook of the loss: notes when this rank's backward pass has computed everything. The engine runs what is
        queued in the order of queueing, and DistributedDataParallel queues its wait for the exchange later."""

        def note() -> None:
            self._computed = self._device.mark()

        torch.autograd.Variable._execution_engine.queue_callback(note)

    def ends_backward(self) -> None:
        """Computing, then waiting for the exchange of gradients, where that was told."""
        if self._computed is not None:
            self._ends.append(("backward", self._computed))
            self._computed = None
            self.ends("communication")
        else:
            self.ends("backward")


def optimizer_of(recipe: dict[str, Any], parameters: list[Tensor]) -> torch.optim.Optimizer:
    """The case's optimizer, torch's fused form."""
    about: dict[str, Any] = {"lr": float(recipe["learning_rate"]), "fused": True}
    try:
        if recipe["optimizer"] == "sgd":
            return torch.optim.SGD(parameters, momentum=float(recipe["momentum"]), **about)
        betas = (float(recipe["beta1"]), float(recipe["beta2"]))
        epsilon, decay = float(recipe["epsilon"]), float(recipe["weight_decay"])
        return torch.optim.AdamW(parameters, betas=betas, eps=epsilon, weight_decay=decay, **about)
    except (RuntimeError, TypeError) as error:
        text = f"torch {torch.__version__} has no fused {recipe['optimizer']} for this device: {first_line(error)}"
        raise Failure(text, True) from None


def try_compiler(place: torch.device) -> Callable[[], int]:
    """Compiles a small function, which shows whether anything can be; gives how many graphs were compiled since."""
    import torch._inductor.config as inductor
    from torch._dynamo.utils import counters

    # In this process: no others are left behind.
    inductor.compile_threads = 1
    # What was compiled for cases before counts against a limit, beyond which nothing more is compiled.
    torch._dynamo.reset()
    try:
        torch.compile(lambda x: torch.tanh(x) + 1.0)(torch.zeros(8, device=place))
    except Exception as error:
        # Whatever it is: torch wraps what a compiler or its absence says in errors of its own.
        said = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise Failure(f"torch.compile of torch {torch.__version__} cannot compile here: {said}", True) from None
    before = counters["stats"]["unique_graphs"]
    return lambda: int(counters["stats"]["unique_graphs"]) - int(before)

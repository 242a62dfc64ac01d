"""Times training steps of PyTorch, a few at a time on request, so that a driver can alternate them with Rankmark's in
one run on the same machine.

Reads one JSON object a line from standard input and answers each with one line on standard output:

    {"setup": "gpt2", "threads": 2}  -> {"ready": {...}}   builds the model, runs warm-up steps (`"warm_up": 10`)
    {"steps": 5}                     -> {"seconds": [5 numbers], "cpu_seconds": [...], "losses": [...]}
    {"quit": true}                   -> ends

`setup` names one of CASES; its other keys change the case: `mode` (eager, compile), `dtype` (f32, bf16: autocast),
`optimizer` (sgd, adamw), `batch`, `ranks` (DDP over gloo, one process each), `threads` (of each rank), `cores` (a list
of cores for each rank), `zero` (what gradients become between steps: none, zeros), and any argument of the model under
`model`. What cannot be done is answered by {"error": "..."}. Between requests the process sleeps in a read. Seconds are
those of the slowest rank, CPU seconds the sum over ranks.

PyTorch at its best: fused optimizers, channels-last images, no dropout, DDP with gradients as views of buckets and a
static graph; `"mode": "compile"` needs a C++ compiler. A tuned allocator is the driver's matter, which should set
LD_PRELOAD to libtcmalloc_minimal.so.4 or libjemalloc.so.2 where there is one, because glibc's returns large blocks to
the system and faults them in again at each step; the answer to `setup` says which one is loaded. f32 means f32: no
reduced-precision products are allowed (`set_float32_matmul_precision("highest")`).

The block case is GPT-2 with one layer and 256 tokens: 3% of its products are outside of the block.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

import samples as synthetic
from samples import models

Bert, Gpt2, ResNet = models.Bert, models.Gpt2, models.ResNet

LEARNING_RATE = 1e-3
# A rank ends this long after its peers died.
PATIENCE = timedelta(minutes=5)

WIDTHS = {"layers": 12, "width": 768, "heads": 12, "ffn": 3072}
GPT2 = {**WIDTHS, "vocabulary": 50257, "sequence": 256, "positions": 1024}
BERT = {**WIDTHS, "vocabulary": 30522, "sequence": 128, "positions": 512, "segments": 2}
RESNET = {"stages": [3, 4, 6, 3], "bottleneck": True, "image": 224, "classes": 1000, "width": 64}

CASES: dict[str, dict[str, object]] = {
    "gpt2": {"kind": Gpt2, "model": GPT2, "batch": 1, "sequence": 256},
    "gpt2_bf16": {"kind": Gpt2, "model": GPT2, "batch": 1, "sequence": 256, "dtype": "bf16"},
    "gpt2_ddp": {"kind": Gpt2, "model": GPT2, "batch": 1, "sequence": 256, "ranks": 2, "threads": 1},
    "block": {"kind": Gpt2, "model": {**GPT2, "layers": 1, "vocabulary": 256}, "batch": 4, "sequence": 512},
    "bert_base": {"kind": Bert, "model": BERT, "batch": 4, "sequence": 128},
    "resnet50": {"kind": ResNet, "model": RESNET, "batch": 4, "image": 224},
}
DEFAULTS = {
    "mode": "eager",
    "dtype": "f32",
    "optimizer": "sgd",
    "ranks": 1,
    "threads": 2,
    "cores": None,
    "warm_up": 10,
    "zero": "none",
}

CHOICES = {
    "mode": ["eager", "compile"],
    "dtype": ["f32", "bf16"],
    "optimizer": ["sgd", "adamw"],
    "zero": ["none", "zeros"],
}


class Refused(Exception):
    """What was asked for cannot be done."""


def resolve(request: dict[str, object]) -> dict[str, object]:
    """The case with the request's changes. Unknown keys and values are refused."""
    name = str(request["setup"]).replace("-", "_")
    if name not in CASES:
        raise Refused(f"no case {name}: {', '.join(CASES)}")
    case = DEFAULTS | CASES[name]
    changes = {key: value for key, value in request.items() if key != "setup"}
    unknown = set(changes) - set(case)
    if unknown or "kind" in changes:
        raise Refused(f"unknown keys {', '.join(sorted(unknown | {'kind'} & set(changes)))}")
    changes["model"] = {**case["model"], **changes.get("model", {})}
    case |= changes
    for key, values in CHOICES.items():
        if case[key] not in values:
            raise Refused(f"{key} is {' or '.join(values)}, not {case[key]}")
    return case


def samples(case: dict[str, object], rank: int) -> tuple[Tensor, Tensor]:
    """A batch of synthetic inputs and their targets; ranks have different ones."""
    batch = case["batch"]
    indices = range(rank * batch, (rank + 1) * batch)
    if case["kind"] is ResNet:
        images = synthetic.images(indices, case["image"]).float().permute(0, 3, 1, 2)
        classes = synthetic.image_classes(indices, case["model"]["classes"])
        return images.contiguous(memory_format=torch.channels_last), classes
    tokens = synthetic.tokens(indices, case["sequence"], case["model"]["vocabulary"])
    following = tokens[:, :-1] if case["kind"] is Bert else tokens[:, 1:]
    return tokens[:, :-1].contiguous(), following.reshape(-1)


def build(case: dict[str, object]) -> nn.Module:
    """The model with PyTorch-drawn weights of about the published size: products do not depend on them."""
    torch.manual_seed(1)
    model = case["kind"](**case["model"])
    if case["kind"] is ResNet:
        return model.to(memory_format=torch.channels_last)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.02)
    return model


def optimizer_of(case: dict[str, object], model: nn.Module) -> torch.optim.Optimizer:
    if case["optimizer"] == "adamw":
        return torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)
    return torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, fused=True)


def training_step(case: dict[str, object], rank: int) -> Callable[[], float]:
    """A function that trains one step and returns its loss."""
    model = build(case)
    inputs, targets = samples(case, rank)
    optimizer = optimizer_of(case, model)
    if case["ranks"] > 1:
        model = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, static_graph=True)
    bf16 = case["dtype"] == "bf16"

    def loss_of() -> Tensor:
        with torch.autocast("cpu", torch.bfloat16) if bf16 else contextlib.nullcontext():
            logits = model(inputs)
            return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets)

    if case["mode"] == "compile":
        loss_of = torch.compile(loss_of)

    def step() -> float:
        loss = loss_of()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=case["zero"] == "none")
        return loss.item()

    return step


def allocator() -> str:
    """The allocator that this process uses, as far as its mapped libraries tell."""
    mapped = Path("/proc/self/maps").read_text() if Path("/proc/self/maps").exists() else ""
    return next((name for name in ("tcmalloc", "jemalloc", "mimalloc") if name in mapped), "system")


class Peers:
    """The other ranks of a DDP case: processes of this script, which are told every request."""

    def __init__(self, case: dict[str, object], request: dict[str, object]):
        self.folder = tempfile.TemporaryDirectory()
        self.store = f"file://{self.folder.name}/store"
        self.processes = []
        for rank in range(1, case["ranks"]):
            command = [sys.executable, str(Path(__file__).resolve()), "--rank", str(rank), "--store", self.store]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.processes.append(process)
        self.tell(request)

    def tell(self, request: dict[str, object]) -> None:
        for process in self.processes:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()

    def answers(self) -> list[dict[str, object]]:
        """One answer of each; an answer that is missing or an error is one here."""
        found = []
        for rank, process in enumerate(self.processes, 1):
            line = process.stdout.readline()
            answer = json.loads(line) if line else {"error": f"ended with {process.wait()}"}
            if "error" in answer:
                raise Refused(f"rank {rank}: {answer['error']}")
            found.append(answer)
        return found

    def close(self) -> None:
        for process in self.processes:
            process.stdin.close()
            process.wait()
        self.folder.cleanup()


class Session:
    """One case, from its setup to the end of the process."""

    def __init__(self, request: dict[str, object], rank: int, store: str | None):
        self.case = resolve(request)
        self.rank = rank
        self.peers = Peers(self.case, request) if rank == 0 and self.case["ranks"] > 1 else None
        cores = self.case["cores"]
        if cores:
            os.sched_setaffinity(0, cores[rank])
        torch.set_num_threads(self.case["threads"])
        torch.set_float32_matmul_precision("highest")
        if self.case["ranks"] > 1:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
            store = self.peers.store if self.peers else store
            dist.init_process_group(
                "gloo", init_method=store, rank=rank, world_size=self.case["ranks"], timeout=PATIENCE
            )
        self.step = training_step(self.case, rank)
        for _ in range(self.case["warm_up"]):
            self.step()
        if self.peers:
            self.peers.answers()

    def ready(self) -> dict[str, object]:
        shown = {key: value for key, value in self.case.items() if key != "kind"}
        return {"ready": shown | {"torch": torch.__version__, "allocator": allocator()}}

    def steps(self, count: int) -> dict[str, object]:
        if self.peers:
            self.peers.tell({"steps": count})
        answer = {"seconds": [], "cpu_seconds": [], "losses": []}
        for _ in range(count):
            cpu, begin = time.process_time(), time.perf_counter()
            loss = self.step()
            answer["seconds"].append(time.perf_counter() - begin)
            answer["cpu_seconds"].append(time.process_time() - cpu)
            answer["losses"].append(loss)
        for other in self.peers.answers() if self.peers else []:
            answer["seconds"] = [max(pair) for pair in zip(answer["seconds"], other["seconds"], strict=True)]
            answer["cpu_seconds"] = [
                sum(pair) for pair in zip(answer["cpu_seconds"], other["cpu_seconds"], strict=True)
            ]
        return answer

    def close(self) -> None:
        if dist.is_initialized():
            dist.destroy_process_group()
        if self.peers:
            self.peers.close()


def serve(rank: int, store: str | None) -> None:
    """Answers requests until `quit` or the end of the input."""
    # Libraries write to standard output too: answers keep it for themselves.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    session = None
    for line in sys.stdin:
        try:
            request = json.loads(line)
            if "quit" in request:
                break
            if "setup" in request:
                if session is not None:
                    raise Refused("a process runs one case: start another one")
                session = Session(request, rank, store)
                answer = session.ready()
            elif session is not None and isinstance(request.get("steps"), int):
                answer = session.steps(request["steps"])
            else:
                raise Refused("expected setup first, then steps, then quit")
        except (Refused, ValueError, TypeError, KeyError, RuntimeError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)
    if session is not None:
        session.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rank", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--store", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    serve(arguments.rank, arguments.store)


if __name__ == "__main__":
    main()

"""Makes the golden files that Rankmark's training is compared with: losses, logits, named gradients and parameters of
small models in f64 by PyTorch.

    python golden.py [FOLDER]     (default: crates/parallel/tests/golden)

Everything begins from formulas that both sides know (`samples.py` and, in the package of PyTorch ranks, `initial.py`):
no weights or inputs are stored, only a few of each to tell a wrong formula from a wrong model. Layouts are Rankmark's
(`models.to_ours`).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import samples
from samples import models

parameters_of, start, to_ours = models.parameters_of, models.start, models.to_ours

STEPS = 5
BATCH = 4
SEED = 1
ADAMW = {"rate": 1e-3, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8, "decay": 0.1}
FORMULAS = {
    "tokens": "sample i, position p: (2654435761 i + 40503 p) mod vocabulary; i counts over all steps",
    "targets": "the token at p + 1 (gpt2, llama; the formula goes on past the last), the token itself (bert)",
    "images": "sample i, number p (NHWC): (mix(2^32 i + p) >> 56) / 128 - 1, mix as in crates/model/src/initial.rs",
    "classes": "sample i: 2654435761 i mod classes",
}


class Case:
    """A model of Rankmark's catalog at a small setting, its PyTorch module, and its samples."""

    def __init__(self, file: str, name: str, settings: dict[str, int], rate: float, **defaults: int):
        self.file, self.name, self.settings, self.rate = file, name, settings, rate
        # What the catalog fills in.
        self.dimensions = defaults | settings

    def build(self) -> nn.Module:
        return models.build(self.name, self.dimensions).double()

    def sample(self, indices: range) -> tuple[Tensor, Tensor]:
        """Inputs and targets of these samples."""
        if "image" in self.settings:
            images = samples.images(indices, self.settings["image"]).permute(0, 3, 1, 2)
            return images, samples.image_classes(indices, self.settings["classes"])
        tokens = samples.tokens(indices, self.settings["sequence"], self.settings["vocabulary"])
        following = tokens[:, :-1] if self.name.startswith("bert") else tokens[:, 1:]
        return tokens[:, :-1], following

    def loss(self, model: nn.Module, step: int) -> tuple[Tensor, Tensor]:
        """Logits `[rows, classes]` and their mean cross-entropy."""
        inputs, targets = self.sample(range(step * BATCH, (step + 1) * BATCH))
        logits = model(inputs)
        logits = logits.reshape(-1, logits.shape[-1])
        return logits, F.cross_entropy(logits, targets.reshape(-1))


TRANSFORMER = {"layers": 2, "width": 48, "heads": 4, "vocabulary": 97, "sequence": 16}
GPT2 = {**TRANSFORMER, "positions": 24}
LLAMA = {**TRANSFORMER, "kv_heads": 2, "ffn": 80}
BERT = {**TRANSFORMER, "positions": 24}
RESNET18 = {"image": 32, "classes": 10, "width": 8}
RESNET50 = {"image": 40, "classes": 10, "width": 8, "stage1": 1, "stage2": 1, "stage3": 1, "stage4": 1}

CASES = [
    Case("gpt2", "gpt2", GPT2, 0.1, ffn=192),
    Case("llama", "llama-tiny", LLAMA, 0.1, tied=1),
    Case("bert", "bert-base", BERT, 0.1, ffn=192, segments=2),
    Case("resnet18", "resnet18", RESNET18, 0.02, stage1=2, stage2=2, stage3=2, stage4=2),
    Case("resnet50", "resnet50", RESNET50, 0.02),
]


def outline(name: str, values: Tensor) -> dict[str, object]:
    """Norm and first numbers of a tensor in Rankmark's layout."""
    ours = to_ours(values.detach())
    return {"name": name, "norm": ours.norm().item(), "first": ours.reshape(-1)[:8].tolist()}


def compact(value: object) -> str:
    """JSON with a line for each tensor, so that a change shows where it is."""
    return json.dumps(value).replace(', {"name"', ',\n  {"name"').replace('[{"name"', '[\n  {"name"')


def first_step(case: Case) -> dict[str, object]:
    """Initial numbers, inputs, logits and gradients of the first step."""
    model = case.build()
    start(model, SEED)
    inputs, _ = case.sample(range(1, 2))
    inputs = inputs.permute(0, 2, 3, 1) if inputs.dim() == 4 else inputs
    begin = []
    for name, parameter in parameters_of(model):
        if parameter.dim() > 1:
            # As bits too: these must be equal in the last one, and not all readers of JSON are that exact.
            bits = to_ours(parameter.detach()).reshape(-1)[:8].contiguous().view(torch.int64).tolist()
            begin.append({**outline(name, parameter), "bits": [value % 2**64 for value in bits]})
    logits, loss = case.loss(model, 0)
    loss.backward()
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "initial": begin,
        "second_sample": inputs.reshape(-1)[:8].tolist(),
        "logits": {"shape": list(logits.shape), "norm": logits.norm().item(), "rows": logits[:2, :8].tolist()},
        "gradients": [outline(name, parameter.grad) for name, parameter in parameters_of(model)],
    }


def train(case: Case, optimizer_of) -> dict[str, object]:
    """Losses of the steps, and the parameters after them."""
    model = case.build()
    start(model, SEED)
    optimizer = optimizer_of(model.parameters())
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        _, loss = case.loss(model, step)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, "after": [outline(name, parameter) for name, parameter in parameters_of(model)]}


def golden(case: Case) -> dict[str, object]:
    """Everything that is stored of a case."""
    sgd = {"rate": case.rate, "momentum": 0.9}
    return {
        "model": case.name,
        "settings": case.settings,
        "seed": SEED,
        "batch": BATCH,
        "made_by": f"peers/pytorch/golden.py, torch {torch.__version__.split('+')[0]}, f64, one thread",
        "formulas": FORMULAS,
        **first_step(case),
        "sgd": sgd | train(case, lambda p: torch.optim.SGD(p, lr=case.rate, momentum=0.9)),
        "adamw": ADAMW
        | train(
            case,
            lambda p: torch.optim.AdamW(
                p,
                lr=ADAMW["rate"],
                betas=(ADAMW["beta1"], ADAMW["beta2"]),
                eps=ADAMW["epsilon"],
                weight_decay=ADAMW["decay"],
            ),
        ),
    }


def main() -> None:
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    default = Path(__file__).resolve().parents[2] / "crates" / "parallel" / "tests" / "golden"
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else default
    folder.mkdir(parents=True, exist_ok=True)
    for case in CASES:
        text = ",\n".join(f"{json.dumps(name)}: {compact(value)}" for name, value in golden(case).items())
        (folder / f"{case.file}.json").write_text("{\n" + text + "\n}\n")


if __name__ == "__main__":
    main()

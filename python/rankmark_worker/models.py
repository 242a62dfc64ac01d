"""The models of `crates/model` as plain PyTorch modules, the way a good PyTorch engineer would write them.

Each returns logits. `parameters_of` pairs every parameter with our name, `to_ours` gives our layout. Dimensions come
from the coordinator, defaults included; what is not a dimension (epsilons, deviations) stands here a second time: tests
compare names, shapes and first values of every model, and losses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import initial

# Initial values made at once.
CHUNK = 1 << 18


class Model(nn.Module):
    """What all models say of themselves."""

    # Our name of a parameter, or of those under a prefix that ends in a dot, where it is another.
    renamed: dict[str, str] = {}
    # Models of tokens: how many there are and of what length a sample is. Others: zero.
    vocabulary = 0
    sequence = 0
    # Whether targets are the tokens that follow, or the tokens themselves.
    next = True
    # Models of numbers: extents of a sample, and how many classes there are.
    shape: tuple[int, ...] = ()
    classes = 0

    def deviation(self, name: str) -> float:
        """Of the initial values of a weight, by our name."""
        raise NotImplementedError(name)

    def blocks(self) -> list[nn.Module]:
        """What is sharded one after the other; the rest of the model is the last."""
        return []


class Attention(nn.Module):
    """Self-attention from a packed projection `[q | k | v]`, with grouped queries where kv_heads < heads."""

    def __init__(self, width: int, heads: int, kv_heads: int, causal: bool, bias: bool, rotary: Rotary | None = None):
        super().__init__()
        self.heads, self.kv_heads, self.causal = heads, kv_heads, causal
        self.head_width = width // heads
        self.qkv = nn.Linear(width, (heads + 2 * kv_heads) * self.head_width, bias=bias)
        self.proj = nn.Linear(width, width, bias=bias)
        self.rotary = rotary

    def forward(self, x: Tensor) -> Tensor:
        batch, sequence, width = x.shape
        parts = [self.heads * self.head_width, *[self.kv_heads * self.head_width] * 2]
        q, k, v = (
            part.view(batch, sequence, -1, self.head_width).transpose(1, 2) for part in self.qkv(x).split(parts, dim=2)
        )
        if self.rotary is not None:
            q, k = self.rotary(q), self.rotary(k)
        grouped = {"enable_gqa": True} if self.kv_heads != self.heads else {}
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, **grouped)
        return self.proj(y.transpose(1, 2).reshape(batch, sequence, width))


class Mlp(nn.Module):
    """Linear, GELU, linear."""

    def __init__(self, width: int, ffn: int, approximate: str):
        super().__init__()
        self.fc = nn.Linear(width, ffn)
        self.proj = nn.Linear(ffn, width)
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(F.gelu(self.fc(x), approximate=self.approximate))


class Gpt2Layer(nn.Module):
    """Pre-norm."""

    def __init__(self, width: int, heads: int, ffn: int):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads, heads, causal=True, bias=True)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = Mlp(width, ffn, "tanh")

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt2(Model):
    """GPT-2; also transformer-small, -medium, -large."""

    renamed = {
        "wte.weight": "embedding.lookup.tokens",
        "wpe.weight": "embedding.lookup.positions",
        "ln_f.": "head.ln_f.",
    }

    def __init__(
        self, *, layers: int, width: int, heads: int, vocabulary: int, sequence: int, positions: int, ffn: int
    ):
        super().__init__()
        self.vocabulary, self.sequence = vocabulary, sequence
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Embedding(positions, width)
        self.h = nn.ModuleList(Gpt2Layer(width, heads, ffn) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for layer in self.h:
            x = layer(x)
        return F.linear(self.ln_f(x), self.wte.weight)

    def deviation(self, name: str) -> float:
        if name.endswith("positions"):
            return 0.01
        return 0.02 / math.sqrt(2 * len(self.h)) if name.endswith("proj.weight") else 0.02

    def blocks(self) -> list[nn.Module]:
        return list(self.h)


class Rotary(nn.Module):
    """Rotary positions on `[batch, heads, sequence, head_width]`; pairs are (i, i + head_width / 2)."""

    def __init__(self, head_width: int, sequence: int, base: float):
        super().__init__()
        frequency = base ** (-torch.arange(0, head_width, 2, dtype=torch.float64) / head_width)
        angle = torch.outer(torch.arange(sequence, dtype=torch.float64), frequency).repeat(1, 2)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        sequence = x.shape[2]
        first, second = x.chunk(2, dim=-1)
        turned = torch.cat((-second, first), dim=-1)
        cos, sin = self.cos[:sequence].to(x.dtype), self.sin[:sequence].to(x.dtype)
        return x * cos + turned * sin


class SwiGlu(nn.Module):
    """silu(gate) x up from one packed projection, then down."""

    def __init__(self, width: int, ffn: int):
        super().__init__()
        self.gate_up = nn.Linear(width, 2 * ffn, bias=False)
        self.down = nn.Linear(ffn, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class LlamaLayer(nn.Module):
    """Pre-norm by RMSNorm."""

    def __init__(self, width: int, heads: int, kv_heads: int, ffn: int, rotary: Rotary):
        super().__init__()
        self.attn_norm = nn.RMSNorm(width, eps=1e-5)
        self.attn = Attention(width, heads, kv_heads, causal=True, bias=False, rotary=rotary)
        self.mlp_norm = nn.RMSNorm(width, eps=1e-5)
        self.mlp = SwiGlu(width, ffn)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.attn_norm(x))
        return x + self.mlp(self.mlp_norm(x))


class Llama(Model):
    """Llama 3."""

    renamed = {"tokens.weight": "embedding.lookup.tokens", "norm.": "head.norm.", "output.": "head.output."}

    def __init__(
        self,
        *,
        layers: int,
        width: int,
        heads: int,
        kv_heads: int,
        vocabulary: int,
        sequence: int,
        ffn: int,
        tied: int = 1,
    ):
        super().__init__()
        self.vocabulary, self.sequence = vocabulary, sequence
        self.tokens = nn.Embedding(vocabulary, width)
        rotary = Rotary(width // heads, sequence, 500_000.0)
        self.layers = nn.ModuleList(LlamaLayer(width, heads, kv_heads, ffn, rotary) for _ in range(layers))
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.output = None if tied else nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        return F.linear(x, self.tokens.weight) if self.output is None else self.output(x)

    def deviation(self, name: str) -> float:
        return 0.02

    def blocks(self) -> list[nn.Module]:
        return list(self.layers)


class BertAttention(Attention):
    """With the norm after the addition."""

    def __init__(self, width: int, heads: int):
        super().__init__(width, heads, heads, causal=False, bias=True)
        self.norm = nn.LayerNorm(width, eps=1e-12)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x + super().forward(x))


class BertMlp(Mlp):
    """With the norm after the addition."""

    def __init__(self, width: int, ffn: int):
        super().__init__(width, ffn, "none")
        self.norm = nn.LayerNorm(width, eps=1e-12)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x + super().forward(x))


class BertLayer(nn.Module):
    """Post-norm."""

    def __init__(self, width: int, heads: int, ffn: int):
        super().__init__()
        self.attn = BertAttention(width, heads)
        self.mlp = BertMlp(width, ffn)

    def forward(self, x: Tensor) -> Tensor:
        return self.mlp(self.attn(x))


class Bert(Model):
    """BERT with its masked-language head; all tokens are of the first segment type."""

    next = False
    renamed = {
        "tokens.weight": "embedding.lookup.tokens",
        "positions.weight": "embedding.lookup.positions",
        "segments.weight": "embedding.lookup.segments",
        "norm.": "embedding.norm.",
        "dense.": "head.dense.",
        "head_norm.": "head.norm.",
        "decoder_bias": "head.decoder.bias",
    }

    def __init__(
        self,
        *,
        layers: int,
        width: int,
        heads: int,
        vocabulary: int,
        sequence: int,
        positions: int,
        segments: int,
        ffn: int,
    ):
        super().__init__()
        self.vocabulary, self.sequence = vocabulary, sequence
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(positions, width)
        self.segments = nn.Embedding(segments, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.layer = nn.ModuleList(BertLayer(width, heads, ffn) for _ in range(layers))
        self.dense = nn.Linear(width, width)
        self.head_norm = nn.LayerNorm(width, eps=1e-12)
        self.decoder_bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + (self.positions.weight[: tokens.shape[1]] + self.segments.weight[0])
        x = self.norm(x)
        for layer in self.layer:
            x = layer(x)
        x = self.head_norm(F.gelu(self.dense(x)))
        return F.linear(x, self.tokens.weight, self.decoder_bias)

    def deviation(self, name: str) -> float:
        return 0.01 if name.endswith(("positions", "segments")) else 0.02

    def blocks(self) -> list[nn.Module]:
        return list(self.layer)


class Residual(nn.Module):
    """A basic block (two 3x3) or a bottleneck (1x1, 3x3 with the stride, 1x1 to four times the channels)."""

    def __init__(self, inputs: int, inner: int, stride: int, bottleneck: bool):
        super().__init__()
        outputs = 4 * inner if bottleneck else inner
        if bottleneck:
            steps = [(inputs, inner, 1, 1), (inner, inner, 3, stride), (inner, outputs, 1, 1)]
        else:
            steps = [(inputs, inner, 3, stride), (inner, outputs, 3, 1)]
        self.steps = len(steps)
        for number, (channels, out, kernel, step) in enumerate(steps, 1):
            conv = nn.Conv2d(channels, out, kernel, step, padding=kernel // 2, bias=False)
            self.add_module(f"conv{number}", conv)
            self.add_module(f"bn{number}", nn.BatchNorm2d(out))
        self.shortcut = stride != 1 or inputs != outputs
        if self.shortcut:
            self.conv_shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.bn_shortcut = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        shortcut = self.bn_shortcut(self.conv_shortcut(x)) if self.shortcut else x
        for number in range(1, self.steps + 1):
            x = getattr(self, f"bn{number}")(getattr(self, f"conv{number}")(x))
            if number < self.steps:
                x = F.relu(x, inplace=True)
        return F.relu(x + shortcut, inplace=True)


class ResNet(Model):
    """ResNet v1.5."""

    renamed = {"conv1.": "stem.conv1.", "bn1.": "stem.bn1.", "fc.": "head.fc."}

    def __init__(self, *, stages: list[int], bottleneck: bool, image: int, classes: int, width: int):
        super().__init__()
        self.shape, self.classes = (image, image, 3), classes
        self.conv1 = nn.Conv2d(3, width, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        channels = width
        for stage, count in enumerate(stages):
            inner = width << stage
            blocks = []
            for index in range(count):
                blocks.append(Residual(channels, inner, 2 if stage > 0 and index == 0 else 1, bottleneck))
                channels = 4 * inner if bottleneck else inner
            self.add_module(f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(channels, classes)

    def forward(self, images: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(images)), inplace=True)
        x = F.max_pool2d(x, 3, 2, padding=1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))

    def deviation(self, name: str) -> float:
        if name == "head.fc.weight":
            return 0.01
        weight = dict(self.named_parameters())[_theirs(self, name)]
        return math.sqrt(2.0 / (weight.shape[0] * weight.shape[2] * weight.shape[3]))

    def blocks(self) -> list[nn.Module]:
        return [block for stage in (self.layer1, self.layer2, self.layer3, self.layer4) for block in stage]


class MlpPair(nn.Module):
    """Two linear layers, ReLU after each."""

    def __init__(self, width: int, ffn: int):
        super().__init__()
        self.up = nn.Linear(width, ffn)
        self.down = nn.Linear(ffn, width)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.down(F.relu(self.up(x))))


class Perceptron(Model):
    """A multilayer perceptron without shortcuts."""

    renamed = {"first.": "input.fc.", "last.": "head.fc."}

    def __init__(self, *, layers: int, width: int, ffn: int, features: int, classes: int):
        super().__init__()
        self.shape, self.classes = (features,), classes
        self.first = nn.Linear(features, width)
        self.layers = nn.ModuleList(MlpPair(width, ffn) for _ in range(layers))
        self.last = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.first(x))
        for layer in self.layers:
            x = layer(x)
        return self.last(x)

    def deviation(self, name: str) -> float:
        if name == "head.fc.weight":
            return 0.01
        return math.sqrt(2.0 / dict(self.named_parameters())[_theirs(self, name)].shape[1])

    def blocks(self) -> list[nn.Module]:
        return list(self.layers)


# By the first word of the name. A new model of one of these graphs needs nothing here.
FAMILIES: dict[str, type[Model]] = {
    "gpt2": Gpt2,
    "transformer": Gpt2,
    "llama": Llama,
    "bert": Bert,
    "mlp": Perceptron,
}


def build(name: str, dimensions: dict[str, Any]) -> Model:
    """The model of this name, of exactly these dimensions. What it does not take is not a dimension of a graph."""
    given = {key: int(value) for key, value in dimensions.items() if key != "dropout"}
    word = name.split("-")[0]
    if word in ("resnet18", "resnet50"):
        stages = [given.pop(f"stage{number}") for number in range(1, 5)]
        return ResNet(stages=stages, bottleneck=word == "resnet50", **given)
    if word not in FAMILIES:
        raise LookupError(f"there is no PyTorch module for the model `{name}`")
    return FAMILIES[word](**given)


def _ours(model: Model, name: str) -> str:
    for theirs, ours in model.renamed.items():
        if name == theirs or (theirs.endswith(".") and name.startswith(theirs)):
            return ours + name[len(theirs) :]
    return name


def _theirs(model: Model, name: str) -> str:
    found: str = next(theirs for theirs, _ in model.named_parameters() if _ours(model, theirs) == name)
    return found


def to_ours(parameter: Tensor) -> Tensor:
    """A parameter or its gradient in our layout: convolutions `[outputs, height, width, inputs]`."""
    return parameter.permute(0, 2, 3, 1) if parameter.dim() == 4 else parameter


def parameters_of(model: Model) -> Iterator[tuple[str, nn.Parameter]]:
    """Our name of every parameter; `to_ours` gives its layout."""
    for name, parameter in model.named_parameters():
        yield _ours(model, name), parameter


def fill(name: str, parameter: Tensor, deviation: float, seed: int, first: int = 0) -> None:
    """Gives `parameter` (rows of the parameter of our name `name` from its number `first` on) its initial values."""
    if parameter.dim() == 1:
        parameter.fill_(0.0 if name.endswith("bias") else 1.0)
        return
    rows = to_ours(parameter)
    row = rows[0].numel() if rows.shape[0] else 1
    count = max(1, CHUNK // row)
    for begin in range(0, rows.shape[0], count):
        part = rows[begin : begin + count]
        values = deviation * initial.normals(name, seed, first + begin * row, part.numel(), rows.device)
        part.copy_(values.view(part.shape))


def start(model: Model, seed: int) -> None:
    """Gives the model the initial values that our ranks give theirs for this seed."""
    with torch.no_grad():
        for name, parameter in parameters_of(model):
            fill(name, parameter, model.deviation(name) if parameter.dim() > 1 else 0.0, seed)

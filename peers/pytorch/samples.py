"""The samples of golden files and of timings, by formulas that the golden files state, and the way to the package of
PyTorch ranks, which holds the models.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

from rankmark_worker import models  # noqa: E402
from rankmark_worker.initial import mix, shifted  # noqa: E402

__all__ = ["image_classes", "images", "models", "tokens"]


def tokens(indices: range, sequence: int, vocabulary: int) -> Tensor:
    """`[samples, sequence + 1]` tokens: (2654435761 index + 40503 position) mod vocabulary."""
    index = torch.tensor(indices)[:, None]
    position = torch.arange(sequence + 1)[None, :]
    return (index * 2654435761 + position * 40503) % vocabulary


def images(indices: range, size: int) -> Tensor:
    """`[samples, height, width, 3]` numbers: the uppermost byte of mix(2^32 index + position) / 128 - 1, exact in f32;
    position counts the numbers of a sample, channel fastest."""
    index = torch.tensor(indices)[:, None]
    position = torch.arange(size * size * 3)[None, :]
    byte = shifted(mix((index << 32) + position), 56)
    return (byte.double() / 128.0 - 1.0).view(len(indices), size, size, 3)


def image_classes(indices: range, classes: int) -> Tensor:
    """`[samples]` classes: 2654435761 index mod classes."""
    return torch.tensor(indices) * 2654435761 % classes

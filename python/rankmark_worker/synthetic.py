"""Made-up samples: mirrors `training::data::synthetic`. A sample follows from its index and the seed."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor

from .device import Device
from .initial import INCREMENT, STEP, mix, shifted, word_of
from .models import Model

# Numbers made at once: up to so many, torch uses the calling thread alone, and they stay in its cache.
CHUNK = 1 << 15

Batch = tuple[Tensor, Tensor]


def words(index: int, seed: int, places: Tensor) -> Tensor:
    """These words of sample `index`."""
    key = mix(word_of(index * INCREMENT) ^ mix(word_of(seed + INCREMENT)))
    return mix(key + (places + 1) * STEP)


def below(drawn: Tensor, bound: int) -> Tensor:
    """Numbers below `bound` (at most 2^31), all equally likely but for a share of 2^-32."""
    return shifted(drawn, 32) * bound >> 32


def tokens(index: int, seed: int, count: int, vocabulary: int) -> Tensor:
    """The first tokens of sample `index`."""
    return below(words(index, seed, torch.arange(count, dtype=torch.int64)), vocabulary)


def numbers(index: int, seed: int, count: int) -> Tensor:
    """The numbers of sample `index`, between -1 and 1, in f32: 24 bits, as many as the type holds."""
    found = torch.empty(count, dtype=torch.float32)
    for first in range(0, count, CHUNK):
        end = min(first + CHUNK, count)
        found[first:end] = shifted(words(index, seed, torch.arange(first, end)), 40).float() / 2.0**23 - 1.0
    return found


def class_of(index: int, seed: int, classes: int) -> Tensor:
    """The class of sample `index`."""
    # The last place but one of 2^64.
    return below(words(index, seed, word_of(-2)), classes)


def batch_of(model: Model, seed: int, first: int, count: int, dtype: torch.dtype) -> Batch:
    """Samples `first..first + count` as the model takes them, and their targets in one row."""
    indices = range(first, first + count)
    if model.vocabulary:
        length = model.sequence + int(model.next)
        drawn = torch.stack([tokens(index, seed, length, model.vocabulary) for index in indices])
        targets = drawn[:, int(model.next) :]
        return drawn[:, : model.sequence].contiguous(), targets.reshape(-1)
    size = 1
    for extent in model.shape:
        size *= extent
    drawn = torch.stack([numbers(index, seed, size) for index in indices]).view(count, *model.shape).to(dtype)
    # Channels are the fastest in memory, as ours are: torch calls that channels last.
    drawn = drawn.permute(0, 3, 1, 2) if len(model.shape) == 3 else drawn
    return drawn, torch.cat([class_of(index, seed, model.classes) for index in indices])


@dataclass
class Places:
    """Which samples of each step a rank trains on: `micros` times `micro` from `first`, of `step` in all."""

    first: int
    micro: int
    micros: int
    step: int


class Inputs:
    """The batches of each step, made one step ahead on a thread."""

    def __init__(self, model: Model, seed: int, places: Places, dtype: torch.dtype, device: Device) -> None:
        self._model, self._seed, self._places, self._dtype, self._device = model, seed, places, dtype, device
        self._pool = ThreadPoolExecutor(1, "data")
        self._step = 0
        self._ahead: Future[list[Batch]] | None = None

    def restart(self) -> None:
        """From the first sample on."""
        self._step = 0
        self._ahead = self._pool.submit(self._make, 0)

    def take(self) -> list[Batch]:
        """The micro-batches of the next step."""
        if self._ahead is None:
            self.restart()
        assert self._ahead is not None
        made = self._ahead.result()
        self._step += 1
        self._ahead = self._pool.submit(self._make, self._step)
        return [(self._device.take(inputs), self._device.take(targets)) for inputs, targets in made]

    def _make(self, step: int) -> list[Batch]:
        at, of = self._places, range(self._places.micros)
        first = step * at.step + at.first
        made = (batch_of(self._model, self._seed, first + micro * at.micro, at.micro, self._dtype) for micro in of)
        return [(self._device.ahead(inputs), self._device.ahead(targets)) for inputs, targets in made]

"""Trains a small transformer with DistributedDataParallel on synthetic data: gloo on CPUs, NCCL on GPUs.

    torchrun --nproc-per-node 2 examples/train.py
    rankmark profile -- torchrun --nproc-per-node 2 examples/train.py

Flags plant a problem to find. Rank 1 computes 20 ms longer in each backward pass, or waits 20 ms for each batch:

    rankmark profile -- torchrun --nproc-per-node 2 examples/train.py --slow-rank 1 --slow-ms 20
    rankmark profile -- torchrun --nproc-per-node 2 examples/train.py --slow-rank 1 --slow-ms 20 --slow-input
"""

from __future__ import annotations

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

VOCABULARY = 64
SEQUENCE = 32


class Counting(Dataset):
    """Sequences that count upwards from different numbers in different strides."""

    def __init__(self, samples: int, sleep_s: float) -> None:
        self.samples = samples
        self.sleep_s = sleep_s

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> Tensor:
        if self.sleep_s > 0:
            time.sleep(self.sleep_s)
        start, stride = index % VOCABULARY, 1 + index // VOCABULARY % 7
        return (start + stride * torch.arange(SEQUENCE + 1)) % VOCABULARY


class Transformer(nn.Module):
    """Predicts the next number."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.position = nn.Parameter(torch.zeros(SEQUENCE, width))
        layer = nn.TransformerEncoderLayer(width, nhead=4, dim_feedforward=4 * width, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, layers)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, numbers: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(SEQUENCE, device=numbers.device)
        return self.head(self.layers(self.embedding(numbers) + self.position, mask=mask, is_causal=True))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Trains a small transformer on synthetic data.")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=16, help="sequences in the batch of each rank")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--slow-rank", type=int, help="rank to slow down")
    parser.add_argument("--slow-ms", type=float, default=20.0, help="extra milliseconds for each of its steps")
    parser.add_argument("--slow-input", action="store_true", help="slow the input, not the backward pass")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    # Ranks that would share a GPU train on the CPU: NCCL takes one rank for each GPU.
    use_cuda = torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if use_cuda else torch.device("cpu")
    if use_cuda:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if use_cuda else "gloo")
    rank = dist.get_rank()
    slow_s = options.slow_ms / 1000 if rank == options.slow_rank else 0.0

    torch.manual_seed(0)
    model = Transformer(options.width, options.layers).to(device)
    if slow_s > 0 and not options.slow_input:
        model.layers.register_full_backward_hook(lambda *_: time.sleep(slow_s))
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=1e-3)

    samples = options.steps * options.batch * dist.get_world_size()
    dataset = Counting(samples, slow_s / options.batch if options.slow_input else 0.0)
    loader = DataLoader(dataset, batch_size=options.batch, sampler=DistributedSampler(dataset))
    for step, batch in enumerate(loader):
        batch = batch.to(device)
        scores = ddp(batch[:, :-1])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and (step % 10 == 9 or step == options.steps - 1):
            print(f"step {step + 1}: loss {loss.item():.6f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

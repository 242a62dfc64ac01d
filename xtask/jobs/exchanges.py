"""One rank of a training job with DDP over gloo and one more exchange in each step, as real jobs have. One rank can be slow.

torchrun --nproc-per-node 2 exchanges.py --exchange barrier --slow-rank 1 --slow-ms 8 --phase after
"""

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn

EXCHANGES = {
    "none": "none besides gradients",
    "gather": "all_gather of the batch's size before the forward pass, as transformers.Trainer does",
    "buffers": "broadcast of BatchNorm's buffers in the forward pass, by DDP",
    "count": "all_reduce of the token count before the backward pass",
    "barrier": "barrier at the beginning of the step",
    "metric": "all_reduce of the loss after the optimizer",
    "objects": "all_gather_object after the optimizer",
}

parser = argparse.ArgumentParser()
parser.add_argument("--exchange", choices=EXCHANGES, default="none")
parser.add_argument("--slow-rank", type=int, default=-1)
parser.add_argument("--slow-ms", type=float, default=8.0)
parser.add_argument("--phase", choices=["before", "forward", "after"], default="forward")
parser.add_argument("--pause-every", type=int, default=0, help="rank 0 pauses for 300 ms in every so many steps")
parser.add_argument("--steps", type=int, default=85)
arguments = parser.parse_args()

torch.set_num_threads(1)
torch.manual_seed(0)
dist.init_process_group("gloo")
rank, ranks, exchange = dist.get_rank(), dist.get_world_size(), arguments.exchange
norm = nn.BatchNorm1d(128) if exchange == "buffers" else nn.LayerNorm(128)
layers = nn.Sequential(nn.Linear(64, 128), norm, nn.ReLU(), nn.Linear(128, 10))
model = nn.parallel.DistributedDataParallel(layers)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def delay(phase):
    """A sleep takes no processor from the other ranks."""
    if rank == arguments.slow_rank and phase == arguments.phase:
        time.sleep(arguments.slow_ms / 1e3)


for step in range(arguments.steps):
    if exchange == "barrier":
        dist.barrier()
    delay("before")
    inputs, labels, count = torch.randn(16, 64), torch.randint(0, 10, (16,)), torch.tensor([16.0])
    if exchange == "gather":
        dist.all_gather([torch.zeros(1) for _ in range(ranks)], count)
    time.sleep(0.01)
    outputs = model(inputs)
    delay("forward")
    if exchange == "count":
        dist.all_reduce(count)
    loss = nn.functional.cross_entropy(outputs, labels, reduction="sum") / count.item()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    delay("after")
    if exchange == "metric":
        dist.all_reduce(loss.detach().clone())
    if exchange == "objects":
        dist.all_gather_object([None] * ranks, {"loss": loss.item()})
    if arguments.pause_every and step % arguments.pause_every == 0:
        if rank == 0:
            time.sleep(0.3)
        dist.barrier()
dist.destroy_process_group()

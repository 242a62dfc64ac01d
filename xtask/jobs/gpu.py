"""A rank of a training job on GPU 0, on which several ranks can share the GPU: gradients then go by gloo, through the host.

torchrun --nproc-per-node 2 gpu.py --slow-rank 1 --slow-ms 10
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--input-ms", type=float, default=0.0, help="all ranks wait this long for each batch")
parser.add_argument("--slow-rank", type=int, default=-1)
parser.add_argument("--slow-ms", type=float, default=10.0, help="the slow rank waits this long for each batch")
parser.add_argument("--launch-ms", type=float, default=0.0, help="the host works this long between forward and backward")
parser.add_argument("--fail-at", type=int, default=-1, help="step in which rank 0 asks for more memory than there is")
parser.add_argument("--width", type=int, default=2048)
parser.add_argument("--steps", type=int, default=85)
arguments = parser.parse_args()

rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
device = torch.device("cuda", 0)
torch.cuda.set_device(device)
torch.manual_seed(0)
width = arguments.width
model = nn.Sequential(*[layer for _ in range(6) for layer in (nn.Linear(width, width), nn.GELU())]).to(device)
if ranks > 1:
    dist.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(model)
elif "RANK" in os.environ:
    dist.init_process_group("nccl", device_id=device)
    model = nn.parallel.DistributedDataParallel(model, device_ids=[0])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)


class Batches(torch.utils.data.Dataset):
    # Made once: to make one takes the host as long as the device computes on it.
    batch = torch.randn(1024, width, generator=torch.Generator().manual_seed(rank))

    def __len__(self):
        return arguments.steps

    def __getitem__(self, index):
        wait = arguments.slow_ms if rank == arguments.slow_rank else arguments.input_ms
        time.sleep(wait / 1e3)
        return self.batch


for step, batch in enumerate(torch.utils.data.DataLoader(Batches(), batch_size=None, pin_memory=True)):
    outputs = model(batch.to(device, non_blocking=True))
    if arguments.launch_ms:
        outputs.sum().item()
        time.sleep(arguments.launch_ms / 1e3)
    if step == arguments.fail_at and rank == 0:
        torch.empty(1 << 50, device=device)
    loss = outputs.square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
torch.cuda.synchronize()
if dist.is_initialized():
    dist.destroy_process_group()

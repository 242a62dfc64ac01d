"""A small training job that ends badly, or that trains in an unusual way, to see what `rankmark profile` says of it.

rankmark profile -- torchrun --nproc-per-node 2 xtask/jobs/ends.py --end kill --at 50 --rank 1
rankmark profile -- python xtask/jobs/ends.py --update hand
rankmark profile -- python xtask/jobs/ends.py --profiler untold
"""

import argparse
import contextlib
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

ENDS = ["none", "raise", "kill", "exit", "os_exit", "interrupt", "worker"]
parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=80)
parser.add_argument("--end", choices=ENDS, default="none", help="how a rank ends; worker: its DataLoader fails")
parser.add_argument("--at", type=int, default=50, help="it ends when this step begins")
parser.add_argument("--rank", type=int, default=0, help="the rank that ends")
parser.add_argument("--update", choices=["optimizer", "hand"], default="optimizer", help="what changes the weights")
parser.add_argument("--profiler", choices=["none", "untold"], default="none", help="untold: nobody calls its step()")
arguments = parser.parse_args()


class Inputs(torch.utils.data.Dataset):
    def __len__(self):
        return 4 * arguments.steps

    def __getitem__(self, index):
        if arguments.end == "worker" and rank == arguments.rank and index == arguments.at:
            raise OSError("shard 7 is damaged")
        return torch.ones(64)


def end():
    if arguments.end == "raise":
        raise ValueError("the loss is not a number")
    if arguments.end == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if arguments.end == "exit":
        sys.exit(3)
    if arguments.end == "os_exit":
        os._exit(5)
    if arguments.end == "interrupt":
        os.kill(os.getpid(), signal.SIGINT)


def profiler():
    if arguments.profiler == "none":
        return contextlib.nullcontext()
    return torch.profiler.profile(schedule=torch.profiler.schedule(wait=0, warmup=1, active=3))


torch.set_num_threads(1)
torch.manual_seed(0)
rank, model = 0, torch.nn.Linear(64, 64)
if "RANK" in os.environ:
    dist.init_process_group("gloo")
    rank, model = dist.get_rank(), torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01) if arguments.update == "optimizer" else None
loader = iter(torch.utils.data.DataLoader(Inputs(), num_workers=int(arguments.end == "worker")))
with profiler():
    for step in range(arguments.steps):
        if step == arguments.at and rank == arguments.rank:
            end()
        loss = model(next(loader)).square().mean()
        loss.backward()
        if optimizer is not None:
            optimizer.step()
            optimizer.zero_grad()
        else:
            with torch.no_grad():
                for weight in model.parameters():
                    weight -= 0.01 * weight.grad
                    weight.grad = None
        time.sleep(0.002)
print(f"rank {rank} trained")

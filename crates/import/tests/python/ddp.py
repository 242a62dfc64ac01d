"""One rank of a small DDP job over gloo: profiles some steps and dumps the Flight Recorder from inside.

python ddp.py FOLDER RANK RANKS
"""

import sys

import torch
import torch._C._distributed_c10d as c10d
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.data import DataLoader, TensorDataset

folder, rank, ranks = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
torch.manual_seed(0)
# The first bucket has at least 1 MiB, the others are small: a step has two or three transfers.
layers = nn.Sequential(nn.Linear(64, 3000), nn.ReLU(), nn.Linear(3000, 200), nn.ReLU(), nn.Linear(200, 10))
model = DistributedDataParallel(layers, bucket_cap_mb=0.02)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
data = DataLoader(TensorDataset(torch.randn(256, 64), torch.randint(0, 10, (256,))), batch_size=16)


def save(profiler):
    profiler.export_chrome_trace(f"{folder}/trace/rank{rank}.json.gz")


with profile(
    activities=[ProfilerActivity.CPU],
    record_shapes=True,
    schedule=schedule(wait=1, warmup=1, active=3, repeat=1),
    on_trace_ready=save,
) as profiler:
    for number, (inputs, labels) in enumerate(data):
        if number == 8:
            break
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        profiler.step()

with open(f"{folder}/pickle/fr_rank{rank}", "wb") as file:
    file.write(c10d._dump_fr_trace())
text = c10d._dump_fr_trace_json()
with open(f"{folder}/json/fr_rank{rank}.json", "wb") as file:
    file.write(text if isinstance(text, bytes) else text.encode())
dist.destroy_process_group()

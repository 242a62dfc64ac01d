"""torch's process group: opening it, and what the measuring code needs of it."""

from __future__ import annotations

import datetime
import os
import socket
import sys
from collections.abc import Callable

import torch
import torch.distributed as dist

from .channel import Channel
from .rank import Failure

# The coordinator has deadlines of its own, and ends the process.
PATIENCE = datetime.timedelta(days=1)
# Ranks that come up are here within this.
MEETING = datetime.timedelta(seconds=120)


class TorchGroup:
    """The world's process group, and where its ranks' buffers lie."""

    def __init__(self, store: dist.Store, place: torch.device) -> None:
        # Its connections are looked up there for as long as the group lives.
        self._store = store
        self.place = place
        # What ranks tell each other beside cases is in ordinary memory, which not every backend of GPUs moves.
        self._control = dist.new_group(backend="gloo") if place.type == "cuda" else None
        self._word = torch.zeros(1, dtype=torch.int64)
        self.size = dist.get_world_size()

    def barrier(self) -> None:
        """All ranks meet."""
        try:
            dist.barrier(self._control)
        except RuntimeError as error:
            raise Failure(f"barrier: {first_line(error)}") from None

    def tell(self, word: int) -> int:
        """Rank 0's word goes to all ranks."""
        self._word[0] = word
        try:
            dist.broadcast(self._word, 0, self._control)
        except RuntimeError as error:
            raise Failure(f"broadcast: {first_line(error)}") from None
        return int(self._word[0])


# How ranks find each other: given the channel, this rank and the number of ranks. Collective.
Meet = Callable[[Channel, int, int], dist.Store]


def meet_in_memory(channel: Channel, rank: int, size: int) -> dist.Store:
    """On one host: in memory that rank 0 holds, with no port, and no file that could be left behind."""
    own = f"/proc/{os.getpid()}/fd/{os.memfd_create('rankmark-store')}" if rank == 0 else ""
    return dist.FileStore(channel.all_gather(own.encode())[0].decode(), size)


def meet_at(host: str) -> Meet:
    """On several hosts: at this address of rank 0's, on a free port."""

    def meet(channel: Channel, rank: int, size: int) -> dist.Store:
        if rank > 0:
            port = int(channel.all_gather(b"")[0])
            return dist.TCPStore(host, port, is_master=False, timeout=MEETING)
        listener = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        port = listener.getsockname()[1]
        store = dist.TCPStore(
            host, port, is_master=True, wait_for_workers=False, timeout=MEETING, master_listen_fd=listener.detach()
        )
        channel.all_gather(str(port).encode())
        return store

    return meet


def open_group(backend: str, channel: Channel, rank: int, size: int, meet: Meet, device: str = "cpu") -> TorchGroup:
    """Joins this rank with its peers. Collective."""
    torch_is = f"torch {torch.__version__} ({sys.executable})"
    # `ucc/tl/cuda`: UCC with one of its transports.
    name, _, transport = backend.partition("/tl/")
    if not dist.is_available():
        raise Failure(f"{torch_is} was built without torch.distributed", True)
    if not getattr(dist, f"is_{name}_available", lambda: False)():
        raise Failure(f"{torch_is} was built without {name}", True)
    if name == "nccl" and device == "cpu":
        raise Failure(f"the nccl of {torch_is} moves memory of GPUs only, and `device` is cpu", True)
    place = place_of(device, rank, size, torch_is)
    if transport:
        os.environ["UCC_CL_BASIC_TLS"] = transport
    try:
        store = meet(channel, rank, size)
        dist.init_process_group(name, store=store, rank=rank, world_size=size, timeout=PATIENCE)
    except (RuntimeError, ValueError, TypeError, OSError) as error:
        raise Failure(f"{backend} of {torch_is} could not start: {first_line(error)}") from None
    if dist.get_world_size() != size:
        found = dist.get_world_size()
        text = f"made a world of {found} ranks, not {size}: it needs its own launcher"
        raise Failure(f"{backend} of {torch_is} {text}", True)
    return TorchGroup(store, place)


def place_of(device: str, rank: int, size: int, torch_is: str) -> torch.device:
    """Where this rank computes: on the CPU, or on a GPU of its own."""
    if device == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise Failure(f"{torch_is} finds no GPU (`device` is {device}: needs CUDA)", True)
    gpus = torch.cuda.device_count()
    if gpus < size:
        raise Failure(f"each rank needs a GPU of its own: {size} ranks, {gpus} GPUs", True)
    place = torch.device(device, rank)
    torch.cuda.set_device(place)
    return place


def compute_on(threads: int) -> None:
    """Threads that operations of torch compute with. f32 means f32: no product in less."""
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision("highest")


def first_line(error: BaseException) -> str:
    """What an error says, without the stack that torch adds."""
    return next(iter(str(error).splitlines()), type(error).__name__)

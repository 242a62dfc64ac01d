"""torch's process group: opening it, and what the measuring code needs of it."""

from __future__ import annotations

import datetime
import gc
import inspect
import os
import socket
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from .channel import Channel
from .rank import Failure
from .status import now_ns

# The coordinator has deadlines of its own, and ends the process.
PATIENCE = datetime.timedelta(days=1)
# Ranks that come up are here within this.
MEETING = datetime.timedelta(seconds=120)


@dataclass
class Joining:
    """How long this rank took to join the others."""

    # Nanoseconds until the last rank had begun, too; and from then on until torch's group was open on this rank.
    waited_ns: int
    opened_ns: int


class TorchGroup:
    """The world's process group, and where its ranks' buffers lie."""

    def __init__(self, store: dist.Store, place: torch.device, backend: str, joining: Joining) -> None:
        # Its connections are looked up there for as long as the group lives.
        self._store = store
        self._backend = backend
        self.joining = joining
        self._rejoined = 0
        # What ranks tell each other by while torch's group is closed.
        self._apart: Any = None
        self.place = place
        # What ranks tell each other beside cases is in ordinary memory, which not every backend of GPUs moves.
        on_gpus = place.type == "cuda"
        self._control = dist.new_group(backend="gloo", timeout=PATIENCE) if on_gpus else None
        self._word = torch.zeros(1, dtype=torch.int64)
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def leave(self) -> None:
        """Closes torch's group of all ranks, and all others. Collective."""
        try:
            if self._apart is None:
                store = dist.PrefixStore("rankmark/apart", self._store)
                self._apart = dist.ProcessGroupGloo(store, self.rank, self.size, PATIENCE)
            # Closing a connection may discard what the other rank has not read yet.
            self.barrier()
            dist.destroy_process_group()
        except RuntimeError as error:
            raise Failure(f"leaving the process group: {first_line(error)}") from None

    def rejoin(self) -> None:
        """Opens torch's group of all ranks again. Collective; after `leave`."""
        self._rejoined += 1
        store = dist.PrefixStore(f"rankmark/again/{self._rejoined}", self._store)
        try:
            _initialise(self._backend, store, self.rank, self.size, self.place)
        except (RuntimeError, ValueError) as error:
            raise Failure(f"init_process_group: {first_line(error)}") from None

    def barrier(self) -> None:
        """All ranks meet."""
        try:
            if self._apart is not None:
                self._apart.barrier().wait()
            else:
                dist.barrier(self._control)
        except RuntimeError as error:
            raise Failure(f"barrier: {first_line(error)}") from None

    def tell(self, word: int) -> int:
        """Rank 0's word goes to all ranks."""
        self._word[0] = word
        self._send(self._word)
        return int(self._word[0])

    def of_rank_0(self, own: torch.Tensor) -> torch.Tensor:
        """What rank 0 holds where this rank holds `own`, of the same length, in memory of the host. Collective."""
        theirs = own.clone()
        self._send(theirs.view(torch.uint8))
        return theirs

    def _send(self, held: torch.Tensor) -> None:
        """What rank 0 holds goes to all ranks."""
        try:
            if self._apart is not None:
                self._apart.broadcast(held, 0).wait()
            else:
                dist.broadcast(held, 0, self._control)
        except RuntimeError as error:
            raise Failure(f"broadcast: {first_line(error)}") from None


# How ranks find each other: given the channel, this rank and the number of ranks. Collective. The result is quoted
# because a torch without torch.distributed, which is refused later, has no stores.
Meet = Callable[[Channel, int, int], "dist.Store"]


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
        words: dict[str, Any] = {"is_master": True, "wait_for_workers": False, "timeout": MEETING}
        words["master_listen_fd"] = listener.detach()
        try:
            store = dist.TCPStore(host, port, **words)
        except NotImplementedError:
            # torch 2.4 to 2.7 listens with libuv unless told otherwise, and cannot take over a socket for it.
            store = dist.TCPStore(host, port, use_libuv=False, **words)
        channel.all_gather(str(port).encode())
        return store

    return meet


def open_group(
    backend: str, channel: Channel, rank: int, size: int, meet: Meet, device: str = "cpu", local: int = 0
) -> TorchGroup:
    """Joins this rank, the `local`th of its host, with its peers. Collective."""
    torch_is = f"torch {torch.__version__} ({sys.executable})"
    # `ucc/tl/cuda`: UCC with one of its transports.
    name, _, transport = backend.partition("/tl/")
    if not dist.is_available():
        raise Failure(f"{torch_is} was built without torch.distributed", True)
    if not getattr(dist, f"is_{name}_available", lambda: False)():
        raise Failure(f"{torch_is} was built without {name}", True)
    if name == "nccl" and device == "cpu":
        raise Failure(f"the nccl of {torch_is} moves GPU memory only, but `device` is cpu", True)
    begun_ns = now_ns()
    channel.all_gather(b"")
    # All ranks have given their answer: the last one has begun, too.
    met_ns = now_ns()
    place = place_of(device, channel, local, torch_is)
    if transport:
        os.environ["UCC_CL_BASIC_TLS"] = transport
    try:
        store = meet(channel, rank, size)
        _initialise(name, store, rank, size, place)
    except (RuntimeError, ValueError, TypeError, OSError) as error:
        raise Failure(f"{backend} of {torch_is} could not start: {first_line(error)}") from None
    if dist.get_world_size() != size:
        found = dist.get_world_size()
        text = f"made a world of {found} ranks, not {size}: it needs its own launcher"
        raise Failure(f"{backend} of {torch_is} {text}", True)
    return TorchGroup(store, place, name, Joining(met_ns - begun_ns, now_ns() - met_ns))


def _initialise(name: str, store: dist.Store, rank: int, size: int, place: torch.device) -> None:
    """Opens torch's group of all ranks. Collective."""
    # Without it nccl begins with the first operation, and cannot know which GPU a barrier is for.
    known = inspect.signature(dist.init_process_group).parameters
    bound = {"device_id": place} if name == "nccl" and "device_id" in known else {}
    dist.init_process_group(name, store=store, rank=rank, world_size=size, timeout=PATIENCE, **bound)
    if name == "nccl" and not bound and dist.get_world_size() == size:
        # Its communicator begins with an operation of all ranks on the right GPU, as torch asks for.
        dist.all_reduce(torch.zeros(1, device=place))


def place_of(device: str, channel: Channel, local: int, torch_is: str) -> torch.device:
    """Where this rank computes: on the CPU, or on a GPU of its own. Collective."""
    if device == "cpu":
        return torch.device("cpu")
    # Without the second, a driver that is too old would only fail later.
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    # Some launchers show each rank the GPU of its own alone, as the first.
    place = torch.device(device, local % max(gpus, 1))
    own, why = "", f"{torch_is} finds no GPU (`device` is {device}: needs CUDA)"
    if gpus:
        try:
            torch.cuda.set_device(place)
            own = identity(place)
        except RuntimeError as error:
            why = f"{torch_is} cannot use {place}: {first_line(error)}"
    # All tell, also one that has none: the others would wait for it.
    told = [each.decode() for each in channel.all_gather(own.encode())]
    if not own:
        raise Failure(why, True)
    refuse_shared(told)
    return place


def identity(place: torch.device) -> str:
    """The name, and what no two GPUs have in common: the UUID. Before torch 2.4 the host and the number there, or the
    process, where a launcher shows each rank another GPU under the same number."""
    about = torch.cuda.get_device_properties(place)
    number = f"{place.index} of {socket.gethostname()}"
    alone = f", process {os.getpid()}" if torch.cuda.device_count() == 1 else ""
    return f"{about.name} {getattr(about, 'uuid', number + alone)}"


def refuse_shared(gpus: list[str]) -> None:
    """Fails where two ranks have the same GPU, or one has none: on all ranks alike."""
    without = [str(rank) for rank, gpu in enumerate(gpus) if not gpu]
    if without:
        raise Failure(f"each rank needs a GPU, but there is none for rank {', '.join(without)}", True)
    # nccl itself tells apart who may share one.
    if os.environ.get("NCCL_MULTI_RANK_GPU_ENABLE", "0") != "0":
        return
    for gpu in gpus:
        together = [str(rank) for rank, other in enumerate(gpus) if other == gpu]
        if len(together) > 1:
            text = f"each rank needs a GPU of its own, but ranks {', '.join(together)} would share one: {gpu}"
            raise Failure(f"{text} (hint: at most one rank for each GPU of a host)", True)


def waits(place: torch.device) -> Callable[[], None]:
    """Waits until the device has done what it was told."""
    return torch.cuda.synchronize if place.type == "cuda" else lambda: None


def freed(place: torch.device) -> Callable[[], None] | None:
    """Gives what no tensor holds any more back to the GPU: other worlds need it."""
    if place.type == "cpu":
        return None

    def give_back() -> None:
        gc.collect()
        torch.cuda.empty_cache()

    return give_back


def bytes_of(dtype: torch.dtype) -> int:
    """Bytes of an element: a dtype itself can tell since torch 2.1."""
    return int(torch.empty(0, dtype=dtype).element_size())


def compute_on(threads: int) -> None:
    """Threads that operations of torch compute with."""
    torch.set_num_threads(threads)


def draw_other_numbers() -> None:
    """Random numbers of this process are not those of the one that it was forked from."""
    torch.default_generator.seed()


def compute_exactly(device: str) -> None:
    """f32 means f32: neither products nor convolutions in TF32, in which torch does the latter on GPUs by itself."""
    torch.set_float32_matmul_precision("highest")
    if device == "cpu":
        return
    with warnings.catch_warnings():
        # Torch has another way to say it since version 2.9, and says so.
        warnings.simplefilter("ignore")
        torch.backends.cudnn.allow_tf32 = False


def first_line(error: BaseException) -> str:
    """What an error says, without the stack that torch adds."""
    return next(iter(str(error).splitlines()), type(error).__name__)

"""A collective of torch.distributed on one rank: its buffers, its call, what they must hold.

Layouts are those of `comm::layout`. torch has one form of each operation: all_reduce, reduce and broadcast work in
place, all others do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any, Union

import torch
import torch.distributed as dist

from .calls import All, Call, Operation, bind
from .group import TorchGroup, bytes_of, first_line, freed, waits
from .pattern import PERIOD, Number, Pattern
from .random_floats import Random
from .rank import TOLD, Failure, Prepared, WrongReport
from .watch import BITS, Watch, short, text

# Types that torch moves, if at all, under another name, have a type of the same bytes: none of them is reduced here.
DTYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i8": torch.int8,
    "i32": torch.int32,
    "i64": torch.int64,
    "u8": torch.uint8,
    "u32": torch.int32,
    "u64": torch.int64,
    "f8e4m3": torch.uint8,
    "f8e5m2": torch.uint8,
}
REDUCTIONS = {"sum": "SUM", "prod": "PRODUCT", "min": "MIN", "max": "MAX", "avg": "AVG"}
IN_PLACE = ("all_reduce", "reduce", "broadcast")
# Operations that leave the same on all ranks.
COMMON = ("all_reduce", "all_gather", "broadcast")
# Elements that a refill displaces the inputs by: prime to the period.
SHIFT = 1409
# The same from one operation's buffers to the next one's: one that went to another's would be seen.
BESIDE = 3001
# Buffers up to so many bytes are checked twice, from other inputs: above, a check costs as much as many calls do.
CHECKED_TWICE = 1 << 20
# Periods that one operation fills or compares: a comparison needs a byte of memory for each element of them.
ROWS = 2048
# Calls whose results are compared bit by bit before a case is timed, in every trial.
REPEATS = 4

# `length` elements from `offset` hold the table, beginning at its element `phase`.
Segment = tuple[int, int, torch.Tensor, int]
# Of one operation: what this rank gives and gets; in place, twice the same.
Buffers = tuple[torch.Tensor, torch.Tensor]
# What inputs are made of.
Source = Union[Pattern, Random]


def prepare(values: dict[str, Any], rank: int, group: TorchGroup) -> Prepared:
    """Allocates. Collective where bits of results are compared; else it fills nothing yet."""
    try:
        case = Collective(values, rank, group.size, group.place)
        if values.get("reproducible"):
            case.repeat(group)
        return case
    except (RuntimeError, MemoryError) as error:
        raise Failure(first_line(error), "allocate" in str(error)) from None


@lru_cache(maxsize=64)
def _inputs(pattern: Source, rank: int) -> list[Number]:
    return pattern.inputs(rank)


@lru_cache(maxsize=64)
def _input_table(pattern: Source, rank: int, place: torch.device) -> torch.Tensor:
    return _tensor(pattern, _inputs(pattern, rank)).to(place)


@lru_cache(maxsize=64)
def _reduced(pattern: Pattern, calls: int, own: int, place: torch.device) -> torch.Tensor:
    inputs = [_inputs(pattern, rank) for rank in range(pattern.ranks)]
    return _tensor(pattern, pattern.reduced(calls, own, inputs)).to(place)


@lru_cache(maxsize=8)
def _bounds(random: Random, calls: int, place: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    expected, bound = zip(*random.results(calls))
    return torch.tensor(expected, dtype=torch.float64).to(place), torch.tensor(bound, dtype=torch.float64).to(place)


def _tensor(pattern: Source, numbers: list[Number]) -> torch.Tensor:
    # Converted on the CPU: all devices are compared with the same bits.
    if pattern.floats:
        wide = torch.tensor(numbers, dtype=torch.float64)
        # The narrow types through f32, as native ranks do.
        return (wide if pattern.dtype == "f64" else wide.float()).to(DTYPES[pattern.dtype])
    whole = [(int(number) + (1 << 63)) % (1 << 64) - (1 << 63) for number in numbers]
    return torch.tensor(whole, dtype=torch.int64).to(DTYPES[pattern.dtype])


class Collective:
    """A collective, ready on this rank."""

    steps = False
    past_ns: int | None = None
    flops = 0.0
    traffic_bytes = 0

    def __init__(self, values: dict[str, Any], rank: int, ranks: int, place: torch.device, within: Any = None) -> None:
        self.op: str = values["op"]
        # torch's group, where that is not the one of all ranks.
        self.within = within
        self.place = place
        # On a GPU calls only start. Back to back, they are waited for together.
        self.waits = waits(place) if place.type == "cuda" else None
        self.freed = freed(place)
        self.rank, self.ranks = rank, ranks
        self.peer = int(values.get("root", values.get("peer", 1) if self.op == "ping_pong" else 0))
        self.form: str = values.get("call", "blocking")
        in_flight = int(values.get("in_flight", 1))
        # What a call's time is divided by.
        self.messages = 2 if self.op == "ping_pong" else in_flight
        self.both_ways = values.get("direction") == "both_ways"
        self.dtype = DTYPES[values.get("dtype", "u8")]
        element = bytes_of(self.dtype)
        self.count = int(values.get("bytes", 0)) // element
        self.reduce = getattr(dist.ReduceOp, REDUCTIONS[values.get("reduce", "sum")])
        self.counts = _counts(values, ranks, element) if self.op == "all_to_allv" else []
        in_place = self.op in IN_PLACE
        seed = int(values.get("seed", 1))
        make = Random if values.get("data") == "random" else Pattern
        self.pattern: Source = make(
            self.op, values.get("dtype", "u8"), values.get("reduce", "sum"), ranks, in_place, seed
        )
        # What no call has written must not pass for a result: no number, where numbers are right within a bound.
        self.poison = 0xFF if isinstance(self.pattern, Random) else 0xA5
        self.shift = 0
        self.watch: Watch | None = None
        # reduce leaves partial sums on the other ranks, so that nothing exact comes out of a second call.
        once = bool(values.get("touch")) or self.op == "reduce"
        self.max_calls = 1 if once else self.pattern.max_calls()
        self.checks = 1 + int(int(values.get("bytes", 0)) <= CHECKED_TWICE)
        self.path = f"c10d, torch {torch.__version__}"
        given, got = self._extents()
        self.buffers = [self._allocate(given, got, in_place) for _ in range(in_flight)]
        self.call: Call = self._bind()

    def _allocate(self, given: int, got: int, in_place: bool) -> Buffers:
        source = torch.empty(given, dtype=self.dtype, device=self.place)
        return source, source if in_place and given else torch.empty(got, dtype=self.dtype, device=self.place)

    def _extents(self) -> tuple[int, int]:
        """Elements that this rank gives and gets."""
        count, block, root = self.count, self.count // self.ranks, self.rank == self.peer
        takes_part = self.rank in (0, self.peer)
        table: dict[str, tuple[int, int]] = {
            "all_reduce": (count, count),
            "reduce": (count, count),
            "all_to_all": (count, count),
            "send_recv": (count, count),
            "broadcast": (count if root else 0, count),
            "all_gather": (block, count),
            "reduce_scatter": (count, block),
            "gather": (block, count if root else 0),
            "scatter": (count if root else 0, block),
            "ping_pong": (count, count) if takes_part else (0, 0),
            "barrier": (0, 0),
        }
        if self.op == "all_to_allv":
            return sum(self.counts[self.rank]), sum(row[self.rank] for row in self.counts)
        return table[self.op]

    def _bind(self) -> Call:
        """One call, with everything looked up before."""
        if self.op in ("send_recv", "ping_pong") and self.ranks == 1:
            raise Failure(f"{self.op}: torch.distributed cannot send from a rank to itself", True)
        if self.op in ("send_recv", "ping_pong") and self.place.type == "cuda" and dist.get_backend() == "gloo":
            # It would read the memory of the GPU as its own.
            raise Failure(f"{self.op}: torch's gloo cannot send GPU memory from rank to rank", True)
        operations = [self._operation(given, got, number) for number, (given, got) in enumerate(self.buffers)]
        if self.form == "coalesced":
            # What is refused must be so before several are in flight: the first that fails is all that torch waits for,
            # and the others would fail whatever comes next.
            self.call = operations[0]
            self.run()
        return bind(self.form, operations, getattr(dist, "_coalescing_manager", None))

    def _operation(self, given: torch.Tensor, got: torch.Tensor, number: int) -> Operation:
        """What c10d does with these buffers, as it is called: with `async_op` or without."""
        op, peer, reduce = self.op, self.peer, self.reduce
        root = self.rank == peer
        if op == "gather":
            return partial(dist.gather, given, list(got.chunk(self.ranks)) if root else None, peer)
        if op == "scatter":
            return partial(dist.scatter, got, list(given.chunk(self.ranks)) if root else None, peer)
        if op == "all_to_allv":
            sent, received = self.counts[self.rank], [row[self.rank] for row in self.counts]
            return partial(dist.all_to_all_single, got, given, received, sent)
        calls: dict[str, Operation] = {
            "all_reduce": partial(dist.all_reduce, got, reduce, group=self.within),
            "reduce": partial(dist.reduce, got, peer, reduce),
            "broadcast": partial(dist.broadcast, got, peer),
            "all_gather": partial(dist.all_gather_into_tensor, got, given, group=self.within),
            "reduce_scatter": partial(dist.reduce_scatter_tensor, got, given, reduce, group=self.within),
            "all_to_all": partial(dist.all_to_all_single, got, given, group=self.within),
            "send_recv": partial(self._ring, self._messages(given, got, number)),
            "ping_pong": partial(self._ping_pong, given, got),
            "barrier": partial(dist.barrier),
        }
        return calls[op]

    def _messages(self, given: torch.Tensor, got: torch.Tensor, number: int) -> Operation:
        """To the next rank and from the one before; both ways: the second halves the other way round."""
        before, after = (self.rank - 1) % self.ranks, (self.rank + 1) % self.ranks
        pairs = [(given, after, got, before)]
        if self.both_ways:
            (there, back), (here, home) = given.chunk(2), got.chunk(2)
            pairs = [(there, after, here, before), (back, before, home, after)]
        messages: list[tuple[Any, torch.Tensor, int, int]] = []
        for tag, (source, to, target, of) in enumerate(pairs, 2 * number):
            messages += [(dist.isend, source, to, tag), (dist.irecv, target, of, tag)]
        if self.place.type == "cuda":
            # As one: nccl does what it is given in this order, and ranks that all sent first would wait for ever.
            return partial(
                dist.batch_isend_irecv, [dist.P2POp(op, buffer, to, None, tag) for op, buffer, to, tag in messages]
            )
        return lambda: [op(buffer, to, tag=tag) for op, buffer, to, tag in messages]

    def _ring(self, start: Operation, async_op: bool = False) -> All | None:
        """Starts a rank's messages."""
        started = All(start())
        if async_op:
            return started
        started.wait()
        return None

    def _ping_pong(self, given: torch.Tensor, got: torch.Tensor) -> None:
        if self.rank == 0:
            dist.send(given, self.peer)
            dist.recv(got, self.peer)
        elif self.rank == self.peer:
            dist.recv(got, 0)
            dist.send(given, 0)

    def run(self) -> None:
        """One call."""
        try:
            self.call()
        except NotImplementedError as error:
            raise Failure(f"{self.op}: {first_line(error)}", True) from None
        except (RuntimeError, ValueError) as error:
            raise Failure(f"{self.op}: {first_line(error)}", _is_lacking(error)) from None

    def refill(self) -> None:
        """The output first: in place, the input is the same tensor."""
        # Bits of results are compared on the same inputs.
        if self.watch is None:
            self.shift = (self.shift + SHIFT) % PERIOD
        for number, (given, got) in enumerate(self.buffers):
            got.view(torch.uint8).fill_(self.poison)
            for segment in self._inputs(given):
                for start, stop, row in _pieces(segment, self._displaced(number), segment[2]):
                    given[start:stop].view(-1, row.numel()).copy_(row)
        if self.waits is not None:
            self.waits()

    def repeat(self, group: TorchGroup) -> None:
        """Makes a few calls from the same inputs, and compares the bits of their results. Collective."""
        if self.op == "barrier":
            return
        self.watch = Watch(self.pattern.dtype, self.op in COMMON and self.ranks > 1, group)
        self.checks += 2
        for _ in range(REPEATS):
            self.refill()
            group.barrier()
            self.run()
            if self.waits is not None:
                self.waits()
            group.barrier()
            self._note(1)

    def _note(self, calls: int) -> None:
        """Compares the bits of what `calls` calls from fresh inputs left with earlier results. Collective."""
        if self.watch is None or calls == 0:
            return
        # Only the root gets a result of reduce: torch leaves partial sums on the other ranks.
        outputs = [got for _, got in self.buffers if self.op != "reduce" or self.rank == self.peer]
        result = torch.cat(outputs).cpu() if outputs else self.buffers[0][1][:0].cpu()
        # In place, each call works on what the one before left.
        calls = calls if self.pattern.in_place and self.pattern.reduces else 1
        self.watch.note(calls, result, self.buffers[0][1].numel())

    def _displaced(self, number: int) -> int:
        """Elements that every table is displaced by in the buffers of this operation."""
        return (self.shift + number * BESIDE) % PERIOD

    def _table(self, rank: int) -> torch.Tensor:
        return _input_table(self.pattern, rank, self.place)

    def _inputs(self, given: torch.Tensor) -> list[Segment]:
        return [(0, given.numel(), self._table(self.rank), 0)] if given.numel() else []

    def check(self, calls: int) -> WrongReport:
        """Compares every element with what so many calls since the last refill must have left."""
        report = WrongReport()
        for number, (given, got) in enumerate(self.buffers):
            if isinstance(self.pattern, Random) and self.pattern.reduces:
                self._compare_bounded(number, got, self.pattern, calls, report)
            else:
                for segment in self._expected(calls, got.numel()):
                    self._compare(number, got, segment, report)
            if given is not got:
                for segment in self._inputs(given):
                    self._compare(number, given, segment, report)
        self._note(calls)
        return report

    def _expected(self, calls: int, length: int) -> list[Segment]:
        """What an output of this length must hold."""
        op, rank, ranks, count, peer = self.op, self.rank, self.ranks, self.count, self.peer
        block = count // ranks
        if length == 0 or (op == "reduce" and rank != peer):
            return []
        if isinstance(self.pattern, Pattern) and self.pattern.reduces:
            phase = block * rank if op == "reduce_scatter" else 0
            return [(0, length, _reduced(self.pattern, calls, rank, self.place), phase)]
        table = self._table
        before, after = (rank - 1) % ranks, (rank + 1) % ranks
        if op == "broadcast":
            return [(0, count, table(peer), 0)]
        if op in ("all_gather", "gather"):
            return [(source * block, block, table(source), 0) for source in range(ranks)]
        if op == "scatter":
            return [(0, block, table(peer), rank * block)]
        if op == "all_to_all":
            return [(source * block, block, table(source), rank * block) for source in range(ranks)]
        if op == "all_to_allv":
            return self._uneven()
        if op == "send_recv" and self.both_ways:
            half = count // 2
            return [(0, half, table(before), 0), (half, half, table(after), half)]
        return [(0, count, table(before if op == "send_recv" else peer - rank), 0)]

    def _uneven(self) -> list[Segment]:
        segments, at = [], 0
        for source, row in enumerate(self.counts):
            segments.append((at, row[self.rank], self._table(source), sum(row[: self.rank])))
            at += row[self.rank]
        return segments

    def _compare(self, number: int, buffer: torch.Tensor, segment: Segment, report: WrongReport) -> None:
        bits = BITS[buffer.element_size()]
        held, table = buffer.view(bits), segment[2].view(bits)
        report.compared += segment[1]
        # Indices go on from one operation's buffer to the next one's.
        first = number * buffer.numel()
        for start, stop, row in _pieces(segment, self._displaced(number), table):
            part = held[start:stop].view(-1, row.numel())
            # As bits: -0.0 is not 0.0 where the result is known bit for bit.
            if torch.equal(part, row.expand_as(part)):
                continue
            wrong = (part != row).flatten().nonzero().flatten()
            report.count += wrong.numel()
            for index in wrong[: TOLD - len(report.first)].tolist():
                expected = row[index % row.numel()].view(self.dtype)
                texts = {"expected": str(expected.item()), "got": str(buffer[start + index].item())}
                report.first.append({"rank": self.rank, "index": first + start + index, **texts})

    def _compare_bounded(
        self, number: int, buffer: torch.Tensor, random: Random, calls: int, report: WrongReport
    ) -> None:
        """The same of random numbers that were reduced: each result is within its bound."""
        length = buffer.numel()
        if length == 0 or (self.op == "reduce" and self.rank != self.peer):
            return
        table, bounds = _bounds(random, calls if random.grows else 1, self.place)
        phase = self.count // self.ranks * self.rank if self.op == "reduce_scatter" else 0
        displaced, report.compared = self._displaced(number), report.compared + length
        pieces = zip(*(_pieces((0, length, of, phase), displaced, of) for of in (table, bounds)))
        for (start, stop, expected), (_, _, bound) in pieces:
            held = buffer[start:stop].to(torch.float64).view(-1, expected.numel())
            # What is not a number is within no bound.
            is_right = (held - expected).abs() <= bound
            if is_right.all():
                continue
            wrong = (~is_right).flatten().nonzero().flatten()
            report.count += wrong.numel()
            for index in wrong[: TOLD - len(report.first)].tolist():
                at = index % expected.numel()
                right = f"{text(torch.float64, float(expected[at]))} within {short(float(bound[at]))}"
                got = text(self.dtype, float(buffer[start + index]))
                place = {"rank": self.rank, "index": number * length + start + index}
                report.first.append({**place, "expected": right, "got": got})

    def corrupt(self, element: int) -> None:
        """Changes an element of the outputs, counted through all of them: a bit of its most significant byte is
        flipped.
        """
        length, size = self.buffers[0][1].numel(), self.buffers[0][1].element_size()
        if length:
            number, index = divmod(element % (length * len(self.buffers)), length)
            self.buffers[number][1].view(torch.uint8)[index * size + size - 1] ^= 0x40

    def details(self) -> dict[str, Any]:
        """What was noted of the bits of results, where that was wanted."""
        return {} if self.watch is None else self.watch.noted


def _pieces(segment: Segment, shift: int, table: torch.Tensor) -> Iterator[tuple[int, int, torch.Tensor]]:
    """`(from, to, row)` for pieces of a segment that hold this row of the table again and again.

    A piece is many periods long: one operation for each period would take minutes where a call takes milliseconds.
    """
    offset, length, _, phase = segment
    at = (phase + shift) % PERIOD
    row = torch.cat((table[at:], table[:at]))
    start, stop = offset, offset + length - length % PERIOD
    while start < stop:
        end = min(stop, start + ROWS * PERIOD)
        yield start, end, row
        start = end
    if length % PERIOD:
        yield start, offset + length, row[: length % PERIOD]


def _is_lacking(error: Exception) -> bool:
    """Whether torch refuses what the backend has no form of, before anything moves."""
    words = ("not support", "unsupported", "Unsupported", "Cannot use", "Invalid scalar type", "can't be cast")
    return any(word in str(error) for word in words)


def _counts(values: dict[str, Any], ranks: int, element: int) -> list[list[int]]:
    """Elements from each rank to each rank: mirrors `collective::uneven`."""
    count = int(values.get("bytes_requested") or values.get("bytes", 0)) // element
    traffic = values.get("traffic", "uniform")
    weights = [1] * ranks * ranks
    if traffic == "skewed":
        weights = [1024 >> min(to, 10) for _ in range(ranks) for to in range(ranks)]
    elif traffic == "file":
        weights = values["traffic_weights"]
    rows = [weights[rank * ranks : (rank + 1) * ranks] for rank in range(ranks)]
    widest = max([sum(row) for row in rows] + [sum(column) for column in zip(*rows)])
    return [[weight * count // max(widest, 1) for weight in row] for row in rows]

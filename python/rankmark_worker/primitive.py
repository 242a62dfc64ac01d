"""A product of matrices, or attention, with its collective, on one rank: mirrors `primitive`. The recipe
leaves nothing open; operands and checks are those of native ranks, and what runs is torch's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import chain
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from . import overlapped, xla
from .group import bytes_of, first_line, freed, waits
from .product import EXACT, GAMMA, PERIODS, Attention, Comparison, Pattern, fill, rounding
from .rank import Failure, Prepared, WrongReport
from .steps import Run, Step, Task, communication_only, compute_only, sequential

UNBOUNDED = 1 << 63
# Exponents (base 2) that results may grow by and still be exact.
ROOM = {torch.float32: 100, torch.bfloat16: 100, torch.float64: 900, torch.float16: 14}
# How often operands are thinned at most: then one number of each sequence is left.
MOST_THINNED = 16
# What torch says of a type or an operation that it has no form of.
LACKS = ("not implemented for", "not support", "nsupported", "Invalid scalar type", "can't be cast")


def prepare(values: dict[str, Any], rank: int, ranks: int, place: torch.device) -> Prepared:
    """Allocates. Fills nothing yet."""
    try:
        return Primitive(values["recipe"], rank, ranks, place)
    except (RuntimeError, MemoryError, NotImplementedError) as error:
        raise failure(values["recipe"], error) from None


def failure(recipe: dict[str, Any], error: BaseException) -> Failure:
    """What torch says, and whether it lacks something."""
    text = first_line(error)
    absent = isinstance(error, (AttributeError, NotImplementedError))
    lacking = absent or "allocate" in text or any(word in text for word in LACKS)
    return Failure(f"{recipe['step']} of torch {torch.__version__}: {text}", lacking)


class Summed(Pattern):
    """What products hold that ranks add up: mirrors `primitive::pattern::Pattern::for_task`. In 16 bits, the type holds
    the sum of any of the ranks: results are exact in whatever order ranks are added, and one that is left out shows.
    """

    def __init__(self, task: Task) -> None:
        self.ranks, self.depth, self.alternates = task.ranks, task.depth, False
        # What the period must not divide: depths (sums could all be 0), and rows (ranks would hold equal ones).
        both = task.rows * task.depth if task.cut else task.depth
        block = both if any(both % period for period in PERIODS) else task.depth
        narrow = bytes_of(task.dtype) == 2
        super().__init__(task.seed, task.whole_depth, block, narrow)
        self.alternates = narrow
        self.whole, largest = self.over_ranks()
        for turn in range(MOST_THINNED if self.alternates else 0):
            if largest <= EXACT[task.dtype]:
                break
            numbers = self.columns if turn % 2 else self.rows
            # Every other number that differs from 0 becomes 0.
            numbers[numbers.nonzero().flatten()[1::2]] = 0
            self.whole, largest = self.over_ranks()

    def fill_columns(self, to: Tensor, depth: int, expert: int) -> None:
        """Fills B. In 16 bits, it changes its sign from period to period of the rank's depth."""
        super().fill_columns(to, depth, expert)
        if self.alternates:
            for begin in range(self.period, len(to), 2 * self.period):
                to[begin : begin + self.period].neg_()

    def table(self, depth: int, length: int) -> Tensor:
        """Sums over a rank's part of the depth. Of periods with different signs, nothing is left."""
        if self.alternates:
            rest = length % (2 * self.period)
            depth += max(0, rest - self.period)
            length = min(rest, 2 * self.period - rest)
        return super().table(depth, length)

    def over_ranks(self) -> tuple[Tensor, float]:
        """Sums of all ranks, and the largest size of a sum of some of them: of those whose sums have one sign."""
        first = self.table(0, self.depth)
        above, below = torch.zeros_like(first), torch.zeros_like(first)
        # Ranks that are a period apart have equal sums.
        for rank in range(min(self.ranks, self.period)):
            begin = rank * self.depth % self.period
            times = math.ceil((self.ranks - rank) / self.period)
            sums = times * first.roll((-begin, -begin - GAMMA * rank), (0, 1))
            above += sums.clamp(min=0.0)
            below -= sums.clamp(max=0.0)
        return above - below, max(float(above.max()), float(below.max()))


class Product:
    """The buffers of a product, what they hold, and what is done with them."""

    def __init__(self, task: Task, reporter: int) -> None:
        self.task, self.reporter = task, reporter
        m, n, k, rows, depth = task.m, task.n, task.k, task.rows, task.depth
        # What displaces the columns of this rank: the number of its expert, or of its part of a sum.
        self.expert = task.rank if task.scheme == "exchange" or task.summed else 0
        self.own = task.empty(m if task.summed else rows, depth)
        self.other = task.empty(depth, n)
        self.gathered = task.empty(0, k)
        self.output = task.empty(rows if task.scheme in ("scatter_last", "exchange") else m, n)
        # Where this rank's own products go.
        self.products = self.output
        if task.scheme == "gather_first":
            self.gathered = task.empty(m, k)
        elif task.scheme == "gather_last":
            self.products = task.empty(rows, n)
        elif task.scheme == "scatter_last":
            self.products = task.empty(m, n)
        elif task.scheme == "exchange":
            self.gathered = task.empty(sum(task.received), k)
            self.products = task.empty(sum(task.received), n)
        # What the product is of: all rows, own rows, tokens that came.
        self.left = self.gathered if task.scheme in ("gather_first", "exchange") else self.own
        if task.summed:
            summed = Summed(task)
            self.pattern: Pattern = summed
            self.whole = summed.whole
        else:
            self.pattern = Pattern(task.seed, task.whole_depth, rows, bytes_of(task.dtype) == 2)
            self.whole = self.pattern.table(0, task.whole_depth)
        self.part = self.pattern.table(task.begin(task.rank), depth)
        # How far an element of the result may be off: `primitive::tolerance`.
        self.tolerance = rounding(task.dtype, float(self.whole.abs().max()))

    def multiply(self) -> None:
        """The product alone."""
        torch.mm(self.left, self.other, out=self.products)

    def there(self) -> None:
        """The collective before the product."""
        task = self.task
        if task.scheme == "gather_first":
            dist.all_gather_into_tensor(self.gathered, self.own)
        elif task.scheme == "exchange":
            dist.all_to_all_single(self.gathered, self.own, task.received, task.tokens)

    def back(self) -> None:
        """The collective after it."""
        task = self.task
        if task.scheme == "gather_last":
            dist.all_gather_into_tensor(self.output, self.products)
        elif task.scheme == "scatter_last":
            dist.reduce_scatter_tensor(self.output, self.products)
        elif task.scheme == "reduce_last":
            dist.all_reduce(self.output)
        elif task.scheme == "exchange":
            dist.all_to_all_single(self.output, self.products, task.tokens, task.received)

    def communicated(self) -> tuple[str, tuple[str, ...]]:
        """What communication alone is given and leaves."""
        if self.task.scheme == "gather_first":
            return "operands", ("gathered",)
        return "products", ("gathered", "result") if self.task.scheme == "exchange" else ("result",)

    def own_rows(self) -> Tensor:
        """The rows of A that this rank has."""
        task = self.task
        return torch.arange(task.m) if task.summed else torch.arange(task.rank * task.rows, (task.rank + 1) * task.rows)

    def received_rows(self) -> Tensor:
        """The rows that this rank gets as an expert, as they arrive."""
        task = self.task
        begin = sum(task.tokens[: task.rank])
        tokens = torch.arange(begin, begin + task.tokens[task.rank])
        return (torch.arange(task.ranks)[:, None] * task.rows + tokens).flatten()

    def gathered_rows(self) -> Tensor:
        """The rows that this rank gathers."""
        return self.received_rows() if self.task.scheme == "exchange" else torch.arange(self.task.m)

    def product_rows(self) -> Tensor:
        """The rows that this rank multiplies."""
        return self.gathered_rows() if self.left is self.gathered else self.own_rows()

    def refill(self, given: str) -> None:
        """Fresh operands; results of before are overwritten."""
        task = self.task
        self.pattern.displace()
        for buffer in (self.gathered, self.products, self.output):
            buffer.fill_(math.nan)
        self.pattern.fill_rows(self.own, self.own_rows(), task.begin(task.rank))
        self.pattern.fill_columns(self.other, task.begin(task.rank), self.expert)
        if given == "products":
            values = self.pattern.product(self.part, task.n, self.expert)
            fill(self.products, values, self.pattern.classes(self.product_rows()))
        elif given == "gathered" and self.left is self.gathered:
            self.pattern.fill_rows(self.gathered, self.gathered_rows(), 0)

    def tensor(self, left: str) -> Tensor:
        """What a call leaves, by its name."""
        return {"gathered": self.gathered, "products": self.products}.get(left, self.output)

    def compare(self, left: str, factor: float, report: WrongReport) -> None:
        """Compares every element. `factor`: how many times the result was summed up."""
        task, pattern, got = self.task, self.pattern, self.tensor(left)
        comparison = Comparison(self.reporter)
        if left == "gathered":
            comparison.rows(got, pattern.row_values(0, task.k), pattern.classes(self.gathered_rows()), 0.0)
        elif left == "products":
            once = rounding(task.dtype, float(self.part.abs().max()))
            values = pattern.product(self.part, task.n, self.expert)
            comparison.rows(got, values, pattern.classes(self.product_rows()), once)
        elif task.scheme == "exchange":
            self.compare_tokens(got, comparison)
        else:
            rows = torch.arange(task.m)
            if task.scheme == "scatter_last":
                rows = torch.arange(task.rank * task.rows, (task.rank + 1) * task.rows)
            values = factor * pattern.product(self.whole, task.n, 0)
            comparison.rows(got, values, pattern.classes(rows), factor * self.tolerance)
        report.add(comparison.report)

    def compare_tokens(self, got: Tensor, comparison: Comparison) -> None:
        """This rank's tokens, each with the product of its expert: the values of all experts, one after the other."""
        task = self.task
        values = torch.cat([self.pattern.product(self.whole, task.n, expert) for expert in range(task.ranks)])
        experts = torch.tensor(list(chain.from_iterable([expert] * count for expert, count in enumerate(task.tokens))))
        classes = self.pattern.classes(self.own_rows()) + experts.long() * self.pattern.period
        comparison.rows(got, values, classes, self.tolerance)


class Tokens:
    """The buffers of attention. Tokens come first, as a gather stacks them: no head is copied before it is used."""

    def __init__(self, task: Task, reporter: int) -> None:
        self.task, self.reporter = task, reporter
        heads, width, rows = task.n, task.k, task.rows
        self.own = task.empty(rows, 2, heads, width)
        self.queries = task.empty(rows, heads, width)
        self.gathered = task.empty(task.m, 2, heads, width)
        self.output = task.empty(heads, rows, width)
        self.attention = Attention(task.m, heads, width, task.ranks)

    def multiply(self) -> None:
        """Attention alone."""
        keys, values = (self.gathered[:, side].transpose(0, 1)[None] for side in (0, 1))
        self.output = F.scaled_dot_product_attention(self.queries.transpose(0, 1)[None], keys, values)[0]

    def there(self) -> None:
        """The collective before it."""
        dist.all_gather_into_tensor(self.gathered, self.own)

    def back(self) -> None:
        """There is none."""

    def communicated(self) -> tuple[str, tuple[str, ...]]:
        """What communication alone is given and leaves."""
        return "operands", ("gathered",)

    def refill(self, given: str) -> None:
        """Fresh operands; results of before are overwritten."""
        self.attention.displace()
        self.gathered.fill_(math.nan)
        self.output.fill_(math.nan)
        self.own.copy_(self.attention.panel(self.tokens()))
        self.queries.copy_(self.attention.queries(self.tokens()))
        if given == "gathered":
            self.gathered.copy_(self.attention.panel(torch.arange(self.task.m)))

    def tokens(self) -> Tensor:
        """This rank's."""
        return torch.arange(self.task.rank * self.task.rows, (self.task.rank + 1) * self.task.rows)

    def tensor(self, left: str) -> Tensor:
        """What a call leaves, by its name."""
        return self.gathered if left == "gathered" else self.output

    def compare(self, left: str, _factor: float, report: WrongReport) -> None:
        """Compares every element."""
        task, comparison = self.task, Comparison(self.reporter)
        if left == "gathered":
            wanted = self.attention.panel(torch.arange(task.m)).reshape(task.m, -1)
            comparison.rows(self.gathered.reshape(task.m, -1), wanted, torch.arange(task.m), 0.0)
        else:
            classes = (self.tokens() + self.attention.shift) % self.attention.expected.shape[1]
            heads = torch.arange(task.n)[:, None] * self.attention.expected.shape[1]
            wanted = self.attention.expected.reshape(-1, task.k)
            got = self.output.reshape(-1, task.k)
            comparison.rows(got, wanted, (heads + classes).flatten(), self.attention.tolerance)
        report.add(comparison.report)


# What makes a call of each implementation. Libraries that may be absent are looked for only where they are asked for.
STEPS: dict[str, Callable[[Any], Step]] = {
    "compute_only": compute_only,
    "communication_only": communication_only,
    "sequential": sequential,
    "async_tp": overlapped.async_tp,
    "transformer_engine": overlapped.transformer_engine,
    "jax": xla.jax,
}


class Primitive:
    """A case, ready on this rank."""

    messages = 1
    checks = 1
    steps = False
    past_ns: int | None = None
    # A call waits for the device.
    waits: Callable[[], None] | None = None
    freed: Callable[[], None] | None = None

    def __init__(self, recipe: dict[str, Any], rank: int, ranks: int, place: torch.device) -> None:
        self.recipe = recipe
        self.flops, self.traffic_bytes = float(recipe["flops"]), int(recipe["traffic_bytes"])
        if place.type == "cuda":
            # A case is prepared again before it runs beside others.
            torch.backends.cuda.matmul.allow_tf32 = recipe["tf32"]
        self.task = task = Task(recipe, rank, place)
        self.site: Tokens | Product = Tokens(task, rank) if task.scheme == "attention" else Product(task, rank)
        self.step = STEPS[recipe["step"]](self.site)
        self.max_calls = growth(self.site, ranks) if self.step.grows and isinstance(self.site, Product) else UNBOUNDED
        self.path = f"{self.step.path}, torch {torch.__version__}"
        self.freed = freed(place)
        self.meet: Run = waits(place)

    def run(self) -> None:
        """One call."""
        try:
            self.step.run()
            self.meet()
        except (AttributeError, RuntimeError, ValueError, NotImplementedError) as error:
            # The first is of a function that came with a later torch.
            raise failure(self.recipe, error) from None

    def refill(self) -> None:
        """Fresh operands."""
        self.site.refill(self.step.given)
        self.step.filled()
        self.meet()

    def check(self, calls: int) -> WrongReport:
        """Compares every element of what the calls must have left."""
        report = WrongReport()
        self.step.settle()
        factor = float(self.task.ranks ** (calls - 1)) if self.step.grows else 1.0
        for left in self.step.leaves:
            self.site.compare(left, factor, report)
        return report

    def corrupt(self, element: int) -> None:
        """Changes an element of what is compared."""
        self.step.settle()
        held = self.site.tensor(self.step.leaves[-1])
        if held.numel():
            place: list[int] = []
            for size in reversed(held.shape):
                element, index = divmod(element, size)
                place.insert(0, index)
            held[tuple(place)] += 1.0 + held[tuple(place)].abs()

    def details(self) -> dict[str, Any]:
        """The conditions of this rank, for the audit."""
        buffers = [
            held for held in vars(self.site).values() if isinstance(held, Tensor) and held.dtype == self.task.dtype
        ]
        unique = {held.data_ptr(): held.numel() * held.element_size() for held in buffers}
        multiplied = "scaled_dot_product_attention" if self.task.scheme == "attention" else "mm"
        # Ranks with GPUs meet over gloo: see `group`.
        meets = "gloo" if self.task.place.type == "cuda" else dist.get_backend()
        return {
            "clock": "CLOCK_MONOTONIC_RAW",
            "barrier": f"{meets} barrier",
            "buffer_bytes": sum(unique.values()),
            "threads": torch.get_num_threads(),
            "multiplied": f"torch {multiplied} ({self.task.place.type})",
        }


def growth(site: Product, ranks: int) -> int:
    """Calls of an all_reduce in place that stay exact. Each one multiplies the result by the number of ranks: exactly,
    where that is a power of two, the type holds the result times every smaller number, and the exponent has room."""
    if ranks == 1:
        return UNBOUNDED
    largest = max(1.0, float(site.whole.abs().max()))
    if ranks & (ranks - 1) or (ranks - 1) * largest > EXACT[site.task.dtype]:
        return 1
    room = ROOM[site.task.dtype] - math.ceil(math.log2(largest))
    return max(1, 1 + int(room // math.log2(ranks)))

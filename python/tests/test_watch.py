"""Bits of results, compared between calls and ranks; random floats in buffers; start-up. In a world of one rank."""

from __future__ import annotations

import importlib.util
import math
import sys
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

HERE = importlib.util.find_spec("torch") is not None
if HERE:
    import torch
    import torch.distributed as dist

    from rankmark_worker import collective, group, startup, watch


def flipped(result: torch.Tensor, element: int) -> torch.Tensor:
    """The same with another last bit of an element."""
    other = result.clone()
    other.view(torch.int32)[element] ^= 1
    return other


class Peers:
    """A rank 0 that holds the same, but for an element."""

    def __init__(self, element: int | None = None) -> None:
        self.element = element

    def of_rank_0(self, own: torch.Tensor) -> torch.Tensor:
        return own.clone() if self.element is None else flipped(own, self.element)


@unittest.skipUnless(HERE, "there is no torch")
class Bits(unittest.TestCase):
    def setUp(self) -> None:
        self.result = torch.arange(1, 2001, dtype=torch.float32) / 7

    def test_equal_results_are_counted(self) -> None:
        seen = watch.Watch("f32", True, Peers())
        for _ in range(3):
            seen.note(1, self.result.clone())
        noted = {name: value for name, value in seen.noted.items() if name != "bits"}
        self.assertEqual(noted, {"results": 3, "calls": None, "with_rank_0": True, "ranks": None})
        self.assertEqual(seen.noted["bits"]["elements"], 2000)

    def test_a_bit_of_one_call_is_named(self) -> None:
        seen = watch.Watch("f32", False, Peers(3))
        for element in (None, None, 1500, 20):
            seen.note(1, self.result if element is None else flipped(self.result, element))
        number, found = seen.noted["calls"]
        self.assertEqual((number, found["first"], found["ulps"], found["different"]), (3, 1500, 1, 1))
        self.assertEqual(seen.noted["ranks"], None, "each rank has its own part")

    def test_a_bit_of_one_rank_is_named(self) -> None:
        seen = watch.Watch("f32", True, Peers(77))
        seen.note(1, self.result)
        self.assertEqual((seen.noted["ranks"]["first"], seen.noted["calls"]), (77, None))
        text = str(struct_text(float(self.result[77])))
        self.assertEqual(seen.noted["ranks"]["values"][1], text)

    def test_other_numbers_of_calls_have_first_results_of_their_own(self) -> None:
        seen = watch.Watch("f32", False, Peers())
        for calls in (1, 5, 9, 5, 1):
            seen.note(calls, self.result * calls)
        # Of nine calls none is kept.
        self.assertEqual((seen.noted["results"], seen.noted["calls"]), (4, None))

    def test_what_is_no_number_is_at_no_distance(self) -> None:
        nan, other = torch.full((2,), math.nan), torch.tensor([math.nan, 1.0])
        found = watch.difference(torch.float32, nan, other)
        assert found is not None
        self.assertEqual((found["first"], found["values"], found["relative"]), (1, ["NaN", "1"], 0.0))

    def test_texts_have_no_exponent(self) -> None:
        for value, text in ((1e-7, "0.0000001"), (-2.0, "-2"), (1e20, "100000000000000000000"), (-0.0, "-0")):
            self.assertEqual(watch.text(torch.float64, value), text)
        self.assertEqual(watch.text(torch.float32, float(torch.tensor(0.1))), "0.1")
        self.assertEqual(watch.text(torch.float32, float(torch.finfo(torch.float32).max)), f"34028235{'0' * 31}")

    def test_of_two_texts_that_are_as_near_native_ranks_write_the_larger(self) -> None:
        self.assertEqual(watch.text(torch.float32, 0.478515625), "0.47851563")
        self.assertEqual(watch.text(torch.float64, 0.50000762939453125), "0.5000076293945313")
        self.assertEqual([watch.short(bound) for bound in (0.0, 8.4e-8, 12.0)], ["0.0e0", "8.4e-8", "1.2e1"])


def struct_text(value: float) -> str:
    """The shortest of all texts of at most nine digits that is this f32."""
    return next(f"{value:.{n}g}" for n in range(1, 10) if float(torch.tensor(float(f"{value:.{n}g}"))) == value)


@unittest.skipUnless(HERE, "there is no torch")
class World(unittest.TestCase):
    """A world of one rank."""

    def setUp(self) -> None:
        self.store = dist.HashStore()
        dist.init_process_group("gloo", store=self.store, rank=0, world_size=1)
        self.addCleanup(lambda: dist.destroy_process_group() if dist.is_initialized() else None)
        self.group = group.TorchGroup(self.store, torch.device("cpu"), "gloo", group.Joining(5, 7))


class RandomFloats(World):
    def prepared(self, **values: Any) -> Any:
        common = {"op": "all_reduce", "bytes": 4 * 9000, "dtype": "f32", "data": "random"}
        return collective.prepare({**common, **values}, 0, self.group)

    def test_every_element_is_compared_with_its_bound(self) -> None:
        for op in ("all_reduce", "all_gather", "reduce_scatter"):
            for dtype in ("f32", "f64", "f16", "bf16"):
                case = self.prepared(op=op, dtype=dtype)
                case.refill()
                case.run()
                report = case.check(1)
                self.assertEqual(report.count, 0, f"{op} {dtype}")
                case.corrupt(8500 % case.buffers[0][1].numel())
                self.assertEqual(case.check(1).count, 1, f"{op} {dtype}")

    def test_an_output_that_no_call_has_written_is_wrong(self) -> None:
        case = self.prepared(op="reduce_scatter")
        case.refill()
        self.assertEqual(case.check(1).count, 9000)

    def test_a_sum_that_lacks_a_rank_is_wrong(self) -> None:
        # As rank 0 of two, of which the other gave nothing.
        case = collective.Collective(
            {"op": "all_reduce", "bytes": 36000, "dtype": "f32", "data": "random"}, 0, 2, torch.device("cpu")
        )
        case.refill()
        report = case.check(1)
        self.assertGreater(report.count, 8900)
        self.assertIn(" within ", report.first[0]["expected"])

    def test_results_are_those_of_the_same_inputs(self) -> None:
        case = self.prepared(reproducible=True)
        before = case.buffers[0][0].clone()
        case.refill()
        case.refill()
        case.run()
        self.assertEqual(case.check(1).count, 0)
        details = case.details()
        self.assertEqual((details["results"], details["calls"]), (5, None))
        plain = self.prepared()
        plain.refill()
        plain.refill()
        self.assertFalse(torch.equal(plain.buffers[0][0], before), "elsewhere each refill displaces the inputs")

    def test_other_sizes_are_compared_by_the_first_of_several_operations(self) -> None:
        short = {"bytes": 4 * 100, "reproducible": True}
        one, several = self.prepared(**short), self.prepared(**short, call="async", in_flight=3)
        self.assertEqual(several.details()["bits"], one.details()["bits"])
        # Between calls all of them are.
        several.corrupt(299)
        several._note(1)
        self.assertEqual(several.details()["calls"][1]["first"], 299)

    def test_a_call_that_changes_a_bit_is_named_and_not_wrong(self) -> None:
        true, made = dist.all_reduce, []

        def all_reduce(held: torch.Tensor, *words: Any, **named: Any) -> Any:
            done = true(held, *words, **named)
            made.append(held)
            if len(made) == 3:
                held.copy_(flipped(held, 8999))
            return done

        with mock.patch.object(dist, "all_reduce", all_reduce):
            case = self.prepared(reproducible=True)
        number, found = case.details()["calls"]
        self.assertEqual((number, found["first"], found["ulps"]), (3, 8999, 1))

    def test_what_other_ranks_hold_after_a_reduce_is_no_result(self) -> None:
        case = self.prepared(op="reduce", reproducible=True)
        self.assertEqual(case.details()["bits"]["elements"], 9000)
        case = self.prepared(op="reduce")
        case.watch, case.rank = watch.Watch("f32", False, Peers()), 1
        case.refill()
        case.check(1)
        self.assertEqual((case.details()["bits"], case.details()["results"]), (None, 1))


class Stages(World):
    def prepared(self, stage: str, start: str = "warm", **values: Any) -> Any:
        return startup.prepare({"stage": stage, "start": start, **values}, 0, self.group)

    def opened(self) -> int:
        """Groups of this process."""
        return len(dist.distributed_c10d._world.pg_map)

    def test_joining_is_what_was_before(self) -> None:
        case = self.prepared("join", "cold")
        self.assertEqual((case.past_ns, case.details()), (12, {"opened_ns": 7}))
        self.assertEqual((case.check(0).compared, case.check(1).compared, case.check(1).count), (0, 16384, 0))

    def test_joining_again_opens_a_group_each_time_and_leaves_one(self) -> None:
        case = self.prepared("join")
        for _ in range(3):
            case.refill()
            self.assertFalse(dist.is_initialized())
            self.group.barrier()
            self.assertEqual(self.group.tell(5), 5)
            case.run()
            self.assertEqual((case.check(1).count, self.opened()), (0, 1))
        case.refill()
        case.freed()
        self.assertTrue(dist.is_initialized())

    def test_a_first_call_has_a_group_of_its_own_each_time(self) -> None:
        case = self.prepared("first_call", bytes=4096)
        groups = []
        for _ in range(3):
            case.refill()
            groups.append(case.within)
            self.assertEqual(self.opened(), 2)
            case.run()
            report = case.check(1)
            self.assertEqual((report.count, report.compared), (0, 1024))
        self.assertEqual(len({id(one) for one in groups}), 3)
        case.freed()
        self.assertEqual(self.opened(), 1)

    def test_a_later_call_stays_on_its_group(self) -> None:
        case = self.prepared("later_call", bytes=4096)
        within = case.within
        case.refill()
        case.run()
        self.assertEqual((case.check(1).count, case.within), (0, within))

    def test_calls_are_made_on_the_group_that_was_opened(self) -> None:
        seen: list[Any] = []
        true = dist.all_reduce

        def all_reduce(held: torch.Tensor, op: Any, group: Any = None) -> Any:
            seen.append(group)
            return true(held, op, group=group)

        with mock.patch.object(dist, "all_reduce", all_reduce):
            case = self.prepared("first_call", bytes=4096)
            case.refill()
            case.run()
            split = self.prepared("communicator", communicators=1)
            split.refill()
            split.run()
            split.check(1)
        self.assertEqual([seen[0] is case.within, seen[-1] is split.made, None in seen], [True, True, False])

    def test_further_communicators_are_closed(self) -> None:
        case = self.prepared("communicator", communicators=2)
        self.assertEqual(self.opened(), 3)
        for _ in range(2):
            case.refill()
            case.run()
            self.assertEqual((self.opened(), case.check(1).count), (4, 0))
        case.freed()
        self.assertEqual(self.opened(), 1)

    def test_cold_stages_make_no_call_before_the_timed_one(self) -> None:
        with mock.patch.object(dist, "all_reduce", side_effect=AssertionError("a call was made")):
            case = self.prepared("first_call", "cold", bytes=4096)
            case.refill()
        self.assertEqual((case.checks, self.prepared("communicator", "cold").checks), (0, 0))


if __name__ == "__main__":
    unittest.main()

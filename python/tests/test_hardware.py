"""Tests of a device on one process, without a coordinator: on the CPU. Skipped where there is no torch."""

from __future__ import annotations

import importlib.util
import sys
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

HERE = importlib.util.find_spec("torch") is not None
if HERE:
    import torch

    from rankmark_worker import hardware

    CPU = torch.device("cpu")
    GPU = torch.device("cuda", 0)

LOOPS = ("copy", "scale", "add", "triad")


def loop(test: str, elements: int, place: Any = None) -> Any:
    recipe = {"test": test, "elements": elements, "counted_bytes": 24, "seed": 1}
    case = hardware.Loop(recipe, 0, place or CPU)
    case.refill()
    return case


class Alone:
    """A world of `size` ranks, without the others."""

    def __init__(self, size: int) -> None:
        self.size, self.place = size, CPU

    def barrier(self) -> None:
        pass

    def tell(self, word: int) -> int:
        return word


@unittest.skipUnless(HERE, "there is no torch")
class Checks(unittest.TestCase):
    def test_a_loop_leaves_what_its_formula_says_in_every_element(self) -> None:
        for test in LOOPS:
            for elements in (1, 1020, 1021, 1022, 5000):
                case = loop(test, elements)
                case.run()
                report = case.check(1)
                arrays = 3 if test in ("add", "triad") else 2
                self.assertEqual((report.count, report.compared), (0, arrays * elements), f"{test}, {elements}")

    def test_the_formula_is_that_of_stream(self) -> None:
        for test, value in (("copy", 2.0), ("scale", 6.0), ("add", 7.0), ("triad", 17.0)):
            case = loop(test, 3)
            case.arrays["a"].fill_(2.0)
            if "b" in case.arrays:
                case.arrays["b"].fill_(5.0)
            case.run()
            self.assertEqual(case.arrays["c"].tolist(), [value] * 3, test)

    def test_a_loop_that_did_not_run_or_one_wrong_element_is_seen(self) -> None:
        for test in LOOPS:
            case = loop(test, 2000)
            self.assertEqual(case.check(1).count, 2000, "nothing ran")
            case.run()
            for element in (0, 1021, 1999):
                case.corrupt(element)
            report = case.check(1)
            self.assertEqual((report.count, report.first[0]["index"]), (3, 0), test)
            case.run()
            case.arrays["a"][7] = 0.5
            self.assertEqual(case.check(1).count, 1, "an input that changed")

    def test_inputs_differ_after_a_refill(self) -> None:
        case = loop("triad", 1500)
        case.run()
        before = case.arrays["c"].clone()
        case.refill()
        self.assertEqual(case.check(1).count, 1500, "the results of before are gone")
        case.run()
        self.assertTrue(bool((case.arrays["c"] != before).all()))

    def test_a_call_makes_passes_enough_to_hide_its_start(self) -> None:
        self.assertEqual(loop("copy", 1 << 10).messages, (8 << 20) // (24 << 10))
        self.assertEqual(loop("copy", 1 << 20).messages, 1)

    def test_copies_are_compared_byte_by_byte(self) -> None:
        for test in ("host_to_device", "device_to_host"):
            case = hardware.Copies({"test": test, "bytes": 3000, "seed": 4}, 0, CPU)
            case.refill()
            self.assertEqual(case.check(1).count, 3000)
            case.run()
            self.assertEqual((case.check(1).count, case.check(1).compared), (0, 3000))
            case.corrupt(2999)
            self.assertEqual((case.check(1).count, case.check(1).first[0]["index"]), (1, 2999))

    def pairs(self, test: str, ranks: int, rank: int, fullest: int = 1) -> Any:
        rounds = [[[0, 1], [2, 3]], [[0, 2], [1, 3]], [[0, 3], [1, 2]]] if ranks == 4 else [[[0, 1]]]
        recipe = {"test": test, "bytes": 100, "messages": 2, "rounds": rounds, "seed": 1}
        with mock.patch("torch.distributed.get_backend", return_value="gloo"):
            case = hardware.Pairs(recipe, rank, Alone(ranks), fullest)  # type: ignore[arg-type]
        case.refill()
        return case

    def test_every_message_is_of_its_sender_and_for_its_receiver(self) -> None:
        pair = [self.pairs("latency", 4, rank) for rank in range(4)]
        for case in pair:
            for other, message in case.sent.items():
                pair[other].got[case.rank].copy_(message)
        self.assertEqual([case.check(1).count for case in pair], [0] * 4)
        # The right bytes of another pair.
        pair[0].got[1].copy_(pair[2].sent[1])
        self.assertEqual(pair[0].check(1).count, 100)

    def test_each_pair_meets_once_and_its_time_is_that_of_one_way(self) -> None:
        for test, ways in (("latency", 2), ("both_ways", 1)):
            case = self.pairs(test, 4, 2)
            met: list[int] = []
            case.exchange = met.append
            with mock.patch.object(hardware, "now_ns", side_effect=range(0, 10**6, 4000)):
                case.run()
            self.assertEqual(met, [other for other in (3, 0, 1) for _ in range(3)], "one exchange before the clock")
            details = case.details()
            self.assertEqual(details["pairs"], {str(other): 4000 / 1e9 / 2 / ways for other in (0, 1, 3)})
            self.assertEqual(case.details()["pairs"], {}, "each trial has its own")

    def test_pairs_take_turns_where_ranks_outnumber_cores(self) -> None:
        # Ranks of one host count: four on each of several take turns on three cores, and one on each does not.
        self.assertTrue(self.pairs("latency", 4, 0, fullest=1).at_once)
        for cores, at_once in ((4, True), (3, False)):
            with mock.patch("os.sched_getaffinity", return_value=set(range(cores))):
                case = self.pairs("latency", 4, 0, fullest=4)
            self.assertEqual((case.at_once, len(case.rounds)), (at_once, 3 if at_once else 6))


@unittest.skipUnless(HERE and torch.cuda.is_available(), "there is no GPU")
class ChecksOfGpus(unittest.TestCase):
    def test_loops_and_copies_are_exact_and_one_wrong_element_is_seen(self) -> None:
        for test in LOOPS:
            case = loop(test, 1 << 20, GPU)
            self.assertEqual(case.check(1).count, 1 << 20, "nothing ran")
            case.run()
            self.assertEqual(case.check(1).count, 0, test)
            case.corrupt(12345)
            self.assertEqual(case.check(1).count, 1, test)
        for test in ("host_to_device", "device_to_host"):
            copies = hardware.Copies({"test": test, "bytes": 1 << 20, "seed": 4}, 0, GPU)
            copies.refill()
            self.assertEqual(copies.check(1).count, 1 << 20)
            copies.run()
            self.assertEqual(copies.check(1).count, 0, test)


if __name__ == "__main__":
    unittest.main()

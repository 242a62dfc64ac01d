"""Primitives on one process that stands for both ranks, without a coordinator. Skipped where there is no torch."""

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

    from rankmark_worker import overlapped, primitive, xla
    from rankmark_worker.rank import Failure, WrongReport
    from rankmark_worker.steps import Task

SCHEMES = ("gather_first", "gather_last", "scatter_last", "reduce_last", "exchange", "attention")


def recipe(scheme: str, **more: Any) -> dict[str, Any]:
    about = {"step": "sequential", "options": {}, "scheme": scheme, "m": 24, "n": 5, "k": 8, "ranks": 2, "tf32": False}
    return {**about, "dtype": "f32", "seed": 3, "tokens": [8, 4], "flops": 0.0, "traffic_bytes": 0, **more}


def sites(scheme: str, **more: Any) -> list[Any]:
    kind = primitive.Tokens if scheme == "attention" else primitive.Product
    place = torch.device("cpu")
    return [kind(Task(recipe(scheme, **more), rank, place), rank) for rank in (0, 1)]


def exchange(sent: list[Any], counts: list[list[int]]) -> list[Any]:
    """What each rank gets of what each sends: `counts[from][to]`."""
    parts = [tensor.split(row) for tensor, row in zip(sent, counts)]
    return [torch.cat([part[rank] for part in parts]) for rank in (0, 1)]


def there(pair: list[Any]) -> None:
    """The collective before the product, of both ranks."""
    scheme = pair[0].task.scheme
    if scheme in ("gather_first", "attention"):
        for site in pair:
            site.gathered.copy_(torch.cat([each.own for each in pair]))
    elif scheme == "exchange":
        for site, got in zip(pair, exchange([each.own for each in pair], [site.task.tokens for site in pair])):
            site.gathered.copy_(got)


def back(pair: list[Any]) -> None:
    """The collective after it, of both ranks."""
    scheme = pair[0].task.scheme
    if scheme == "gather_last":
        for site in pair:
            site.output.copy_(torch.cat([each.products for each in pair]))
    elif scheme in ("scatter_last", "reduce_last"):
        total = sum(each.products for each in pair)
        for site in pair:
            rows = site.task.rows
            begin = site.task.rank * rows if scheme == "scatter_last" else 0
            site.output.copy_(total[begin : begin + site.output.shape[0]])
    elif scheme == "exchange":
        for site, got in zip(pair, exchange([each.products for each in pair], [site.task.received for site in pair])):
            site.output.copy_(got)


def wrong(pair: list[Any], left: str) -> int:
    report = WrongReport()
    for site in pair:
        site.compare(left, 1.0, report)
    return report.count


@unittest.skipUnless(HERE, "there is no torch")
class Checks(unittest.TestCase):
    def test_every_scheme_gives_the_known_result(self) -> None:
        for scheme in SCHEMES:
            for more in ({}, {"m": 500, "k": 300}) if scheme != "exchange" else ({},):
                pair = sites(scheme, **more)
                for site in pair:
                    site.refill("operands")
                there(pair)
                for site in pair:
                    site.multiply()
                back(pair)
                self.assertEqual(wrong(pair, "result"), 0, (scheme, more))

    def test_what_is_filled_is_what_is_compared(self) -> None:
        for scheme in SCHEMES:
            for given, left in (("gathered", "gathered"), ("products", "products")):
                if (given == "products" and scheme == "attention") or (
                    given == "gathered" and scheme in ("gather_last", "scatter_last", "reduce_last")
                ):
                    continue
                pair = sites(scheme)
                for site in pair:
                    site.refill(given)
                self.assertEqual(wrong(pair, left), 0, (scheme, given))

    def test_a_missing_exchange_and_a_stale_result_are_seen(self) -> None:
        for scheme in SCHEMES:
            pair = sites(scheme)
            for site in pair:
                site.refill("operands")
                site.multiply()
            elements = sum(site.output.numel() for site in pair)
            self.assertGreater(wrong(pair, "result"), elements // 3, scheme)

    def test_a_changed_element_is_told_with_its_place(self) -> None:
        (site, _) = sites("gather_first")
        site.refill("gathered")
        site.multiply()
        site.output[3, 2] += 1.0
        report = WrongReport()
        site.compare("result", 1.0, report)
        self.assertEqual((report.count, report.compared), (1, 24 * 5))
        self.assertEqual((report.first[0]["rank"], report.first[0]["index"]), (0, 17))

    def test_a_rank_that_is_left_out_of_many_is_seen(self) -> None:
        for scheme, ranks, k in (("scatter_last", 12, 12 * 64), ("reduce_last", 16, 1024)):
            more = {"dtype": "bf16", "m": 4 * ranks, "k": k, "ranks": ranks, "tokens": [0] * ranks}
            place = torch.device("cpu")
            every = [primitive.Product(Task(recipe(scheme, **more), rank, place), rank) for rank in range(ranks)]
            for site in every:
                self.assertEqual(site.tolerance, 0.0)
                site.refill("operands")
                site.multiply()
            products = [site.products.clone() for site in every]
            for left_out in (None, 0, ranks - 1):
                total = torch.zeros_like(products[0])
                for rank, product in enumerate(products):
                    if rank != left_out:
                        total = total + product
                for site in every:
                    begin = site.task.rank * site.task.rows if scheme == "scatter_last" else 0
                    site.output.copy_(total[begin : begin + site.output.shape[0]])
                self.assertEqual(wrong(every, "result") > 0, left_out is not None, (scheme, left_out))

    def test_sums_in_place_of_sixteen_bits_begin_again_before_they_are_rounded(self) -> None:
        more = {"dtype": "bf16", "k": 1024}
        (site, _) = sites("reduce_last", **more)
        self.assertGreater(primitive.growth(site, 2), 50)
        site.whole = torch.tensor([[100.0]], dtype=torch.float64)
        self.assertEqual([primitive.growth(site, ranks) for ranks in (2, 4)], [94, 1])

    def test_sums_in_place_are_exact_as_long_as_told(self) -> None:
        (site, _) = sites("reduce_last")
        calls = primitive.growth(site, 2)
        grown = site.whole * 2.0 ** (calls - 1)
        self.assertTrue(calls > 50 and torch.equal(grown.float().double(), grown))
        self.assertEqual((primitive.growth(site, 1), primitive.growth(site, 3)), (1 << 63, 1))


@unittest.skipUnless(HERE, "there is no torch")
class Libraries(unittest.TestCase):
    def test_a_function_that_an_older_torch_lacks_is_lacking(self) -> None:
        place = torch.device("cpu")
        case = primitive.Primitive(recipe("attention", step="compute_only", ranks=1), 0, 1, place)
        absent = AttributeError("no such")
        older = mock.patch.object(torch.nn.functional, "scaled_dot_product_attention", side_effect=absent)
        with older, self.assertRaisesRegex(Failure, "compute_only of torch .*: no such") as raised:
            case.run()
        self.assertTrue(raised.exception.lacking)

    def test_what_is_missing_is_said(self) -> None:
        (site, _) = sites("gather_first")
        asked = [(overlapped.async_tp, "needs CUDA, but `device` is cpu")]
        for package, step in (("transformer_engine", overlapped.transformer_engine), ("jax", xla.jax)):
            if importlib.util.find_spec(package) is None:
                asked.append((step, f"has no {package}: No module named"))
        for step, said in asked:
            with self.assertRaises(Failure) as raised:
                step(site)
            self.assertIn(said, str(raised.exception))
            self.assertTrue(raised.exception.lacking)


if __name__ == "__main__":
    unittest.main()

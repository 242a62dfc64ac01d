"""Training by torch, on one rank and without a coordinator. Skipped where there is no torch."""

from __future__ import annotations

import importlib.util
import math
import struct
import sys
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

HERE = importlib.util.find_spec("torch") is not None
if HERE:
    import torch

    from rankmark_worker import initial, models, replicas, synthetic, training
    from rankmark_worker.channel import PANICKED, Departure
    from rankmark_worker.device import device_of
    from rankmark_worker.rank import Failure

WORD = (1 << 64) - 1
DIMENSIONS = {"layers": 1, "width": 16, "heads": 2, "ffn": 32, "vocabulary": 31, "sequence": 8, "positions": 8}
RECIPE: dict[str, Any] = {
    "model": "gpt2",
    "dimensions": {**DIMENSIONS, "dropout": 0.0},
    "precision": "f64",
    "micro_batch": 2,
    "micro_batches": 1,
    "sharded": 0,
    "bucket": 1 << 20,
    "communicate": True,
    "clip": None,
    "seed": 3,
    "optimizer": "sgd",
    "learning_rate": 0.1,
    "momentum": 0.5,
    "gradient_as_bucket_view": False,
    "static_graph": False,
    "compile": False,
}


class Alone:
    """A world of one rank."""

    size = 1

    def __init__(self, place: str) -> None:
        self.place = torch.device(place)


def mix(word: int) -> int:
    """SplitMix64's finaliser, in whole numbers."""
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & WORD
    return word ^ (word >> 31)


@unittest.skipUnless(HERE, "there is no torch")
class Formulas(unittest.TestCase):
    def test_words_of_torch_are_those_of_whole_numbers(self) -> None:
        words = [0, 1, WORD, 1 << 63, 0x0123456789ABCDEF]
        mixed = initial.mix(torch.tensor([initial.signed(word) for word in words]))
        self.assertEqual([word % 2**64 for word in mixed.tolist()], [mix(word) for word in words])

    def test_samples_follow_their_formula(self) -> None:
        increment, index, seed, bound = initial.INCREMENT, 12345, 7, 50257
        key = mix((index * increment & WORD) ^ mix(seed + increment & WORD))

        def below(place: int) -> int:
            return ((mix(key + (place + 1) * increment & WORD) >> 32) * bound) >> 32

        self.assertEqual(synthetic.tokens(index, seed, 5, bound).tolist(), [below(place) for place in range(5)])
        self.assertEqual(synthetic.class_of(index, seed, bound).tolist(), [below(WORD - 1)])
        place = synthetic.CHUNK + 2
        number = (mix(key + (place + 1) * increment & WORD) >> 40) / 2**23 - 1.0
        self.assertEqual(synthetic.numbers(index, seed, place + 1)[place].item(), number)

    def test_digests_see_every_bit_and_every_place(self) -> None:
        values = torch.arange(1000, dtype=torch.float32)
        seen = {int(replicas.digest(values))}
        for place in (0, 999):
            changed = values.clone()
            changed.view(torch.int32)[place] ^= 1
            seen.add(int(replicas.digest(changed)))
        swapped = values.clone()
        swapped[[3, 4]] = swapped[[4, 3]]
        seen.add(int(replicas.digest(swapped)))
        self.assertEqual(len(seen), 4)


@unittest.skipUnless(HERE, "there is no torch")
class Exchanges(unittest.TestCase):
    def test_shards_are_exchanged_with_every_micro_batch(self) -> None:
        sharded = replicas.Sharded.__new__(replicas.Sharded)
        sharded.model = model = mock.MagicMock()
        for last in (False, False, True):
            with sharded.exchanging(last):
                pass
        model.set_requires_gradient_sync.assert_called_with(True)
        self.assertNotIn(mock.call(False), model.set_requires_gradient_sync.call_args_list)


@unittest.skipUnless(HERE, "there is no torch")
class Steps(unittest.TestCase):
    place = "cpu"

    def setUp(self) -> None:
        self.device = device_of(torch.device(self.place))

    def losses(self, count: int = 3, **changes: Any) -> list[float]:
        case = training.Training({**RECIPE, **changes}, 0, 1, self.device)
        for _ in range(count):
            case.run()
        return case.losses

    def test_micro_batches_add_up_to_the_batch(self) -> None:
        whole, parts = self.losses(micro_batch=4), self.losses(micro_batch=1, micro_batches=4)
        for one, other in zip(whole, parts):
            self.assertAlmostEqual(one, other, delta=1e-12)
        self.assertNotAlmostEqual(whole[2], self.losses(micro_batch=4, learning_rate=0.2)[2], delta=1e-6)

    def test_a_refill_begins_anew(self) -> None:
        case = training.Training(RECIPE, 0, 1, self.device)
        found = []
        for _ in range(2):
            for _ in range(3):
                case.run()
            found.append(list(case.losses))
            case.refill()
        self.assertEqual(found[0], found[1])
        self.assertEqual(case.losses, [])

    def test_repeated_steps_have_the_same_bits_and_leave_the_beginning(self) -> None:
        case = training.Training(RECIPE, 0, 1, self.device)
        case.repeat()
        noted = case.details()["repeated"]
        self.assertEqual((noted["results"], noted["calls"], noted["bits"]["elements"]), (2, None, 4))
        self.assertEqual(case.losses, [])
        case.run()
        bits = struct.pack(">d", case.losses[0]).hex()
        self.assertEqual(noted["bits"]["values"][:16], bits)

    def repeated(self, change: Callable[[Any, int, float], float]) -> tuple[int, int, int | None]:
        """The run that differs, the first step, and how many differ, where `change` gives the loss of each step."""
        case: Any = training.Training(RECIPE, 0, 1, self.device)
        true, made = case.step, []

        def step() -> float:
            made.append(true())
            return change(case, len(made), made[-1])

        case.step = step
        case.repeat()
        number, apart = case.details()["repeated"]["calls"]
        return number, apart["first"], apart.get("different")

    def test_a_loss_that_differs_is_named(self) -> None:
        found = self.repeated(lambda case, number, loss: loss + 1e-15 if number == 7 else loss)
        self.assertEqual(found, (2, 2, 1))

    def test_parameters_that_differ_are_named(self) -> None:
        def change(case: Any, number: int, loss: float) -> float:
            if number == 8:
                case.corrupt(3)
            return loss

        self.assertEqual(self.repeated(change), (2, 3, None))

    def test_what_a_rank_notes_is_what_it_did(self) -> None:
        case = training.Training(RECIPE, 0, 1, self.device)
        case.run()
        report = case.check(1)
        noted = case.details()
        self.assertEqual((report.count, report.compared), (0, 1))
        self.assertEqual([struct.unpack("<d", struct.pack("<Q", bits))[0] for bits in noted["loss_bits"]], case.losses)
        self.assertGreater(min(noted["phases"][name] for name in ("forward", "backward", "optimizer")), 0.0)
        self.assertEqual((noted["phases"]["communication"], noted["micro_batches"]), (0.0, [1]))
        self.assertGreater(noted["held_bytes"], noted["base_bytes"] // 2)

    def test_processor_time_of_checks_is_not_that_of_steps(self) -> None:
        case, second = training.Training(RECIPE, 0, 1, self.device), 10**9
        # A trial of one second, and a check of five; then a trial of two that nothing checks.
        with mock.patch("time.process_time_ns", side_effect=[number * second for number in (1, 2, 7, 9, 9)]):
            case.refill()
            case.check(1)
            checked = case.details()["cpu_s"]
            self.assertEqual((checked, case.details()["cpu_s"]), (1.0, 3.0))

    def test_an_argument_that_an_older_torch_lacks_is_lacking(self) -> None:
        def older(_inputs: Any) -> Any:
            raise TypeError("scaled_dot_product_attention() got an unexpected keyword argument 'enable_gqa'")

        case = training.Training(RECIPE, 0, 1, self.device)
        case.call, case.ranks = older, 2
        with self.assertRaisesRegex(Failure, "cannot train gpt2: .* 'enable_gqa'") as caught:
            case.run()
        self.assertTrue(caught.exception.lacking)

    def test_a_loss_that_is_no_number_fails(self) -> None:
        with self.assertRaisesRegex(Failure, "the loss of step [23] is (nan|inf)"):
            self.losses(learning_rate=math.inf)
        case = training.Training(RECIPE, 0, 1, self.device)
        case.losses.append(math.nan)
        self.assertEqual(case.check(1).count, 1)

    def test_what_torch_cannot_train_is_lacking(self) -> None:
        with self.assertRaises(Failure) as caught:
            training.prepare({"recipe": {**RECIPE, "model": "mamba"}}, 0, Alone(self.place))  # type: ignore[arg-type]
        self.assertTrue(caught.exception.lacking)
        self.assertIn("no PyTorch module for the model `mamba`", str(caught.exception))

    def test_a_rank_that_fails_alone_leaves_its_peers(self) -> None:
        case = training.Training(RECIPE, 0, 1, self.device)
        case.call = lambda inputs: torch.zeros(1).view(3)
        with self.assertRaisesRegex(Failure, "step 1: shape"):
            case.run()
        case.ranks = 2
        with self.assertRaisesRegex(Departure, "step 1: shape") as caught:
            case.run()
        self.assertEqual(caught.exception.code, PANICKED)

    def test_clipping_bounds_the_step(self) -> None:
        before = models.build("gpt2", DIMENSIONS).double()
        models.start(before, 3)
        case = training.Training({**RECIPE, "clip": 1e-3, "momentum": 0.0}, 0, 1, self.device)
        case.run()
        pairs = zip(before.parameters(), case.replicas.parameters())
        moved = math.sqrt(sum(((a - b.cpu()) ** 2).sum().item() for a, b in pairs))
        self.assertAlmostEqual(moved, 0.1 * 1e-3, delta=1e-8)


@unittest.skipUnless(HERE and torch.cuda.is_available(), "there is no GPU")
class StepsOfGpus(Steps):
    place = "cuda"

    def test_losses_are_those_of_the_processor(self) -> None:
        cases: list[dict[str, Any]] = [
            {},
            {"optimizer": "adamw", "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-8, "weight_decay": 0.1},
        ]
        for changes in cases:
            there = self.losses(**changes)
            self.device = device_of(torch.device("cpu"))
            for one, other in zip(there, self.losses(**changes)):
                self.assertAlmostEqual(one, other, delta=1e-9 * abs(other))
            self.setUp()

    def test_initial_values_are_those_of_the_processor(self) -> None:
        for count in (1, 1 << 20):
            here = initial.normals("h.0.attn.qkv.weight", 3, 1000, count)
            there = initial.normals("h.0.attn.qkv.weight", 3, 1000, count, torch.device("cuda"))
            self.assertTrue(torch.equal(here, there.cpu()), "bit for bit")

    def test_phases_add_up_to_the_step(self) -> None:
        case = training.Training(RECIPE, 0, 1, self.device)
        for _ in range(20):
            begin = time.perf_counter()
            case.run()
            whole = time.perf_counter() - begin
        self.assertGreater(sum(case.laps[-1].values()), 0.5 * whole)
        self.assertLess(sum(case.laps[-1].values()), whole)


if __name__ == "__main__":
    unittest.main()

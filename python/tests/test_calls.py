"""How calls start their operations, by operations that note what happens; and what a collective holds, by torch."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import types
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rankmark_worker import calls
from rankmark_worker.pattern import PERIOD
from rankmark_worker.rank import Failure

HERE = importlib.util.find_spec("torch") is not None
if HERE:
    import torch
    import torch.distributed as dist

    from rankmark_worker import collective, group


class Started:
    """An operation that was started."""

    def __init__(self, name: str, told: list[str], fails: bool) -> None:
        self.name, self.told, self.fails = name, told, fails

    def wait(self) -> None:
        self.told.append(f"wait {self.name}")
        if self.fails:
            raise RuntimeError(f"{self.name} failed")


class Operations:
    """Named operations, and what was done with them, in order."""

    def __init__(self, names: str, fails: str = "", refuses: str = "") -> None:
        self.told: list[str] = []
        self.all = [self.operation(name, name in fails, name in refuses) for name in names]

    def operation(self, name: str, fails: bool, refuses: bool) -> calls.Operation:
        def start(async_op: bool = False) -> Started | None:
            self.told.append(f"{'start' if async_op else 'run'} {name}")
            if refuses:
                raise ValueError(f"{name} is not supported")
            return Started(name, self.told, fails) if async_op else None

        return start

    @contextlib.contextmanager
    def manager(self, group: Any = None, device: Any = None, async_ops: bool = False) -> Iterator[None]:
        """As torch has it since 2.1."""
        self.told.append("gather")
        yield
        self.told.append("do all")


class Forms(unittest.TestCase):
    def test_a_blocking_call_is_the_operation_itself(self) -> None:
        operations = Operations("a")
        self.assertIs(calls.bind("blocking", operations.all, None), operations.all[0])

    def test_all_are_started_before_the_first_is_waited_for(self) -> None:
        operations = Operations("abc")
        calls.bind("async", operations.all, None)()
        self.assertEqual(operations.told, ["start a", "start b", "start c", "wait a", "wait b", "wait c"])

    def test_none_is_left_in_flight_after_one_that_failed(self) -> None:
        operations = Operations("abc", fails="ab")
        with self.assertRaisesRegex(RuntimeError, "a failed"):
            calls.bind("async", operations.all, None)()
        self.assertEqual(operations.told[3:], ["wait a", "wait b", "wait c"])

    def test_none_is_left_in_flight_after_one_that_was_refused(self) -> None:
        operations = Operations("abc", refuses="b")
        with self.assertRaisesRegex(ValueError, "b is not supported"):
            calls.bind("async", operations.all, None)()
        self.assertEqual(operations.told, ["start a", "start b", "wait a"])

    def test_coalesced_operations_go_through_the_manager(self) -> None:
        operations = Operations("ab")
        calls.bind("coalesced", operations.all, operations.manager)()
        self.assertEqual(operations.told, ["gather", "run a", "run b", "do all"])

    def test_a_torch_that_coalesces_nothing_is_told(self) -> None:
        def older(group: Any, device: Any, reqs: Any) -> None:
            raise AssertionError("is not called")

        for manager in (None, older):
            with self.assertRaisesRegex(Failure, "cannot coalesce operations") as caught:
                calls.bind("coalesced", Operations("ab").all, manager)
            self.assertTrue(caught.exception.lacking)

    def test_ranks_without_a_part_wait_for_nothing(self) -> None:
        told: list[str] = []
        calls.All([None, Started("a", told, False), None]).wait()
        self.assertEqual(told, ["wait a"])


class Alone:
    """A world of one rank."""

    size = 1

    def __init__(self, place: str) -> None:
        self.place = torch.device(place)


@unittest.skipUnless(HERE, "there is no torch")
class Buffers(unittest.TestCase):
    """A world of one rank: what comes out is what went in."""

    place = "cpu"

    def setUp(self) -> None:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        self.addCleanup(dist.destroy_process_group)

    def prepared(self, **values: Any) -> Any:
        common = {"op": "all_gather", "bytes": 400, "dtype": "f32", "call": "async", "in_flight": 3}
        return collective.prepare({**common, **values}, 0, Alone(self.place))  # type: ignore[arg-type]

    def test_every_operation_has_buffers_of_its_own(self) -> None:
        case = self.prepared()
        case.refill()
        inputs, outputs = zip(*case.buffers)
        self.assertEqual(len({tensor.data_ptr() for tensor in inputs + outputs}), 6)
        self.assertFalse(torch.equal(inputs[0], inputs[1]) or torch.equal(inputs[1], inputs[2]))
        self.assertEqual(case.messages, 3)

    def test_every_element_of_every_operation_is_checked(self) -> None:
        for form in ("async", "coalesced"):
            for op, compared in (("all_gather", 600), ("all_reduce", 300)):
                case = self.prepared(op=op, call=form)
                case.refill()
                case.run()
                report = case.check(1)
                self.assertEqual((report.count, report.compared), (0, compared), f"{op}, {form}")

    def test_a_wrong_element_is_found_in_any_buffer(self) -> None:
        for element in (0, 99, 100, 234, 299):
            case = self.prepared()
            case.refill()
            case.run()
            case.corrupt(element)
            report = case.check(1)
            self.assertEqual((report.count, report.first[0]["index"]), (1, element))

    def test_long_buffers_hold_the_table_again_and_again(self) -> None:
        period = PERIOD
        for rows, count in ((1, 3 * period + 5), (2, 5 * period), (2048, 2 * period - 1)):
            with mock.patch.object(collective, "ROWS", rows):
                case = self.prepared(op="all_gather", bytes=4 * count, call="blocking", in_flight=1)
                for _ in range(2):
                    case.refill()
                given, got = case.buffers[0]
                table = case._table(0).tolist()
                self.assertEqual(given.tolist(), [table[(case.shift + index) % period] for index in range(count)])
                case.run()
                self.assertEqual((case.check(1).count, case.check(1).compared), (0, 2 * count))
                for index in (0, period - 1, period, count - 1):
                    case.corrupt(index)
                report = case.check(1)
                self.assertEqual(report.count, 4)
                self.assertEqual([one["index"] for one in report.first], [0, period - 1, period, count - 1])
                self.assertEqual(report.first[2]["expected"], str(table[(case.shift + period) % period]))

    def test_an_operation_that_was_left_out_is_found(self) -> None:
        case = self.prepared()
        case.refill()
        for given, got in case.buffers[:2]:
            dist.all_gather_into_tensor(got, given)
        self.assertEqual(case.check(1).count, 100)

    def test_buffers_that_were_mixed_up_are_found(self) -> None:
        case = self.prepared()
        case.refill()
        case.run()
        (_, first), (_, second), _ = case.buffers
        first[:], second[:] = second.clone(), first.clone()
        self.assertGreater(case.check(1).count, 150)

    def test_what_is_refused_is_so_before_several_are_in_flight(self) -> None:
        if self.place == "cuda":
            self.skipTest("nccl has a form of what gloo refuses")

        def manager(async_ops: bool = False) -> None:
            raise AssertionError("several were in flight")

        with mock.patch.object(dist, "_coalescing_manager", manager), self.assertRaises(Failure) as caught:
            self.prepared(op="reduce_scatter", dtype="i32", reduce="avg", call="coalesced").run()
        self.assertTrue(caught.exception.lacking and "can't be cast" in str(caught.exception))


class Told:
    """The channel of a rank that is alone."""

    def all_gather(self, part: bytes) -> list[bytes]:
        return [part]


@unittest.skipUnless(HERE, "there is no torch")
class Meeting(unittest.TestCase):
    def test_a_torch_that_takes_over_no_socket_with_libuv_is_asked_without(self) -> None:
        asked: list[dict[str, Any]] = []

        def store(host: str, port: int, **words: Any) -> str:
            asked.append(words)
            if words.get("use_libuv", True):
                raise NotImplementedError("The libuv TCPStore backend does not support this")
            os.close(words["master_listen_fd"])
            return f"{host}:{port}"

        with mock.patch.object(dist, "TCPStore", store):
            met = group.meet_at("127.0.0.1")(Told(), 0, 1)  # type: ignore[arg-type]
        self.assertRegex(str(met), "^127.0.0.1:[1-9]")
        self.assertEqual([words.get("use_libuv") for words in asked], [None, False])
        self.assertEqual(asked[0]["master_listen_fd"], asked[1]["master_listen_fd"])

    def test_ranks_meet_where_rank_0_listens(self) -> None:
        store = group.meet_at("127.0.0.1")(Told(), 0, 1)  # type: ignore[arg-type]
        store.set("known", "here")
        self.assertEqual(store.get("known"), b"here")

    def test_a_torch_without_distributed_is_lacking(self) -> None:
        without = types.ModuleType("torch.distributed")
        vars(without)["is_available"] = lambda: False
        spec = importlib.util.find_spec("rankmark_worker.group")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        with (
            mock.patch.dict(sys.modules, {"torch.distributed": without}),
            mock.patch.object(torch, "distributed", without),
        ):
            spec.loader.exec_module(module)
        with self.assertRaisesRegex(Failure, "was built without torch.distributed") as caught:
            module.open_group("gloo", Told(), 0, 1, None)
        self.assertTrue(caught.exception.lacking)


@unittest.skipUnless(HERE, "there is no torch")
class Places(unittest.TestCase):
    def test_no_two_ranks_have_one_gpu(self) -> None:
        group.refuse_shared(["H100 a", "H100 b", "H100 c"])
        with self.assertRaisesRegex(Failure, "ranks 0, 2 would share one: H100 a ") as caught:
            group.refuse_shared(["H100 a", "H100 b", "H100 a"])
        self.assertTrue(caught.exception.lacking)
        with mock.patch.dict("os.environ", NCCL_MULTI_RANK_GPU_ENABLE="1"):
            group.refuse_shared(["H100 a", "H100 b", "H100 a"])
            with self.assertRaisesRegex(Failure, "none for rank 1"):
                group.refuse_shared(["H100 a", "", "H100 a"])


@unittest.skipUnless(HERE and torch.cuda.is_available(), "there is no GPU")
class BuffersOfGpus(Buffers):
    place = "cuda"

    def setUp(self) -> None:
        place = torch.device("cuda", 0)
        torch.cuda.set_device(place)
        dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1, device_id=place)
        self.addCleanup(dist.destroy_process_group)

    def test_every_operation_and_type_is_exact(self) -> None:
        words = "all_reduce all_gather reduce_scatter broadcast reduce all_to_all gather scatter"
        for op in words.split():
            reduces = op in ("all_reduce", "reduce_scatter", "reduce")
            for dtype in collective.DTYPES:
                if reduces and dtype in ("u32", "u64", "f8e4m3", "f8e5m2"):
                    continue
                for form in ({"call": "blocking", "in_flight": 1}, {"call": "async"}):
                    case = self.prepared(op=op, bytes=40000, dtype=dtype, **form)
                    case.refill()
                    case.run()
                    case.waits()
                    report = case.check(1)
                    self.assertEqual(report.count, 0, f"{op}, {dtype}, {form}")
                    self.assertGreater(report.compared, 0)


if __name__ == "__main__":
    unittest.main()

"""What needs neither torch nor a coordinator: proofs, frames, joining, the status page, injections."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rankmark_worker import auth, channel, process, status
from rankmark_worker.inject import parse
from rankmark_worker.main import start
from rankmark_worker.rank import Failure, Midway, RankWork, WrongReport, translation

SECRET = bytes([7]) * 32


class FakeCoordinator(threading.Thread):
    """Listens on loopback, proves itself by `secret`, and answers a valid rank with these messages."""

    def __init__(self, secret: bytes, messages: list[Any]) -> None:
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.secret, self.messages = secret, messages
        self.received: list[Any] = []
        self.hello: dict[str, Any] = {}

    def run(self) -> None:
        stream, _ = self.listener.accept()
        self.listener.close()
        with stream:
            hello = channel.read_frame(stream, channel.MAX_HANDSHAKE)
            self.hello = json.loads(hello)
            nonce = bytes([9]) * 32
            proof = auth.proof(self.secret, auth.COORDINATOR, hello, nonce)
            plain = json.dumps({"nonce": nonce.hex(), "proof": proof.hex()}).encode()
            stream.sendall(len(plain).to_bytes(4, "little") + plain)
            try:
                given = json.loads(channel.read_frame(stream, channel.MAX_HANDSHAKE))["proof"]
            except channel.Lost:
                return
            assert auth.verifies(bytes.fromhex(given), self.secret, auth.RANK, hello, nonce)
            sealer = auth.Sealer(auth.key(self.secret, auth.COORDINATOR, hello, nonce))
            opener = auth.Opener(auth.key(self.secret, auth.RANK, hello, nonce))
            for message in self.messages:
                stream.sendall(sealer.seal(json.dumps(message).encode()))
            try:
                while True:
                    self.received.append(json.loads(opener.open(channel.read_frame(stream, auth.MAX_FRAME))))
            except channel.Lost:
                return


def invitation(coordinator: FakeCoordinator, wait_s: int = 5) -> channel.Invitation:
    """To the world of this coordinator, with the right secret."""
    host, port = coordinator.listener.getsockname()
    world = {"spec": {"ranks": 2, "fields": {}}, "hosts": []}
    wait = {"secs": wait_s, "nanos": 0}
    parts = {"address": f"{host}:{port}", "secret": SECRET.hex(), "wait": wait, "cores": [0], **world}
    return channel.Invitation(parts)


class Joining(unittest.TestCase):
    def join(self, secret: bytes, messages: list[Any]) -> tuple[FakeCoordinator, channel.Channel]:
        coordinator = FakeCoordinator(secret, messages)
        invited = invitation(coordinator)
        coordinator.start()
        return coordinator, channel.join(invited, 1, "here")

    def test_a_rank_knows_its_number_on_its_host(self) -> None:
        invited = invitation(FakeCoordinator(SECRET, []))
        self.assertEqual([invited.local(rank) for rank in range(2)], [0, 1])
        invited.hosts = [0, 1, 0, 1, 1]
        self.assertEqual([invited.local(rank) for rank in range(5)], [0, 0, 1, 1, 2])

    def test_a_rank_joins_talks_and_exchanges(self) -> None:
        gathered = {"Gathered": ["00", "ff"]}
        coordinator, joined = self.join(SECRET, ["Welcome", {"Command": "Check"}, gathered, "Leave"])
        self.assertEqual(joined.receive(), ("Command", "Check"))
        self.assertEqual(joined.all_gather(b"\x01"), [b"\x00", b"\xff"])
        self.assertEqual(joined.receive(), ("Leave", None))
        joined.send("Started", None)
        joined.stream.close()
        coordinator.join(5)
        self.assertEqual(coordinator.received, [{"Gather": "01"}, {"Started": None}])
        about = {name: coordinator.hello[name] for name in ("version", "rank", "size", "host")}
        self.assertEqual(about, {"version": 1, "rank": 1, "size": 2, "host": "here"})

    def test_a_path_that_is_not_utf_8_breaks_no_message(self) -> None:
        coordinator, joined = self.join(SECRET, ["Welcome"])
        joined.send("Started", os.fsdecode(b"/opt/\xff/python \xc2\xb5"))
        joined.stream.close()
        coordinator.join(5)
        self.assertEqual(coordinator.received, [{"Started": "/opt/?/python \u00b5"}])

    def test_a_wrong_secret_is_an_impostor(self) -> None:
        with self.assertRaisesRegex(channel.Departure, "is not the coordinator of this world") as caught:
            self.join(bytes([8]) * 32, ["Welcome"])
        self.assertEqual(caught.exception.code, channel.BROKEN)

    def test_a_refusal_says_why(self) -> None:
        with self.assertRaisesRegex(channel.Departure, "refused by the coordinator: another version"):
            self.join(SECRET, [{"Refused": "another version"}])

    def test_unknown_messages_break_the_channel(self) -> None:
        _, joined = self.join(SECRET, ["Welcome", {"Sing": 1}])
        with self.assertRaisesRegex(channel.Departure, "`Sing` is not known here"):
            joined.receive()

    def test_a_coordinator_that_is_gone_is_told(self) -> None:
        _, joined = self.join(SECRET, ["Welcome"])
        joined.stream.shutdown(socket.SHUT_WR)
        with self.assertRaises(channel.Lost) as caught:
            joined.receive()
        self.assertEqual(caught.exception.code, channel.ORPHANED)

    def test_a_byte_now_and_then_keeps_no_rank_waiting(self) -> None:
        coordinator = FakeCoordinator(SECRET, [])

        def drip() -> None:
            stream, _ = coordinator.listener.accept()
            with stream:
                try:
                    stream.sendall((256).to_bytes(4, "little"))
                    while True:
                        stream.sendall(b" ")
                        time.sleep(0.02)
                except OSError:
                    return

        threading.Thread(target=drip, daemon=True).start()
        begun = time.monotonic()
        invited = invitation(coordinator, wait_s=0)
        with mock.patch.object(channel, "ATTEMPT_LIMIT_S", 0.2), self.assertRaises(channel.Lost):
            channel.join(invited, 1, "here")
        self.assertLess(time.monotonic() - begun, 2)

    def test_nobody_listens(self) -> None:
        coordinator = FakeCoordinator(SECRET, [])
        invited = invitation(coordinator, wait_s=0)
        coordinator.listener.close()
        with self.assertRaisesRegex(channel.Departure, "cannot be reached"):
            channel.join(invited, 1, "here")


class Starting(unittest.TestCase):
    def test_a_library_of_torch_that_is_missing_is_lacking(self) -> None:
        for kind in (AttributeError, ImportError, OSError, ValueError):
            with (
                mock.patch("builtins.__import__", side_effect=kind("libcudart.so.12 is missing")),
                self.assertRaisesRegex(Failure, "has no PyTorch: libcudart.so.12") as caught,
            ):
                start(None, None, 0, None)  # type: ignore[arg-type]
            self.assertTrue(caught.exception.lacking)

    def test_nothing_is_used_that_torch_lacked_before_2_1(self) -> None:
        for file in (Path(__file__).resolve().parents[1] / "rankmark_worker").glob("*.py"):
            for name in (".itemsize", ".nbytes"):
                self.assertNotIn(name, file.read_text(encoding="utf-8"), file.name)

    def test_shared_memory_counts_where_its_shares_are_not_known(self) -> None:
        for lines, held in (({"RssShmem": 40, "Pss_Shmem": 10}, 70), ({"RssShmem": 40}, 100)):
            with mock.patch.object(process, "status", side_effect=lambda name, *_, lines=lines: lines.get(name, 0)):
                self.assertEqual(process.once(100), held)


class Sealing(unittest.TestCase):
    def test_frames_open_once_in_order_and_unchanged(self) -> None:
        sealer, opener = auth.Sealer(b"k" * 32), auth.Opener(b"k" * 32)
        first, second = (sealer.seal(text)[4:] for text in (b"one", b"two"))
        for wrong in (second, bytes([first[0] ^ 1]) + first[1:], b"short"):
            with self.assertRaises(auth.Forged):
                opener.open(wrong)
        self.assertEqual(opener.open(first), b"one")
        with self.assertRaises(auth.Forged):
            opener.open(first)
        self.assertEqual(opener.open(second), b"two")

    def test_long_frames_are_refused_before_they_arrive(self) -> None:
        left, right = socket.socketpair()
        with left, right:
            left.sendall((17).to_bytes(4, "little"))
            with self.assertRaisesRegex(channel.Departure, "a frame of 17 bytes, where at most 16"):
                channel.read_frame(right, 16)


class Hooks(unittest.TestCase):
    def test_the_status_page_tells_entered_and_left(self) -> None:
        page = bytearray(2 * status.SLOT_BYTES)
        hook = status.Hook(status.Slot(page, 1), 1)
        hook.begin_case("broadcast", [])
        inside: list[int] = []
        word = slice(status.SLOT_BYTES, status.SLOT_BYTES + 8)
        for _ in range(2):
            hook.call(lambda: inside.append(int.from_bytes(page[word], sys.byteorder)))
        code = (status.OPERATIONS.index("broadcast") + 1) << 1
        self.assertEqual(inside, [code | 1, 1 << 16 | code | 1])
        self.assertEqual(int.from_bytes(page[word], sys.byteorder), 1 << 16 | code)
        self.assertEqual(page[: status.SLOT_BYTES], bytes(status.SLOT_BYTES), "another rank's slot")
        hook.pending = lambda: inside.append(int.from_bytes(page[word], sys.byteorder))
        hook.wait()
        self.assertEqual(inside[2], 1 << 16 | code | 1, "inside the last one, while it is waited for")
        self.assertEqual(int.from_bytes(page[word], sys.byteorder), 1 << 16 | code)

    def test_injections_hit_their_rank_and_operation_only(self) -> None:
        hook = status.Hook(status.Slot(bytearray(2 * status.SLOT_BYTES), 1), 1)
        texts = ["delay:rank=1,time=500ms,at=1,every=0", "wrong:rank=1,element=9,at=1,every=0", "kill:rank=0"]
        hook.begin_case("barrier", [parse(text) for text in texts])
        wrong: list[int] = []
        hook.corrupt = wrong.append
        with mock.patch("time.sleep") as sleep:
            for _ in range(3):
                hook.call(lambda: None)
        sleep.assert_called_once_with(0.5)
        self.assertEqual(wrong, [9])

    def test_injections_are_read_as_plans_write_them(self) -> None:
        every = parse("delay:rank=1,time=5ms,at=3,every=2")
        self.assertEqual([k for k in range(8) if every.hits(k)], [3, 5, 7])
        self.assertAlmostEqual(every.delay_s, 5e-3)
        for text in ("kill:colour=1", "delay:time=5"):
            with self.assertRaises(ValueError):
                parse(text)


class Alone:
    """A group of one."""

    size = 1

    def barrier(self) -> None:
        pass

    def tell(self, word: int) -> int:
        return word


class Counted:
    """A case with a check that finds the calls since its last refill, and allows three."""

    max_calls = 3
    messages = 1
    checks = 2
    path = "counted"
    past_ns: int | None = None
    waits: Callable[[], None] | None = None
    freed: Callable[[], None] | None = None

    def __init__(self) -> None:
        self.held, self.refills, self.steps = 0, 0, False
        self.flops, self.traffic_bytes = 0.0, 0

    def run(self) -> None:
        self.held += 1
        if self.held > 3:
            raise Failure("not exact any more")

    def refill(self) -> None:
        self.held, self.refills = 0, self.refills + 1

    def check(self, calls: int) -> WrongReport:
        return WrongReport(count=abs(self.held - calls), compared=1)

    def corrupt(self, element: int) -> None:
        self.held += 100

    def details(self) -> dict[str, Any]:
        return {"held": self.held}


class Queued(Counted):
    """As on a GPU: calls start, and something else waits for what they do."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = 0
        self.waited: list[int] = []
        self.waits = self.wait

    def run(self) -> None:
        self.queue += 1

    def wait(self) -> None:
        self.waited.append(self.queue)
        self.held, self.queue = self.held + self.queue, 0


class Obeying(unittest.TestCase):
    def setUp(self) -> None:
        self.case = Counted()
        hook = status.Hook(status.Slot(bytearray(status.SLOT_BYTES), 0), 0)
        self.work = RankWork(Alone(), hook, 0, {"collective": lambda values: self.case})

    def prepare(self, **values: Any) -> dict[str, Any]:
        case = {"benchmark": "collective", "settings": {}, "parameters": {"op": "barrier", **values}}
        return self.work.obey({"Prepare": {"case": case, "check": True}})

    def test_what_took_place_before_any_call_is_the_sample(self) -> None:
        self.case.past_ns = 1234
        self.prepare()
        request = {"mode": "streaming", "samples": 2, "calls": 1}
        self.assertEqual(self.work.obey({"Sample": request}), {"Samples": [1234, 1234]})

    def test_samples_never_leave_the_exact_range(self) -> None:
        ready = self.prepare()["Ready"]
        self.assertEqual((ready["max_calls"], ready["wrong"]), (3, {"count": 0, "compared": 2, "first": []}))
        request = {"mode": "streaming", "samples": 2, "calls": 7}
        self.assertEqual(len(self.work.obey({"Sample": request})["Samples"]), 2)
        self.assertEqual(self.work.obey("Check")["Checked"]["count"], 0)
        self.assertEqual(len(self.work.obey({"Probe": {"Arrivals": {"operations": 5}}})["Numbers"]), 10)
        request = {"mode": "isolated", "samples": 2, "calls": 1}
        self.assertEqual(len(self.work.obey({"Sample": request})["Samples"]), 2)
        finished = self.work.obey("Finish")["Finished"]
        self.assertEqual(finished["operations"], 2 + 14 + 2 + 5 + 2)
        self.assertGreater(finished["peak_bytes"], 0)

    def test_steps_are_made_only_on_request(self) -> None:
        self.case.steps, self.case.checks, self.case.max_calls = True, 0, 1 << 63
        ready = self.prepare()["Ready"]
        self.assertEqual((ready["steps"], ready["max_calls"], ready["wrong"]["compared"]), (True, 0, 0))
        self.assertEqual(self.case.held, 0)
        self.work.obey({"Sample": {"mode": "streaming", "samples": 3, "calls": 1}})
        checked = self.work.obey("Check")["Checked"]
        self.assertEqual((checked["count"], checked["compared"], self.case.held), (0, 1, 3))
        seen = self.work.obey("Observe")["Finished"]
        self.assertEqual((seen["operations"], seen["details"]), (3, {"held": 3}))
        finished = self.work.obey("Finish")["Finished"]
        self.assertEqual((finished["operations"], finished["details"]), (3, {"held": 3}))
        self.prepare()
        self.work.obey({"Probe": "Begin"})
        self.assertEqual((self.case.held, self.case.refills), (0, 3))

    def test_what_a_device_still_does_is_waited_for(self) -> None:
        self.case = case = Queued()
        self.assertEqual(self.prepare()["Ready"]["wrong"]["count"], 0)
        begun = len(case.waited)
        self.work.obey({"Sample": {"mode": "streaming", "samples": 2, "calls": 7}})
        # Back to back, as far as values stay exact.
        self.assertEqual(case.waited[begun:], [3, 3, 1, 2, 3, 2])
        self.assertEqual(self.work.obey("Check")["Checked"]["count"], 0)
        begun = len(case.waited)
        self.work.obey({"Sample": {"mode": "isolated", "samples": 2, "calls": 1}})
        self.work.obey({"Probe": {"Arrivals": {"operations": 2}}})
        self.assertEqual(case.waited[begun:], [1, 1, 1, 0, 1, 0])

    def test_wrong_elements_are_counted(self) -> None:
        ready = self.prepare(inject="wrong:rank=0,at=1,every=0")["Ready"]
        self.assertEqual(ready["wrong"]["count"], 100)

    def test_a_wrong_element_in_the_middle_is_counted(self) -> None:
        # Operations 0 and 1 are checked; 2 to 4 are the first batch, and what comes after hides it.
        self.prepare(inject="wrong:rank=0,at=4,every=0")
        self.work.obey({"Sample": {"mode": "streaming", "samples": 1, "calls": 6}})
        self.assertEqual(self.work.obey("Check")["Checked"]["count"], 100)
        self.assertEqual(self.work.obey("Check")["Checked"]["count"], 0)

    def test_comparing_takes_a_small_share_of_the_time(self) -> None:
        midway = Midway(calls=400, ended_ns=1_000)
        self.assertEqual(midway.until_next(101_000, 107_000), 800)
        midway.next = 800
        self.assertEqual((midway.due(399), midway.due(400), midway.due(0)), (False, True, False))

    def test_ranks_come_late_where_that_is_asked(self) -> None:
        self.prepare()
        spans = self.work.obey({"Probe": {"Arrivals": {"operations": 2, "stagger_ns": 100_000}}})["Numbers"]
        self.assertGreater(spans[2] - spans[1], 100_000)

    def test_calls_of_a_chain_meet_once_and_compute_before_each(self) -> None:
        self.prepare(compute_s=1e-3)
        request = {"mode": "decode", "samples": 3, "calls": 1}
        begun = status.now_ns()
        samples = self.work.obey({"Sample": request})["Samples"]
        self.assertGreaterEqual(status.now_ns() - begun, 3_000_000)
        self.assertEqual((len(samples), self.work.obey("Check")["Checked"]["count"]), (3, 0))
        self.assertLess(min(samples), 1_000_000)

    def test_starts_are_translated_to_the_clock_here(self) -> None:
        fit = {"from_ns": 1_000, "until_ns": 5_000, "offset_ns": -300, "slope": 0.25, "residual_ns": 1.0, "growth": 0.0}
        self.assertEqual(translation(fit)(3_000), 3_000 - 300 + 500)
        self.assertEqual(translation(None)(3_000), 3_000)
        self.prepare()
        # An hour behind: a start by the clock of rank 0's host would be an hour away.
        behind = {**fit, "from_ns": status.now_ns(), "offset_ns": -3_600_000_000_000, "slope": 0.0}
        self.assertEqual(self.work.obey({"Clocks": [behind]}), {"Numbers": []})
        request = {"mode": "isolated", "samples": 1, "calls": 1}
        self.assertGreater(self.work.obey({"Sample": request})["Samples"][0], 3_000_000_000_000)
        self.assertEqual(self.work.obey("Finish")["Finished"]["missed_starts"], 1)

    def test_what_cannot_be_obeyed_is_said(self) -> None:
        self.assertEqual(
            self.work.obey("Check"), {"Failed": {"error": {"what": "no case is prepared"}, "lacking": False}}
        )
        case = {"benchmark": "training", "settings": {}, "parameters": {}}
        failed = self.work.obey({"Prepare": {"case": case, "check": True}})
        self.assertTrue(failed["Failed"]["lacking"])
        with self.assertRaisesRegex(channel.Departure, "a command `Sing` is not known here"):
            self.work.obey("Sing")


if __name__ == "__main__":
    unittest.main()

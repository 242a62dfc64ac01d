"""How a process says that it ended."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rankmark_profile"))

from rankmark_profile_ends import failed_ranks, uncaught


def left_by(code: int) -> BaseException | None:
    """What a process of multiprocessing sees that has handled an exception, and then exits."""
    with mock.patch.object(sys, "last_value", None, create=True), mock.patch.object(sys, "last_exc", None, create=True):
        try:
            try:
                raise ValueError
            except ValueError:
                sys.exit(code)
        except SystemExit:
            return uncaught()


class Ends(unittest.TestCase):
    def test_an_exit_without_a_code_is_a_good_end(self) -> None:
        self.assertIsNone(left_by(0))
        self.assertIsInstance(left_by(1), ValueError)

    def test_what_torchrun_saw_has_a_time(self) -> None:
        error = Exception()
        error.failures = {  # type: ignore[attr-defined]
            0: SimpleNamespace(exitcode=1, timestamp=100),
            3: SimpleNamespace(exitcode=-9),
        }
        ranks = [(rank["rank"], rank["exit_code"], rank["at_unix_s"]) for rank in failed_ranks(error)]
        self.assertEqual(ranks, [(0, 1, 100), (3, -9, None)])

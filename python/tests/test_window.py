"""When a window of traced steps ends."""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rankmark_profile"))

from rankmark_profile_window import Window


class Windows(unittest.TestCase):
    def test_steps_end_where_they_are_said_to(self) -> None:
        window = Window({"RANKMARK_PROFILE_STEPS": "10:60"})
        self.assertEqual((window.first, window.seconds), (10, None))
        self.assertFalse(window.is_over(49, 100.0))
        self.assertTrue(window.is_over(50, 0.0))

    def test_short_steps_are_traced_for_longer(self) -> None:
        window = Window({"RANKMARK_PROFILE_STEPS": "10:60:4"})
        # 50 steps of 20 ms hold one of the pauses that come every second.
        self.assertTrue(window.has_enough(50))
        self.assertFalse(window.is_over(50, 1.0))
        self.assertTrue(window.is_over(150, 4.0))
        self.assertTrue(window.is_over(200, 0.5))
        self.assertFalse(window.is_over(49, 60.0))

    def test_seconds_end_by_the_clock(self) -> None:
        window = Window({"RANKMARK_PROFILE_SECONDS": "2"})
        self.assertEqual(window.first, 5)
        self.assertFalse(window.is_over(1000, 1.9))
        self.assertTrue(window.is_over(1, 2.0))

    def test_what_is_no_window_is_refused(self) -> None:
        for text in ("ten", "5", "60:10", "-1:5", "1:2:x"):
            with self.assertRaises(ValueError, msg=text):
                Window({"RANKMARK_PROFILE_STEPS": text})


if __name__ == "__main__":
    unittest.main()

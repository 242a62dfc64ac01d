"""One thread that beats while the rank works, and ends the process when its coordinator is gone: mirrors
`launch::rank::guardian`."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time

from .channel import ORPHANED
from .status import Slot

BEAT_MS = 100
GRACE_S = 1.0


class Guardian:
    """The rank's guardian, awake."""

    def __init__(self, stream: socket.socket, slot: Slot, cores: list[int]) -> None:
        self._stream = stream
        self._slot = slot
        self._cores = cores
        self._working = threading.Event()
        self._working.set()
        self._alarm, self._bell = os.pipe()
        os.set_blocking(self._alarm, False)
        os.set_blocking(self._bell, False)
        threading.Thread(target=self._watch, name="guardian", daemon=True).start()

    def work(self) -> None:
        """The rank begins to work: the guardian beats."""
        self._working.set()
        with contextlib.suppress(BlockingIOError):
            os.write(self._bell, b"!")

    def rest(self) -> None:
        """The rank waits for its next command: the guardian falls asleep at its next beat."""
        self._working.clear()

    def _watch(self) -> None:
        # Where this is refused, it stays on the rank's core and costs a little there.
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, self._cores)
        poll = select.poll()
        poll.register(self._stream, select.POLLRDHUP | select.POLLHUP | select.POLLERR)
        poll.register(self._alarm, select.POLLIN)
        while True:
            self._slot.beat()
            events = poll.poll(BEAT_MS if self._working.is_set() else None)
            for descriptor, _ in events:
                if descriptor != self._alarm:
                    # Nobody is left to tell, and an orphan would keep cores and memory.
                    time.sleep(GRACE_S)
                    os._exit(ORPHANED)
                with contextlib.suppress(BlockingIOError):
                    os.read(self._alarm, 4096)

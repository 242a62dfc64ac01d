"""How a process of the job ended, as far as it can say so itself.

sitecustomize.py loads this module in each process that imports torch. A rank has its end in its file of steps. A
process that started ranks, such as torchrun, writes down how those ended that failed.

Writes:
    launcher-<pid>.json    how ranks ended that this process started:
                           {"ranks": [{"rank", "exit_code", "message", "at_unix_s"}]}. torchrun's time is when it saw
                           the end, or that of the rank's own file of errors; others give none. A negative exit code is
                           the number of a signal. A message is what the launcher was told.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
import time
import traceback
from types import TracebackType
from typing import Any

# Characters of a message that are kept. Some have a whole traceback in them.
MOST_LETTERS = 500
HERE = os.path.dirname(os.path.abspath(__file__))


def short(message: str) -> str:
    """One line of a message: where it has several, the first and the last one say most."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    text = lines[0] if len(lines) == 1 else " ... ".join([lines[0], lines[-1]]) if lines else ""
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 3] + "..."


def uncaught() -> BaseException | None:
    """The exception that ends this process; None where none does.

    At exit Python has printed it, and keeps it. Processes of multiprocessing end while it is still on its way, and
    torch.multiprocessing makes a SystemExit of it.
    """
    error = sys.exc_info()[1]
    if isinstance(error, SystemExit):
        # With code 0 it ended well, whatever was handled before.
        error = error.__context__ if error.code else None
    last = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    return error or (last if isinstance(last, BaseException) else None)


def place(trace: TracebackType | None) -> str | None:
    """The innermost line that is not of an installed package, else the innermost one."""
    frames = [frame for frame in traceback.extract_tb(trace) if not frame.filename.startswith(HERE)]
    of_script = [frame for frame in frames if "site-packages" not in frame.filename and frame.filename[:1] != "<"]
    found = (of_script or frames)[-1:]
    return f"{found[0].name} ({found[0].filename}:{found[0].lineno})" if found else None


def end_of(error: BaseException | None) -> dict[str, Any]:
    """For the file of steps."""
    end: dict[str, Any] = {"how": "exit", "at_unix_ns": time.time_ns()}
    if error is not None:
        kind = type(error)
        name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        end.update(how="exception", type=name, message=short(str(error)), place=place(error.__traceback__))
    return end


def failed_ranks(error: BaseException | None) -> list[dict[str, Any]]:
    """How ranks ended, from the exception of a launcher: of torchrun, or of torch.multiprocessing."""
    failures = getattr(error, "failures", None)
    if isinstance(failures, dict):
        # Of torchrun. The keys are ranks of the job.
        return [
            {
                "rank": int(rank),
                "exit_code": getattr(failure, "exitcode", None),
                "message": None,
                "at_unix_s": int(getattr(failure, "timestamp", None) or 0) or None,
            }
            for rank, failure in failures.items()
        ]
    index = getattr(error, "error_index", None)
    if index is None:
        return []
    code = getattr(error, "exit_code", None)
    return [{"rank": int(index), "exit_code": code, "message": None if code is not None else short(str(error))}]


def write_failed_ranks() -> None:
    ranks = failed_ranks(uncaught())
    if ranks:
        folder, name = os.environ["RANKMARK_PROFILE_DIR"], f"launcher-{os.getpid()}.json"
        temporary = os.path.join(folder, "." + name)
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump({"ranks": ranks}, file)
        os.replace(temporary, os.path.join(folder, name))


def watch() -> None:
    """Looks at this process's end."""
    pid = os.getpid()

    def at_exit() -> None:
        # Nothing here may change how the job ends.
        if os.getpid() == pid:
            with contextlib.suppress(Exception):
                write_failed_ranks()

    atexit.register(at_exit)

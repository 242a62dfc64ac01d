"""Loads the profiling agent into each rank of a job that `rankmark profile` starts.

Python imports a module of this name at start-up. `rankmark profile` puts this folder first in PYTHONPATH, so this file
runs in every Python process of the job: the launcher, the ranks, and their helpers.

Reads:
    RANKMARK_PROFILE_DIR  the folder for results. Without it only the next sitecustomize is loaded.
    RANKMARK_PROFILE_TOOL "nsys": this tool traces the job, and is told its steps
Sets, before torch is imported, where the job has not:
    TORCH_FR_BUFFER_SIZE  20000, the number of collectives that PyTorch's Flight Recorder keeps. Before PyTorch 2.9 the
                          variable is TORCH_NCCL_TRACE_BUFFER_SIZE.
    KINETO_LOG_LEVEL      99: the profiler prints no messages of its own among those of the job.
Writes:
    error-<pid>.txt       what failed in this file or in the agent. The job goes on.

The syntax is that of every Python 3, because old interpreters in the job read this file too.
"""

import os
import sys

# Importing typing would slow down each start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

HERE = os.path.dirname(os.path.abspath(__file__))
FLIGHT_RECORDER_ENTRIES = "20000"

_is_active = False


def report() -> None:
    """Appends the exception that is being handled to the error file."""
    try:
        import traceback

        path = os.path.join(os.environ["RANKMARK_PROFILE_DIR"], "error-" + str(os.getpid()) + ".txt")
        with open(path, "a") as file:
            traceback.print_exc(file=file)
    except Exception:
        pass


def activate() -> None:
    """Loads the agent and starts it, once."""
    global _is_active
    if _is_active:
        return
    _is_active = True
    try:
        is_nsys = os.environ.get("RANKMARK_PROFILE_TOOL") == "nsys"
        sys.path.insert(0, HERE)
        try:
            agent = __import__("rankmark_profile_nvtx" if is_nsys else "rankmark_profile_agent")
        finally:
            sys.path.remove(HERE)
        agent.start()
    except Exception:
        report()


def before_torch() -> None:
    """Makes room in the Flight Recorder, and keeps the profiler quiet. PyTorch reads the variables once."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    if "TORCH_FR_BUFFER_SIZE" in os.environ or "TORCH_NCCL_TRACE_BUFFER_SIZE" in os.environ:
        return
    try:
        from importlib.metadata import version

        major, minor = version("torch").split(".")[:2]
        is_old = (int(major), int(minor)) < (2, 9)
    except Exception:
        # A build without metadata.
        is_old = False
    os.environ["TORCH_NCCL_TRACE_BUFFER_SIZE" if is_old else "TORCH_FR_BUFFER_SIZE"] = FLIGHT_RECORDER_ENTRIES


def after_torch() -> None:
    """Starts the agent. Which processes train, only their steps tell: launchers and helpers import torch, too."""
    activate()
    sys.path.insert(0, HERE)
    try:
        ends = __import__("rankmark_profile_ends")
    finally:
        sys.path.remove(HERE)
    ends.watch()


class TorchFinder:
    """A finder that leaves all modules to the other finders, and learns when torch has been imported."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> "Any":
        if name != "torch":
            return None
        for finder in list(sys.meta_path):
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find and find(name, path, target)
            if spec is not None:
                self.watch(spec)
                return spec
        return None

    def watch(self, spec: "Any") -> None:
        """Runs code before and after the module. The loader stays what it is, for programs that look at it."""
        loader = spec.loader
        original = getattr(loader, "exec_module", None)
        if original is None:
            return

        def exec_module(module: object) -> None:
            guarded(before_torch)
            original(module)
            guarded(after_torch)

        try:
            loader.exec_module = exec_module
        except Exception:
            report()


def guarded(function: "Callable[[], None]") -> None:
    """Calls a function of ours. Its failure must not reach the job."""
    try:
        function()
    except Exception:
        report()


def install() -> None:
    """Watches for torch, also where something has imported it already."""
    if "torch" in sys.modules:
        guarded(after_torch)
    else:
        # Finders are duck-typed: a base class would have to be imported.
        sys.meta_path.insert(0, TorchFinder())


def load_next() -> None:
    """Loads the sitecustomize that Python finds without this folder. Its errors are the job's own."""
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != HERE]
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if "RANKMARK_PROFILE_DIR" in os.environ:
    guarded(install)
load_next()

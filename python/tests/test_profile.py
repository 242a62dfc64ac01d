"""Profiling of jobs that know nothing of it, as `rankmark profile` does it. Most tests need torch."""

from __future__ import annotations

import contextlib
import gzip
import importlib.util
import json
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PYTHON = Path(__file__).resolve().parents[1]
AGENT = PYTHON / "rankmark_profile"
TRAIN = PYTHON.parent / "examples/train.py"
HERE = importlib.util.find_spec("torch") is not None
TRAIN_FLAGS = ["--steps", "40", "--width", "32", "--layers", "1"]
LIMIT_S = 200
# What a rank leaves.
LEFT = ["trace-rank0.json.gz", "flight-rank0.pickle", "steps-0.json", "spill-0.jsonl"]

# Ranks that torch is imported for once: a process that has it forks for each. Arguments: a JSON file of ranks, and the
# sitecustomize that those with a folder for results get.
RANKS = """
import importlib.util, json, os, runpy, sys
import torch
# The first optimizer would import it in each rank, for seconds.
import torch._dynamo
import torch.distributed as dist
import torch.profiler

def train(steps, after_step=lambda step: None):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    # Another optimizer makes no steps of its own.
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    other = torch.optim.Adam(torch.nn.Linear(2, 2).parameters())
    for step in range(steps):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).square().mean()
        loss.backward()
        optimizer.step()
        other.step()
        scheduler.step()
        after_step(step)
    print("trained")

children = []
for rank in json.load(open(sys.argv[1])):
    child = os.fork()
    if child == 0:
        for number, name in [(1, "out"), (2, "err")]:
            file = os.open(os.path.join(rank["folder"], name + rank["name"]), os.O_WRONLY | os.O_CREAT)
            os.dup2(file, number)
        os.environ.update(rank["variables"])
        os.chdir(rank["folder"])
        if "RANKMARK_PROFILE_DIR" in os.environ:
            spec = importlib.util.spec_from_file_location("sitecustomize", sys.argv[2])
            spec.loader.exec_module(importlib.util.module_from_spec(spec))
        exec(rank["script"])
        sys.exit()
    children.append(child)
sys.exit(any([os.waitpid(child, 0)[1] for child in children]))
"""

# The example, as it is.
PLAIN = f"""
sys.argv = {[str(TRAIN), *TRAIN_FLAGS]}
runpy.run_path(sys.argv[0], run_name="__main__")
"""

# The script's profiler, with a schedule and an export of its own.
SCHEDULED = """
schedule = torch.profiler.schedule(wait=1, warmup=1, active=3, repeat=1)
def export(profiler):
    profiler.export_chrome_trace("theirs.json.gz")
with torch.profiler.profile(schedule=schedule, on_trace_ready=export) as profiler:
    train(20, lambda step: profiler.step())
"""

# A process that becomes a rank without RANK, as those of torch.multiprocessing do. It ends within the window.
SHORT = """
dist.init_process_group("gloo", init_method="file://" + os.path.abspath("store"), rank=0, world_size=1)
train(14, lambda step: dist.all_reduce(torch.ones(8)))
"""

# The script's profiler starts within the window.
LATE = """
profiler = torch.profiler.profile()
def after_step(step):
    if step == 14:
        profiler.start()
    if step == 16:
        profiler.stop()
        print(len(profiler.events()) > 0)
train(20, after_step)
"""

# Somebody ends the job within the window, while it waits in native code.
ENDED = """
import datetime, signal, threading
def after_step(step):
    if step == 14:
        store = dist.FileStore(os.path.abspath("store"), 1)
        threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGTERM]).start()
        store.wait(["never"], datetime.timedelta(seconds=60))
train(20, after_step)
"""

# Each parameter has an optimizer, which a hook steps as soon as there is a gradient: as torchtune does.
IN_BACKWARD = """
import torch.utils.checkpoint
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
optimizers = {parameter: torch.optim.AdamW([parameter]) for parameter in model.parameters()}
def step(parameter):
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()
for parameter in model.parameters():
    parameter.register_post_accumulate_grad_hook(step)
for _ in range(75):
    batch = torch.ones(2, 4, requires_grad=True)
    # Its backward pass runs another one.
    torch.utils.checkpoint.checkpoint(model, batch, use_reentrant=True).square().mean().backward()
print("trained")
"""

# The same around every function that is watched.
PAST_US = """
weights = torch.ones(4, 4, requires_grad=True)
optimizer = torch.optim.SGD([weights], lr=0.1)
weights.register_post_accumulate_grad_hook(lambda _: optimizer.step())
for _ in range(75):
    loss = (torch.ones(2, 4) @ weights).square().mean()
    torch.autograd.Variable._execution_engine.run_backward(
        (loss,), (torch.ones(()),), False, False, (), allow_unreachable=True, accumulate_grad=True
    )
print("trained")
"""

# PyTorch's profiler fails.
FAILING = """
def start(self):
    raise RuntimeError("planted")
torch.profiler.profile.start = start
train(20)
"""

# The profiler's export finds a full disk.
FULL_DISK = """
def export(self, path):
    with open(path, "w") as file:
        file.write("half of it")
    raise OSError(28, "no space left (planted)")
torch.profiler.profile.export_chrome_trace = export
train(25)
"""

# DeepSpeed's ZeRO puts one group of parameters after the other into the optimizer. ZeRO 2 swaps the groups.
BY_GROUPS = """
weights = [torch.ones(4, 4, requires_grad=True) for _ in range(3)]
optimizer = torch.optim.SGD([{"params": [one]} for one in weights], lr=0.001)
groups = optimizer.param_groups
for step in range(25):
    optimizer.zero_grad()
    (torch.ones(2, 4) @ weights[0] @ weights[1] @ weights[2]).square().mean().backward()
    for group in groups:
        optimizer.param_groups = [group]
        optimizer.step()
    optimizer.param_groups = groups
print("trained")
"""

# ZeRO 3 fills them. The sum of a step's gradients comes from several passes.
BY_PARTS = """
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
optimizer = torch.optim.Adam([{"params": list(one.parameters())} for one in model], lr=0.001)
parts = [(group, one) for group in optimizer.param_groups for one in group["params"]]
for group, _ in parts:
    group["params"] = []
for step in range(25):
    for _ in range(2):
        model(torch.ones(2, 4)).square().mean().backward()
    for group, one in parts:
        group["params"] = [one]
        optimizer.step()
        group["params"] = []
    model.zero_grad()
print("trained")
"""

# No pass is seen after the first ones, as where a CUDA graph replays them: each call is a step. The class inherits its
# step from one that is watched already.
UNSEEN_PASSES = """
class Mine(torch.optim.SGD):
    def step(self, closure=None):
        return super().step(closure)
weights = torch.ones(4, 4, requires_grad=True)
torch.optim.SGD([weights], lr=0.1)
optimizer = Mine([weights], lr=0.1)
for step in range(25):
    if step < 3:
        (torch.ones(2, 4) @ weights).square().mean().backward()
    weights.grad = torch.ones(4, 4)
    optimizer.step()
print("trained")
"""

# Two models, each with an optimizer that steps once in each round, and an evaluation in between.
TWO_MODELS = """
models = [torch.nn.Linear(4, 4) for _ in range(2)]
optimizers = [torch.optim.Adam(model.parameters()) for model in models]
for step in range(25):
    for model, optimizer in zip(models, optimizers):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).square().mean().backward()
        optimizer.step()
    with torch.no_grad():
        models[0](torch.ones(2, 4))
print("trained")
"""

# Its steps are called with a closure, which runs several passes.
CLOSURES = """
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
def closure():
    optimizer.zero_grad()
    loss = model(torch.ones(2, 4)).square().mean()
    loss.backward()
    return loss
for step in range(25):
    optimizer.step(closure)
print("trained")
"""

# Nobody ends a step for long, and both ranks communicate. A busy machine may keep a call waiting, but not for a second.
MOVING = """
import time
def after_step(step):
    for _ in range(600 if step == 8 else 1):
        time.sleep(0.02)
        dist.all_reduce(torch.ones(8))
init = "file://" + os.path.abspath("store")
dist.init_process_group("gloo", init_method=init, rank=int(os.environ["RANK"]), world_size=2)
train(12, after_step)
dist.destroy_process_group()
"""

# Rank 1 stops for a while.
HANG = """
import time
def stuck():
    time.sleep(2.5)
def after_step(step):
    if step == 8 and dist.get_rank() == 1:
        stuck()
    dist.all_reduce(torch.ones(8))
init = "file://" + os.path.abspath("store")
dist.init_process_group("gloo", init_method=init, rank=int(os.environ["RANK"]), world_size=2)
train(12, after_step)
dist.destroy_process_group()
"""

# The script fails, and a signal comes while its trace is written: a DataLoader raises an exception at SIGCHLD.
FAILED = """
import signal
def ended(*_):
    raise RuntimeError("a worker ended")
signal.signal(signal.SIGCHLD, ended)
export = torch.profiler.profile.export_chrome_trace
def slow_export(self, path):
    os.kill(os.getpid(), signal.SIGCHLD)
    export(self, path)
torch.profiler.profile.export_chrome_trace = slow_export
def after_step(step):
    if step == 14:
        raise ValueError("loss is nan\\nsee the log\\nstep 14")
train(20, after_step)
"""

KILLED = """
import signal
train(20, lambda step: os.kill(os.getpid(), signal.SIGKILL) if step == 14 else None)
"""

BY_HAND = """
weights = torch.ones(4, 4, requires_grad=True)
for step in range(25):
    (torch.ones(2, 4) @ weights).square().mean().backward()
    with torch.no_grad():
        weights -= 0.1 * weights.grad
    weights.grad = None
print("trained")
"""

# A compiled step of an optimizer.
COMPILED = """
weights = torch.ones(4, 4, requires_grad=True)
optimizer = torch.optim.SGD([weights], lr=0.1)
step = torch.compile(optimizer.step, backend="eager")
for _ in range(90):
    optimizer.zero_grad()
    (torch.ones(2, 4) @ weights).square().mean().backward()
    step()
print("trained")
"""

# The script's profiler waits for calls that never come.
UNTOLD = """
with torch.profiler.profile(schedule=torch.profiler.schedule(wait=0, warmup=1, active=3)):
    train(25)
"""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def environment(results: Path | None, paths: Sequence[Path] = (), **variables: str) -> dict[str, str]:
    """What `rankmark profile` gives to the job; without results, what the job has without it."""
    given = {name: value for name, value in os.environ.items() if not name.startswith("RANKMARK_PROFILE_")}
    theirs = [str(path) for path in paths] + [path for path in [given.pop("PYTHONPATH", "")] if path]
    if results is not None:
        theirs.insert(0, str(AGENT))
        variables["RANKMARK_PROFILE_DIR"] = str(results)
    if theirs:
        given["PYTHONPATH"] = os.pathsep.join(theirs)
    return {**given, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", **variables}


class Job:
    """A process that runs, and what it said in the end."""

    def __init__(self, arguments: list[str], variables: dict[str, str]) -> None:
        command = [sys.executable, *arguments]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            command, env=variables, stdout=pipe, stderr=pipe, text=True, start_new_session=True
        )

    def wait(self) -> tuple[int, str, str]:
        try:
            out, err = self.process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            self.end()
            raise
        return self.process.returncode, out, err

    def end(self) -> None:
        """Ends what is left of it, with the ranks that it started."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()


def read(path: Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())


def steps(trace: Path) -> list[int]:
    """The numbers of the steps on the CPU."""
    spans = [event for event in read(trace)["traceEvents"] if event.get("cat") == "user_annotation"]
    return [int(event["name"].split("#")[1]) for event in spans if event["name"].startswith("ProfilerStep#")]


class Folders(unittest.TestCase):
    """A folder for results, and one for the job."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.results, self.work = Path(folder.name, "results"), Path(folder.name, "work")
        self.results.mkdir()
        self.work.mkdir()

    def job(self, arguments: list[str], variables: dict[str, str]) -> Job:
        job = Job(arguments, variables)
        self.addCleanup(job.end)
        return job

    def files(self) -> set[str]:
        return {path.name for path in self.results.iterdir()}


class WithoutTorch(Folders):
    def test_a_script_without_torch_is_left_alone(self) -> None:
        script = "import sys; print(sys.argv, [name for name in sys.modules if 'torch' in name or 'rankmark' in name])"
        plain = self.job(["-c", script, "a"], environment(None, RANK="0")).wait()
        ours = self.job(["-c", script, "a"], environment(self.results, RANK="0")).wait()
        self.assertEqual(ours, plain)
        self.assertEqual(self.files(), set())

    def test_the_path_of_modules_is_the_job_s(self) -> None:
        script = "import sys; print(sys.path)"
        plain = self.job(["-c", script], environment(None, (self.work,))).wait()
        self.assertEqual(self.job(["-c", script], environment(self.results, (self.work,))).wait(), plain)

    def test_the_next_sitecustomize_is_loaded(self) -> None:
        (self.work / "sitecustomize.py").write_text("import sys\nsys.theirs = __file__\n")
        script = "import sys, sitecustomize; print(sys.theirs, sitecustomize.__file__)"
        plain = self.job(["-c", script], environment(None, (self.work,))).wait()
        self.assertEqual(plain[0], 0, plain)
        self.assertEqual(self.job(["-c", script], environment(self.results, (self.work,))).wait(), plain)

    def test_an_error_of_the_next_sitecustomize_is_shown_as_without_us(self) -> None:
        (self.work / "sitecustomize.py").write_text("raise ValueError('theirs')\n")
        plain = self.job(["-c", "print(1)"], environment(None, (self.work,))).wait()
        self.assertIn("theirs", plain[2])
        self.assertEqual(self.job(["-c", "print(1)"], environment(self.results, (self.work,))).wait(), plain)
        self.assertEqual(self.files(), set())


@unittest.skipUnless(HERE, "there is no torch")
class Jobs(Folders):
    """One job as it is in life, and cases that run at the same time, in forks."""

    FOLDERS: Path
    ERRORS: str

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.FOLDERS = Path(folder.name)
        window = {"RANKMARK_PROFILE_STEPS": "10:20"}
        alone = {**window, "RANK": "0"}
        hang = {"RANKMARK_PROFILE_STEPS": "100:110", "RANKMARK_PROFILE_HANG_SECONDS": "1", "WORLD_SIZE": "2"}
        longer = HANG.replace("2.5", "6")
        writing = {"RANKMARK_PROFILE_STEPS": "1:9", "RANKMARK_PROFILE_HANG_SECONDS": "4"}
        plain = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        plain |= {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
        ranks = [
            cls.rank("plain", PLAIN, {**plain, "RANK": "0"}),
            cls.rank("plain", PLAIN, {**plain, "RANK": "1"}),
            cls.rank("scheduled", SCHEDULED, {**alone, "RANKMARK_PROFILE_STEPS": "5:10"}),
            cls.rank("short", SHORT, window),
            cls.rank("late", LATE, alone),
            cls.rank("ended", ENDED, alone),
            cls.rank("in-backward", IN_BACKWARD, alone),
            cls.rank("past-us", PAST_US, alone),
            cls.rank("failing", FAILING, alone),
            cls.rank("wrong", "train(3)", {**alone, "RANKMARK_PROFILE_STEPS": "ten"}),
            cls.rank("failed", FAILED, alone),
            cls.rank("killed", KILLED, {**alone, "TORCHELASTIC_RESTART_COUNT": "1"}),
            cls.rank("stuck", "import os\nos._exit(0)", {**alone, "TORCHELASTIC_RESTART_COUNT": "1"}),
            cls.rank("full-disk", FULL_DISK, alone),
            cls.rank("by-hand", BY_HAND, window),
            cls.rank("by-groups", BY_GROUPS, alone),
            cls.rank("by-parts", BY_PARTS, alone),
            cls.rank("unseen-passes", UNSEEN_PASSES, alone),
            cls.rank("two-models", TWO_MODELS, alone),
            cls.rank("closures", CLOSURES, alone),
            cls.rank("compiled", COMPILED, {"RANKMARK_PROFILE_STEPS": "10:20"}),
            cls.rank("untold", UNTOLD, window),
            cls.rank("hang", HANG, {**hang, "RANK": "0"}),
            cls.rank("hang", HANG, {**hang, "RANK": "1"}),
            cls.rank("moving", MOVING, {**hang, "RANK": "0", "RANKMARK_PROFILE_HANG_SECONDS": "10"}),
            cls.rank("moving", MOVING, {**hang, "RANK": "1", "RANKMARK_PROFILE_HANG_SECONDS": "10"}),
            # Step 9, in which rank 1 stops, is the first one after the window.
            cls.rank("writing", longer, {**hang, **writing, "RANK": "0"}),
            cls.rank("writing", longer, {**hang, **writing, "RANK": "1"}),
        ]
        # Of the attempt before.
        (cls.FOLDERS / "killed/results/hang-rank0.json").write_text("{}")
        (cls.FOLDERS / "ranks.json").write_text(json.dumps(ranks))
        job = Job(["-c", RANKS, str(cls.FOLDERS / "ranks.json"), str(AGENT / "sitecustomize.py")], environment(None))
        cls.addClassCleanup(job.end)
        code, _, err = job.wait()
        cls.ERRORS = f"exit {code}: {err}"

    @classmethod
    def rank(cls, name: str, script: str, variables: dict[str, str]) -> dict[str, Any]:
        folder = cls.FOLDERS / name
        (folder / "results").mkdir(parents=True, exist_ok=True)
        if script is not PLAIN:
            variables = {**variables, "RANKMARK_PROFILE_DIR": str(folder / "results")}
        return {
            "name": variables.get("RANK", "0"),
            "folder": str(folder),
            "script": script,
            "variables": variables,
        }

    def ran(self, name: str) -> str:
        """What rank 0 of a case printed; its results are those of this test."""
        folder = self.FOLDERS / name
        self.results = folder / "results"
        err = (folder / "err0").read_text()
        self.assertNotIn("Traceback", err, self.ERRORS)
        return (folder / "out0").read_text()

    def test_the_script_s_own_profiler_goes_first(self) -> None:
        self.assertEqual(self.ran("scheduled"), "trained\n")
        self.assertEqual(self.files(), set(LEFT))
        theirs = self.FOLDERS / "scheduled/theirs.json.gz"
        self.assertEqual(steps(theirs), [2, 3, 4])
        self.assertEqual(read(self.results / "trace-rank0.json.gz"), read(theirs))
        times = read(self.results / "steps-0.json")
        self.assertEqual([times["step_found_by"], times["trace"]], ["profiler", "script"])
        self.assertEqual([len(times["traced_step_s"]), len(times["untraced_step_s"])], [3, 16])

    def test_a_job_that_ends_within_the_window_is_traced_so_far(self) -> None:
        self.assertEqual(self.ran("short"), "trained\n")
        trace = self.results / "trace-rank0.json.gz"
        self.assertEqual(steps(trace), [10, 11, 12, 13])
        unfinished = [event for event in read(trace)["traceEvents"] if event["name"] == "unfinished step"]
        self.assertEqual(len(unfinished), 1)
        times = read(self.results / "steps-0.json")
        self.assertEqual([times["world"], len(times["traced_step_s"])], [1, 4])
        waited = times["traced_descheduled_s"]
        if waited is not None:
            pairs = zip(waited, times["traced_step_s"], strict=True)
            self.assertTrue(all(0 <= wait <= step for wait, step in pairs), waited)
        self.assertEqual(times["notes"], ["the job ended before the window did"])

    def test_the_window_ends_where_the_script_s_profiler_starts(self) -> None:
        self.assertEqual(self.ran("late"), "True\ntrained\n")
        self.assertEqual(steps(self.results / "trace-rank0.json.gz"), [10, 11, 12, 13, 14])
        self.assertIn("the script started its own profiler", read(self.results / "steps-0.json")["notes"][0])

    def test_an_optimizer_in_hooks_of_backward_is_traced(self) -> None:
        self.assertEqual(self.ran("in-backward"), "trained\n", self.ERRORS)
        self.assertEqual(steps(self.results / "trace-rank0.json.gz"), list(range(10, 20)))
        times = read(self.results / "steps-0.json")
        self.assertEqual([times["step_found_by"], times["steps_ended"], times["notes"]], ["optimizer", 75, []])

    def test_a_job_that_leaves_no_place_for_the_profiler_is_timed(self) -> None:
        self.assertEqual(self.ran("past-us"), "trained\n", self.ERRORS)
        self.assertEqual(self.files(), {"steps-0.json", "spill-0.jsonl"})
        self.assertEqual(len(self.spilled()), 74)
        self.assertIn("while the autograd engine ran", read(self.results / "steps-0.json")["notes"][0])

    def spilled(self) -> list[Any]:
        head, *lines = (self.results / "spill-0.jsonl").read_text().splitlines()
        self.assertEqual(json.loads(head)["window"], [10, 20])
        return [json.loads(line) for line in lines]

    def test_a_job_that_fails_keeps_its_steps_and_says_why(self) -> None:
        self.results = self.FOLDERS / "failed/results"
        self.assertEqual(steps(self.results / "trace-rank0.json.gz"), [10, 11, 12, 13, 14], self.ERRORS)
        self.assertEqual(self.files(), set(LEFT))
        ended = read(self.results / "steps-0.json")["ended"]
        message = "loss is nan ... step 14"
        self.assertEqual([ended["how"], ended["type"], ended["message"]], ["exception", "ValueError", message])
        self.assertIn("after_step", ended["place"])

    def test_a_job_that_is_killed_keeps_its_steps(self) -> None:
        for name in ["killed", "ended"]:
            self.assertEqual(self.ran(name), "")
            self.assertEqual(self.files(), {"spill-0.jsonl"})
            self.check_spilled(self.spilled())

    def test_an_attempt_that_ends_no_step_is_known(self) -> None:
        self.assertEqual(self.ran("stuck"), "")
        self.assertEqual(self.files(), {"again-0.json"})
        again = read(self.results / "again-0.json")
        self.assertEqual([again["restarts"], again["steps_ended"], again["ended"]], [1, 0, None])

    def check_spilled(self, spilled: list[Any]) -> None:
        self.assertEqual([step[0] for step in spilled], list(range(1, 15)))
        self.assertEqual([step[0] for step in spilled if step[3]], [10, 11, 12, 13, 14])
        for _, _, duration, _, phases in spilled:
            self.assertEqual([letter for letter, _, _ in phases], ["o", "f", "b", "o"])
            self.assertTrue(all(0 <= begin <= begin + phase <= duration for _, begin, phase in phases), phases)

    def test_a_job_without_an_optimizer_has_steps(self) -> None:
        self.assertEqual(self.ran("by-hand"), "trained\n")
        self.assertEqual(steps(self.results / "trace-rank0.json.gz"), list(range(10, 20)), self.ERRORS)
        times = read(self.results / "steps-0.json")
        self.assertEqual([times["step_found_by"], times["ended"]["how"]], ["backward", "exit"])
        self.assertIn("each backward pass counts as a step", times["notes"][0])

    def test_an_optimizer_that_steps_for_each_group_makes_one_step(self) -> None:
        for name in ["by-groups", "by-parts", "unseen-passes", "two-models", "closures"]:
            self.assertEqual(self.ran(name), "trained\n", self.ERRORS)
            self.assertEqual(steps(self.results / "trace-rank0.json.gz"), list(range(10, 20)), name)
            times = read(self.results / "steps-0.json")
            self.assertEqual([times["step_found_by"], times["steps_ended"]], ["optimizer", 25], name)

    def test_a_job_that_compiles_its_optimizer_has_steps(self) -> None:
        self.assertEqual(self.ran("compiled"), "trained\n")
        self.assertEqual(len(steps(self.results / "trace-rank0.json.gz")), 10, self.ERRORS)
        # Where the agent's own frames cannot be kept out of a compiled step, its backward passes are seen.
        self.assertIn(read(self.results / "steps-0.json")["step_found_by"], ["optimizer", "backward"])

    def test_a_profiler_that_is_never_told_a_step_is_named(self) -> None:
        self.assertEqual(self.ran("untold"), "trained\n")
        [note] = read(self.results / "steps-0.json")["notes"]
        self.assertIn("waits for calls of its `step()`, which the script never makes", note)
        self.assertEqual(len(self.spilled()), 24)

    def test_a_failure_of_ours_does_not_reach_the_job(self) -> None:
        self.assertEqual(self.ran("failing"), "trained\n")
        [error] = [path for path in self.results.iterdir() if path.name.startswith("error-")]
        self.assertIn("planted", error.read_text())
        self.assertIn("the agent failed", read(self.results / "steps-0.json")["notes"][0])

    def test_a_trace_that_cannot_be_written_leaves_nothing(self) -> None:
        self.assertEqual(self.ran("full-disk"), "trained\n")
        [error] = [path for path in self.results.iterdir() if path.name.startswith("error-")]
        self.assertIn("planted", error.read_text())
        self.assertEqual([name for name in self.files() if name.startswith(".")], [])

    def test_a_wrong_variable_does_not_reach_the_job(self) -> None:
        self.assertEqual(self.ran("wrong"), "trained\n")
        [error] = self.results.iterdir()
        self.assertIn("valid values", error.read_text())

    def test_a_hang_is_written_down(self) -> None:
        self.assertEqual(self.ran("hang"), "trained\n")
        waits, stuck = (read(self.results / f"hang-rank{rank}.json") for rank in range(2))
        self.assertEqual([frame["name"] for frame in stuck["stack"]][:3], ["stuck", "after_step", "train"])
        self.assertIn("all_reduce", [frame["name"] for frame in waits["stack"]])
        # Rank 0 has entered one collective more.
        entered = [len(dump["flight_recorder"]["entries"]) for dump in [waits, stuck]]
        self.assertEqual(entered, [9, 8])
        for rank, dump in enumerate([waits, stuck]):
            self.assertGreater(dump["since_last_step_s"], 1)
            self.assertGreater(dump["step_ended_after_s"], 2)
            self.assertEqual([dump["rank"], dump["world"]], [rank, 2])
            flight = pickle.loads((self.results / f"hang-flight-rank{rank}.pickle").read_bytes())
            self.assertEqual(len(flight["entries"]), entered[rank])
            notes = read(self.results / f"steps-{rank}.json")["notes"]
            self.assertEqual(len(notes), 1)
            self.assertIn("the job ended after 12 steps", notes[0])

    def test_ranks_that_move_or_write_their_traces_do_not_hang(self) -> None:
        for name in ["moving", "writing"]:
            self.assertEqual(self.ran(name), "trained\n", self.ERRORS)
            self.assertEqual([file for file in self.files() if file.startswith("hang-")], [], name)

    def test_both_ranks_are_traced_and_train_as_without_us(self) -> None:
        (self.work / "sitecustomize.py").write_text(
            "import os\nopen(os.path.join(os.path.dirname(__file__), f'loaded-{os.getpid()}'), 'w').close()\n"
        )
        launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(TRAIN), *TRAIN_FLAGS]
        paths = environment(self.results, (self.work,), RANKMARK_PROFILE_STEPS="10:20")
        code, out, err = self.job(launch, paths).wait()
        self.assertEqual(code, 0, err)
        plain = (self.FOLDERS / "plain/out0").read_text()
        self.assertEqual(len(re.findall("loss", plain)), 4, self.ERRORS)
        self.assertEqual(out, plain)
        # The launcher and two ranks.
        self.assertGreaterEqual(len(list(self.work.glob("loaded-*"))), 3)

        kinds = ["trace-rank{}.json.gz", "flight-rank{}.pickle", "steps-{}.json", "spill-{}.jsonl"]
        self.assertEqual(self.files(), {kind.format(rank) for kind in kinds for rank in range(2)})
        for rank in range(2):
            self.check_trace(self.results / f"trace-rank{rank}.json.gz", rank)
            entries = pickle.loads((self.results / f"flight-rank{rank}.pickle").read_bytes())["entries"]
            self.assertGreaterEqual(len(entries), 20)
            self.assertTrue(all("collective_seq_id" in entry for entry in entries))
            times = read(self.results / f"steps-{rank}.json")
            found = [times[name] for name in ["rank", "world", "step_found_by", "trace", "notes", "backend"]]
            self.assertEqual(found, [rank, 2, "optimizer", "agent", [], "gloo"])
            # Step 0 has no start, and in step 20 other ranks may still write their traces.
            self.assertEqual([len(times["traced_step_s"]), len(times["untraced_step_s"])], [10, 40 - 10 - 2])
            self.assertTrue(all(0 < time < LIMIT_S for time in times["traced_step_s"] + times["untraced_step_s"]))

    def check_trace(self, path: Path, rank: int) -> None:
        trace = read(path)
        self.assertEqual(trace["distributedInfo"]["rank"], rank)
        self.assertEqual(steps(path), list(range(10, 20)))
        spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        reduced = [event for event in spans if event["name"] == "gloo:all_reduce"]
        self.assertGreaterEqual(len(reduced), 10)
        self.assertTrue(all(event["args"].get("Input Dims") for event in reduced))
        # The optimizer is within its step, also in the last one.
        spans.sort(key=lambda event: float(event["ts"]))
        of_steps = [event for event in spans if event["name"].startswith("ProfilerStep#")]
        optimizers = [event for event in spans if event["name"].startswith("Optimizer.step#")]
        self.assertEqual(len(optimizers), 10)
        for step, optimizer in zip(of_steps, optimizers):
            self.assertLessEqual(step["ts"], optimizer["ts"])
            self.assertLessEqual(optimizer["ts"] + optimizer["dur"], step["ts"] + step["dur"] + 0.002)

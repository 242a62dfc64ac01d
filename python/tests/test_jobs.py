"""Profiling changes nothing in a job: how it ends, what it computes, how soon it obeys a signal, how long a step takes.

Each kind of job_kinds.py runs with and without the agent. All kinds and times need RANKMARK_TEST_FULL; without it, a
few kinds run in forks of one process that has imported torch.
"""

from __future__ import annotations

import json
import os
import re
import signal
import statistics
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import job_kinds_list
from test_profile import AGENT, HERE, Job, environment, free_port

JOBS = Path(__file__).with_name("job_kinds.py")
IS_FULL = os.environ.get("RANKMARK_TEST_FULL", "0") not in ("", "0")
RANKS = 2
STEPS = 24
WINDOW = {"RANKMARK_PROFILE_STEPS": "5:15"}
# Where times are compared: pairs of jobs, their steps, and how long a step sleeps in each module that computes.
PAIRS, TIMED_STEPS, WORK_S = 8, 150, "0.01"
# What profiling may add to a step that is not traced.
MOST_ADDED = 0.03
# A job may fail by itself: a rank of gloo leaves before another one has read what it sent.
TRIES = 4

# Arguments: a JSON list of jobs, each {"kind", "folder", "variables"}, the folder of this file, and a sitecustomize for
# those with a folder for results. Prints, for each job, how its ranks ended, and how long after a SIGTERM.
FORKS = """
import importlib.util, json, os, runpy, signal, sys, time
import torch, torch._dynamo, torch.distributed, torch.profiler
sys.path.insert(0, sys.argv[2])

def start(job, rank):
    child = os.fork()
    if child:
        return child
    for number, name in [(1, "out"), (2, "err")]:
        file = os.open(f"{job['folder']}/{name}{rank}", os.O_WRONLY | os.O_CREAT)
        os.dup2(file, number)
    os.environ.update(job["variables"], RANK=str(rank), LOCAL_RANK=str(rank))
    os.chdir(job["folder"])
    if "RANKMARK_PROFILE_DIR" in os.environ:
        spec = importlib.util.spec_from_file_location("sitecustomize", sys.argv[3])
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    import job_kinds
    job_kinds.run(job["kind"], int(job["variables"]["STEPS"]))
    sys.exit()

def said(folder, rank):
    with open(f"{folder}/out{rank}") as file:
        return file.read()

jobs = json.load(open(sys.argv[1]))
started = [[start(job, rank) for rank in range(int(job["variables"]["WORLD_SIZE"]))] for job in jobs]
ended = []
for job, ranks in zip(jobs, started):
    asked = None
    if job["kind"] == "waiting":
        until = time.monotonic() + 100
        while not all("waits" in said(job["folder"], rank) for rank in range(len(ranks))):
            assert time.monotonic() < until, job
            time.sleep(0.01)
        # Until it is in the call that it told of.
        time.sleep(0.5)
        asked = time.monotonic()
        # The last one waits in native code, for as long as the others live.
        os.kill(ranks[-1], signal.SIGTERM)
        while os.waitid(os.P_PID, ranks[-1], os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if time.monotonic() - asked > 30:
                break
            time.sleep(0.01)
        asked = time.monotonic() - asked
        for child in ranks[:-1]:
            os.kill(child, signal.SIGTERM)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in ranks]
    ended.append([codes, asked])
print(json.dumps(ended))
"""


class Folder(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)


@unittest.skipUnless(HERE, "there is no torch")
class Forked(Folder):
    def test_jobs_end_and_compute_as_without_us(self) -> None:
        kinds = [*job_kinds_list.SMALL, "waiting"]
        jobs = [self.of(kind, is_ours) for kind in kinds for is_ours in (False, True)]
        (self.folder / "jobs.json").write_text(json.dumps(jobs))
        arguments = ["-c", FORKS, str(self.folder / "jobs.json"), str(JOBS.parent), str(AGENT / "sitecustomize.py")]
        code, out, err = Job(arguments, environment(None)).wait()
        self.assertEqual(code, 0, err)
        ended = json.loads(out)
        for at, kind in enumerate(kinds):
            (plain, plain_s), (ours, ours_s) = ended[2 * at], ended[2 * at + 1]
            said = [[self.read(job, "out", rank) for rank in range(RANKS)] for job in jobs[2 * at : 2 * at + 2]]
            errors = "".join(self.read(job, "err", rank) for job in jobs[2 * at : 2 * at + 2] for rank in range(RANKS))
            self.assertEqual((kind, ours, said[1]), (kind, plain, said[0]), errors)
            if kind == "waiting":
                self.assertEqual(ours, [-signal.SIGTERM] * RANKS)
                # As soon as without us, but for what another program on the machine takes.
                self.assertLess(ours_s, plain_s + 5)
            else:
                self.assertGreaterEqual(len(said[0][0].splitlines()), STEPS // 2, errors)
                self.assertTrue(list(Path(jobs[2 * at + 1]["folder"], "results").glob("spill-*")), kind)

    def of(self, kind: str, is_ours: bool) -> dict[str, Any]:
        folder = self.folder / f"{kind}-{int(is_ours)}"
        results = folder / "results"
        results.mkdir(parents=True)
        variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        variables |= {"WORLD_SIZE": str(RANKS), "LOCAL_WORLD_SIZE": str(RANKS), "STEPS": str(STEPS)}
        if is_ours:
            variables |= {**WINDOW, "RANKMARK_PROFILE_DIR": str(results)}
        return {"kind": kind, "folder": str(folder), "variables": variables}

    def read(self, job: dict[str, Any], name: str, rank: int) -> str:
        return Path(job["folder"], f"{name}{rank}").read_text()


@unittest.skipUnless(HERE and IS_FULL, "needs torch and RANKMARK_TEST_FULL")
class Launched(Folder):
    def run_job(self, kind: str, is_ours: bool, steps: int, **variables: str) -> tuple[int, list[str], str]:
        results = self.folder / f"results-{kind}"
        results.mkdir(exist_ok=True)
        launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
        given = environment(results if is_ours else None, (), **(WINDOW if is_ours else {}), **variables)
        code, out, err = Job([*launch, str(JOBS), kind, str(steps)], given).wait()
        # Lines of ranks come in any order.
        return code, sorted(out.splitlines()), err

    def test_all_kinds_of_jobs_compute_as_without_us(self) -> None:
        for kind in job_kinds_list.ALL:
            with self.subTest(kind=kind):
                for _ in range(TRIES):
                    plain, ours = (self.run_job(kind, is_ours, 40) for is_ours in (False, True))
                    if ours[:2] == plain[:2]:
                        break
                self.assertEqual(ours[:2], plain[:2], ours[2])
                self.assertGreaterEqual(len(ours[1]), 40, ours[2])

    def test_steps_take_as_long_as_without_us(self) -> None:
        for kind in job_kinds_list.TIMED:
            ratios = []
            for pair in range(PAIRS):
                order = [False, True] if pair % 2 == 0 else [True, False]
                times = {is_ours: self.median_s(kind, is_ours) for is_ours in order}
                ratios.append(times[True] / times[False])
            print(f"{kind}: {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})", file=sys.stderr)
            # Another program on the machine slows down some of them, and not all.
            self.assertLess(min(ratios), 1 + MOST_ADDED, kind)

    def median_s(self, kind: str, is_ours: bool) -> float:
        for _ in range(TRIES):
            _, _, err = self.run_job(kind, is_ours, TIMED_STEPS, WORK_S=WORK_S)
            found = re.search(r"median_s ([0-9.]+)", err)
            if found is not None:
                return float(found[1])
        raise AssertionError(err)

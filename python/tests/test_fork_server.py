"""The fork server beside a process that plays its coordinator: the parent of ranks, how ranks end, and that they
are as ranks that start alone."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any

HERE = importlib.util.find_spec("torch") is not None
FOLDER = str(Path(__file__).resolve().parents[1])
PR_SET_CHILD_SUBREAPER = 36

# What the server runs: `load`, then in each rank `act`, which is given the rank's number.
PROGRAM = """
import json, os, signal, sys, threading, time
sys.path.insert(0, {folder!r})
from rankmark_worker import fork_server
{load}
argument = fork_server.serve(sys.argv[1], load, renew)
rank = int(argument.split("=")[1].split(",")[0])
{act}
os._exit(0)
"""

RENEW = "\ndef renew(): pass"
NOTHING = "def load(): pass"
# Whatever a library could have looked up when it was imported.
FACTS = """
import torch
def facts():
    from torch.__config__ import parallel_info
    torch.ones(1 << 16).add(1).sum()
    return [torch.get_num_threads(), torch.get_num_interop_threads(), parallel_info(), sorted(os.sched_getaffinity(0)),
            signal.getsignal(signal.SIGINT) == signal.SIG_IGN,
            signal.pthread_sigmask(signal.SIG_BLOCK, []) == set(), torch.initial_seed(),
            len(os.listdir("/proc/self/task"))]
"""


class Server:
    """A fork server, and what its coordinator does."""

    def __init__(self, load: str, act: str) -> None:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.link, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        program = PROGRAM.format(folder=FOLDER, load=load if "renew" in load else load + RENEW, act=act)
        argument = f"__rank=server,{other.fileno()}".ljust(40)
        command = [sys.executable, "-c", program, argument]
        self.process = subprocess.Popen(command, pass_fds=[other.fileno()], stdin=subprocess.DEVNULL)
        other.close()
        self.first = self.hear()

    def hear(self) -> Any:
        return json.loads(self.link.recv(4096))

    def fork(self, rank: int) -> tuple[int, str, int]:
        """The process number of a rank, what it writes, and how it ends: a code, or minus a signal."""
        read, write = os.pipe()
        with open(os.devnull, encoding="ascii") as null:
            descriptors = [null.fileno(), null.fileno(), write]
            socket.send_fds(self.link, [json.dumps({"rank": rank}).encode()], descriptors)
            pid = self.hear()["Forked"]
        os.close(write)
        with open(read, encoding="utf-8") as output:
            said = output.read()
        _, status = os.waitpid(pid, 0)
        return pid, said, os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)

    def end(self) -> int:
        self.link.close()
        code = self.process.wait(20)
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        return code


class ForkServerTest(unittest.TestCase):
    def test_ranks_are_children_of_the_coordinator_and_end_as_they_do(self) -> None:
        act = """
line = open("/proc/self/cmdline").read().split(chr(0))
print(json.dumps([os.getpid(), os.getppid(), os.getsid(0), os.getpgid(0), line[3].rstrip(), argument, sys.argv[1]]))
sys.stdout.flush()
if rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
os._exit(7)
"""
        server = Server(NOTHING, act)
        self.assertEqual(server.first, "Ready")
        for rank, expected in [(0, 7), (1, -signal.SIGKILL), (300, 7)]:
            pid, said, ended = server.fork(rank)
            own, parent, session, group, line, argument, told = json.loads(said)
            self.assertEqual((own, parent, session, group), (pid, os.getpid(), pid, pid))
            self.assertTrue(argument.startswith(f"__rank={rank},") and argument == line == told, said)
            self.assertEqual(ended, expected)
        self.assertEqual(server.end(), 0)

    def test_a_rank_is_killed_when_its_coordinator_ends(self) -> None:
        act = """
import ctypes
sent = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(sent), 0, 0, 0)
print(sent.value, sorted(os.listdir("/proc/self/fd")))
sys.stdout.flush()
"""
        server = Server(NOTHING, act)
        # The last is the folder itself: nothing of the server is left open.
        expected = f"{int(signal.SIGKILL)} ['0', '1', '2', '3', '4', '5']\n"
        self.assertEqual(server.fork(0)[1:], (expected, 0))
        self.assertEqual(server.end(), 0)

    def test_a_server_with_threads_refuses_and_one_without_packages_says_so(self) -> None:
        threaded = "def load(): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
        missing = "def load(): import no_such_module"
        for load, expected in [(threaded, "Refused"), (missing, "Missing")]:
            server = Server(load, "")
            self.assertTrue(server.first == expected or expected in server.first, server.first)
            self.assertEqual(server.end(), 0)

    @unittest.skipUnless(HERE, "no torch")
    def test_a_forked_rank_computes_as_one_that_starts_alone(self) -> None:
        say = "print(json.dumps(facts())); sys.stdout.flush()"
        for variables in [{}, {"OMP_NUM_THREADS": "1"}, {"OMP_NUM_THREADS": "3"}]:
            before = dict(os.environ)
            os.environ.update(variables)
            try:
                server = Server("from rankmark_worker.main import load, renew", FACTS + say)
                self.assertEqual(server.first, "Ready")
                (_, said, ended), (_, other, _) = server.fork(0), server.fork(1)
                self.assertEqual((ended, server.end()), (0, 0))
                program = "import json, os, signal, sys\nimport torch.distributed\n" + FACTS + say
                alone = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
            finally:
                os.environ.clear()
                os.environ.update(before)
            forked, expected = json.loads(said), json.loads(alone.stdout)
            # numpy's own threads are there from its import on, or from its first product on.
            self.assertLessEqual(abs(forked.pop() - expected.pop()), (os.cpu_count() or 1) - 1)
            # Random numbers are another rank's in none.
            self.assertEqual(len({forked.pop(), expected.pop(), json.loads(other)[-2]}), 3)
            self.assertEqual(forked, expected)


if __name__ == "__main__":
    unittest.main()

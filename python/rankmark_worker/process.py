"""What the system knows of this process: mirrors `training::process`."""

from __future__ import annotations

import os
import resource


def status(name: str, path: str = "/proc/self/status") -> int:
    """Bytes of a line `NAME:  123 kB`; zero where the system does not tell."""
    try:
        with open(path, encoding="ascii", errors="replace") as lines:
            line = next((line for line in lines if line.startswith(f"{name}:")), "- 0 kB")
        return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        return 0


def peak_bytes() -> int:
    """The most memory that this process held (VmHWM)."""
    return status("VmHWM")


def reset_peak() -> None:
    """Forgets the peak so far (proc(5), `clear_refs`). Where the kernel does not let it, it stays."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError:
        pass


def once(held: int) -> int:
    """What is held, shared memory divided by the number of processes that have mapped each page, where the kernel tells
    how many these are."""
    shared = status("RssShmem")
    return held - shared + (status("Pss_Shmem", "/proc/self/smaps_rollup") or shared)


def threads() -> int:
    """Threads of this process."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 1


def switches() -> tuple[float, float]:
    """Voluntary and involuntary context switches so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return float(usage.ru_nvcsw), float(usage.ru_nivcsw)


def only_core() -> float:
    """The only core that this process may run on, from 1; 0 where there are several, or the machine has just one."""
    allowed = os.sched_getaffinity(0)
    return float(min(allowed) + 1) if len(allowed) == 1 and (os.cpu_count() or 1) > 1 else 0.0

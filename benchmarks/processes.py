"""What running processes cost: memory as the kernel shares it out, and processor time. Linux."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from jamcore.domain.plan import TOOLS_ROOT
from jamcore.testing.guards import descendants

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PARENT, _USER, _SYSTEM = 1, 11, 12
"""Fields of ``/proc/PID/stat`` after the name."""


def proportional_mib(pids: Iterable[int]) -> float:
    """Return the memory of some processes: a page that several processes of the machine share counts for each in part."""
    return sum(_proportional_kib(pid) for pid in pids) / 1024


def processor_s(pids: Iterable[int]) -> float:
    """Return the processor time that some processes have used so far, in seconds; the kernel counts it in ticks of 10 ms."""
    return sum(int(fields[_USER]) + int(fields[_SYSTEM]) for pid in pids if (fields := _stat(pid))) / _TICKS_PER_S


def sandbox_processes(daemon: int) -> tuple[frozenset[int], frozenset[int]]:
    """Return what runs below a daemon: Jam's own processes, and the provider's with what they started."""
    below = {process.pid for process in descendants(daemon)}
    parents = {pid: int(fields[_PARENT]) for pid in below if (fields := _stat(pid))}
    programs = {pid for pid in below if _program(pid).startswith(f"{TOOLS_ROOT}/")}
    grown = True
    while grown:
        more = {pid for pid in below - programs if parents.get(pid) in programs}
        programs |= more
        grown = bool(more)
    return frozenset(below - programs), frozenset(programs)


def _proportional_kib(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0  # it has ended
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return []


def _program(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/exe").readlink())
    except OSError:
        return ""

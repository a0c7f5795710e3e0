"""Finds and ends what a sandbox left behind, by the mark that its programs carry in their environment.

Programs run below a supervisor that ends them with itself and with the daemon. As the same user they can kill it, and then nobody is
above them any more. Each carries a random mark of its sandbox from its start; whatever carries it, or is below what does, is the
sandbox's. A program that both killed the supervisor and cleared its environment is not found: this engine isolates nothing.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path

import anyio
from anyio import to_thread

from jamcore.domain.sandboxes import EngineUnknownError
from jamcore.engines.local.names import ENGINE
from jamcore.engines.supervised.guest.processes import below, scan_all

MARK = "JAM_SANDBOX"
END_LIMIT_S = 8.0
"""How long leftovers may take to end after SIGKILL; more means that the kernel holds one."""
AGAIN_S = 0.01


def carriers(mark: str) -> frozenset[int]:
    """Return the living processes that carry the mark, and everything below them. Blocking: a look at all of /proc."""
    if not mark:
        return frozenset()
    wanted = f"{MARK}={mark}".encode()
    entries = scan_all()
    marked = {entry.pid for entry in entries if wanted in _environment(entry.pid)}
    living = {entry.pid for entry in entries if entry.state not in "ZX"}
    return frozenset((marked | {pid for root in marked for pid in below(root, entries)}) & living)


async def end_carriers(mark: str) -> None:
    """End every carrier and return when none is left. Not interrupted by cancellation.

    Raises:
        EngineUnknownError: One does not end.
    """
    with anyio.CancelScope(shield=True):
        deadline = anyio.current_time() + END_LIMIT_S
        while found := await to_thread.run_sync(carriers, mark):
            if anyio.current_time() > deadline:
                raise EngineUnknownError(engine=ENGINE, operation="stop", detail=f"processes {sorted(found)} do not end")
            await to_thread.run_sync(_kill, mark, found)
            await anyio.sleep(AGAIN_S)


def _kill(mark: str, found: frozenset[int]) -> None:
    with ExitStack() as held:
        handles = dict(_held(held, found))
        # Whoever is found again, and lives, is who is held: a number that went to somebody else cannot be both.
        for pid in carriers(mark) & handles.keys():
            with suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(handles[pid], signal.SIGKILL)


def _held(held: ExitStack, pids: Iterable[int]) -> Iterable[tuple[int, int]]:
    for pid in pids:
        with suppress(OSError):
            descriptor = os.pidfd_open(pid)
            held.callback(os.close, descriptor)
            yield pid, descriptor


def _environment(pid: int) -> tuple[bytes, ...]:
    """Return the environment that a process was started with; nothing when it is gone or another user's."""
    try:
        return tuple(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
    except OSError:
        return ()

"""Limits of a sandbox: control groups where this process may make them, the limits of single processes otherwise, and never a pretence.

The whole sandbox is started from a process that has entered its group, so nothing of it is ever outside. What a limit of single
processes cannot mean for a whole sandbox is refused: a memory limit for each of 4096 processes is none for the sandbox.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import structlog

from jamcore.domain.resources import Holding, Limit, LimitNotHeldError, Means, require_held
from jamcore.domain.sandboxes import Finding, Resources
from jamcore.engines.bubblewrap.names import ENGINE
from jamcore.system.cgroups import Bounds, Controller, Ground, Group, look, make, sweep

SHELL = "/bin/sh"
ENTER = (
    'space=$1; shift; [ "$space" = - ] || ulimit -v "$space" || exit 70; '
    'while [ "$1" != -- ]; do echo $$ > "$1/cgroup.procs" || exit 71; shift; done; shift; exec "$@"'
)
"""Enters the groups and bounds the address space, then becomes the program: no process is started beside it."""
OUTSIDE = 4
"""Processes of the group that are none of the guest's: up to two bwraps with a monitor each. The guest's own bound is exact."""
_OWN_DISK = "the guest's disk is a directory of the host's file system, on which nobody but its administrator can set a quota"
_DISK_REMEDY = "Put JAM_HOME on a file system of the size that you allow, or use an engine whose sandboxes have disks of their own."


class SandboxLimits:
    """The limits of one engine's sandboxes. ``root`` is the engine's own directory; ``owner``, made from it, names its groups."""

    def __init__(self, root: Path, *, proc: Path = Path("/proc")) -> None:
        self.owner = f"jam-{hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:12]}"
        self._proc = proc

    def holdings(self) -> tuple[Holding, ...]:
        """Say for each limit whether it holds here."""
        return holdings(look(self._proc))

    def require(self, resources: Resources) -> None:
        """Accept what holds here.

        Raises:
            LimitNotHeldError: A limit that does not.
        """
        require_held(resources, self.holdings(), engine=ENGINE)

    def sweep(self) -> None:
        """Remove what a daemon that was killed left of its sandboxes' groups; one that is still dying goes when it is used again."""
        if left := sweep(look(self._proc), self.owner):
            structlog.get_logger("jam.engine").info("control groups are still in use", engine=ENGINE, sandboxes=left)

    @asynccontextmanager
    async def applied(self, sandbox: str, resources: Resources) -> AsyncIterator[tuple[str, ...]]:
        """Make the sandbox's group, yield what its command line begins with, and remove the group when the sandbox has ended.

        Raises:
            LimitNotHeldError: A limit cannot be held; nothing was made.
        """
        ground = look(self._proc)
        require_held(resources, holdings(ground), engine=ENGINE)
        group = self._make(ground, sandbox, resources)
        try:
            yield entering(group, resources.memory_per_process_bytes)
        finally:
            if group is not None and (left := await group.remove()):
                structlog.get_logger("jam.engine").warning(
                    "a control group is left behind", engine=ENGINE, groups=list(map(str, left))
                )
            sweep(ground, self.owner)

    def _make(self, ground: Ground, sandbox: str, resources: Resources) -> Group | None:
        grouped = Controller.PIDS in ground.places and resources.processes is not None
        bounds = Bounds(
            cpus=resources.cpus,
            memory_bytes=resources.memory_bytes,
            pids=(resources.processes or 0) + OUTSIDE if grouped else None,
        )
        if not bounds.controllers():
            return None
        try:
            return make(ground, self.owner, sandbox, bounds)
        except OSError as error:
            sweep(ground, self.owner)
            tried = f"control group {self.owner}/{sandbox}: {error.strerror or error}: {error.filename}"
            asked = ", ".join(bounds.controllers())
            raise LimitNotHeldError(engine=ENGINE, limit=asked, tried=tried, remedy=group_remedy()) from error


def entering(group: Group | None, address_space: int | None) -> tuple[str, ...]:
    """Return what comes before a program's arguments, so that it runs in the group and within the address space."""
    if group is None and address_space is None:
        return ()
    space = "-" if address_space is None else str(address_space >> 10)
    return (SHELL, "-c", ENTER, "jam-limits", space, *(map(str, group.directories) if group else ()), "--")


def holdings(ground: Ground) -> tuple[Holding, ...]:
    """Say for each limit how it is held on this ground, or what was tried."""
    return (
        _grouped(ground, Controller.CPU, Limit.CPUS, "limits of single processes bound seconds, not shares"),
        _grouped(ground, Controller.MEMORY, Limit.MEMORY, "a limit of single processes is none of the whole sandbox"),
        Holding(Limit.MEMORY_PER_PROCESS, Means.RLIMIT, "the address space of each process (RLIMIT_AS)"),
        _processes(ground),
        Holding(Limit.DISK, Means.NONE, _OWN_DISK, _DISK_REMEDY),
    )


def finding(found: tuple[Holding, ...]) -> Finding:
    """Return the doctor's line: which limit is held by what. A disk limit never holds in this engine, so it is no gap of the machine."""
    gaps = [holding for holding in found if not holding.held and holding.limit is not Limit.DISK]
    parts = [f"{holding.limit}: {holding.means}" for holding in found]
    reasons = sorted({holding.detail for holding in gaps})
    return Finding(
        subject=f"limits in {ENGINE}",
        ok=not gaps,
        detail="; ".join((", ".join(parts), *reasons)),
        hint=gaps[0].remedy if gaps else "",
    )


def group_remedy(*, root: bool | None = None) -> str:
    """Return how a person gets control groups that Jam may use."""
    if os.geteuid() == 0 if root is None else root:
        return "Let the control groups be mounted writable, with the controllers cpu, memory and pids."
    return "Start the daemon with `systemd-run --user --scope -p Delegate=yes jam daemon start`."


def _grouped(ground: Ground, controller: Controller, limit: Limit, otherwise: str) -> Holding:
    place = ground.places.get(controller)
    if place is None:
        return Holding(limit, Means.NONE, f"{ground.refused[controller]}; {otherwise}", group_remedy())
    return Holding(limit, Means.CGROUP, f"control groups, version {place.version}, in {place.directory}")


def _processes(ground: Ground) -> Holding:
    place = ground.places.get(Controller.PIDS)
    if place is None:
        return Holding(Limit.PIDS, Means.RLIMIT, "processes and threads of the sandbox's own user namespace (RLIMIT_NPROC)")
    return Holding(Limit.PIDS, Means.CGROUP, f"control groups, version {place.version}, in {place.directory}, and RLIMIT_NPROC")

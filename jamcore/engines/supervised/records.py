"""What an engine remembers of each sandbox: its specification and the last process it ran as. Durable, one file each.

A record that cannot be read is "unknown", never "absent".
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

import anyio
from pydantic import ValidationError

from jamcore.domain.records import Record
from jamcore.domain.sandboxes import EngineUnknownError, HostMount, SandboxSpec
from jamcore.system.files import Files

LEFTOVER_GRACE_S = 2.0
"""A sandbox dies with its daemon; for a moment after a daemon's death a new one may still see it dying."""


class RunningAs(Record):
    """A process that cannot be mistaken for a later one of the same number."""

    pid: int
    started: str
    boot: str


class SandboxRecord(Record):
    """One sandbox.

    ``running`` is the outer process, ``init`` the sandbox's process 1, whose end is the end of everything in it. ``mark`` is what the
    programs carry of an engine that has no process 1.
    """

    schema_version: Literal[1] = 1
    spec: SandboxSpec
    running: RunningAs | None = None
    init: RunningAs | None = None
    mark: str = ""


class SandboxRecords:
    """The record files below the engine's root.

    Jam's own directories are recorded relative to it, so that all of them may move together (PLAN-4).
    """

    def __init__(self, root: Path, *, engine: str, files: Files) -> None:
        self._root = root.resolve()
        self._engine = engine
        self._files = files

    def names(self) -> tuple[str, ...]:
        """Return the names of all recorded sandboxes, sorted.

        Raises:
            EngineUnknownError: The directory cannot be read.
        """
        try:
            return tuple(sorted(path.stem for path in self._root.glob("*.json")))
        except OSError as error:
            raise EngineUnknownError(engine=self._engine, operation="inventory", detail=str(error)) from error

    def read(self, name: str) -> SandboxRecord | None:
        """Return a record, or ``None`` when there is none.

        Raises:
            EngineUnknownError: There is one and it cannot be read.
        """
        try:
            data = self._path(name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise EngineUnknownError(engine=self._engine, operation="read", detail=f"{name}: {error}") from error
        try:
            record = SandboxRecord.model_validate_json(data)
        except ValidationError as error:
            raise EngineUnknownError(engine=self._engine, operation="read", detail=f"{name}: the record is damaged") from error
        return record.model_copy(update={"spec": _mapped(record.spec, self._absolute)})

    def write(self, record: SandboxRecord) -> None:
        """Replace a record."""
        stored = record.model_copy(update={"spec": _mapped(record.spec, self._relative)})
        self._files.write_atomic(self._path(record.spec.name), stored.canonical_json())

    def remove(self, name: str) -> None:
        """Forget a record."""
        self._files.unlink(self._path(name))

    def _path(self, name: str) -> Path:
        if "/" in name or name.startswith("."):
            raise ValueError(f"not a sandbox name: {name!r}")
        return self._root / f"{name}.json"

    def _relative(self, path: str) -> str:
        return os.path.relpath(path, self._root)

    def _absolute(self, path: str) -> str:
        return os.path.normpath(self._root / path)


def _mapped(spec: SandboxSpec, change: Callable[[str], str]) -> SandboxSpec:
    """Return the specification with ``change`` applied to each directory that is Jam's own."""
    mounts = tuple(_moved(mount, change) if mount.owned else mount for mount in spec.mounts)
    clone = spec.clone
    if clone is not None and (clone.guest_path.startswith(f"{spec.guest_disk}/") or not clone.guest_path.startswith("/")):
        clone = clone.model_copy(update={"guest_path": change(clone.guest_path)})  # seen on the disk itself, and moves with it
    return spec.model_copy(update={"guest_disk": change(spec.guest_disk), "mounts": mounts, "clone": clone})


def _moved(mount: HostMount, change: Callable[[str], str]) -> HostMount:
    """Move a mount with its host path; where the guest sees that very path, what it sees moves too."""
    moved = change(mount.host_path)
    seen = moved if mount.guest_path == mount.host_path else mount.guest_path
    return mount.model_copy(update={"host_path": moved, "guest_path": seen})


def running_as(pid: int) -> RunningAs | None:
    """Describe a living process; ``None`` when there is none, a zombie included."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else RunningAs(pid=pid, started=fields[19], boot=boot)


def open_process(wanted: RunningAs) -> int | None:
    """Return a pidfd of exactly this process, or ``None`` when it is gone."""
    try:
        descriptor = os.pidfd_open(wanted.pid)
    except OSError:
        return None
    if running_as(wanted.pid) == wanted:
        return descriptor
    os.close(descriptor)
    return None


async def end_leftover(process: RunningAs, *, engine: str) -> None:
    """Wait until a leftover has died by itself, and end it when it does not.

    Raises:
        EngineUnknownError: The kernel does not let it go.
    """
    descriptor = open_process(process)
    if descriptor is None:
        return
    try:
        with anyio.move_on_after(LEFTOVER_GRACE_S):
            await anyio.wait_readable(descriptor)
            return
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        try:
            with anyio.fail_after(LEFTOVER_GRACE_S):
                await anyio.wait_readable(descriptor)
        except TimeoutError as error:
            raise EngineUnknownError(engine=engine, operation="presence", detail=f"process {process.pid} does not end") from error
    finally:
        os.close(descriptor)

"""The files that prove what Jam made: owner markers and records of unfinished creations, private and durable (OWN-1, OWN-2, OWN-5)."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeVar

from pydantic import ValidationError

from jamcore.domain import layout
from jamcore.domain.errors import FaultError
from jamcore.domain.ownership import MarkerUnreadableError, OwnerMarker, PendingCleanup
from jamcore.domain.plan import PlanRefusedError
from jamcore.system.files import Files

R = TypeVar("R", OwnerMarker, PendingCleanup)

RECORD_BYTES = 1 << 20
"""A plan is a few KiB; a larger file is not one of ours."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}\Z")


@dataclass(eq=False)
class OwnerRecordFailedError(FaultError):
    """A record of ownership could not be written or removed: the disk is full, read-only or not permitted."""

    code: ClassVar[str] = "ownership.record_failed"
    hint: ClassVar[str] = (
        "Look at the named file's disk and permissions, then repeat the command; what was begun is undone or recorded."
    )

    path: str
    problem: str


class OwnerRecords:
    """The two directories of records below the app directory. Sandboxes are named by what plans derive, nothing else."""

    def __init__(self, app_root: Path, *, files: Files) -> None:
        self._app = app_root
        self._files = files

    def marker(self, sandbox: str) -> OwnerMarker | None:
        """Return the marker of a sandbox, or ``None`` when there is none.

        Raises:
            MarkerUnreadableError: There is something, and it is no marker of this sandbox; it is left as it is.
        """
        return self._read(OwnerMarker, sandbox, layout.owner_marker(_checked(sandbox)))

    def pending(self, sandbox: str) -> PendingCleanup | None:
        """Return the record of an unfinished creation, or ``None``.

        Raises:
            MarkerUnreadableError: There is something, and it is no such record.
        """
        return self._read(PendingCleanup, sandbox, layout.pending_cleanup(_checked(sandbox)))

    def all_markers(self) -> tuple[str, ...]:
        """Return the sandboxes that have a marker, readable or not, in order."""
        return self._names(layout.OWNERS)

    def all_pending(self) -> tuple[str, ...]:
        """Return the sandboxes with an unfinished creation, in order."""
        return self._names(layout.PENDING_CLEANUPS)

    def write_marker(self, marker: OwnerMarker) -> None:
        """Publish a marker.

        Raises:
            OwnerRecordFailedError: It was not written.
        """
        self._write(layout.owner_marker(_checked(marker.plan.name)), marker.canonical_json())

    def write_pending(self, record: PendingCleanup) -> None:
        """Note a creation before it begins.

        Raises:
            OwnerRecordFailedError: It was not written.
        """
        self._write(layout.pending_cleanup(_checked(record.plan.name)), record.canonical_json())

    def forget_marker(self, sandbox: str) -> None:
        """Remove a marker durably; none is fine.

        Raises:
            OwnerRecordFailedError: It is still there.
        """
        self._forget(layout.owner_marker(_checked(sandbox)))

    def forget_pending(self, sandbox: str) -> None:
        """Remove the record of an unfinished creation durably; none is fine.

        Raises:
            OwnerRecordFailedError: It is still there.
        """
        self._forget(layout.pending_cleanup(_checked(sandbox)))

    def _names(self, relative: str) -> tuple[str, ...]:
        try:
            found = sorted(entry.name for entry in (self._app / relative).iterdir() if entry.name.endswith(".json"))
        except FileNotFoundError:
            return ()
        return tuple(name for name in (each.removesuffix(".json") for each in found) if _NAME.match(name))

    def _write(self, relative: str, data: bytes) -> None:
        path = self._app / relative
        with _failing_as_record(path):
            self._files.make_private(path.parent)
            self._files.write_atomic(path, data + b"\n")

    def _forget(self, relative: str) -> None:
        path = self._app / relative
        with _failing_as_record(path):
            if path.parent.is_dir():
                self._files.unlink(path)

    def _read(self, kind: type[R], sandbox: str, relative: str) -> R | None:
        try:
            data = read_small_file(self._app / relative, limit=RECORD_BYTES)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise MarkerUnreadableError(sandbox=sandbox, problem=f"{relative}: {error}") from error
        try:
            record = kind.model_validate_json(data)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise MarkerUnreadableError(sandbox=sandbox, problem=f"{relative}: {first['msg']}") from error
        if record.plan.name != sandbox:
            raise MarkerUnreadableError(sandbox=sandbox, problem=f"{relative}: names the sandbox {record.plan.name[:63]!r}")
        return record


def read_small_file(path: Path, *, limit: int) -> bytes:
    """Read a regular file of at most ``limit`` bytes, following no link and waiting for no pipe.

    Raises:
        FileNotFoundError: It is not there.
        OSError: It is a link, or cannot be read.
        ValueError: It is no regular file, or too large.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("not a regular file")
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"larger than {limit} bytes")
    return data


def _checked(sandbox: str) -> str:
    """Accept a derived name: it becomes part of a path."""
    if not _NAME.match(sandbox):
        raise PlanRefusedError(part="sandbox name", problem=f"{sandbox[:80]!r} is no derived name")
    return sandbox


@contextmanager
def _failing_as_record(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OwnerRecordFailedError(path=str(path), problem=error.strerror or str(error)) from error

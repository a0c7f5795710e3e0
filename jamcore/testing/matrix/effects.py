"""Which durable effects of an action lie between two of its boundaries, as the interpreter and the database tell it (WS-12).

Between two boundaries lies one effect: a kill then falls before it or after it. Some steps cannot keep to that, because a tree has many
files. Such a group is named in :data:`GROUPS`, with why it does not matter how much of it was done: it is made again, and none of it
counts before the step's own last effect.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, Engine, event

from jamcore.testing.leftovers import TEMPORARY

BOUNDARY, EFFECT = "boundary", "effect"
_CALLS: Mapping[str, tuple[tuple[int, int], ...]] = MappingProxyType(
    {
        "os.rename": ((0, 2), (1, 3)),
        "os.remove": ((0, 1),),
        "os.rmdir": ((0, 1),),
        "os.mkdir": ((0, 2),),
        "os.link": ((1, 3),),
        "os.symlink": ((1, 2),),
    }
)
"""Audited calls that change what the disk has, and which arguments name what is changed and the directory that it is below."""
NO_DIRECTORY = -1


class Tracing:
    """Writes boundaries and effects in the order in which they happen. Once begun it lasts as long as the process."""

    def __init__(self, root: Path, to: Path) -> None:
        self._below = f"{root}/"
        self._to = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Listen to every database and to every call."""
        event.listen(Engine, "commit", self._committed)
        sys.addaudithook(self._called)

    def reach(self, point: str) -> None:
        """See :meth:`jamcore.journal.points.CrashPoints.reach`."""
        self._write(BOUNDARY, point)

    def _committed(self, connection: Connection) -> None:
        if not connection.get_execution_options().get("jam_read"):
            self._write(EFFECT, "commit")

    def _called(self, call: str, arguments: tuple[Any, ...]) -> None:
        if call not in _CALLS:
            return
        named = [where(arguments[name], at_of(arguments, directory)) for name, directory in _CALLS[call]]
        lasting = [path for path in named if self._lasts(path)]
        if lasting:
            self._write(EFFECT, f"{call.removeprefix('os.')} {lasting[-1].removeprefix(self._below)}")

    def _lasts(self, path: str) -> bool:
        """Say whether a path is in the world, and not under a name that a start removes."""
        return path.startswith(self._below) and not any(map(is_temporary, path.removeprefix(self._below).split("/")))

    def _write(self, kind: str, what: str) -> None:
        with self._lock:
            os.write(self._to, f"{kind} {what}\n".encode(errors="backslashreplace"))


def is_temporary(name: str) -> bool:
    """Say whether a name is one of those that the next start removes or makes anew, so that nothing under it lasts."""
    return TEMPORARY.match(name) is not None or name in ("staging", "tmp")


def between(lines: list[str], kind: str) -> Mapping[str, tuple[str, ...]]:
    """Return the effects before each boundary of a kind, since the one before it."""
    found: dict[str, tuple[str, ...]] = {}
    since: list[str] = []
    inside = False
    for line in lines:
        what, _, name = line.partition(" ")
        if what == EFFECT:
            since.append(name)
            continue
        if inside:
            found[name] = (*found.get(name, ()), *since) if len(since) > 1 else found.get(name, tuple(since))
        since = []
        inside = (inside or name == f"{kind}.begun") and name != f"{kind}.ended"
    return MappingProxyType(found)


def crowded(found: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return the boundaries before which several effects lie."""
    return {point: effects for point, effects in found.items() if len(effects) > 1}


def at_of(arguments: tuple[Any, ...], place: int) -> int:
    """Return the open directory that an audited call names at a place, if it does."""
    return arguments[place] if 0 <= place < len(arguments) else NO_DIRECTORY


def where(path: int | str | bytes | os.PathLike[str], directory: int) -> str:
    """Return the path of what a call names: by itself, below an open directory, or as an open file."""
    if isinstance(path, int):
        return str(Path(f"/proc/self/fd/{path}").readlink())
    name = os.fsdecode(path)
    if directory >= 0 and not name.startswith("/"):
        name = f"{Path(f'/proc/self/fd/{directory}').readlink()}/{name}"
    return os.path.abspath(name)  # noqa: PTH100 - a path as it is, links not followed


_PLACES = "directories without anything in them, and the manifest: each is made again without harm"
GROUPS: Mapping[str, str] = MappingProxyType(
    {
        "provision.layout.acted": _PLACES,
        "adopt.layout.acted": _PLACES,
        "reconcile.make.acted": _PLACES,
        "change-request.snapshot.acted": "attributes and index of the review repository: both are written again",
        "continuity-reset.carry.acted": "copies for sessions that nobody knows yet: each has its name at once when it is whole",
        "payload-deletion.unlink.acted": "marks of generations that have ended, and the rows that say so last: all are written again",
    }
)
"""The boundary before which several effects lie, and why that is safe."""

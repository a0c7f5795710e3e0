"""Names and words for operations: what each is about, and what to do about the class of a failure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import TypeVar
from uuid import UUID

from pydantic import BaseModel

from jamcore.domain.errors import JamError
from jamcore.domain.operations import Operation
from jamcore.domain.removal import RemovalOverride
from jamcore.journal.runner import INTERRUPTED, ActionInterruptedError
from jamcore.store import Repos

E = TypeVar("E")
OVERRIDES_SHOWN = 20
"""So many overrides of one operation are named; the rest is counted."""


class _Overridden(BaseModel):
    """What the record of any kind that can be overridden says of that."""

    overrides: tuple[RemovalOverride, ...] = ()


_MACHINE = MappingProxyType(
    {
        "os.enospc": "The disk is full: free some space, then repeat the command.",
        "os.edquot": "The quota is used up: free some space, then repeat the command.",
        "os.erofs": "The file system is mounted read-only: mount it for writing, then repeat the command.",
        "os.eacces": "The app directory must belong to the daemon's user: mend its rights, then repeat the command.",
        "os.emfile": "The daemon may open too few files: raise that limit, then restart it with `jam daemon restart`.",
    }
)
_OTHER_MACHINE = "The machine refused: mend what the class names, then repeat the command."
_FAULT = "This is a fault in Jam: the daemon's log has the details (`jam daemon logs`)."


def hint_of_class(failure: str) -> str:
    """Return what to do about a failure of a class; empty for none, and for a class that this Jam does not know."""
    if failure == INTERRUPTED:
        return ActionInterruptedError.hint
    if failure.startswith("os."):
        return _MACHINE.get(failure, _OTHER_MACHINE)
    if failure.startswith("untyped."):
        return _FAULT
    return next((error.hint for error in _errors(JamError) if error.code == failure), "")


def _errors(base: type[JamError]) -> Iterator[type[JamError]]:
    for error in base.__subclasses__():
        yield error
        yield from _errors(error)


class Names:
    """Looks names up once each, inside one read; what cannot be read has no name."""

    def __init__(self, repos: Repos) -> None:
        self._repos = repos
        self._rooms: dict[UUID, str] = {}
        self._hosts: dict[UUID, str] = {}

    def room(self, operation: Operation) -> str:
        """Return the name of the room that an operation names, or that its session is bound to; empty for none."""
        if operation.room_id is not None:
            room = operation.room_id
        elif operation.session_id is not None:
            session = operation.session_id
            bound = _readable(lambda: self._repos.bindings.of_session(session).room_id)
            if bound is None:
                return ""
            room = bound
        else:
            return ""
        if room not in self._rooms:
            self._rooms[room] = _readable(lambda: self._repos.rooms.get(room).name) or ""
        return self._rooms[room]

    def sandbox(self, operation: Operation) -> str:
        """Return the name of the sandbox that an operation is about; empty for none."""
        host = operation.host_id
        if host is None:
            return ""
        if host not in self._hosts:
            self._hosts[host] = _readable(lambda: self._repos.hosts.get(host).sandbox) or ""
        return self._hosts[host]

    def host_of(self, ref: str | None) -> UUID:
        """Find a host by its sandbox's name, its own id, or a room on it.

        Raises:
            NotFoundError: Nothing fits.
        """
        for host in self._repos.hosts.list():
            if ref in (host.sandbox, str(host.id)):
                return host.id
        session = self._repos.bindings.live_of_room(self._repos.rooms.find(ref or "").id).session_id
        return self._repos.sessions.get(session).host_id

    def about(self, operation: Operation) -> tuple[tuple[str, str], ...]:
        """Return what an operation is about and what was asked for, as names and values."""
        sandbox = self.sandbox(operation)
        said = (
            ("room", self.room(operation)),
            ("sandbox", f"{sandbox} (host {operation.host_id})" if operation.host_id else ""),
            ("workspace", operation.workspace_id),
            ("export", operation.export_id),
            ("older exports", operation.retention),
            ("overridden", self._overridden(operation) if operation.force else ""),
            ("confirmed", operation.confirmed),
        )
        return tuple((name, str(value)) for name, value in said if value)

    def _overridden(self, operation: Operation) -> str:
        """Return what a person's word was on, as they typed it; the first of many."""
        initial = self._repos.operations.initial(operation.id)
        named = _readable(lambda: _Overridden.model_validate_json(initial or "").overrides) or ()
        words = ", ".join(f"{each.reason}:{each.path}" for each in named[:OVERRIDES_SHOWN])
        more = len(named) - OVERRIDES_SHOWN
        return f"{words} and {more} more" if more > 0 else words or "what was named with --override"


def _readable(look: Callable[[], E]) -> E | None:
    try:
        return look()
    except Exception:  # noqa: BLE001 - named boundary: a damaged row must not hide the operation that names it
        return None

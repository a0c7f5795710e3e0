"""What travels over the control interface besides the records of the domain: lists, errors and the daemon's address."""

from __future__ import annotations

from typing import Literal

from jamcore.domain.changes import ChangeDecision, ChangeRequest
from jamcore.domain.continuity import Checkpoint
from jamcore.domain.keeping import ExportRow
from jamcore.domain.plugins import PluginView
from jamcore.domain.records import Record
from jamcore.domain.requests import CellRow, CredentialRow, EngineView, ProviderView, RoomView
from jamcore.domain.retention import CheckpointStanding
from jamcore.domain.sessions import Turn


class ErrorBody(Record):
    """Every answer that is not a success (CTRL-3). Only ``code`` may be relied on; the rest is for people."""

    code: str
    message: str
    context: dict[str, str]
    hint: str


class Accepted(Record):
    """The daemon has begun and does not wait for the end."""

    accepted: Literal[True] = True


class StreamEnd(Record):
    """The last event of a stream that ended whole: there is nothing more, or the daemon stops."""

    reason: Literal["complete", "shutdown"]


class RoomList(Record):
    """Rooms, newest first."""

    items: tuple[RoomView, ...]


class TurnList(Record):
    """Turns of one room, oldest first."""

    items: tuple[Turn, ...]


class ProviderList(Record):
    """Every provider plugin, also those that were not loaded."""

    items: tuple[ProviderView, ...]


class PluginList(Record):
    """Every provider, engine, policy and family plugin, also those that were not loaded."""

    items: tuple[PluginView, ...]


class EngineList(Record):
    """Every engine, strongest first."""

    items: tuple[EngineView, ...]


class CellList(Record):
    """The capability table (CAP-5)."""

    items: tuple[CellRow, ...]


class CredentialList(Record):
    """Credentials by name, never their text."""

    items: tuple[CredentialRow, ...]


class CheckpointList(Record):
    """Generations, newest first."""

    items: tuple[Checkpoint, ...]


class StandingList(Record):
    """Generations, newest first, with what keeps each."""

    items: tuple[CheckpointStanding, ...]


class ExportList(Record):
    """Exports, newest first."""

    items: tuple[ExportRow, ...]


class ChangeList(Record):
    """Change requests, newest first, and what became of those that were judged."""

    items: tuple[ChangeRequest, ...]
    decisions: tuple[ChangeDecision, ...] = ()


class DaemonRecord(Record):
    """Where a running daemon listens; ``daemon.json`` below its app directory."""

    schema_version: Literal[1] = 1
    socket: str
    pid: int
    version: str
    api: int

"""What the store refuses or fails with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jamcore.domain.errors import FaultError, RefusalError


@dataclass(eq=False)
class StoreFullError(RefusalError):
    """The disk is full: the transaction was rolled back, nothing was lost, and writing works again when there is room."""

    code: ClassVar[str] = "store.full"
    hint: ClassVar[str] = "Free some space on the disk of the app directory, then repeat the command."

    detail: str


@dataclass(eq=False)
class StoreUnusableError(FaultError):
    """The database cannot be opened or read; its file is left as it is."""

    code: ClassVar[str] = "store.unusable"
    hint: ClassVar[str] = "Look at the database file and its rights; a copy from before the last upgrade may lie beside it."

    detail: str


@dataclass(eq=False)
class StoreUnreachableError(FaultError):
    """The database's server does not answer, refuses Jam, or went away; what was lost at the very end of a write may be written."""

    code: ClassVar[str] = "store.unreachable"
    hint: ClassVar[str] = (
        "See that the server runs and lets Jam in, then repeat the command: what was written already stays as it is."
    )

    detail: str


@dataclass(eq=False)
class StoreBusyError(FaultError):
    """Another process held the database for longer than the bound, or has all that the server can give."""

    code: ClassVar[str] = "store.busy"
    hint: ClassVar[str] = "Close whatever else has the database open, then repeat the command."

    detail: str


@dataclass(eq=False)
class StoreConstraintError(FaultError):
    """A row refers to one that is not there, or breaks another rule of the schema; the transaction was rolled back."""

    code: ClassVar[str] = "store.constraint"
    hint: ClassVar[str] = "This is a fault in Jam: please report it. Nothing was written."

    detail: str


@dataclass(eq=False)
class StoreNewerError(RefusalError):
    """The database was written by a newer Jam."""

    code: ClassVar[str] = "store.newer_schema"
    hint: ClassVar[str] = "Use the newer Jam, or another app directory."

    found: str
    known: str


@dataclass(eq=False)
class FencedError(FaultError):
    """Another daemon took this record over; this one may not change it any more."""

    code: ClassVar[str] = "store.fenced"
    hint: ClassVar[str] = "Ask the daemon that owns it. If that is the next one of the same app directory, stop this one."

    kind: str
    ref: str

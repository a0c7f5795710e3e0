"""What the clean-up of a whole host would take away, what stands against it, and what people confirm (WS-8, WS-17, OWN-9)."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Literal
from uuid import UUID

from pydantic import Field

from jamcore.domain.clone_work import CloneWork
from jamcore.domain.errors import FaultError, RefusalError
from jamcore.domain.host_cleanups import HostCleanup
from jamcore.domain.keeping import KeptBytes
from jamcore.domain.records import Record


class CleanupReason(StrEnum):
    """What stands against cleaning a host up.

    NOT_PARKED: it is neither parked nor archived as what a fresh start left. LIVE: a worker or a lease holds it. NOT_DORMANT: a session
    has its seat. NOT_ARCHIVED: a session's files are in no archive. NO_EXPORT: no export of them is sound. BUSY: an operation has not
    ended. UNSAVED: its last checkpoint failed. SANDBOX: it is not exactly one stopped sandbox that is proven Jam's, nor surely absent.
    ENGINE: the engine did not say what it has. WORK: a private clone holds work, or that cannot be said. MOUNTED: something is mounted
    below its directory. UNREADABLE: what would go cannot be looked at. REMOVED: it was cleaned up already.
    """

    NOT_PARKED = "not-parked"
    LIVE = "live"
    NOT_DORMANT = "not-dormant"
    NOT_ARCHIVED = "not-archived"
    NO_EXPORT = "no-export"
    BUSY = "busy"
    UNSAVED = "unsaved"
    SANDBOX = "sandbox"
    ENGINE = "engine"
    WORK = "work"
    MOUNTED = "mounted"
    UNREADABLE = "unreadable"
    REMOVED = "removed"


class CleanupBlocker(Record):
    """One thing that stands against it: whose it is, a room's name or the sandbox, and why, in words."""

    reason: CleanupReason
    subject: str
    detail: str


class CleanupItem(Record):
    """One thing that goes.

    Attributes:
        what: In a word or two.
        path: Below the app directory; empty where it lies with the engine.
        bytes: What its removal frees on the disk.
        entries: Files, directories and links.
        state: Digest of the names, sizes and times in it.
        in_root: It lies in the host's directory.
        with_sandbox: The engine removes it, so that only before that it can be held against what was confirmed.
    """

    what: str
    path: str
    bytes: int = 0
    entries: int = 0
    state: str = ""
    in_root: bool = True
    with_sandbox: bool = False


def kept_state(items: Iterable[CleanupItem]) -> str:
    """Return one digest of all that stays when the sandbox has gone."""
    told = [f"{item.what}\n{item.path}\n{item.state}\n" for item in items if not item.with_sandbox]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()


class CleanupEvidence(Record):
    """What a person confirms. ``kind`` binds the digest to this action (WS-10).

    Attributes:
        presence: Of the sandbox, as its engine says: ``stopped`` or ``absent``; ``unknown`` stands against everything.
        marker_digest: Of the owner marker; empty: there is none.
        items: Everything that goes.
        exports: The exports that stay, of rooms of this host.
        work: What a private clone holds; it goes, too.
    """

    kind: Literal["host-cleanup"] = "host-cleanup"
    host_id: UUID
    sandbox: str
    engine: str
    presence: str
    marker_digest: str
    rooms: tuple[str, ...]
    items: tuple[CleanupItem, ...]
    exports: tuple[KeptBytes, ...]
    work: CloneWork | None = None
    blockers: tuple[CleanupBlocker, ...] = ()

    @property
    def planned_bytes(self) -> int:
        """What goes."""
        return sum(item.bytes for item in self.items)

    @property
    def retained_bytes(self) -> int:
        """What stays of it: its exports."""
        return sum(export.bytes_total for export in self.exports)

    def standing(self, *, discard_work: bool) -> tuple[CleanupBlocker, ...]:
        """Return the blockers that stay: a person's word overrides that work would be lost, and nothing else."""
        return tuple(each for each in self.blockers if not (discard_work and each.reason is CleanupReason.WORK))

    def require(self, confirmed: str, *, discard_work: bool) -> None:
        """Require that nothing stands against it, and that it is what was confirmed.

        Raises:
            CleanupRefusedError: It is not, or something does.
        """
        if standing := self.standing(discard_work=discard_work):
            raise CleanupRefusedError(sandbox=self.sandbox, problems=tuple(f"{b.reason} {b.subject}: {b.detail}" for b in standing))
        if not hmac.compare_digest(self.content_digest().encode(), confirmed.encode()):
            changed = "changed: what would be removed is no longer what was confirmed"
            raise CleanupRefusedError(sandbox=self.sandbox, problems=(changed,))


class CleanupPlan(Record):
    """What a clean-up would do.

    Attributes:
        standing: Blockers that stay although the loss of work was overridden.
        planned_bytes: What goes.
        retained_bytes: What stays of it: its exports.
        change_requests: Packages of its rooms, which stay.
        unfinished: A clean-up that was begun, and goes on at the next start or when its command is repeated.
        digest: Confirms the evidence; empty while something stands against it.
    """

    evidence: CleanupEvidence
    standing: tuple[CleanupBlocker, ...]
    planned_bytes: int
    retained_bytes: int
    change_requests: int
    unfinished: HostCleanup | None
    digest: str


class CleanupQuestion(Record):
    """What a clean-up would do. ``discard_work``: what the evidence says of a private clone may be lost (OWN-9)."""

    discard_work: bool = False


class CleanupRequest(CleanupQuestion):
    """Clean a host up. The id is the client's; ``confirmed`` is the plan's digest."""

    id: UUID
    confirmed: str = Field(pattern=r"^[0-9a-f]{64}$")


class CleanupResult(Record):
    """The host is gone; its rows and its exports stay."""

    cleanup: HostCleanup
    sandbox: str
    rooms: tuple[str, ...]
    exports: tuple[KeptBytes, ...]


@dataclass(eq=False)
class CleanupRefusedError(RefusalError):
    """Something stands against the clean-up, or it is not what was confirmed; nothing was removed."""

    code: ClassVar[str] = "host.cleanup_refused"
    hint: ClassVar[str] = "Look again with `jam host cleanup HOST`, mend what it names, and confirm what it shows then."

    sandbox: str
    problems: tuple[str, ...]


@dataclass(eq=False)
class CleanupConflictError(RefusalError):
    """The sandbox was absent when the clean-up was confirmed and is not now, so it is another one; nothing was removed (WS-17)."""

    code: ClassVar[str] = "host.cleanup_conflict"
    hint: ClassVar[str] = "Look again with `jam host cleanup HOST`: it shows the sandbox that is there now."

    sandbox: str
    presence: str


@dataclass(eq=False)
class CleanupUnfinishedError(FaultError):
    """The clean-up was begun and could not be finished; each start of the daemon goes on with it, and nothing else of it is used."""

    code: ClassVar[str] = "host.cleanup_unfinished"
    hint: ClassVar[str] = "Mend what the problem names, then restart the daemon with `jam daemon restart`."

    sandbox: str
    problem: str


@dataclass(eq=False)
class HostRemovedError(RefusalError):
    """The room's host was cleaned up on a person's word: its sandbox and files are gone, and it cannot be brought back."""

    code: ClassVar[str] = "host.removed"
    hint: ClassVar[str] = (
        "Its exports stayed: `jam export ls ROOM` lists them, and they can be read without Jam. "
        "A sound one becomes a new room: `jam export import DIRECTORY`."
    )

    sandbox: str

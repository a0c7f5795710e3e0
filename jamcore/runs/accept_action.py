"""Accepting a change request as a journaled action: the commit is made, the branch is moved, the decision is recorded (RUN-1, WS-11).

The commit depends on nothing but the stored record, so making it again makes the same one; the branch moves by compare-and-swap from the
value that was looked at; after a restart the branch itself says whether it moved.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import ClassVar, Protocol
from uuid import UUID

from jamcore.domain.changes import ChangeDecision, Verdict
from jamcore.domain.errors import ConflictError, FaultError
from jamcore.domain.operations import OnRestart
from jamcore.domain.records import Record
from jamcore.journal.declaration import Declaration
from jamcore.journal.steps import Action, Observed, Step, learned
from jamcore.workspace.branch import (
    AuthorInvalidError,
    BaseMissingError,
    BranchBlockedError,
    BranchCheckedOutError,
    Branches,
    BranchMovedError,
    BranchNameError,
    PatchDoesNotApplyError,
    Target,
)

KIND = "change-accept"
COMMIT, BRANCH, RECORD = "commit", "branch", "record"


@dataclass(eq=False)
class AcceptedTreeError(FaultError):
    """Applying the reviewed patch gave other files than the ones that were reviewed; the branch was not touched."""

    code: ClassVar[str] = "change.other_tree"
    hint: ClassVar[str] = "The package may be damaged: make a new change request with `jam change new`."

    change: str
    reviewed: str
    made: str


REFUSALS = (
    AcceptedTreeError,
    AuthorInvalidError,
    BaseMissingError,
    BranchBlockedError,
    BranchCheckedOutError,
    BranchMovedError,
    BranchNameError,
    ConflictError,
    PatchDoesNotApplyError,
)
"""What a person was told is not done is not done by a later start either, when the branch happens to be free again."""


class AcceptIntent(Record):
    """What is accepted, and where it goes. ``old`` and what follows it is learned by the first step."""

    id: UUID
    change_id: UUID
    room_id: UUID
    patch_sha256: str
    repository: str
    branch: str
    base: str | None
    allow_moved: bool
    author: str
    message: str
    base_tree: str
    tree: str
    at: datetime
    old: str | None = None
    parent: str | None = None
    commit: str | None = None
    moved: bool = False


class AcceptSources(Protocol):
    """Where the action gets the bytes and keeps the decision."""

    async def patch(self, intent: AcceptIntent) -> bytes:
        """Return the reviewed bytes; JamError when what is there is anything else."""

    async def insert(self, decision: ChangeDecision, room: UUID) -> None:
        """Keep the decision and say it in the room, durably; the same again is fine."""


def accept_action(sources: AcceptSources, *, scratch: Path) -> Action[AcceptIntent]:
    """Return the action; ``scratch`` is a private directory for indexes."""
    steps = _Steps(sources, scratch)
    return Action(
        KIND,
        AcceptIntent,
        (
            Step(COMMIT, steps.commit, OnRestart.REPLAY, leaves="the branch as it was"),
            Step(
                BRANCH,
                steps.branch,
                OnRestart.OBSERVE_THEN_FINISH,
                observe=steps.moved,
                leaves="the branch as somebody else made it",
            ),
            Step(RECORD, steps.record, OnRestart.REPLAY, leaves="the commit on the branch; another decision was kept first"),
        ),
        hopeless=REFUSALS,
        declares=Declaration(
            title="acceptance of a change request",
            evidence="the reviewed bytes, and the branch of the repository",
            replay="workspace reconciliation",
        ),
    )


class _Steps:
    def __init__(self, sources: AcceptSources, scratch: Path) -> None:
        self._sources = sources
        self._scratch = scratch

    async def commit(self, intent: AcceptIntent) -> AcceptIntent:
        """Make the commit: objects without a name, which git itself collects if nothing follows."""
        branches = self._branches(intent)
        target = await branches.target(intent.branch, intent.base, allow_moved=intent.allow_moved)
        patch = await self._sources.patch(intent)
        commit, tree = await branches.commit(
            target, patch, branch=intent.branch, message=intent.message, author=intent.author, at=intent.at
        )
        if tree != intent.tree and await branches.tree_of(target.parent) == intent.base_tree:
            raise AcceptedTreeError(change=str(intent.change_id), reviewed=intent.tree, made=tree)
        return _on(intent, target).model_copy(update={"commit": commit})

    async def branch(self, intent: AcceptIntent) -> AcceptIntent:
        """Move the branch, if it is still what was looked at."""
        why = f"jam: accept change request {intent.change_id}"
        await self._branches(intent).point(
            intent.branch, learned(intent.commit), old=learned(intent.old), author=intent.author, why=why
        )
        return intent

    async def moved(self, intent: AcceptIntent) -> Observed[AcceptIntent]:
        """Ask the branch itself."""
        return Observed(await self._branches(intent).tip(intent.branch) == intent.commit, intent)

    async def record(self, intent: AcceptIntent) -> AcceptIntent:
        """Keep the decision."""
        await self._sources.insert(decision_of(intent), intent.room_id)
        return intent

    def _branches(self, intent: AcceptIntent) -> Branches:
        return Branches(Path(intent.repository), scratch=self._scratch)


def decision_of(intent: AcceptIntent) -> ChangeDecision:
    """Return the decision that a finished action stands for."""
    return ChangeDecision(
        id=intent.id,
        change_id=intent.change_id,
        verdict=Verdict.ACCEPTED,
        patch_sha256=intent.patch_sha256,
        decided_at=intent.at,
        repository=intent.repository,
        branch=intent.branch,
        commit=intent.commit,
        parent=intent.parent,
        moved=intent.moved,
    )


def _on(intent: AcceptIntent, target: Target) -> AcceptIntent:
    return intent.model_copy(update={"old": target.old, "parent": target.parent, "moved": target.moved})

"""Draws the conclusions from what was found: sums, and what stands against a removal."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol

from jamcore.domain.limits import INSPECTION_SHOWN
from jamcore.domain.removal import (
    Listing,
    OutsideFiles,
    RemovalBlocker,
    RemovalInspection,
    RemovalLosses,
    RemovalReason,
    RepositoryState,
    TreeProcess,
)
from jamcore.workspace.inspection.repository import lock_names
from jamcore.workspace.inspection.shown import listing, shown, shown_place
from jamcore.workspace.inspection.survey import SeenFile, Survey

_R = RemovalReason
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST_US = int((datetime.max.replace(tzinfo=UTC) - _EPOCH).total_seconds()) * 10**6
"""What a file's time may say at most: an agent can set it to any number."""


class User(Protocol):
    """A process that works in the tree."""

    @property
    def pid(self) -> int:
        """Its number."""

    @property
    def program(self) -> bytes:
        """What it runs."""

    @property
    def path(self) -> bytes:
        """What it has open."""


@dataclass(slots=True)
class Findings:
    """What one look found so far. ``users_unknown`` says why nobody knows who works in the tree."""

    now: datetime
    survey: Survey = field(default_factory=Survey)
    repositories: list[RepositoryState] = field(default_factory=list)
    users: tuple[User, ...] = ()
    users_unknown: str = "there was no answer"
    blockers: list[RemovalBlocker] = field(default_factory=list)
    state: str = ""

    def only_users(self, bound: str) -> Findings:
        """Return what is left of a look that took too long: the bound, and who works in the tree if that is known."""
        rest = Findings(now=self.now, users=self.users, users_unknown=self.users_unknown)
        rest.survey.bounds.append(bound)
        return rest


def conclude(found: Findings) -> RemovalInspection:
    """Return the inspection; equal findings give an equal one."""
    repositories = tuple(sorted(found.repositories, key=lambda state: (state.path, state.form)))
    outside = _outside(found)
    seen = found.survey
    blockers = [*found.blockers, *_of_users(found), *_of_tree(seen, outside)]
    blockers += [blocker for state in repositories for blocker in _of_repository(state)]
    return RemovalInspection(
        repositories=repositories,
        outside=outside,
        processes=_processes(found),
        losses=_losses(repositories, found),
        blockers=tuple(blockers),
        bounds=tuple(sorted(seen.bounds)),
        state=hashlib.sha256(f"{seen.state} {found.state}".encode()).hexdigest(),
    )


def _of_tree(seen: Survey, outside: OutsideFiles) -> Iterator[RemovalBlocker]:
    for bound in sorted(seen.bounds):
        yield RemovalBlocker(reason=_R.NOT_WHOLE, path=".", detail=bound)
    for path, words in sorted(seen.unreadable.items()):
        yield RemovalBlocker(reason=_R.UNREADABLE, path=shown_place(path), detail=words)
    if outside.files.count:
        yield RemovalBlocker(reason=_R.OUTSIDE, path=".", detail=_named(outside.files, "files of no repository"))
    if outside.locks.count:
        yield RemovalBlocker(reason=_R.LOCKED, path=".", detail=_named(outside.locks, "locks"))


def _of_users(found: Findings) -> Iterator[RemovalBlocker]:
    if found.users_unknown:
        yield RemovalBlocker(reason=_R.USE_UNKNOWN, path=".", detail=found.users_unknown)
    if found.users:
        first = tuple(f"{user.program} ({user.pid}) at {user.path}" for user in _processes(found))
        yield RemovalBlocker(reason=_R.IN_USE, path=".", detail=_named(Listing(count=len(found.users), first=first), "processes"))


def _of_repository(state: RepositoryState) -> Iterator[RemovalBlocker]:
    uncommitted = tuple(dict.fromkeys((*state.staged.first, *state.unstaged.first)))
    words = f"{state.staged.count} staged and {state.unstaged.count} changed"
    changed = state.staged.count + state.unstaged.count
    unfinished = Listing(count=len(state.unfinished), first=state.unfinished)
    for reason, count, detail in (
        (_R.UNCOMMITTED, changed, f"{words}: {', '.join(uncommitted[:INSPECTION_SHOWN])}"),
        (_R.UNTRACKED, state.untracked.count, _named(state.untracked, "untracked")),
        (_R.STASHED, state.stashes.count, _named(state.stashes, "stashed")),
        (_R.UNPUSHED, state.unpushed.count, _named(state.unpushed, "commits that no remote has")),
        (_R.UNFINISHED, unfinished.count, _named(unfinished, "begun")),
        (_R.LOCKED, state.locks.count, _named(state.locks, "locks")),
    ):
        if count:
            yield RemovalBlocker(reason=reason, path=state.path, detail=detail)
    for problem in state.problems:
        yield RemovalBlocker(reason=_R.UNREADABLE, path=state.path, detail=problem)


def _outside(found: Findings) -> OutsideFiles:
    files = sorted(found.survey.outside, key=lambda file: file.path)
    return OutsideFiles(
        files=listing(file.path for file in files),
        bytes=sum(file.size for file in files),
        newest=_newest(files),
        locks=listing(lock_names(files, found.now)),
    )


def _newest(files: list[SeenFile]) -> datetime | None:
    if not files:
        return None
    newest = max(file.changed_ns for file in files) // 1000
    return _EPOCH + timedelta(microseconds=max(0, min(newest, _LATEST_US)))


def _processes(found: Findings) -> tuple[TreeProcess, ...]:
    users = sorted(found.users, key=lambda user: user.pid)[:INSPECTION_SHOWN]
    return tuple(TreeProcess(pid=u.pid, program=shown(u.program), path=shown_place(u.path)) for u in users)


def _losses(repositories: tuple[RepositoryState, ...], found: Findings) -> RemovalLosses:
    return RemovalLosses(
        uncommitted=sum(state.staged.count + state.unstaged.count for state in repositories),
        untracked=sum(state.untracked.count for state in repositories),
        ignored=sum(state.ignored for state in repositories),
        stashes=sum(state.stashes.count for state in repositories),
        unpushed=sum(state.unpushed.count for state in repositories),
        tagged=sum(state.tagged for state in repositories),
        forgotten=sum(state.forgotten for state in repositories),
        outside=len(found.survey.outside),
        files=found.survey.files,
        bytes=found.survey.bytes,
    )


def _named(names: Listing, what: str) -> str:
    shown_names = ", ".join(names.first)
    rest = names.count - len(names.first)
    return f"{names.count} {what}: {shown_names}" + (f" and {rest} more" if rest else "")

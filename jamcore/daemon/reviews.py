"""What a reviewer says of change requests: accepted onto a branch, or rejected with a reason that the agent hears."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from uuid import UUID
from weakref import WeakValueDictionary

import anyio
from anyio import to_thread
from pydantic import ValidationError

from jamcore.daemon.options import DaemonOptions
from jamcore.daemon.rooms import Rooms
from jamcore.domain import layout
from jamcore.domain.cells import WorkspaceSource
from jamcore.domain.changes import ChangeDecision, ChangeRequest, Verdict
from jamcore.domain.errors import ConflictError, InvalidInputError, RefusalError
from jamcore.domain.events import SessionNotice
from jamcore.domain.requests import AcceptRequest, RejectRequest, TurnRequest
from jamcore.domain.sessions import SessionWorkspace
from jamcore.journal.replay import ActionRegistry
from jamcore.journal.runner import Runner, read_record
from jamcore.runs.accept_action import KIND, AcceptIntent, accept_action, decision_of
from jamcore.runs.change_request import EVIDENCE, ChangePackageError, Evidence, read_packaged, read_patch
from jamcore.runtime.feed import RoomFeed
from jamcore.store import Repos, Store
from jamcore.system.files import typed_storage
from jamcore.workspace.branch import Branches, person
from jamcore.workspace.repository import inspect_repository

SUBJECT_CHARACTERS = 72
"""Of a commit's first line: what git's own tools show whole."""


@dataclass(eq=False)
class ChangeIncompleteError(RefusalError):
    """The patch does not hold the whole change, so nothing can be made of it on a branch."""

    code: ClassVar[str] = "change.incomplete"
    hint: ClassVar[str] = "Make it smaller: let the agent remove what is too large, then `jam change new`."

    change: str


@dataclass(eq=False)
class ChangeEmptyError(RefusalError):
    """The change request changes no file."""

    code: ClassVar[str] = "change.empty"
    hint: ClassVar[str] = "There is nothing to accept; `jam change reject` closes it."

    change: str


@dataclass(eq=False)
class ChangeInPlaceError(RefusalError):
    """The agent worked in the person's own directory, so the change is there already."""

    code: ClassVar[str] = "change.in_place"
    hint: ClassVar[str] = "Commit it there yourself, or name another repository with `--repo`."

    change: str
    directory: str


@dataclass(eq=False)
class NoRepositoryError(RefusalError):
    """The session began with an empty directory, so there is no repository to put the change in."""

    code: ClassVar[str] = "change.no_repository"
    hint: ClassVar[str] = "Name one with `--repo PATH`."

    change: str


@dataclass(frozen=True, slots=True)
class _Judged:
    change: ChangeRequest
    workspace: SessionWorkspace
    decision: ChangeDecision | None


class PackagedSources:
    """See :class:`~jamcore.runs.accept_action.AcceptSources`."""

    def __init__(self, app: Path, *, store: Store, feed: RoomFeed) -> None:
        self._app = app
        self._store = store
        self._feed = feed

    async def patch(self, intent: AcceptIntent) -> bytes:
        """Read the patch once, and return those bytes if they are the reviewed ones."""
        return await to_thread.run_sync(self._read, intent)

    async def insert(self, decision: ChangeDecision, room: UUID) -> None:
        """Keep the decision with the words about it in the room, in one transaction."""

        def write(repos: Repos) -> None:
            if repos.change_decisions.of_change(decision.change_id) is None:
                repos.events.append(room, decision.turn_id, [_notice(decision)])
            repos.change_decisions.insert(decision)

        await self._store.transact(write)
        self._feed.announce(room)

    def _read(self, intent: AcceptIntent) -> bytes:
        return read_patch(self._app / layout.change(intent.change_id), intent.change_id, digest=intent.patch_sha256)


class Reviews:
    """See :class:`~jamcore.daemon.services.ReviewService`; also the journaled acceptance, which it adds to ``actions``."""

    def __init__(
        self,
        options: DaemonOptions,
        *,
        store: Store,
        feed: RoomFeed,
        runner: Runner,
        actions: ActionRegistry,
        rooms: Rooms,
    ) -> None:
        self._app = options.app
        self._store = store
        self._clock = options.clock
        self._runner = runner
        self._rooms = rooms
        self._sources = PackagedSources(options.app, store=store, feed=feed)
        self._scratch = options.files.make_private(options.app / layout.CHANGES)
        self._action = accept_action(self._sources, scratch=self._scratch)
        actions.register(self._action)
        self._judging: WeakValueDictionary[UUID, anyio.Lock] = WeakValueDictionary()

    async def decisions(self) -> tuple[ChangeDecision, ...]:
        """Return what became of the change requests that were judged, newest first."""
        return await self._store.read(lambda repos: repos.change_decisions.list())

    async def accept(self, ref: str, request: AcceptRequest) -> ChangeDecision:
        """Put the reviewed bytes on a branch, as a journaled action.

        Everything that can refuse it is asked first, the patch is even applied in an index of Jam's own, so that an action that was
        begun has every reason to end well.

        Raises:
            ConflictError: It was judged already.
            JamError: It cannot be accepted like this; no branch was touched.
        """
        async with self._alone(ref):
            with typed_storage():
                return await self._accept(ref, request)

    async def _accept(self, ref: str, request: AcceptRequest) -> ChangeDecision:
        judged = await self._judged(ref)
        if judged.decision is not None:
            await self._require_same(request, judged.change)
            return self._again(judged.decision, request.id, Verdict.ACCEPTED)
        await self._require_none_begun(judged.change.id, but=request.id)
        intent = await self._intent(judged, request)
        if not await self._store.read(lambda repos: repos.operations.knows(request.id)):
            await self._require_fitting(intent)  # one that was begun may have moved the branch itself
        return decision_of(await self._runner.run(self._action, request.id, intent))

    async def _require_fitting(self, intent: AcceptIntent) -> None:
        """Ask everything that can refuse it, without moving anything."""
        branches = Branches(Path(intent.repository), scratch=self._scratch)
        target = await branches.target(intent.branch, intent.base, allow_moved=intent.allow_moved)
        patch = await self._sources.patch(intent)
        await branches.commit(target, patch, branch=intent.branch, message=intent.message, author=intent.author, at=intent.at)

    async def _require_same(self, request: AcceptRequest, change: ChangeRequest) -> None:
        """Require that what comes under the id of an acceptance is that acceptance: another branch, say, is another one (WS-11)."""
        initial = await self._store.read(lambda repos: repos.operations.initial(request.id))
        if initial is not None and not _is_same(request, change, read_record(self._action, request.id, initial)):
            raise ConflictError(kind="operation", ref=str(request.id), problem="the id was used for another request")

    async def _require_none_begun(self, change: UUID, *, but: UUID) -> None:
        """Refuse another verdict while an acceptance that failed half way is to be finished: it may be on a branch already."""
        begun = await self._store.read(lambda repos: repos.operations.running())
        for identifier, kind, initial in begun:
            if kind == KIND and identifier != but and read_record(self._action, identifier, initial).change_id == change:
                problem = f"its acceptance {identifier} was begun; repeating that one, or the daemon's next start, ends it"
                raise ConflictError(kind="change request", ref=str(change), problem=problem)

    async def reject(self, ref: str, request: RejectRequest) -> ChangeDecision:
        """Record the refusal, then tell the agent. A retry after a failed telling tells it once.

        Raises:
            ConflictError: It was judged already, or the id was used for another rejection.
            JamError: The room could not be brought back to hear it; the refusal stands.
        """
        async with self._alone(ref):
            change, decision = await self._reject(ref, request)
        if decision.turn_id is not None:
            words = f"The change request {change.id} was rejected. The reviewer's reason:\n\n{decision.reason}"
            await self._rooms.say(str(change.room_id), TurnRequest(id=decision.turn_id, text=words))
        return decision

    async def _reject(self, ref: str, request: RejectRequest) -> tuple[ChangeRequest, ChangeDecision]:
        judged = await self._judged(ref)
        change = judged.change
        if judged.decision is not None:
            return change, self._same_rejection(self._again(judged.decision, request.id, Verdict.REJECTED), request)
        await self._require_none_begun(change.id, but=request.id)
        self._require_reviewed(change, request.patch_sha256)
        decision = ChangeDecision(
            id=request.id,
            change_id=change.id,
            verdict=Verdict.REJECTED,
            patch_sha256=request.patch_sha256,
            decided_at=self._clock.now(),
            reason=request.reason,
            turn_id=request.turn_id,
        )
        await self._sources.insert(decision, change.room_id)
        return change, decision

    @asynccontextmanager
    async def _alone(self, ref: str) -> AsyncIterator[None]:
        """Let one verdict on a change request through at a time: one that comes second must not have moved a branch before it hears so."""
        identifier = (await self._judged(ref)).change.id
        lock = self._judging.setdefault(identifier, anyio.Lock())
        async with lock:
            yield

    async def _judged(self, ref: str) -> _Judged:
        def read(repos: Repos) -> _Judged:
            change = repos.changes.find(ref)
            return _Judged(change, repos.workspaces.of_session(change.session_id), repos.change_decisions.of_change(change.id))

        return await self._store.read(read)

    def _again(self, decision: ChangeDecision, identifier: UUID, verdict: Verdict) -> ChangeDecision:
        if (decision.id, decision.verdict) != (identifier, verdict):
            problem = f"it was {decision.verdict} on {decision.decided_at:%Y-%m-%d %H:%M:%S} UTC"
            raise ConflictError(kind="change request", ref=str(decision.change_id), problem=problem)
        return decision

    @staticmethod
    def _same_rejection(decision: ChangeDecision, request: RejectRequest) -> ChangeDecision:
        """Require that what comes under the id of a rejection is that rejection: for another reason it is another one (WS-11)."""
        asked = (request.patch_sha256, request.reason, request.turn_id)
        if asked != (decision.patch_sha256, decision.reason, decision.turn_id):
            raise ConflictError(kind="change request", ref=str(decision.change_id), problem="the id was used for another rejection")
        return decision

    def _require_reviewed(self, change: ChangeRequest, digest: str) -> None:
        made = change.patch_sha256 or "none"
        if made != digest:
            raise ConflictError(kind="change request", ref=str(change.id), problem=f"its patch is {made}, another one was reviewed")

    async def _intent(self, judged: _Judged, request: AcceptRequest) -> AcceptIntent:
        change, workspace = judged.change, judged.workspace
        self._require_reviewed(change, request.patch_sha256)
        if not change.paths:
            raise ChangeEmptyError(change=str(change.id))
        evidence = await to_thread.run_sync(self._evidence, change)
        if not evidence.patch_reproduces_tree:
            raise ChangeIncompleteError(change=str(change.id))
        repository = await self._repository(judged, request)
        author = request.author or await Branches(repository, scratch=self._scratch).author()
        person(author)
        return AcceptIntent(
            id=request.id,
            change_id=change.id,
            room_id=change.room_id,
            patch_sha256=request.patch_sha256,
            repository=str(repository),
            branch=_branch(request, change),
            base=evidence.base_commit if workspace.source is WorkspaceSource.PRIVATE_HOST_CLONE else None,
            allow_moved=request.allow_moved,
            author=author,
            message=_message(change, evidence),
            base_tree=evidence.base_tree,
            tree=evidence.tree,
            # Of the change request, not of this moment: the same request makes the same commit, whenever it is repeated.
            at=change.created_at,
        )

    async def _repository(self, judged: _Judged, request: AcceptRequest) -> Path:
        path, workspace = request.repository, judged.workspace
        if path is not None and (not path.startswith("/") or "\0" in path):  # relative to what, the daemon cannot know
            raise InvalidInputError(field="repository", problem="the path of a repository is absolute")
        if path is None and workspace.source is WorkspaceSource.DIRECT_HOST:
            raise ChangeInPlaceError(change=str(judged.change.id), directory=workspace.path or "")
        if path is None and workspace.path is None:
            raise NoRepositoryError(change=str(judged.change.id))
        return (await inspect_repository(Path(path or workspace.path or ""), allow_dirty=True)).root

    def _evidence(self, change: ChangeRequest) -> Evidence:
        expected = next((file for file in change.files if file.name == EVIDENCE), None)
        data = read_packaged(self._app / layout.change(change.id), EVIDENCE, limit=expected.bytes + 1 if expected else 0)
        if expected is None or hashlib.sha256(data).hexdigest() != expected.sha256:
            raise ChangePackageError(change=str(change.id), problem=f"{EVIDENCE} was changed")
        try:
            return Evidence.model_validate_json(data)
        except ValidationError as error:
            raise ChangePackageError(change=str(change.id), problem=f"{EVIDENCE} cannot be read") from error


def _branch(request: AcceptRequest, change: ChangeRequest) -> str:
    return request.branch or f"jam/{str(change.id)[-12:]}"


def _is_same(request: AcceptRequest, change: ChangeRequest, begun: AcceptIntent) -> bool:
    """Say whether a request could have begun an acceptance. What it leaves out was found out then, and is not looked at again."""
    asked = (change.id, request.patch_sha256, _branch(request, change), request.allow_moved)
    if asked != (begun.change_id, begun.patch_sha256, begun.branch, begun.allow_moved):
        return False
    elsewhere = request.repository is not None and not Path(request.repository).resolve().is_relative_to(begun.repository)
    return not elsewhere and request.author in (None, begun.author)


def _message(change: ChangeRequest, evidence: Evidence) -> str:
    subject = " ".join(change.objective.split()) or f"Change request {change.id}"
    if len(subject) > SUBJECT_CHARACTERS:
        subject = subject[: SUBJECT_CHARACTERS - 1] + "…"
    return f"{subject}\n\nJam-Change: {change.id}\nJam-Provider: {evidence.provider} {evidence.provider_version}\n"


def _notice(decision: ChangeDecision) -> SessionNotice:
    if decision.verdict is Verdict.ACCEPTED:
        return SessionNotice(
            code="change.accepted", detail=f"{decision.change_id} is on branch {decision.branch} as {decision.commit}"
        )
    return SessionNotice(code="change.rejected", detail=f"{decision.change_id}: {decision.reason}"[:400])

"""Runs, change requests and reviews of the fake."""

# ruff: noqa: D101, D102 - the methods are the ones of jamcore.daemon.services, documented there

from __future__ import annotations

from typing import Any
from uuid import UUID

from jamcore.domain.changes import ChangeDecision, ChangeRequest, Verdict
from jamcore.domain.errors import NotFoundError
from jamcore.domain.events import (
    SessionNotice,
)
from jamcore.domain.requests import (
    AcceptRequest,
    ChangeView,
    RejectRequest,
    RunRequest,
    RunView,
    TurnRequest,
)
from jamcore.domain.sessions import (
    TurnState,
)
from jamcore.testing.fake_daemon.records import (
    AT,
)
from jamcore.testing.fake_daemon.rooms import FakeRooms
from jamcore.testing.fake_daemon.state import Part


class FakeRuns(Part):
    async def start(self, request: RunRequest) -> RunView:
        await self.fake.note("run", request)
        if request.id not in self.fake.runs:
            await FakeRooms(self.fake).create(request.room)
            await FakeRooms(self.fake).say(str(request.id), TurnRequest(id=request.turn_id, text=request.objective))
            self.fake.runs[request.id] = request
            self.fake.tasks.start_soon(self._finish, request)
        return await self.get(str(request.id))

    async def get(self, ref: str) -> RunView:
        await self.fake.note("run_get", ref)
        room = self.fake.find(ref)
        request = self.fake.runs[room.room.id]
        turn = room.turns[request.turn_id]
        return RunView(room=room.view(), turn=turn, change=self.fake.changes.get(request.change_id))

    async def _finish(self, request: RunRequest) -> None:
        room = self.fake.find(str(request.id))
        while room.turns[request.turn_id].state in {TurnState.ACCEPTED, TurnState.RUNNING, TurnState.COMPLETED}:
            await room.changed.wait()
        if request.objective == "fail":
            room.emit(request.turn_id, SessionNotice(code="run.no-change-request", detail="nothing to build from"))
            return
        self.fake.change_of(room, request.change_id, request.objective)
        room.emit(request.turn_id, SessionNotice(code="run.change-request", detail=str(request.change_id)))


class FakeChanges(Part):
    async def build(self, ref: str, identifier: UUID) -> ChangeRequest:
        await self.fake.note("build", (ref, identifier))
        return self.fake.change_of(self.fake.find(ref), identifier, "")

    async def list(self) -> tuple[ChangeRequest, ...]:
        await self.fake.note("changes")
        return tuple(reversed(self.fake.changes.values()))

    async def show(self, ref: str) -> ChangeView:
        await self.fake.note("show", ref)
        for identifier, change in self.fake.changes.items():
            if str(identifier).startswith(ref):
                return ChangeView(change=change, directory="/x", patch="--- a\n+++ b\n+\x1b[2Jnew\n", patch_truncated=False)
        raise NotFoundError(kind="change request", ref=ref)


class FakeReviews(Part):
    async def decisions(self) -> tuple[ChangeDecision, ...]:
        await self.fake.note("decisions")
        return tuple(self.fake.decisions.values())

    async def accept(self, ref: str, request: AcceptRequest) -> ChangeDecision:
        await self.fake.note("accept", (ref, request))
        return self.decide(
            ref, request.id, Verdict.ACCEPTED, request.patch_sha256, branch=request.branch or "jam/x", commit="c" * 40
        )

    async def reject(self, ref: str, request: RejectRequest) -> ChangeDecision:
        await self.fake.note("reject", (ref, request))
        return self.decide(ref, request.id, Verdict.REJECTED, request.patch_sha256, reason=request.reason, turn_id=request.turn_id)

    def decide(self, ref: str, identifier: UUID, verdict: Verdict, digest: str, **more: Any) -> ChangeDecision:
        change = next((each for each in self.fake.changes if str(each).startswith(ref)), None)
        if change is None:
            raise NotFoundError(kind="change request", ref=ref)
        decision = ChangeDecision(id=identifier, change_id=change, verdict=verdict, patch_sha256=digest, decided_at=AT, **more)
        return self.fake.decisions.setdefault(change, decision)

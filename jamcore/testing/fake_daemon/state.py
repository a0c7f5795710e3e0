"""What a fake daemon holds in memory."""

# ruff: noqa: D102 - the methods are the ones of jamcore.daemon.services, documented there

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import anyio
from anyio.abc import TaskGroup

from jamcore.daemon.services import Services
from jamcore.domain.approvals import (
    Approval,
    ApprovalRule,
)
from jamcore.domain.changes import ChangeDecision, ChangedPath, ChangeFlag, ChangeRequest, EvidenceFile
from jamcore.domain.errors import NotFoundError
from jamcore.domain.kept_exports import KeptExport
from jamcore.domain.plugins import Block
from jamcore.domain.requests import (
    InstallProgress,
    RunRequest,
)
from jamcore.testing.fake_daemon.records import (
    AT,
    Conversation,
)


class FakeServices:
    """All services in one object; ``calls`` records what was asked, ``gate`` holds back room creation and installation."""

    def __init__(self, tasks: TaskGroup, directory: Path, services_of: Callable[[FakeServices], Services]) -> None:
        self._services_of = services_of
        self.tasks = tasks
        self.directory = directory
        self.calls: list[tuple[str, object]] = []
        self.gate = anyio.Event()
        self.gate.set()
        self.fail_with: Exception | None = None
        self.rooms: dict[UUID, Conversation] = {}
        self.approvals: dict[UUID, Approval] = {}
        self.approval_rules: dict[UUID, ApprovalRule] = {}
        self.news = anyio.Event()
        self.changes: dict[UUID, ChangeRequest] = {}
        self.decisions: dict[UUID, ChangeDecision] = {}
        self.runs: dict[UUID, RunRequest] = {}
        self.exports: dict[UUID, KeptExport] = {}
        self.secrets: dict[str, str] = {}
        self.blocks: dict[str, Block] = {}
        self.stopping = anyio.Event()
        self.progress = InstallProgress()
        self.readers = 0

    @property
    def working(self) -> tuple[str, ...]:
        """What is under way: the lines of a file, so that another process can say it."""
        path = self.directory / "working"
        return tuple(path.read_text().splitlines()) if path.exists() else ()

    def services(self) -> Services:
        return self._services_of(self)

    async def note(self, name: str, detail: object = None) -> None:
        self.calls.append((name, detail))
        await anyio.lowlevel.checkpoint()
        if self.fail_with is not None:
            raise self.fail_with

    def find(self, ref: str) -> Conversation:
        for each in self.rooms.values():
            if ref == each.room.name or (len(ref) >= 8 and str(each.room.id).startswith(ref)):
                return each
        raise NotFoundError(kind="room", ref=ref)

    def change_of(self, room: Conversation, identifier: UUID, objective: str) -> ChangeRequest:
        self.changes[identifier] = ChangeRequest(
            id=identifier,
            room_id=room.room.id,
            session_id=room.session.id,
            objective=objective,
            base="0" * 40,
            paths=(
                ChangedPath(path="src/app.py", change="modified"),
                ChangedPath(path=".github/workflows/ci.yml", change="added", flags=(ChangeFlag.CI_DEFINITION,)),
            ),
            files=(EvidenceFile(name="change.patch", bytes=120, sha256="a" * 64),),
            complete=True,
            created_at=AT,
        )
        return self.changes[identifier]


class Part:
    """One service of the fake."""

    def __init__(self, fake: FakeServices) -> None:
        self.fake = fake

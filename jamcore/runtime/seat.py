"""A session's seat on a live host: what the worker needs to run its turns."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

import anyio

from jamcore.domain.ids import ProviderIdentity
from jamcore.domain.providers import ThreadRequest
from jamcore.domain.sessions import RuntimeSession, SessionWorkspace, Turn


@dataclass(slots=True)
class Seat:
    """Mutable on purpose, and owned by one worker: the thread's identity once it is open, and the turn that runs now."""

    session: RuntimeSession
    workspace: SessionWorkspace
    room_id: UUID
    identity: ProviderIdentity | None = None
    running: Turn | None = None
    idle: anyio.Event = field(default_factory=anyio.Event)
    interruptible: anyio.Event = field(default_factory=anyio.Event)

    def thread_request(self) -> ThreadRequest:
        """Return what the session's thread needs of its provider."""
        return ThreadRequest(cwd=self.workspace.guest_path, model=self.session.model, approvals=self.session.approvals)

    def begin(self, turn: Turn) -> None:
        """Note that a turn runs."""
        self.running = turn
        self.idle = anyio.Event()
        self.interruptible = anyio.Event()

    def end(self) -> None:
        """Note that none runs."""
        self.running = None
        self.idle.set()
        self.interruptible.set()

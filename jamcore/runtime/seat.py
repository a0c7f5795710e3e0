"""A session's seat on a live host: what the worker needs to run its turns."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from uuid import UUID

import anyio

from jamcore.domain.continuity import Checkpoint
from jamcore.domain.ids import ProviderIdentity
from jamcore.domain.providers import ThreadRequest
from jamcore.domain.sessions import RuntimeSession, SessionWorkspace, Turn
from jamcore.plugins.runtime import ProviderRuntime

INBOX = 64
"""Turns that may wait on one seat; one more is refused rather than held in memory without bound."""


@dataclass(slots=True, eq=False)
class Seat:
    """Mutable on purpose, and owned by one worker: the thread's identity once it is open, and the turn that runs now.

    ``scope`` is around everything that is done on the seat; ``settled`` says that it was taken or could not be, ``gone`` that it is given
    back. ``own_process``: the provider runs a process for this session alone (SHARE-5).
    """

    session: RuntimeSession
    workspace: SessionWorkspace
    room_id: UUID
    room_name: str = ""
    own_process: bool = False
    identity: ProviderIdentity | None = None
    runtime: ProviderRuntime | None = None
    running: Turn | None = None
    taken: bool = False
    failure: Exception | None = None
    final: Checkpoint | None = None
    idle: anyio.Event = field(default_factory=anyio.Event)
    interruptible: anyio.Event = field(default_factory=anyio.Event)
    settled: anyio.Event = field(default_factory=anyio.Event)
    gone: anyio.Event = field(default_factory=anyio.Event)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _waiting: deque[Turn] = field(default_factory=deque)
    _arrived: anyio.Event = field(default_factory=anyio.Event)
    _closed: bool = False

    @property
    def said_as(self) -> str:
        """How people know it."""
        return f"room {self.room_name or self.room_id}"

    @property
    def takes_turns(self) -> bool:
        """Whether turns may be routed to it (PREP-5)."""
        return self.taken and not self._closed

    @property
    def busy(self) -> bool:
        """Whether a turn runs on it, or waits to."""
        return self.running is not None or bool(self._waiting)

    def submit(self, turn: Turn) -> None:
        """Queue an accepted turn.

        Raises:
            anyio.WouldBlock: Too many turns wait already.
            anyio.ClosedResourceError: It takes no more turns.
        """
        if self._closed:
            raise anyio.ClosedResourceError
        if len(self._waiting) >= INBOX:
            raise anyio.WouldBlock
        self._waiting.append(turn)
        self._arrived.set()

    async def next_turn(self) -> Turn:
        """Wait for a turn; on a closed seat for ever, so that what waits there does not begin. One task alone may wait."""
        while self._closed or not self._waiting:
            self._arrived = anyio.Event()
            await self._arrived.wait()
        return self._waiting.popleft()

    def close(self) -> None:
        """Take no more turns."""
        self._closed = True

    def leftover(self) -> tuple[Turn, ...]:
        """Take no more turns and return those that waited and did not begin."""
        self.close()
        waiting = tuple(self._waiting)
        self._waiting.clear()
        return waiting

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

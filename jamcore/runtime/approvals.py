"""The desk where a turn's requests for permission wait for a person, a rule or their deadline.

A request is stored before anybody can answer it, and an answer is stored before the provider hears it: one conditional update decides, so
of a person, another person and the deadline exactly one counts. What still waits when the turn ends, however it ends, has expired.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

import anyio
from anyio.abc import TaskGroup

from jamcore.domain.approvals import (
    ANSWERED,
    REQUEST_CHARACTERS,
    Approval,
    ApprovalAnswer,
    ApprovalDecidedError,
    ApprovalPolicy,
    ApprovalState,
    DecidedBy,
    DecisionRequest,
    covers,
    digest_of,
    rule_from,
    shown,
)
from jamcore.domain.errors import ConflictError, JamError
from jamcore.domain.events import ApprovalDecided, ApprovalRequested, Notice, RoomEvent, RoomPayload
from jamcore.domain.ids import ProviderIdentity
from jamcore.domain.limits import APPROVAL_DEADLINE_S, LAST_WRITE_S
from jamcore.domain.sessions import Turn
from jamcore.journal.points import CrashPoints, NoCrash
from jamcore.plugins.runtime import ProviderRuntime
from jamcore.runtime.feed import RoomFeed
from jamcore.store import Fence, FencedError, Repos, Store
from jamcore.system.clock import Clock
from jamcore.system.ids import IdSource
from jamcore.system.tasks import owned_tasks

DECIDED = "approval: decided"
"""Crash point: an answer is stored, and the provider has not heard it."""
WAITING_AT_ONCE = 16
"""Requests of one turn that may wait; one more is denied at once, for no person reads that many questions."""


@dataclass(slots=True)
class _Waiter:
    """Whoever waits for one decision."""

    decided: anyio.Event = field(default_factory=anyio.Event)
    state: ApprovalState | None = None

    def settle(self, state: ApprovalState) -> None:
        """Hand over the decision."""
        self.state = state
        self.decided.set()


class ApprovalDesk:
    """All open requests of one daemon. Each belongs to a turn, whose task group holds what waits for it (:meth:`counter`)."""

    def __init__(
        self,
        *,
        store: Store,
        feed: RoomFeed,
        clock: Clock,
        ids: IdSource,
        deadline_s: float = APPROVAL_DEADLINE_S,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        crash: CrashPoints | None = None,
    ) -> None:
        self.store = store
        self.feed = feed
        self.clock = clock
        self.ids = ids
        self.deadline_s = deadline_s
        self.sleep = sleep
        self._crash = crash or NoCrash()
        self._open: dict[UUID, _Waiter] = {}

    async def decide(self, ref: str, request: DecisionRequest) -> Approval:
        """Take a person's answer. An exact retry, by the same id, returns what it decided the first time.

        Raises:
            NotFoundError, InvalidInputError: Which approval, or which rule, is meant.
            ApprovalDecidedError: It was decided already, or nobody waits for it any more.
            ConflictError: The id was used for another answer.
            FencedError: It is another daemon's to answer.
        """

        def write(repos: Repos) -> tuple[Approval, tuple[RoomEvent, ...]]:
            found = repos.approvals.find(ref)
            if found.decision_id == request.id or found.state is not ApprovalState.PENDING:
                return found, ()
            require_owned(repos, found, self.store.fence)
            if found.id not in self._open:  # its turn is gone, and the disk would not take it then
                return self.write_end(repos, found, ApprovalState.EXPIRED, DecidedBy.TURN_ENDED)
            agent = repos.sessions.get(found.session_id).agent_id
            rule = rule_from(found, request, identifier=self.ids.uuid(), agent=agent, created_at=self.clock.now())
            if rule is not None:
                repos.approval_rules.insert(rule)
            return self.write_end(repos, found, ANSWERED[request.decision], DecidedBy.PERSON, decision_id=request.id)

        approval, events = await self.store.transact(write)
        self._crash.reach(DECIDED)
        self.announce(approval, events)
        if approval.decision_id != request.id:
            by = approval.decided_by.value if approval.decided_by else ""
            raise ApprovalDecidedError(approval=str(approval.id), state=approval.state, decided_by=by)
        if approval.state is not ANSWERED[request.decision]:
            raise ConflictError(kind="approval", ref=str(approval.id), problem="the id was used for the other answer")
        return approval

    @asynccontextmanager
    async def counter(
        self,
        turn: Turn,
        runtime: ProviderRuntime,
        identity: ProviderIdentity,
        *,
        waits: Callable[[int], None] = lambda _questions: None,
    ) -> AsyncIterator[Counter]:
        """Yield the place where one turn asks; whatever still waits when the block ends has expired.

        ``waits`` is told how many questions wait, whenever that changes.
        """
        async with owned_tasks() as tasks:
            counter = Counter(self, turn, runtime, identity, tasks, waits)
            try:
                yield counter
            finally:
                # A disk that refuses must not hide why the turn ended: what stays behind expires with its first answer or the next start.
                with suppress(JamError), anyio.move_on_after(LAST_WRITE_S, shield=True):
                    await counter.expire()
                counter.leave()

    # --------------------------------------------------------------------------------------------------- for counters

    def opened(self, approval: UUID) -> _Waiter:
        """Register who waits; before the request is stored, since it may be answered at once."""
        waiter = self._open[approval] = _Waiter()
        return waiter

    def closed(self, approval: UUID) -> None:
        """Nobody waits any more."""
        self._open.pop(approval, None)

    def write_end(
        self, repos: Repos, approval: Approval, state: ApprovalState, by: DecidedBy, *, decision_id: UUID | None = None
    ) -> tuple[Approval, tuple[RoomEvent, ...]]:
        """Decide within a transaction; return the approval as it then is, and the events, which are none when somebody was faster."""
        ended = repos.approvals.decide(approval.id, state, by, decision_id=decision_id)
        if ended is None:
            return repos.approvals.get(approval.id), ()
        said = ApprovalDecided(approval=ended.id, state=state, decided_by=by)
        return ended, repos.events.append(ended.room_id, ended.turn_id, [said])

    def announce(self, approval: Approval, events: tuple[RoomEvent, ...]) -> None:
        """Tell the room's followers and whoever waits for the decision."""
        if events:
            self.feed.announce(approval.room_id, events)
        waiter = self._open.get(approval.id)
        if waiter is not None and approval.state is not ApprovalState.PENDING:
            waiter.settle(approval.state)


def require_owned(repos: Repos, approval: Approval, fence: Fence) -> None:
    """Accept an approval of this daemon's own hosts: another daemon's turn waits for another desk (SHARE-1).

    Raises:
        FencedError: It is another daemon's.
    """
    host = repos.hosts.get(repos.sessions.get(approval.session_id).host_id)
    if host.daemon_id != fence.daemon_id:
        raise FencedError(kind="approval", ref=str(approval.id))


class Counter:
    """One turn's place at the desk. Made by :meth:`ApprovalDesk.counter`."""

    def __init__(
        self,
        desk: ApprovalDesk,
        turn: Turn,
        runtime: ProviderRuntime,
        identity: ProviderIdentity,
        tasks: TaskGroup,
        waits: Callable[[int], None],
    ) -> None:
        self._waits = waits
        self._desk = desk
        self._turn = turn
        self._runtime = runtime
        self._identity = identity
        self._tasks = tasks
        self._undecided: set[UUID] = set()

    async def ask(self, event: ApprovalRequested) -> None:
        """Store a request and return; it is answered beside the turn's other events.

        Raises:
            JamError: It could not be stored, so nobody can answer it and the turn cannot go on.
        """
        if not 1 <= len(event.request) <= REQUEST_CHARACTERS:
            await self._say("the agent asked in a form that cannot be kept: it was denied: " + shown(event.detail)[:200])
            self._tasks.start_soon(self._tell, event.request, ApprovalState.DENIED)  # nobody may wait for ever
            return
        if len(self._undecided) >= WAITING_AT_ONCE:
            await self._say(f"more than {WAITING_AT_ONCE} questions at once: one was denied")
            self._tasks.start_soon(self._tell, event.request, ApprovalState.DENIED)
            return
        approval = self._approval(event)
        waiter = self._desk.opened(approval.id)
        self._undecided.add(approval.id)
        self._waits(len(self._undecided))
        written = await self._desk.store.transact(lambda repos: self._write_asked(repos, event, approval))
        if written is None:
            self._forget(approval.id)
            await self._say("the agent asked although this room does not: it was denied: " + shown(event.detail)[:200])
            self._tasks.start_soon(self._tell, event.request, ApprovalState.DENIED)
            return
        stored, events = written
        self._desk.announce(stored, events)
        self._tasks.start_soon(self._answer, stored, waiter)

    async def expire(self) -> None:
        """Let everything that still waits expire: once the turn is over nobody can be answered. Idempotent."""

        def write(repos: Repos) -> list[tuple[Approval, tuple[RoomEvent, ...]]]:
            waiting = repos.approvals.pending_of_turn(self._turn.id)
            return [self._desk.write_end(repos, one, ApprovalState.EXPIRED, DecidedBy.TURN_ENDED) for one in waiting]

        if self._undecided:
            for approval, events in await self._desk.store.transact(write):
                self._desk.announce(approval, events)

    def leave(self) -> None:
        """Stop waiting. What the disk did not let expire then counts as expired for whoever answers it."""
        for approval in self._undecided:
            self._desk.closed(approval)
        self._tasks.cancel_scope.cancel()

    def _approval(self, event: ApprovalRequested) -> Approval:
        now = self._desk.clock.now()
        return Approval(
            id=self._desk.ids.uuid(),
            room_id=self._turn.room_id,
            session_id=self._turn.session_id,
            turn_id=self._turn.id,
            process_epoch=self._desk.store.fence.epoch,
            request=event.request,
            item=event.item[:REQUEST_CHARACTERS],
            subject=event.subject,
            detail=shown(event.detail),
            preview=shown(event.preview),
            digest=digest_of(event.subject, event.detail),
            state=ApprovalState.PENDING,
            decided_by=None,
            decision_id=None,
            rule_id=None,
            asked_at=now,
            deadline_at=now + timedelta(seconds=self._desk.deadline_s),
            decided_at=None,
        )

    def _write_asked(
        self, repos: Repos, event: ApprovalRequested, approval: Approval
    ) -> tuple[Approval, tuple[RoomEvent, ...]] | None:
        """Store the request, and its decision too where a person's rule covers it; nothing where the session does not ask."""
        session = repos.sessions.get(approval.session_id)
        if session.approvals is not ApprovalPolicy.ASK:
            return None
        stored = repos.approvals.insert(approval)
        # In a room the request is known by Jam's id, whatever the provider calls it (PLUG-3).
        asked = event.model_copy(update={"request": str(stored.id), "detail": stored.detail, "preview": stored.preview})
        payloads: Sequence[RoomPayload] = [asked]
        rules = repos.approval_rules.holding(room=stored.room_id, agent=session.agent_id)
        if rule := next((rule for rule in rules if covers(rule, event.subject, event.detail)), None):
            decided = repos.approvals.decide(stored.id, ApprovalState.ALLOWED, DecidedBy.RULE, rule_id=rule.id)
            assert decided is not None
            stored = decided
            said = ApprovalDecided(approval=stored.id, state=stored.state, decided_by=DecidedBy.RULE, rule=rule.id)
            payloads = [asked, said]
        return stored, repos.events.append(stored.room_id, stored.turn_id, payloads)

    async def _answer(self, approval: Approval, waiter: _Waiter) -> None:
        """Wait for the decision and hand it to the provider."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._deny_in_time, approval)
            await waiter.decided.wait()
            tasks.cancel_scope.cancel()
        self._forget(approval.id)
        if waiter.state is not None and waiter.state is not ApprovalState.EXPIRED:
            await self._tell(approval.request, waiter.state)

    def _forget(self, approval: UUID) -> None:
        self._undecided.discard(approval)
        self._waits(len(self._undecided))
        self._desk.closed(approval)

    async def _deny_in_time(self, approval: Approval) -> None:
        desk = self._desk
        await desk.sleep((approval.deadline_at - approval.asked_at).total_seconds())
        desk.announce(
            *await desk.store.transact(lambda repos: desk.write_end(repos, approval, ApprovalState.DENIED, DecidedBy.DEADLINE))
        )

    async def _tell(self, request: str, state: ApprovalState) -> None:
        answer = ApprovalAnswer.ALLOW if state is ApprovalState.ALLOWED else ApprovalAnswer.DENY
        try:
            await self._runtime.answer(self._identity, request, answer)
        except JamError as error:
            # What became of the turn its own stream says; that the decision was not carried out is said here.
            await self._say(f"the answer did not reach the agent: {error}")

    async def _say(self, text: str) -> None:
        await self._desk.feed.append(self._turn.room_id, self._turn.id, [Notice(level="warning", text=text)])

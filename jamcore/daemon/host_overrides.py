"""Hosts whose sandbox lost its proof of ownership: what is there, and its removal on a person's word (OWN-8)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from uuid import UUID

from jamcore.daemon.enginehouse import EngineHouse
from jamcore.domain.events import SessionNotice
from jamcore.domain.ownership import OverrideEvidence
from jamcore.domain.plan import Owner, Plan
from jamcore.domain.requests import OverrideRequest, OverrideResult, OverrideView
from jamcore.domain.sessions import RuntimeHost
from jamcore.engines.port import Engine
from jamcore.journal.replay import ActionRegistry
from jamcore.journal.runner import Runner
from jamcore.runtime.feed import RoomFeed
from jamcore.sandbox.override import (
    HostInUseError,
    OverrideIntent,
    inspect_override,
    is_proven,
    override_action,
    require_confirmed,
    work_that_stays,
)
from jamcore.sandbox.ownership import Ownership
from jamcore.store import Repos, Store

OVERRIDDEN = "ownership.overridden"
LOOKED_AT = 256
"""Events of a room that are looked at for a notice that was said already; a restart says it before anything else happens there."""


class HostOverrides:
    """See :class:`~jamcore.daemon.services.HostService`; also what the journaled removal asks for, which it adds to ``actions``."""

    def __init__(
        self,
        *,
        store: Store,
        feed: RoomFeed,
        engines: EngineHouse,
        ownership: Callable[[Engine], Ownership],
        kept_down: Callable[[UUID], AbstractAsyncContextManager[None]],
        runner: Runner,
        actions: ActionRegistry,
    ) -> None:
        self._store = store
        self._feed = feed
        self._engines = engines
        self._ownership = ownership
        self._kept_down = kept_down
        self._runner = runner
        self._action = override_action(self)
        actions.register(self._action)

    async def inspect_override(self, ref: str) -> OverrideView:
        """Return the evidence, and whether an override is needed at all."""
        host = await self._store.read(partial(find_host, ref))
        rooms = await self._store.read(lambda repos: tuple(repos.rooms.get(room).name for room in _rooms(repos, host.id)))
        evidence = await self._inspect(host)
        ownership, owner = self._proofs(host)
        return OverrideView(
            host_id=host.id,
            engine=host.engine,
            rooms=rooms,
            evidence=evidence,
            digest=evidence.content_digest(),
            needed=not is_proven(evidence),
            stays=await work_that_stays(ownership, host.sandbox, owner, evidence.presence),
        )

    async def override(self, ref: str, request: OverrideRequest) -> OverrideResult:
        """Remove what was confirmed. What can be refused is refused before anything is begun.

        Meanwhile nobody brings the host up: it would make the sandbox anew, and the records that are forgotten then were its own.

        Raises:
            HostInUseError: A session of the host is live, or comes up.
            OverrideRefusedError: The evidence changed, or a proof holds.
            WorkWouldBeLostError: A private clone goes with the sandbox and holds work.
            OwnershipMismatchError, MarkerUnreadableError: The marker does not prove whose it is.
            EngineUnknownError: It cannot be said what is there.
        """
        host = await self._store.read(partial(find_host, ref))
        intent = OverrideIntent(
            id=request.id, host_id=host.id, sandbox=host.sandbox, confirmed=request.confirmed, discard_work=request.discard_work
        )
        known = await self._store.read(lambda repos: repos.operations.knows(request.id))
        if not known:
            await self.require_free(host.id)  # whoever brings it up now is not waited for
        async with self._kept_down(host.id):
            if not known:
                await self.require_free(host.id)
                require_confirmed(await self._inspect(host), request.confirmed, discard_work=request.discard_work)
            done = await self._runner.run(self._action, request.id, intent)
        return OverrideResult(id=done.id, host_id=done.host_id, sandbox=done.sandbox, confirmed=done.confirmed)

    async def proofs(self, intent: OverrideIntent) -> tuple[Ownership, Owner]:
        """See :class:`OverrideSources`."""
        return self._proofs(await self._store.read(lambda repos: repos.hosts.get(intent.host_id)))

    async def require_free(self, host: UUID) -> None:
        """See :class:`OverrideSources`. A lease is taken before anything of a host is started."""
        if await self._store.read(lambda repos: repos.leases.live_of_host(host)):
            raise HostInUseError(host=str(host))

    async def say(self, intent: OverrideIntent) -> None:
        """See :class:`OverrideSources`."""
        for room in await self._store.transact(partial(_say, intent)):
            self._feed.announce(room)

    async def _inspect(self, host: RuntimeHost) -> OverrideEvidence:
        ownership, owner = self._proofs(host)
        return await inspect_override(ownership, host.sandbox, owner)

    def _proofs(self, host: RuntimeHost) -> tuple[Ownership, Owner]:
        return self._ownership(self._engines.get(host.engine)), Plan.model_validate_json(host.plan_json).owner


def find_host(ref: str, repos: Repos) -> RuntimeHost:
    """Find a host of this daemon by its sandbox's name, its own id, or a room on it.

    Raises:
        NotFoundError: There is none.
        FencedError: It is another daemon's on the same database, whose engines alone can say what becomes of it.
    """
    for host in repos.hosts.list():
        if ref in (host.sandbox, str(host.id)):
            return repos.hosts.require_own(host)
    session = repos.bindings.live_of_room(repos.rooms.find(ref).id).session_id
    return repos.hosts.require_own(repos.hosts.get(repos.sessions.get(session).host_id))


def _rooms(repos: Repos, host: UUID) -> tuple[UUID, ...]:
    return tuple(repos.bindings.of_session(session.id).room_id for session in repos.sessions.of_host(host))


def _left(evidence: OverrideEvidence | None) -> str:
    if evidence is None or not evidence.clone_goes:
        return "its files stay, and a resume makes it anew"
    work = "; ".join(evidence.work.blockers()) if evidence.work else ""
    return f"its private clone went with it ({work or 'it held no work of its own'}), and a resume makes both anew"


def _say(intent: OverrideIntent, repos: Repos) -> list[UUID]:
    lost = f"its proof was {intent.evidence.nonce}" if intent.evidence else "its proof was gone"
    detail = (
        f"the sandbox {intent.sandbox} was removed on a person's word, because {lost}; {_left(intent.evidence)}"
        f" (override {intent.id}, evidence {intent.confirmed})"
    )
    told = []
    for room in _rooms(repos, intent.host_id):
        recent = repos.events.after(room, max(0, repos.events.last_seq(room) - LOOKED_AT), LOOKED_AT)
        notices = [event.payload for event in recent if isinstance(event.payload, SessionNotice)]
        if not any(notice.code == OVERRIDDEN and str(intent.id) in notice.detail for notice in notices):
            repos.events.append(room, None, [SessionNotice(code=OVERRIDDEN, detail=detail)])
            told.append(room)
    return told

"""Exports from elsewhere: what their ids become, and whose they become, once and for ever (WS-6)."""

from __future__ import annotations

from uuid import UUID

import pytest

from jamcore.domain.errors import ConflictError
from jamcore.domain.kept_exports import ExportMaker, ExportState, IdMapping, KeptExport
from jamcore.store import Repos, Store
from jamcore.testing.store.base import StoreTests
from jamcore.testing.store.records import Records, Seed

OLD, NEW, OTHER = UUID(int=71), UUID(int=72), UUID(int=73)


class ImportTests(StoreTests):
    """What is kept of an export that came from elsewhere."""

    @pytest.fixture
    async def taken(self, store: Store, seeded: Seed, make: Records) -> KeptExport:
        """One that nobody confirmed."""
        nobodys = {"maker": ExportMaker.ELSEWHERE, "host_id": None, "session_id": None, "workspace_id": None}
        row = make.export(seeded.workspace).model_copy(update=nobodys)
        return await store.transact(lambda repos: repos.exports.insert(row))

    @pytest.mark.guarantee("WS-6", "WS-11")
    async def test_an_id_becomes_one_other(self, store: Store, taken: KeptExport) -> None:
        """The same again changes nothing; another is refused, and nothing of that request is kept.

        An export whose ids become two things is restored into two conversations.
        """
        host, session = (IdMapping(export_id=taken.id, what=what, old_id=OLD, new_id=NEW) for what in ("host", "session"))
        for _ in range(2):
            await store.transact(lambda repos: repos.exports.map_ids((session, host)))
        changed = (session.model_copy(update={"old_id": OTHER}), host.model_copy(update={"new_id": OTHER}))
        with pytest.raises(ConflictError):
            await store.transact(lambda repos: repos.exports.map_ids(changed))
        assert await store.read(lambda repos: repos.exports.mapped(taken.id)) == (host, session)

    @pytest.mark.guarantee("WS-6")
    async def test_it_becomes_one_session_s_once_and_only_when_it_is_confirmed(
        self, store: Store, seeded: Seed, taken: KeptExport
    ) -> None:
        """Of a workspace or a host it never is one: it holds nothing of what is done there.

        An archive that anybody made would become a conversation before anybody had looked at it, or two of them.
        """

        def adopt(repos: Repos) -> KeptExport:
            return repos.exports.adopt(taken.id, agent=seeded.agent.id, session=seeded.session.id, room=seeded.room.id)

        with pytest.raises(ConflictError):
            await store.transact(adopt)
        await store.transact(lambda repos: repos.exports.move(taken.id, ExportState.PUBLISHED))
        owned = await store.transact(adopt)
        assert (owned.agent_id, owned.session_id, owned.room_id) == (seeded.agent.id, seeded.session.id, seeded.room.id)
        assert (owned.host_id, owned.workspace_id) == (None, None)
        with pytest.raises(ConflictError):
            await store.transact(adopt)
        assert await store.read(lambda repos: repos.exports.get(taken.id)) == owned

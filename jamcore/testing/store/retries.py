"""Exact retries change nothing, changed records under a known id are refused (WS-11): for every repository that inserts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest

from jamcore.domain.continuity import ObservationOutcome
from jamcore.domain.errors import ConflictError
from jamcore.domain.records import Record
from jamcore.store import Repos, Store
from jamcore.testing.store.base import StoreTests, everything
from jamcore.testing.store.records import Records, Seed

OPERATION = UUID(int=77)
Insert = Callable[[Repos, Any], object]
CASES: Mapping[str, tuple[Callable[[Records, Seed], Record], Insert, dict[str, object]]] = MappingProxyType(
    {
        "agent": (lambda make, seed: make.agent("b"), lambda repos, row: repos.agents.insert(row), {"name": "c"}),
        "host": (lambda make, seed: make.host(seed.agent), lambda repos, row: repos.hosts.insert(row), {"plan_json": "[]"}),
        "session": (lambda make, seed: make.session(seed.host), lambda repos, row: repos.sessions.insert(row), {"model": "other"}),
        "workspace": (
            lambda make, seed: seed.workspace,
            lambda repos, row: repos.workspaces.insert(row),
            {"guest_path": "/elsewhere"},
        ),
        "room": (
            lambda make, seed: make.room(seed.agent, "b"),
            lambda repos, row: repos.rooms.insert(row),
            {"request_digest": "1" * 64},
        ),
        "binding": (
            lambda make, seed: make.binding(seed.room, seed.session, live=False),
            lambda repos, row: repos.bindings.insert(row),
            {"session_id": "another"},
        ),
        "turn": (lambda make, seed: make.turn(seed.room, seed.session), lambda repos, row: repos.turns.accept(row), {"text": "no"}),
        "operation": (
            lambda make, seed: make.about(seed.workspace),
            lambda repos, row: repos.operations.begin(OPERATION, "provision", "{}", row),
            {"session_id": "another"},
        ),
        "export": (
            lambda make, seed: make.export(seed.workspace),
            lambda repos, row: repos.exports.insert(row),
            {"manifest_sha256": "1" * 64},
        ),
        "clean-up": (
            lambda make, seed: make.host_cleanup(seed.host),
            lambda repos, row: repos.host_cleanups.prepare(row),
            {"planned_bytes": 2},
        ),
        "host-native workspace": (
            lambda make, seed: make.host_native(seed.session, seed.host.daemon_id),
            lambda repos, row: repos.host_native.insert(row),
            {"session_id": "another"},
        ),
        "checkpoint": (
            lambda make, seed: make.checkpoint(seed.host),
            lambda repos, row: repos.checkpoints.insert(row),
            {"root_digest": "d2"},
        ),
        "observation": (
            lambda make, seed: make.observation(seed.session, make.ids.uuid(), outcome=ObservationOutcome.FAILED),
            lambda repos, row: repos.observations.insert(row),
            {"outcome": ObservationOutcome.SUCCEEDED},
        ),
        "change": (
            lambda make, seed: make.change(seed.room, seed.session),
            lambda repos, row: repos.changes.insert(row),
            {"complete": False},
        ),
        "run": (lambda make, seed: make.run(seed.room), lambda repos, row: repos.runs.insert(row), {"objective": "no"}),
    }
)


class RetryTests(StoreTests):
    """Exact and changed retries."""

    @pytest.mark.guarantee("WS-11")
    @pytest.mark.parametrize("name", CASES)
    async def test_an_exact_retry_changes_nothing_and_a_changed_one_is_refused(
        self, store: Store, seeded: Seed, make: Records, name: str
    ) -> None:
        """The second insert is the first; one with the same id and another content is a conflict, and leaves every table as it was.

        A request whose answer was lost is repeated: it must not be done twice, and an id must not come to mean two things.
        """
        build, insert, change = CASES[name]
        record = build(make, seeded)
        first = await store.transact(lambda repos: insert(repos, record))
        before = await store.read(everything)
        assert await store.transact(lambda repos: insert(repos, record)) == first
        assert await store.read(everything) == before
        changed = record.model_copy(update={key: make.ids.uuid() if value == "another" else value for key, value in change.items()})
        with pytest.raises(ConflictError):
            await store.transact(lambda repos: insert(repos, changed))
        assert await store.read(everything) == before

    @pytest.mark.guarantee("WS-11")
    async def test_a_decision_is_kept_once(self, store: Store, seeded: Seed, make: Records) -> None:
        """A decision that is recorded again is the same one; another under its id is refused.

        A decision that is replaced is evidence that is gone.
        """
        identifier = make.ids.uuid()
        for _ in range(2):
            await store.transact(
                lambda repos: repos.activations.record(identifier, seeded.session.id, make.decision(), make.clock.now())
            )
        with pytest.raises(ConflictError):
            await store.transact(
                lambda repos: repos.activations.record(identifier, seeded.session.id, make.decision("thread"), make.clock.now())
            )
        assert await store.read(lambda repos: repos.activations.latest_of_session(seeded.session.id)) == make.decision()

    @pytest.mark.guarantee("WS-11")
    async def test_a_retry_of_a_turn_returns_what_became_of_it(self, store: Store, seeded: Seed, make: Records) -> None:
        """A client that asks again after the turn has moved on is told so, and nothing is moved back.

        A client that is told of an accepted turn waits for an answer that was given long ago.
        """
        turn = make.turn(seeded.room, seeded.session)
        await store.transact(lambda repos: repos.turns.accept(turn))
        moved = await store.transact(lambda repos: repos.turns.move(turn.id, turn.state.RUNNING, provider_turn="t1"))
        assert await store.transact(lambda repos: repos.turns.accept(turn)) == moved

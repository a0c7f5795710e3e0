"""What the database itself refuses, also when it is written to past the repositories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from sqlalchemy import Boolean, Column, Integer, Table, insert

from jamcore.domain.cells import Placement
from jamcore.domain.safekeeping import UnsavedHost
from jamcore.domain.sessions import HostState
from jamcore.store import Repos, Store, StoreConstraintError
from jamcore.store.tables.base import UtcText, UuidText
from jamcore.store.tables.exports import HOST_CLEANUPS
from jamcore.store.tables.hosts import AGENTS, BINDINGS, HOSTS, LEASES, SESSIONS, WORKSPACES
from jamcore.store.tables.safekeeping import UNSAVED_HOSTS
from jamcore.store.tables.schema import METADATA
from jamcore.testing.store.base import StoreTests, everything, raw
from jamcore.testing.store.records import Records, Seed


class ConstraintTests(StoreTests):
    """Rules that hold whoever writes."""

    @pytest.mark.guarantee("SHARE-1")
    @pytest.mark.parametrize("state", HostState)
    async def test_a_second_live_shared_host(self, store: Store, make: Records, seeded: Seed, state: HostState) -> None:
        """An agent has at most one Shared host that is neither archived nor removed; any number of others.

        A check in the program does not see what another daemon writes at the same moment.
        """
        await store.transact(lambda repos: repos.hosts.insert(make.host(seeded.agent, placement=Placement.SHARED)))
        gone = state in (HostState.ARCHIVED, HostState.REMOVED)
        row = _of_host(seeded) | {"agent_id": seeded.agent.id, "placement": "shared", "state": state.value}
        await _expect(store, make, HOSTS, row, refused=not gone)
        await _expect(store, make, HOSTS, row | {"placement": "dedicated"}, refused=False)

    @pytest.mark.guarantee("WS-2")
    async def test_a_second_running_operation(self, store: Store, make: Records, seeded: Seed) -> None:
        """A workspace has at most one operation that has not ended; any number that have.

        Two daemons that look at the same moment both find that nothing is under way.
        """
        table = METADATA.tables["operations"]
        row = _of_host(seeded) | {"workspace_id": seeded.workspace.id, "session_id": seeded.session.id}
        for state, refused in (("failed", False), ("running", False), ("running", True), ("pending", True), ("failed", False)):
            await _expect(store, make, table, row | {"state": state}, refused=refused)

    async def test_a_second_live_binding(self, store: Store, make: Records, seeded: Seed) -> None:
        """A room is bound to one session at a time.

        Two commands at the same moment both find the room free.
        """
        row = {"room_id": seeded.room.id, "session_id": seeded.session.id}
        await _expect(store, make, BINDINGS, row | {"live": True}, refused=True)
        await _expect(store, make, BINDINGS, row | {"live": False}, refused=False)

    @pytest.mark.guarantee("CONT-8")
    async def test_a_second_unsaved_record_of_a_host(self, store: Store, make: Records, seeded: Seed) -> None:
        """A host is unsaved once until that is settled.

        Who settles one of two has not settled the host, and it starts over what was not saved.
        """
        failed = UnsavedHost(id=make.ids.uuid(), host_id=seeded.host.id, code="c", problem="p", failed_at=make.clock.now())
        await store.transact(lambda repos: repos.unsaved_hosts.note(failed))
        row = _of_host(seeded) | {"settlement": None}
        await _expect(store, make, UNSAVED_HOSTS, row, refused=True)
        await _expect(store, make, UNSAVED_HOSTS, row | {"settlement": "accepted"}, refused=False)

    @pytest.mark.guarantee("WS-8")
    async def test_a_second_clean_up_of_a_host(self, store: Store, make: Records, seeded: Seed) -> None:
        """A host has at most one that has not ended.

        Two clean-ups of one host remove what the other one has promised to keep.
        """
        row = _of_host(seeded)
        for stage, refused in (("succeeded", False), ("prepared", False), ("root-removed", True), ("succeeded", False)):
            await _expect(store, make, HOST_CLEANUPS, row | {"stage": stage}, refused=refused)

    @pytest.mark.parametrize("table", [AGENTS, SESSIONS, WORKSPACES, LEASES], ids=lambda table: str(table.name))
    async def test_the_same_key_twice(self, store: Store, make: Records, seeded: Seed, table: Table) -> None:
        """A key, and a name or session that may be used once, is used once.

        A row that replaces another, or is left out in silence, is a record that is lost.
        """
        await store.transact(lambda repos: repos.leases.acquire(seeded.host.id, seeded.session.id))
        rows = (await store.read(everything))[table.name]
        again = dict(zip(table.c.keys(), rows[0], strict=True))
        await _expect(store, make, table, again, refused=True)

    @pytest.mark.parametrize(
        ("table", "column"),
        [(table, column) for table in METADATA.sorted_tables for column in table.c if column.foreign_keys],
        ids=lambda value: str(getattr(value, "name", value)),
    )
    async def test_a_reference_to_nothing(self, store: Store, make: Records, table: Table, column: Column[Any]) -> None:
        """No row refers to a row that is not there: with the reference right it is accepted.

        A row of something that is gone cannot be read, and keeps a daemon from its start.
        """
        rows = await store.transact(lambda repos: _one_row_each(repos, make, before=table))
        references = _references(table, rows)
        await _expect(store, make, table, references | {column.name: make.ids.uuid()}, refused=True)
        await _expect(store, make, table, references, refused=False)


def _of_host(seed: Seed) -> dict[str, object]:
    return {"host_id": seed.host.id, "agent_id": seed.agent.id, "daemon_id": seed.host.daemon_id}


def _one_row_each(repos: Repos, make: Records, *, before: Table) -> dict[str, dict[str, object]]:
    """Fill every table that others may refer to, up to one, and return their rows."""
    rows: dict[str, dict[str, object]] = {}
    for table in METADATA.sorted_tables[: METADATA.sorted_tables.index(before)]:
        rows[table.name] = _row(table, make) | _references(table, rows)
        raw(repos).execute(insert(table).values(rows[table.name]))
    return rows


def _references(table: Table, rows: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    """Return the references of a row to those that are there."""
    return {column.name: rows[key.column.table.name][key.column.name] for column in table.c for key in column.foreign_keys}


async def _expect(store: Store, make: Records, table: Table, values: Mapping[str, object], *, refused: bool) -> None:
    """Write a row with plain SQL; a refusal leaves every table as it was."""

    def write(repos: Repos) -> None:
        row = _row(table, make) | {name: value for name, value in values.items() if name in table.c}
        raw(repos).execute(insert(table).values(row))

    before = await store.read(everything)
    if not refused:
        await store.transact(write)
        return
    with pytest.raises(StoreConstraintError):
        await store.transact(write)
    assert await store.read(everything) == before


def _row(table: Table, make: Records) -> dict[str, object]:
    """Return some row, its references to nothing."""
    return {column.name: _filler(column, make) for column in table.c if not column.nullable}


def _filler(column: Column[Any], make: Records) -> object:
    """Return some value for a column that the case is not about."""
    if isinstance(column.type, UuidText):
        return make.ids.uuid()
    if isinstance(column.type, UtcText):
        return make.clock.now()
    if isinstance(column.type, Boolean):
        return False
    return 1 if isinstance(column.type, Integer) else make.ids.uuid().hex

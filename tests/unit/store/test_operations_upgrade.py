"""What older versions kept of operations, and of the journal that had tables of its own, is read as it was meant."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine

from jamcore.domain.operations import OperationState
from jamcore.store import open_store
from jamcore.store.migrate import SCRIPTS
from jamcore.system.files import Files

if TYPE_CHECKING:
    from tests.unit.store.conftest import HandClock

DAEMON, AGENT, HOST, SESSION, WORKSPACE, OPERATION, CUT, DONE, LOST = (UUID(int=number) for number in range(1, 10))


@pytest.mark.guarantee("WS-2")
async def test_operations_and_journal_become_one(tmp_path: Path, clock: HandClock) -> None:
    """A provision that ran, an action that was cut in the middle and those that have ended: each goes on, or stays as it ended."""
    path = tmp_path / "jam.db"
    of_version(path, "0007")
    fill(path, clock.now().isoformat(timespec="microseconds"))
    async with open_store(path, files=Files(), clock=clock, daemon_id=DAEMON) as store:
        running = await store.read(lambda repos: repos.operations.running())
        assert {(identifier, kind, initial) for identifier, kind, initial in running} == {
            (OPERATION, "provision", ""),
            (CUT, "change-request", '{"a":1}'),
        }
        assert await store.read(lambda repos: repos.operations.steps(CUT)) == (
            ("snapshot", "intended", "{}"),
            ("snapshot", "failed", "{}"),
        )
        assert await store.read(lambda repos: repos.operations.failures(CUT)) == (("snapshot", "os.enospc"),)
        kept = await store.read(lambda repos: repos.operations.get(OPERATION))
        assert (kept.host_id, kept.session_id, kept.workspace_id) == (HOST, SESSION, WORKSPACE)
        ends = {
            identifier: await store.read(lambda repos, identifier=identifier: repos.operations.get(identifier))  # type: ignore[misc]
            for identifier in (DONE, LOST)
        }
        assert (ends[DONE].state, ends[DONE].result) == (OperationState.SUCCEEDED, "")
        assert (ends[LOST].state, ends[LOST].result) == (OperationState.FAILED, "interrupted")
        await store.transact(lambda repos: repos.operations.end(CUT, OperationState.SUCCEEDED, ""))
        assert [event.seq for event in await store.read(lambda repos: repos.operations.story(CUT))] == [1, 2, 3, 4]


def of_version(path: Path, version: str) -> None:
    """Make a database as that version made it."""
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        config = Config()
        config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
        config.attributes["connection"] = connection
        command.upgrade(config, version)
    engine.dispose()


def fill(path: Path, at: str) -> None:
    """Put one of each into it."""
    with sqlite3.connect(path) as raw:

        def insert(table: str, **values: object) -> None:
            values = {name: str(value) if isinstance(value, UUID) else value for name, value in values.items()}
            names, marks = ", ".join(f'"{name}"' for name in values), ", ".join("?" * len(values))
            raw.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(values.values()))

        insert("daemons", id=DAEMON, fence_epoch=1)
        insert("agents", id=AGENT, name="a", provider="p", created_at=at)
        fence: dict[str, object] = {"daemon_id": DAEMON, "fence_epoch": 1}
        host = {"cell": "{}", "placement": "dedicated", "sandbox": "s", "plan_json": "{}", "state": "parked", "created_at": at}
        insert("hosts", id=HOST, agent_id=AGENT, provider="p", engine="e", **host, **fence)
        insert("sessions", id=SESSION, host_id=HOST, agent_id=AGENT, state="dormant", approvals="never", created_at=at)
        place: dict[str, object] = {"source": "managed", "guest_path": "/g", "state": "provisioning", "created_at": at}
        insert("workspaces", id=WORKSPACE, session_id=SESSION, host_id=HOST, **place)
        about: dict[str, object] = {"workspace_id": WORKSPACE, "host_id": HOST, "session_id": SESSION}
        insert("operations", id=OPERATION, kind="provision", state="running", result="", started_at=at, **about, **fence)
        insert("operation_events", operation_id=OPERATION, seq=1, state="running", result="", at=at)
        for identifier, state in ((CUT, "running"), (DONE, "succeeded"), (LOST, "interrupted")):
            insert("journal_actions", id=identifier, kind="change-request", initial='{"a":1}', state=state, at=at)
        insert("journal_steps", action_id=CUT, seq=1, step="snapshot", phase="intended", record="{}", at=at)
        insert("journal_steps", action_id=CUT, seq=2, step="snapshot", phase="failed", record="{}", failure="os.enospc", at=at)
    raw.close()

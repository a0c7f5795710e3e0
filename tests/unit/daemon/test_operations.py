"""Operations as they are told: over a real store and journal, with damaged rows, unknown kinds and somebody who follows."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import anyio
import pytest

from jamcore.daemon.journaled import Journaled, journaled
from jamcore.domain.errors import NotFoundError
from jamcore.domain.operation_views import OperationLine
from jamcore.domain.operations import About, OnRestart, OperationState
from jamcore.domain.records import Record
from jamcore.journal.declaration import Declaration
from jamcore.journal.points import NoCrash
from jamcore.journal.steps import Action, Step
from jamcore.store import Store, open_store
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files, StorageFullError

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged, pytest.mark.guarantee("WS-2")]

DECLARED = Declaration(title="sample", evidence="nothing", replay="workspace reconciliation")
FIRST, SECOND, THIRD = (UUID(int=number) for number in (1, 2, 3))


class Intent(Record):
    """What the sample is about."""

    id: UUID
    host_id: UUID | None = None


@dataclass
class Told:
    """A journal with one kind, whose second step waits for ``go`` and fails while ``error`` is set."""

    store: Store
    parts: Journaled
    go: anyio.Event
    path: Path
    error: Exception | None = None

    def action(self) -> Action[Intent]:
        """Return the kind."""

        async def nothing(intent: Intent) -> Intent:
            return intent

        async def slow(intent: Intent) -> Intent:
            await self.go.wait()
            if self.error is not None:
                raise self.error
            return intent

        steps = (
            Step("look", nothing, OnRestart.REPLAY, leaves="everything"),
            Step("move", slow, OnRestart.REPLAY, leaves="what was moved"),
        )
        return Action("sample", Intent, steps, hopeless=(StorageFullError,), declares=DECLARED)


@pytest.fixture
async def told(tmp_path: Path) -> AsyncIterator[Told]:
    """A daemon's journal."""
    async with open_store(tmp_path / "jam.db", files=Files(), clock=SystemClock(), daemon_id=UUID(int=9)) as store:
        made = Told(store, journaled(store, NoCrash()), anyio.Event(), tmp_path / "jam.db")
        made.parts.actions.register(made.action())
        yield made


async def test_a_follower_hears_of_each_line_and_ends_with_the_operation(told: Told) -> None:
    """While it runs it is under way; whoever begins after a number misses nothing and gets nothing twice."""
    heard: list[OperationLine] = []
    service = told.parts.operations

    async def follow(after: int) -> None:
        async with service.events(str(FIRST), after=after, follow=True) as lines:
            async for line in lines:
                heard.append(line)
                if line.step == "move" and line.phase == "intended":
                    assert (await service.list()).items[0].under_way
                    told.go.set()

    await told.parts.journal.begin(FIRST, "sample", Intent(id=FIRST).canonical_json().decode(), About(), OperationState.RUNNING)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follow, 0)
        await anyio.wait_all_tasks_blocked()
        await told.parts.runner.run(told.action(), FIRST, Intent(id=FIRST))
    assert [(line.step, line.phase) for line in heard] == [
        ("", ""),
        ("look", "intended"),
        ("look", "recorded"),
        ("move", "intended"),
        ("move", "recorded"),
        ("", ""),
    ]
    assert [line.seq for line in heard] == list(range(1, 7))
    assert [line.took_s is None for line in heard] == [True, True, False, True, False, False]
    assert (heard[-1].last, heard[-1].state) == (True, "succeeded")
    view = await service.show(str(FIRST))
    assert (view.lines, view.next, view.stays) == (tuple(heard), "", "")
    async with service.events(str(FIRST), after=4, follow=True) as lines:
        assert [line.seq async for line in lines] == [5, 6]


@pytest.mark.guarantee("WS-3")
async def test_a_failure_says_its_class_what_stays_and_what_to_do(told: Told) -> None:
    """The hint is that of the error with this code; what stays is what the step declares."""
    told.go.set()
    told.error = StorageFullError(detail="x")
    with pytest.raises(StorageFullError):
        await told.parts.runner.run(told.action(), FIRST, Intent(id=FIRST))
    view = await told.parts.operations.show(str(FIRST))
    assert (view.row.state, view.row.result) == ("failed", StorageFullError.code)
    assert (view.stays, view.next) == ("what was moved", StorageFullError.hint)


@pytest.mark.guarantee("START-1")
async def test_an_unknown_kind_and_a_damaged_row_hide_no_other(told: Told) -> None:
    """The list has all, newest first; what was cut short says how it goes on; the damaged one is shown as such, with its story."""
    journal, service = told.parts.journal, told.parts.operations
    for identifier, kind in ((FIRST, "sample"), (SECOND, "other"), (THIRD, "sample")):
        await journal.begin(identifier, kind, "{}", About(), OperationState.RUNNING)
    with sqlite3.connect(told.path) as database:
        database.execute("update operations set started_at = 'yesterday' where id = ?", (str(THIRD),))
        database.execute("update operation_events set at = 'never' where operation_id = ?", (str(FIRST),))
    rows = {row.id: row for row in (await service.list()).items}
    assert set(rows) == {str(FIRST), str(SECOND), str(THIRD)}
    assert (rows[str(SECOND)].title, rows[str(SECOND)].problem) == ("other (unknown to this Jam)", "")
    assert rows[str(THIRD)].problem
    assert "Another version" in (await service.show(str(SECOND))).next
    spoilt = await service.show(str(FIRST))
    assert (spoilt.lines, "cut short" in spoilt.next, "story" in spoilt.row.problem) == ((), True, True)
    damaged = await service.show(str(THIRD))
    assert (len(damaged.lines), "kept as it is" in damaged.next) == (1, True)
    page = await service.list(limit=2)
    assert (len(page.items), page.more) == (2, True)
    with pytest.raises(NotFoundError):
        await service.show(str(UUID(int=77)))


async def test_those_that_have_not_ended_are_listed_alone(told: Told) -> None:
    """One that is done is left out."""
    told.go.set()
    await told.parts.runner.run(told.action(), FIRST, Intent(id=FIRST))
    await told.parts.journal.begin(SECOND, "sample", "{}", About(), OperationState.RUNNING)
    assert [row.id for row in (await told.parts.operations.list(unfinished=True)).items] == [str(SECOND)]


@pytest.mark.guarantee("WS-16")
@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (1, "outside:0"),
        (21, f"{', '.join(f'outside:{number}' for number in range(20))} and 1 more"),
        (0, "what was named with --override"),
    ],
)
async def test_what_was_overridden_is_named(told: Told, count: int, shown: str) -> None:
    """By reason and path, as it was typed; the first of many, and of a record that names nothing only that something was."""
    named = ",".join(f'{{"path":"{number}","reason":"outside"}}' for number in range(count))
    initial = f'{{"id":"{FIRST}","overrides":[{named}]}}' if count else "{}"
    await told.store.transact(lambda repos: repos.operations.begin(FIRST, "sample", initial, About(force=True)))
    assert dict((await told.parts.operations.show(str(FIRST))).about)["overridden"] == shown

"""No live byte goes before a verified export exists, whatever fails and wherever a life ends (WS-4, WS-12, WS-16)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from jamcore.domain.exports import ExportDamagedError
from jamcore.domain.keeping import ArchiveUnfinishedError
from jamcore.domain.operations import OperationState
from jamcore.domain.removal import RemovalBlockedError
from jamcore.domain.sandboxes import EngineUnknownError
from jamcore.journal.points import NoCrash
from jamcore.journal.runner import ActionGivenUpError, Runner
from jamcore.system.files import StorageFullError
from jamcore.testing.crash import KillAt, Killed
from jamcore.workspace.keeping.archiving import ARCHIVE_POINTS, archive_action
from tests.unit.workspace.keeping.conftest import ID, Journal, intent

if TYPE_CHECKING:
    from jamcore.store import Store
    from tests.unit.workspace.keeping.conftest import Lives

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged, pytest.mark.guarantee("WS-4", "WS-16")]

BEFORE = ("stand_down", "inspect", "choose", "write", "keep")
WHOLE_RUN = [*BEFORE, "mark", "read", "prune", "note", "read", "set_aside", "remove", "settle"]
UNKNOWN = EngineUnknownError(engine="e", operation="presence", detail="no answer")


async def test_the_order_of_an_archive(lives: Lives) -> None:
    """The export is read when it is kept, and once more right before the directory goes; an exact retry does nothing."""
    done = await lives.run()
    assert [call for call in lives.world.calls if call != "read"] == [call for call in WHOLE_RUN if call != "read"]
    assert lives.world.calls[-4:] == ["read", "set_aside", "remove", "settle"]
    before = list(lives.world.calls)
    assert await lives.run() == done
    assert lives.world.calls == before
    assert lives.world.archived


@pytest.mark.guarantee("WS-12", "START-2")
@pytest.mark.parametrize("second", [None, 1])
@pytest.mark.parametrize("point", ARCHIVE_POINTS)
async def test_a_life_that_ends_anywhere(lives: Lives, point: str, second: int | None) -> None:
    """The next start finishes it, whether or not it ends too; a resumption that removes anything has read the export first."""
    with pytest.raises(Killed):
        await lives.run(KillAt(point))
    lives.world.check()
    if second is not None:
        following = ARCHIVE_POINTS[min(ARCHIVE_POINTS.index(point) + second, len(ARCHIVE_POINTS) - 1)]
        try:
            await lives.start(KillAt(following))
        except Killed:
            lives.world.check()
    lives.world.calls.clear()
    assert await lives.start() == []
    assert lives.world.archived
    assert await lives.state() is OperationState.SUCCEEDED
    calls = lives.world.calls
    destroying = [calls.index(name) for name in ("prune", "set_aside", "remove") if name in calls]
    if destroying:
        assert {"read", "keep"} & set(calls[: min(destroying)]), calls


@pytest.mark.parametrize("step", BEFORE)
@pytest.mark.parametrize("error", [StorageFullError(detail="full"), UNKNOWN, RemovalBlockedError(blockers=("x",))])
async def test_what_fails_before_anything_goes_ends_it(lives: Lives, step: str, error: Exception) -> None:
    """An engine that cannot say, a full disk, a blocker: the workspace is as it was, and no start goes on with it."""
    lives.world.fails[step] = error
    with pytest.raises(type(error)):
        await lives.run()
    assert await lives.state() is OperationState.FAILED
    assert lives.world.given_up == [type(error).__name__]
    lives.world.fails.clear()
    assert await lives.start() == []
    assert (lives.world.live, lives.world.older, lives.world.archived) == (True, True, False)
    with pytest.raises(ActionGivenUpError):
        await lives.run()


@pytest.mark.parametrize("step", ["prune", "note", "remove", "settle"])
@pytest.mark.parametrize("error", [OSError(5, "broken"), RemovalBlockedError(blockers=("x",))])
async def test_what_fails_after_that_is_gone_on_with(lives: Lives, step: str, error: Exception) -> None:
    """Nothing that can only be finished is given up, whatever it fails with; each start tries it again."""
    lives.world.fails[step] = error
    with pytest.raises(ArchiveUnfinishedError):
        await lives.run()
    assert await lives.state() is OperationState.RUNNING
    assert await lives.start() == ["workspace.archive_unfinished"]
    lives.world.fails.clear()
    assert await lives.start() == []
    assert lives.world.archived


@pytest.mark.parametrize("error", [RemovalBlockedError(blockers=("x",)), ExportDamagedError(export="e", total=1, named=("x",))])
async def test_a_tree_that_is_not_what_was_exported_stays(lives: Lives, error: Exception) -> None:
    """What is found right before the directory would go ends it: the directory is where it was, and the new export is there."""
    lives.world.fails["set_aside"] = error
    with pytest.raises(type(error)):
        await lives.run()
    assert (lives.world.live, lives.world.export, lives.world.archived) == (True, True, False)
    assert await lives.state() is OperationState.FAILED


@pytest.mark.guarantee("WS-12")
@pytest.mark.parametrize(
    "point", ["archive.mark.recorded", "archive.note.recorded", "archive.aside.recorded", "archive.remove.intended"]
)
async def test_an_export_that_was_damaged_in_between_lets_nothing_go(lives: Lives, point: str) -> None:
    """A resumption reads it first, and that ends the archive: what is there stays, or gets its own name back."""
    with pytest.raises(Killed):
        await lives.run(KillAt(point))
    lives.world.whole = False
    older = lives.world.older
    assert await lives.start() == ["export.damaged"]
    assert (lives.world.live, lives.world.aside, lives.world.older, lives.world.archived) == (True, False, older, False)
    assert await lives.state() is OperationState.FAILED
    assert lives.world.given_up == ["ExportDamagedError"]


class FullOnce(Journal):
    """A journal whose disk is full at one boundary, the first time."""

    def __init__(self, store: Store, boundary: str) -> None:
        super().__init__(store)
        self._left = [boundary]

    async def note(self, identifier: UUID, step: str, phase: str, record: str, *, failure: str = "", commits: bool = False) -> None:
        """See :meth:`jamcore.journal.runner.Journal.note`."""
        if f"{step}.{phase}" in self._left:
            self._left.clear()
            raise StorageFullError(detail="full")
        await super().note(identifier, step, phase, record, failure=failure, commits=commits)


@pytest.mark.parametrize("boundary", ["prune.intended", "aside.recorded", "remove.intended"])
async def test_a_retry_after_the_journal_failed_reads_the_export_anew(lives: Lives, boundary: str) -> None:
    """Days may lie between, also in one life: what was read before the journal failed says nothing of now."""
    async with lives.open() as store:
        runner, action = Runner(FullOnce(store, boundary), NoCrash()), archive_action(lives.world)
        with pytest.raises(StorageFullError):
            await runner.run(action, ID, intent())
        lives.world.whole = False
        with pytest.raises(ExportDamagedError):
            await runner.run(action, ID, intent())
    assert (lives.world.live, lives.world.aside, lives.world.archived) == (True, False, False)
    assert lives.world.older is (boundary == "prune.intended")


@pytest.mark.guarantee("WS-12")
async def test_what_is_not_whole_is_not_put_back(lives: Lives) -> None:
    """Some of it went before the export was damaged: it stays out of reach, and the archive waits for the export to be mended."""
    with pytest.raises(Killed):
        await lives.run(KillAt("archive.remove.intended"))
    lives.world.whole, lives.world.torn = False, True
    assert await lives.start() == ["workspace.archive_unfinished"]
    assert (lives.world.live, lives.world.aside, lives.world.archived) == (False, True, False)
    lives.world.whole = True
    assert await lives.start() == []
    assert lives.world.archived

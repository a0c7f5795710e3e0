"""The step runner: what survives a crash at every boundary, what a retry does, what a failure leaves."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING
from uuid import UUID

import anyio
import pytest

from jamcore.domain.errors import ConflictError, JamError, RefusalError
from jamcore.domain.operations import OnRestart
from jamcore.journal.points import NoCrash
from jamcore.journal.runner import ActionInterruptedError, Runner, UnreadableActionError
from jamcore.journal.steps import Action, Step
from jamcore.system.files import MachineStuckError, StorageFailedError, StorageFullError
from jamcore.testing.crash import KillAt, Killed, Passed, RaiseAt

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.journal.conftest import Lives, Move

POINTS = (
    "move.begun",
    *(f"move.{step}.{edge}" for step in ("copy", "pay", "remove") for edge in ("intended", "acted", "recorded")),
    "move.ended",
)


def test_the_points_come_from_the_action(lives: Lives) -> None:
    """A step has three boundaries, the action two of its own; the matrix below covers exactly these."""
    assert lives.world.action().crash_points() == POINTS


async def test_a_run_passes_every_point_in_order(lives: Lives) -> None:
    """What the matrix names is what a run really passes."""
    passed = Passed()
    async with lives.live(passed) as life:
        assert await life.runner.run(lives.world.action(), lives.identifier, lives.begin) == lives.finished
    assert tuple(passed.points) == POINTS


@pytest.mark.guarantee("WS-12")
@pytest.mark.parametrize("point", POINTS)
async def test_crash_matrix(lives: Lives, tmp_path: Path, point: str) -> None:
    """Killed at any boundary, and killed again at any boundary of the recovery: the third life ends in the same place, paid once."""
    for number, again in enumerate((None, *POINTS)):
        await killed_twice(lives.another(tmp_path / str(number)), point, again)


async def killed_twice(lives: Lives, point: str, again: str | None) -> None:
    """Live three times."""
    action = lives.world.action()
    async with lives.live(KillAt(point)) as life:
        with pytest.raises(Killed):
            await life.runner.run(action, lives.identifier, lives.begin)
    lives.world.check()
    if again is not None:
        async with lives.live(KillAt(again)) as life:
            try:
                await life.runner.run(action, lives.identifier, lives.begin)
            except Killed:
                lives.world.check()
    async with lives.live() as life:
        assert await life.runner.run(action, lives.identifier, lives.begin) == lives.finished
        assert await life.journal.running() == ()
    lives.world.check()
    assert lives.world.present == set()


@pytest.mark.guarantee("WS-11")
async def test_an_exact_retry_of_a_finished_action_changes_nothing(lives: Lives) -> None:
    """It returns the same record, acts no more, and writes no row."""
    action = lives.world.action()
    async with lives.live() as life:
        first = await life.runner.run(action, lives.identifier, lives.begin)
        rows, passed = await life.journal.steps(lives.identifier), Passed()
        assert await Runner(life.journal, passed).run(action, lives.identifier, lives.begin) == first
        assert passed.points == ["move.begun"]
        assert await life.journal.steps(lives.identifier) == rows
    assert lives.world.acts == ["copy", "pay", "remove"]


@pytest.mark.guarantee("WS-11")
@pytest.mark.parametrize("point", ["move.begun", "move.pay.acted", "move.ended"])
async def test_a_changed_record_under_a_known_id_is_refused(lives: Lives, point: str) -> None:
    """Whether the first was just begun, half done or finished: another record, and another kind, are conflicts and act on nothing."""
    action = lives.world.action()
    async with lives.live(KillAt(point)) as life:
        with pytest.raises(Killed):
            await life.runner.run(action, lives.identifier, lives.begin)
        before = list(lives.world.acts)
        with pytest.raises(ConflictError):
            await life.runner.run(action, lives.identifier, lives.begin.model_copy(update={"what": "other"}))
        with pytest.raises(ConflictError):
            await life.runner.run(Action("take", action.record, action.steps), lives.identifier, lives.begin)
    assert lives.world.acts == before


@pytest.mark.guarantee("WS-11")
async def test_intent_is_stored_before_the_effect(lives: Lives) -> None:
    """At the moment of each act its typed pre-state can be read from the journal by anybody else."""
    seen: list[tuple[str, str]] = []
    action = lives.world.action()

    async with lives.live() as life:

        async def look(record: Move) -> Move:
            step, phase, _ = (await life.journal.steps(lives.identifier))[-1]
            seen.append((step, phase))
            return record

        watched = [Step(step.name, look, OnRestart.REPLAY, intend=step.intend) for step in action.steps]
        await life.runner.run(Action("move", action.record, watched), lives.identifier, lives.begin)
    assert seen == [("copy", "intended"), ("pay", "intended"), ("remove", "intended")]


async def test_a_retry_beside_the_first_attempt_waits_for_it(lives: Lives) -> None:
    """Ten equal requests at once act once, and all get the same answer; another id does not wait."""
    action = lives.world.action()
    answers: list[Move] = []

    async with lives.live() as life:

        async def ask() -> None:
            answers.append(await life.runner.run(action, lives.identifier, lives.begin))

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(ask)
        assert life.runner._running == {}
    assert answers == [lives.finished] * 10
    assert lives.world.acts == ["copy", "pay", "remove"]


@pytest.mark.parametrize(
    ("error", "kind", "arrives"),
    [
        (OSError(errno.ENOSPC, "no space"), "os.enospc", StorageFullError),
        (OSError(errno.EROFS, "read-only"), "os.erofs", StorageFailedError),
        (RefusalError(), "refused.other", RefusalError),
        (OSError("without a number"), "os.unknown", StorageFailedError),
        (TimeoutError(), "os.unknown", MachineStuckError),
        (ConnectionResetError(errno.ECONNRESET, "reset"), "os.econnreset", MachineStuckError),
    ],
)
async def test_a_failure_is_noted_and_the_action_can_be_tried_again(
    lives: Lives, error: Exception, kind: str, arrives: type[JamError]
) -> None:
    """The error arrives with a type, its class is in the journal, the action stays begun; the next attempt asks the world first."""
    action = lives.world.action()
    lives.world.fails["pay"] = error
    async with lives.live() as life:
        for _ in range(2):
            with pytest.raises(arrives):
                await life.runner.run(action, lives.identifier, lives.begin)
        assert await life.failures(lives.identifier) == (("pay", kind), ("pay", kind))
        assert [found[0] for found in await life.journal.running()] == [lives.identifier]
        lives.world.fails.clear()
        assert await life.runner.run(action, lives.identifier, lives.begin) == lives.finished
    assert lives.world.acts == ["copy", "pay", "pay", "pay", "remove"]


async def test_an_effect_that_happened_and_failed_is_not_repeated(lives: Lives) -> None:
    """When the act did its work and then raised, the retry finds the work done."""
    action = lives.world.action()
    lives.world.paid.append("thing")
    lives.world.fails["pay"] = OSError(errno.EIO, "the answer was lost")
    async with lives.live() as life:
        with pytest.raises(StorageFailedError, match="lost"):
            await life.runner.run(action, lives.identifier, lives.begin)
        assert await life.runner.run(action, lives.identifier, lives.begin) == lives.finished
    assert lives.world.paid == ["thing"]


async def test_a_journal_that_fails_too_hides_nothing(lives: Lives) -> None:
    """The first error is the one that arrives, with a note of the second."""
    async with lives.live() as life:

        class Broken:
            begin, steps, failures, end = life.journal.begin, life.journal.steps, life.journal.failures, life.journal.end

            async def note(
                self, identifier: UUID, step: str, phase: str, record: str, /, *, failure: str = "", commits: bool = False
            ) -> None:
                if failure:
                    raise RefusalError
                await life.journal.note(identifier, step, phase, record, commits=commits)

        lives.world.fails["copy"] = OSError(errno.ENOSPC, "no space")
        with pytest.raises(StorageFullError, match="no space") as raised:
            await Runner(Broken(), NoCrash()).run(lives.world.action(), lives.identifier, lives.begin)
    assert any("refused.other" in note for note in raised.value.__notes__)


async def test_cancellation_is_no_failure(lives: Lives) -> None:
    """An action that is cancelled in an act stays begun and is finished by the next life."""
    action = lives.world.action()
    async with lives.live() as life:

        async def hang(record: Move) -> Move:
            await anyio.sleep_forever()
            return record

        first, *others = action.steps
        slow = Action("move", action.record, [Step(first.name, hang, first.on_restart, intend=first.intend), *others])
        with anyio.move_on_after(0.05):
            await life.runner.run(slow, lives.identifier, lives.begin)
        assert await life.failures(lives.identifier) == ()
        assert len(await life.journal.running()) == 1
    async with lives.live() as life:
        assert await life.runner.run(action, lives.identifier, lives.begin) == lives.finished


@pytest.mark.guarantee("START-2")
async def test_a_step_that_must_not_be_repeated_ends_the_action(lives: Lives) -> None:
    """Cut between intent and record it is marked as interrupted for ever, and never acted on again; cut elsewhere it goes on."""
    acts: list[str] = []

    async def once(value: Move) -> Move:
        acts.append("once")
        return value

    action = Action("push", type(lives.begin), [Step("send", once, OnRestart.MARK_INTERRUPTED)])
    for number, point in enumerate(("push.send.intended", "push.send.acted")):
        identifier = UUID(int=100 + number)
        async with lives.live(RaiseAt(point, Killed(point))) as life:
            with pytest.raises(Killed):
                await life.runner.run(action, identifier, lives.begin)
        before = list(acts)
        async with lives.live() as life:
            for _ in range(2):
                with pytest.raises(ActionInterruptedError) as refused:
                    await life.runner.run(action, identifier, lives.begin)
                assert refused.value.step == "send"
            assert await life.journal.running() == ()
        assert acts == before
    async with lives.live(KillAt("push.send.recorded")) as life:
        with pytest.raises(Killed):
            await life.runner.run(action, UUID(int=102), lives.begin)
    async with lives.live() as life:
        assert await life.runner.run(action, UUID(int=102), lives.begin) == lives.begin


async def test_what_another_version_wrote_is_kept_and_named(lives: Lives) -> None:
    """A step that this code does not have, and a record of another form, are refused by type before anything is done."""
    action = lives.world.action()
    async with lives.live(KillAt("move.pay.recorded")) as life:
        with pytest.raises(Killed):
            await life.runner.run(action, lives.identifier, lives.begin)
        before = list(lives.world.acts)
        with pytest.raises(UnreadableActionError):
            await life.runner.run(Action("move", action.record, action.steps[:1]), lives.identifier, lives.begin)
        await life.journal.note(lives.identifier, "copy", "recorded", '{"what": "thing", "since": "version 2"}')
        with pytest.raises(UnreadableActionError):
            await life.runner.run(action, lives.identifier, lives.begin)
        assert lives.world.acts == before
        assert len(await life.journal.running()) == 1


async def test_an_action_is_under_way_from_its_first_point_to_its_last(lives: Lives) -> None:
    """Who asks at any boundary is told its kind; before and after there is nothing."""

    class Look(Passed):
        """Asks at each point."""

        def reach(self, point: str, /) -> None:
            """See :class:`Passed`."""
            super().reach(point)
            seen.append(runner.under_way())

    seen: list[tuple[str, ...]] = []
    async with lives.live() as life:
        runner = Runner(life.journal, Look())
        assert runner.under_way() == ()
        assert await runner.run(lives.world.action(), lives.identifier, lives.begin) == lives.finished
        assert seen == [("move",)] * len(POINTS)
        assert runner.under_way() == ()

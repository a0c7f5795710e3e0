"""An action that fails for good ends, once, with its failure and what stays; what may yet succeed is never given up by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar
from uuid import UUID

import pytest

from jamcore.domain.errors import FaultError, JamError, RefusalError
from jamcore.domain.operations import About, ExportRetention, OnRestart, OperationState
from jamcore.journal.points import NoCrash
from jamcore.journal.replay import ActionRegistry
from jamcore.journal.runner import ActionGivenUpError, Runner
from jamcore.journal.steps import Action, Step, about
from jamcore.system.files import StorageFailedError, StorageFullError
from jamcore.testing.crash import KillAt, Killed, Passed
from tests.unit.journal.conftest import Move

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.journal.conftest import Life, Lives

STEPS = ("copy", "pay", "remove")
LAST = {step: f"{step} stays" for step in STEPS}


@dataclass(eq=False)
class LostError(FaultError):
    """What was to be moved is gone for ever."""

    code: ClassVar[str] = "test.lost"
    hint: ClassVar[str] = "Nothing can be done."


def mortal(lives: Lives, attempts: int | None = None) -> Action[Move]:
    """Return the sample action as one that can fail for good."""
    plain = lives.world.action()
    steps = [
        Step(step.name, step.act, step.on_restart, intend=step.intend, observe=step.observe, leaves=LAST[step.name])
        for step in plain.steps
    ]
    return Action(plain.kind, plain.record, steps, hopeless=(LostError,), attempts=attempts, declares=plain.declares)


async def start_up(life: Life, action: Action[Move]) -> list[tuple[UUID, str]]:
    """Do what start-up does with what had not ended."""
    registry = ActionRegistry()
    registry.register(action)
    return [(identifier, error.code) for identifier, error in await registry.replay(life.journal, life.runner)]


@pytest.mark.guarantee("START-2", "WS-12")
@pytest.mark.parametrize("step", STEPS)
async def test_a_failure_for_good_is_told_once(lives: Lives, step: str) -> None:
    """The caller gets the error itself; start-up does not try it, and an exact retry says that it is over, why, and what stays."""
    action = mortal(lives)
    lives.world.fails[step] = LostError()
    passed = Passed()
    async with lives.live(passed) as life:
        with pytest.raises(LostError) as raised:
            await life.runner.run(action, lives.identifier, lives.begin)
        assert raised.value.__notes__ == [f"given up: {step} stays"]
    assert passed.points[-2:] == [f"move.{step}.failed", f"move.{step}.given-up"]
    del lives.world.fails[step]
    before = list(lives.world.acts)
    async with lives.live() as life:
        assert await start_up(life, action) == []
        for _ in range(2):
            with pytest.raises(ActionGivenUpError) as over:
                await life.runner.run(action, lives.identifier, lives.begin)
            assert (over.value.step, over.value.failure, over.value.stays) == (step, "test.lost", f"{step} stays")
        assert await life.failures(lives.identifier) == ((step, "test.lost"),)
    assert lives.world.acts == before
    lives.world.check()


@pytest.mark.guarantee("WS-12")
async def test_killed_at_every_boundary_before_a_failure_for_good_and_of_it(lives: Lives, tmp_path: Path) -> None:
    """Whatever two boundaries the kills fall on: the third life ends it as failed, nothing is done beyond the step that failed."""
    action = mortal(lives)
    assert action.failure_points() == tuple(f"move.{step}.{edge}" for step in STEPS for edge in ("failed", "given-up"))
    number = 0
    for failing in STEPS:
        reached = action.crash_points()[: action.crash_points().index(f"move.{failing}.intended") + 1]
        points = (*reached, f"move.{failing}.failed", f"move.{failing}.given-up")
        for point in points:
            for again in (*points, "nowhere"):
                number += 1
                await killed_twice(lives.another(tmp_path / str(number)), failing, point, again)


async def killed_twice(lives: Lives, failing: str, point: str, again: str) -> None:
    """Live three times with a step that cannot succeed."""
    action = mortal(lives)
    lives.world.fails[failing] = LostError()
    async with lives.live(KillAt(point)) as life:
        with pytest.raises(Killed):
            await life.runner.run(action, lives.identifier, lives.begin)
    async with lives.live(KillAt(again)) as life:
        try:
            await start_up(life, action)
        except Killed:
            lives.world.check()
    async with lives.live() as life:
        await start_up(life, action)
        assert await life.journal.running() == ()
        with pytest.raises(ActionGivenUpError):
            await life.runner.run(action, lives.identifier, lives.begin)
    lives.world.check()
    assert lives.world.present == {"thing"}
    assert set(lives.world.acts) <= set(STEPS[: STEPS.index(failing) + 1])


@pytest.mark.guarantee("START-2")
@pytest.mark.parametrize(
    ("error", "arrives"),
    [(RefusalError(), RefusalError), (OSError(28, "no space"), StorageFullError), (ValueError("untyped"), ValueError)],
)
async def test_what_may_yet_succeed_is_given_up_only_where_that_is_said(
    lives: Lives, tmp_path: Path, error: Exception, arrives: type[Exception]
) -> None:
    """Without a number of attempts every start goes on; with one, so many failures end it, whatever they are."""
    patient, limited = lives.another(tmp_path / "patient"), lives.another(tmp_path / "limited")
    for which, attempts in ((patient, None), (limited, 3)):
        action = mortal(which, attempts)
        which.world.fails["pay"] = error
        async with which.live() as life:
            with pytest.raises(arrives):
                await life.runner.run(action, which.identifier, which.begin)
            told = [len(await start_up(life, action)) for _ in range(4)]
        assert told == ([1, 1, 1, 1] if attempts is None else [1, 1, 0, 0])
    patient.world.fails.clear()
    async with patient.live() as life:
        assert await start_up(life, mortal(patient)) == []
        assert await life.runner.run(mortal(patient), patient.identifier, patient.begin) == patient.finished


async def test_a_journal_that_cannot_note_the_end_leaves_the_action_begun(lives: Lives) -> None:
    """The first error arrives, and the next start gives up properly."""
    action = mortal(lives)
    lives.world.fails["copy"] = LostError()
    async with lives.live() as life:

        class Broken(type(life.journal)):  # type: ignore[misc]  # the class of a value
            """A journal on a full disk: it ends nothing."""

            def __init__(self) -> None:
                super().__init__(life.journal._store)

            async def end(self, identifier: UUID, state: OperationState, result: str, /) -> None:
                raise RefusalError

        with pytest.raises(LostError) as raised:
            await Runner(Broken(), NoCrash()).run(action, lives.identifier, lives.begin)
        assert any("could not note it" in note for note in raised.value.__notes__)
        assert len(await life.journal.running()) == 1
        assert await start_up(life, action) == [(lives.identifier, "test.lost")]
        assert await life.journal.running() == ()


@pytest.mark.guarantee("START-6")
@pytest.mark.parametrize("mortality", [{"hopeless": (JamError,)}, {"attempts": 1}])
def test_an_action_that_can_fail_for_good_says_what_stays(lives: Lives, mortality: dict[str, object]) -> None:
    """At each of its steps; one that cannot has no such boundaries."""
    plain = lives.world.action()
    with pytest.raises(ValueError, match="what stays"):
        Action("move", plain.record, plain.steps, **mortality)  # type: ignore[arg-type]  # one of two ways
    assert plain.failure_points() == ()
    assert Action("x", plain.record, [Step("a", plain.steps[0].act, OnRestart.REPLAY)]).failure_points() == ()


@pytest.mark.guarantee("WS-16", "START-2")
async def test_an_action_is_pending_until_the_step_that_removes_something(lives: Lives) -> None:
    """Its row says whether anything can be lost already; a restart goes on with it in either state."""
    plain = lives.world.action()
    action = Action("move", plain.record, plain.steps, commits_at="remove", declares=plain.declares)
    for point, state in (("move.pay.recorded", OperationState.PENDING), ("move.remove.intended", OperationState.RUNNING)):
        async with lives.live(KillAt(point)) as life:
            with pytest.raises(Killed):
                await life.runner.run(action, lives.identifier, lives.begin)
        async with lives.live() as life:
            assert (await life.operation(lives.identifier)).state is state
    async with lives.live() as life:
        assert await start_up(life, action) == []
        assert (await life.operation(lives.identifier)).state is OperationState.SUCCEEDED
    lives.world.check()
    with pytest.raises(ValueError, match="no step"):
        Action("move", plain.record, plain.steps, commits_at="else")


@pytest.mark.guarantee("WS-16", "START-2")
@pytest.mark.parametrize(
    ("step", "state"), [("copy", OperationState.FAILED), ("pay", OperationState.FAILED), ("remove", OperationState.RUNNING)]
)
async def test_what_lets_go_ends_with_any_failure_until_it_commits(lives: Lives, step: str, state: OperationState) -> None:
    """Before the step that removes something, whatever fails is over: the next request begins anew. From there on it is gone on with."""
    plain = mortal(lives)
    action = Action("move", plain.record, plain.steps, commits_at="remove", lets_go=True, declares=plain.declares)
    lives.world.fails[step] = OSError(5, "the disk")
    async with lives.live() as life:
        with pytest.raises(StorageFailedError, match="the disk"):
            await life.runner.run(action, lives.identifier, lives.begin)
        assert (await life.operation(lives.identifier)).state is state
    lives.world.fails.clear()
    async with lives.live() as life:
        assert await start_up(life, action) == []
        ended = OperationState.FAILED if state is OperationState.FAILED else OperationState.SUCCEEDED
        assert (await life.operation(lives.identifier)).state is ended
    assert [point.rpartition(".")[0] for point in action.failure_points()][::2] == [f"move.{name}" for name in STEPS]
    with pytest.raises(ValueError, match="no step"):
        Action("move", plain.record, plain.steps, lets_go=True)


async def test_what_ends_for_good_is_settled_before_its_end_is_noted(lives: Lives) -> None:
    """Whoever composes the action puts its own rows right, again after a crash in between; one that succeeds is not settled."""
    settled: list[str] = []

    async def settle(record: Move, error: Exception) -> None:
        settled.append(f"{record.what}: {type(error).__name__}")

    def again() -> Action[Move]:
        plain = mortal(lives)
        return Action("move", plain.record, plain.steps, hopeless=plain.hopeless, settle=settle, declares=plain.declares)

    lives.world.fails["pay"] = LostError()
    async with lives.live(KillAt("move.pay.failed")) as life:
        with pytest.raises(Killed):
            await life.runner.run(again(), lives.identifier, lives.begin)
    assert settled == []
    async with lives.live(KillAt("move.pay.given-up")) as life:
        with pytest.raises(Killed):
            await life.runner.run(again(), lives.identifier, lives.begin)
    assert settled == ["thing: LostError"]
    async with lives.live() as life:
        ended = await life.operation(lives.identifier)
        assert (ended.state, ended.result) == (OperationState.FAILED, "test.lost")
        lives.world.fails.clear()
        await life.runner.run(again(), UUID(int=43), lives.begin)
    assert settled == ["thing: LostError"]


@pytest.mark.guarantee("WS-3")
async def test_the_fields_of_an_intent_become_columns(lives: Lives) -> None:
    """A record that names a host, a retention or what was confirmed is found by it, without anybody reading its JSON."""

    class Intent(Move):
        retention: ExportRetention = ExportRetention.KEEP_LATEST
        force: bool = True
        confirmed: str = "a" * 64

    assert about(Intent(what="thing")) == About(retention=ExportRetention.KEEP_LATEST, force=True, confirmed="a" * 64)
    assert about(Move(what="thing")) == About()

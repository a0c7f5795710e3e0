"""Registered kinds, and what start-up does with what had not ended."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal
from uuid import UUID

import pytest

from jamcore.domain.errors import FaultError
from jamcore.domain.operations import About, OnRestart, OperationState
from jamcore.domain.records import Record
from jamcore.journal.replay import ActionFailedError, ActionRegistry, UnknownActionError
from jamcore.journal.runner import UnreadableActionError
from jamcore.journal.steps import Action, Step
from jamcore.testing.crash import KillAt, Killed
from tests.unit.journal.conftest import DECLARED

if TYPE_CHECKING:
    from tests.unit.journal.conftest import Lives

RUNNING = OperationState.RUNNING


class Empty(Record):
    """Nothing to say."""


async def nothing(record: Empty) -> Empty:
    """Do nothing."""
    return record


def step(name: str, rule: OnRestart = OnRestart.REPLAY) -> Step[Empty]:
    """Return a step."""
    return Step(name, nothing, rule)


@pytest.mark.guarantee("START-6")
def test_an_action_without_its_rules_cannot_exist() -> None:
    """No steps, two of a name, one that nothing observes, one without a restart rule, a name that is none: refused when it is made."""
    for steps in (
        [],
        [step("a"), step("a")],
        [step("a", OnRestart.OBSERVE_THEN_FINISH)],
        [step("A b")],
        [step("a.b")],
        [step("x" * 49)],
    ):
        with pytest.raises(ValueError, match="kind"):
            Action("kind", Empty, steps)
    with pytest.raises(ValueError, match="Kind"):
        Action("Kind", Empty, [step("a")])
    with pytest.raises(TypeError):
        Step("a", nothing)  # type: ignore[call-arg]


def test_a_kind_is_registered_once() -> None:
    """A second action of a kind is a programming error; the registry names all its boundaries."""
    registry = ActionRegistry()
    registry.register(Action("b", Empty, [step("one")], declares=DECLARED))
    registry.register(Action("a", Empty, [step("two")], declares=DECLARED))
    with pytest.raises(ValueError, match="already"):
        registry.register(Action("b", Empty, [step("other")], declares=DECLARED))
    assert registry.kinds() == ("a", "b")
    assert registry.crash_points()[:2] == ("a.begun", "a.two.intended")
    assert ActionRegistry().kinds() == ()


class Confirmed(Record):
    """An intent with what a person confirmed."""

    confirmed: str = ""


async def same(record: Confirmed) -> Confirmed:
    """Do nothing."""
    return record


class Evidence(Record):
    """What is confirmed for the kind ``b``."""

    kind: Literal["b"] = "b"


class Unbound(Record):
    """Evidence whose digest would fit any kind."""

    bytes_freed: int = 0


@pytest.mark.guarantee("START-6", "WS-10")
def test_a_kind_that_does_not_say_what_it_is_cannot_be_registered() -> None:
    """Nothing declared, no title, evidence or step of the start, a confirmation of nothing, one without its field: refused."""
    registry = ActionRegistry()
    for declares in (None, replace(DECLARED, title=""), replace(DECLARED, evidence=""), replace(DECLARED, replay="")):
        with pytest.raises(ValueError, match="declare"):
            registry.register(Action("b", Empty, [step("one")], declares=declares))
    with pytest.raises(ValueError, match="not both"):
        registry.register(Action("b", Confirmed, [Step("one", same, OnRestart.REPLAY)], declares=DECLARED))
    with pytest.raises(ValueError, match="not both"):
        registry.register(Action("b", Empty, [step("one")], declares=replace(DECLARED, confirms=Evidence)))
    assert registry.kinds() == ()


@pytest.mark.guarantee("START-6", "WS-10")
def test_a_confirmation_that_fits_two_kinds_is_refused() -> None:
    """A digest is of evidence that names its kind, and no two kinds have the same."""
    registry = ActionRegistry()

    def action(kind: str, evidence: type[Record]) -> Action[Confirmed]:
        declares = replace(DECLARED, confirms=evidence)
        return Action(kind, Confirmed, [Step("one", same, OnRestart.REPLAY)], declares=declares)

    with pytest.raises(ValueError, match="another kind"):
        registry.register(action("b", Unbound))
    registry.register(action("b", Evidence))
    with pytest.raises(ValueError, match="another kind"):
        registry.register(action("c", Evidence))
    assert registry.kinds() == ("b",)


@dataclass(eq=False)
class SpoiltError(FaultError):
    """For this test."""

    code: ClassVar[str] = "fault.spoilt"


@pytest.mark.guarantee("START-1", "START-2")
async def test_one_bad_action_stops_no_other(lives: Lives) -> None:
    """Of five that had not ended each is tried; each failure is returned by type; the good ones are finished, the bad ones stay."""

    async def spoil(record: Empty) -> Empty:
        raise SpoiltError

    async def err(record: Empty) -> Empty:
        raise KeyError("no type of its own")

    bad, worse = (
        Action("bad", Empty, [Step("s", spoil, OnRestart.REPLAY)], declares=DECLARED),
        Action("worse", Empty, [Step("s", err, OnRestart.REPLAY)], declares=DECLARED),
    )
    unknown, move = Action("unknown", Empty, [step("s")]), lives.world.action()
    names = {UUID(int=1): bad, UUID(int=2): worse, UUID(int=3): unknown}
    async with lives.live() as life:
        for identifier, action in names.items():
            await life.journal.begin(identifier, action.kind, "{}", About(), RUNNING)
        await life.journal.begin(UUID(int=4), "bad", '{"of": "another form"}', About(), RUNNING)
    async with lives.live(KillAt("move.pay.acted")) as life:
        with pytest.raises(Killed):
            await life.runner.run(move, lives.identifier, lives.begin)
    registry = ActionRegistry()
    for action in (bad, worse):
        registry.register(action)
    registry.register(move)
    async with lives.live() as life:
        failed = {identifier: type(error) for identifier, error in await registry.replay(life.journal, life.runner)}
        assert failed == {
            UUID(int=1): SpoiltError,
            UUID(int=2): ActionFailedError,
            UUID(int=3): UnknownActionError,
            UUID(int=4): UnreadableActionError,
        }
        assert {found[0] for found in await life.journal.running()} == set(failed)
    assert lives.world.acts == ["copy", "pay", "remove"]
    lives.world.check()


@pytest.mark.guarantee("START-1")
async def test_a_kind_can_have_a_step_of_the_start_for_itself(lives: Lives) -> None:
    """It is finished in that step alone, and the others in the other."""
    done: list[str] = []

    def kind(name: str) -> Action[Empty]:
        async def act(record: Empty) -> Empty:
            done.append(name)
            return record

        return Action(name, Empty, [Step("one", act, OnRestart.REPLAY)], declares=DECLARED)

    registry = ActionRegistry()
    async with lives.live() as life:
        for number, name in enumerate(("other", "own")):
            registry.register(kind(name))
            await life.journal.begin(UUID(int=number), name, "{}", About(), RUNNING)
        assert await registry.replay(life.journal, life.runner, only="own") == ()
        assert done == ["own"]
        assert await registry.replay(life.journal, life.runner, but=("own",)) == ()
        assert done == ["own", "other"]


async def test_replay_with_nothing_to_do_does_nothing(lives: Lives) -> None:
    """The usual start."""
    async with lives.live() as life:
        await life.runner.run(lives.world.action(), lives.identifier, lives.begin)
        assert await ActionRegistry().replay(life.journal, life.runner) == ()

"""How a session may start, and which bytes it finds (CONT-1, CONT-7, CONT-11, CONT-12)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from jamcore.continuity.generations.publish import CheckpointFailedError
from jamcore.continuity.resuming.observe import ObservationLostError, require_success
from jamcore.domain.continuity import (
    Activation,
    CheckpointReason,
    ContinuityFailure,
    ContinuityRefusedError,
    ObservationOutcome,
    ResumeFailedError,
    ResumeSource,
)
from jamcore.domain.errors import ConflictError
from jamcore.domain.sessions import TurnState

if TYPE_CHECKING:
    from tests.unit.continuity.conftest import World

pytestmark = pytest.mark.anyio


@pytest.mark.guarantee("CONT-7")
async def test_a_session_that_never_bound_an_identity_starts_fresh(world: World) -> None:
    """Nothing is looked at, not even a generation that exists."""
    world.log().write_bytes(b"x\n")
    await world.capture()
    decision = await world.inspect(world.add_session(None))
    assert (decision.outcome, decision.failure) == (Activation.FRESH_START, None)


@pytest.mark.guarantee("CONT-1", "CONT-7")
async def test_the_four_outcomes(world: World) -> None:
    """Each kind of evidence gives its own refusal, and only a verified generation of this session and version resumes."""
    world.log().write_bytes(b"x\n")
    decision = await world.inspect()
    assert (decision.outcome, decision.failure) == (Activation.REFUSE_NO_CHECKPOINT, ContinuityFailure.MISSING)
    row = await world.capture()
    decision = await world.inspect()
    assert (decision.outcome, decision.evidence.checkpoint_id) == (Activation.EXACT_RESUME, row.id)
    for current in ("2.0.0", None):
        decision = await world.inspect(current=current)
        assert (decision.outcome, decision.failure) == (
            Activation.REFUSE_UNUSABLE,
            ContinuityFailure.PROVIDER_VERSION_MISMATCH,
        )
    late = world.add_session("thread-late")
    decision = await world.inspect(late)
    assert (decision.outcome, decision.failure) == (Activation.REFUSE_UNUSABLE, ContinuityFailure.SESSION_NOT_CAPTURED)
    other = world.session.model_copy(update={"provider_identity": "thread-2"})
    assert (await world.inspect(other)).failure is ContinuityFailure.SESSION_NOT_CAPTURED


@pytest.mark.guarantee("CONT-4", "CONT-7")
async def test_an_incomplete_generation_is_never_selected(world: World) -> None:
    """A row whose complete.json is gone refuses, and does not fall back to an older generation silently."""
    world.log().write_bytes(b"x\n")
    await world.capture()
    world.log().write_bytes(b"x\ny\n")
    row = await world.capture()
    world.complete(row).unlink()
    world.restart()
    decision = await world.inspect()
    assert (decision.failure, decision.evidence.generation_state) == (ContinuityFailure.MISSING, "incomplete")


@pytest.mark.guarantee("CONT-1", "CONT-4")
async def test_every_flipped_byte_is_found(world: World) -> None:
    """One flipped bit in any byte of the packs or of complete.json makes the generation corrupt; it is never used."""
    world.log().write_bytes(b'{"text":"' + b"hello " * 30 + b'"}\n')
    world.write("home/config/c", os.urandom(40))
    row = await world.capture()
    assert (await world.inspect()).outcome is Activation.EXACT_RESUME
    survivors = []
    for path in (*world.packs, world.complete(row)):
        data = path.read_bytes()
        for at in range(len(data)):
            path.write_bytes(data[:at] + bytes([data[at] ^ (1 << at % 8)]) + data[at + 1 :])
            world.restart()
            decision = await world.inspect()
            if (decision.failure, decision.evidence.generation_state) != (ContinuityFailure.CORRUPT, "corrupt"):
                survivors.append((path.name, at, decision.outcome))
        path.write_bytes(data)
    assert survivors == []
    world.restart()
    assert (await world.inspect()).outcome is Activation.EXACT_RESUME


@pytest.mark.guarantee("CONT-1")
async def test_damage_heals_with_the_next_checkpoint(world: World) -> None:
    """What is found damaged is stored anew from the live state, and then the session resumes again."""
    world.log().write_bytes(os.urandom(300_000))
    await world.capture()
    world.log().write_bytes(world.log().read_bytes() + b"tail\n")
    await world.capture()
    pack = world.packs[0]
    data = bytearray(pack.read_bytes())
    data[150_000] ^= 1
    pack.write_bytes(data)
    assert (await world.inspect()).failure is ContinuityFailure.CORRUPT
    await world.capture()
    assert (await world.inspect()).outcome is Activation.EXACT_RESUME
    world.restart()
    assert (await world.inspect()).outcome is Activation.EXACT_RESUME


@pytest.mark.guarantee("CONT-7")
async def test_what_cannot_be_read_is_no_evidence(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """An input/output error is a fault, not a corrupt generation: unknown is not absent."""
    world.log().write_bytes(b"x\n")
    await world.capture()
    world.restart()

    def refuse(*arguments: object, **more: object) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("jamcore.continuity.generations.blocks.os.open", refuse)
    with pytest.raises(CheckpointFailedError):
        await world.inspect()


@pytest.mark.guarantee("CONT-7")
async def test_the_decision_is_stored(world: World) -> None:
    """With its evidence, before anything starts."""
    decision = await world.inspect()
    await world.activator.record(world.session, decision)
    assert world.store.now(lambda repos: repos.activations.latest_of_session(world.session.id)) == decision


@pytest.mark.guarantee("CONT-1")
async def test_a_refusal_places_nothing(world: World) -> None:
    """The error carries the kind of failure."""
    world.log().write_bytes(b"x\n")
    with pytest.raises(ContinuityRefusedError) as refused:
        await world.place()
    assert refused.value.failure == "missing"
    assert world.log().read_bytes() == b"x\n"


@pytest.mark.guarantee("CONT-11")
async def test_live_state_is_used_only_if_it_extends_the_generation(world: World) -> None:
    """A longer log with equal whole files is live; it is not touched, nor are rebuildable files beside it."""
    world.log().write_bytes(b"one\n")
    world.write("home/config/c", b"config")
    await world.capture()
    assert (await world.place()).source is ResumeSource.LIVE
    world.log().write_bytes(b"one\ntwo\nhalf")
    world.log("new.jsonl").write_bytes(b"x\n")
    database = world.write("home/state.sqlite", b"live")
    placed = await world.place()
    assert (placed.source, placed.set_aside, placed.why_restored) == (ResumeSource.LIVE, None, "")
    assert database.exists()
    assert world.log().read_bytes() == b"one\ntwo\nhalf"


@pytest.mark.guarantee("CONT-11")
@pytest.mark.parametrize(
    "damage",
    [
        lambda world: world.log().unlink(),
        lambda world: world.log().write_bytes(b"on"),
        lambda world: world.log().write_bytes(b"ONE\ntwo\n"),
        lambda world: (world.state / "home/config/c").write_bytes(b"CONFIG"),
        lambda world: (world.state / "home/config/c").unlink(),
        lambda world: (world.state / "home/config").rename(world.state / "home/elsewhere"),
        lambda world: ((world.state / "home/config/link").unlink(), (world.state / "home/config/link").symlink_to("b")),
        lambda world: ((world.state / "home/config/c").unlink(), (world.state / "home/config/c").mkdir()),
        lambda world: (world.log().rename(world.state / "kept"), world.log().symlink_to(world.state / "kept")),
    ],
)
async def test_everything_else_is_restored(world: World, damage: Callable[[World], object]) -> None:
    """Missing, shorter, rewritten, of another kind: the generation is put in place, and the reason is said."""
    world.log().write_bytes(b"one\n")
    world.write("home/config/c", b"config").chmod(0o640)
    (world.state / "home/config/link").symlink_to("a")
    await world.capture()
    damage(world)
    placed = await world.place()
    assert placed.source is ResumeSource.GENERATION
    assert placed.why_restored.startswith("home/")
    assert world.log().read_bytes() == b"one\n"
    assert not world.log().is_symlink()
    assert (world.state / "home/config/c").read_bytes() == b"config"
    assert (world.state / "home/config/c").stat().st_mode & 0o777 == 0o640
    assert (world.state / "home/config/link").readlink().name == "a"
    again = await world.place()
    assert again.source is ResumeSource.LIVE


@pytest.mark.guarantee("CONT-1", "CONT-11")
async def test_a_live_state_that_is_gone_with_its_directory_is_restored(world: World) -> None:
    """So it is when the guest's home, where its scratch would be, is gone as well; beside living siblings nothing is made."""
    world.log().write_bytes(b"one\n")
    await world.capture()
    shutil.rmtree(world.state)
    shutil.rmtree(world.home)
    with pytest.raises(ContinuityRefusedError, match="the live state is gone"):
        await world.place(may_restore=False)
    assert not world.state.exists()
    placed = await world.place()
    assert (placed.source, placed.why_restored) == (ResumeSource.GENERATION, "the live state is gone")
    assert world.log().read_bytes() == b"one\n"


@pytest.mark.guarantee("CONT-5", "CONT-11")
async def test_a_restore_deletes_what_would_diverge_and_keeps_what_it_replaces(world: World) -> None:
    """Rebuildable databases and the guest's scratch go; the replaced log and a log of no generation are set aside, whole."""
    world.log().write_bytes(b"one\n")
    await world.capture()
    world.log().write_bytes(b"other\n")
    world.log("stray.jsonl").write_bytes(b"stray\n")
    for name in ("state.sqlite", "state.sqlite-wal"):
        world.write(f"home/{name}", b"stale")
    kept = world.write("home/notes.txt", b"not declared")
    scratch = world.home / ".cache/db"
    (scratch / "deep/er").mkdir(parents=True)
    (scratch / "deep/x").write_bytes(b"")
    beside = world.home / ".cache/other"
    beside.write_bytes(b"")
    placed = await world.place()
    assert placed.set_aside is not None
    assert placed.set_aside.parent == world.recovery / "replaced"
    aside = {path.relative_to(placed.set_aside).as_posix(): path.read_bytes() for path in placed.set_aside.rglob("*.jsonl")}
    assert aside == {"home/sessions/a.jsonl": b"other\n", "home/sessions/stray.jsonl": b"stray\n"}
    assert placed.set_aside.stat().st_mode & 0o777 == 0o700
    assert sorted(path.name for path in (world.state / "home").iterdir()) == ["notes.txt", "sessions"]
    assert kept.read_bytes() == b"not declared"
    assert list(scratch.iterdir()) == []
    assert beside.exists()


@pytest.mark.guarantee("CONT-11")
async def test_the_check_of_the_provider_must_hold(world: World) -> None:
    """A generation without the file that a resume needs is not started on, live or restored."""
    world.write("home/config/c", b"x")
    await world.capture(CheckpointReason.FIRST_TURN)
    with pytest.raises(ContinuityRefusedError, match="nothing matches"):
        await world.place()
    world.write("home/config/c", b"y")
    with pytest.raises(ContinuityRefusedError, match="nothing matches"):
        await world.place()
    world.write("home/config/c", b"x")
    world.log().write_bytes(b"written by the first turn\n")
    assert (await world.place()).source is ResumeSource.LIVE


@pytest.mark.guarantee("CONT-11")
async def test_a_first_turn_that_was_killed_resumes_from_live_state(world: World) -> None:
    """The generation made before the first turn holds the identity; the live log extends it."""
    fresh = world.add_session(None)
    await world.capture(CheckpointReason.FIRST_TURN, identities={fresh.id: "thread-9"})
    world.log().write_bytes(b"first turn, half")
    bound = world.store.now(lambda repos: repos.sessions.bind_identity(fresh.id, "thread-9"))
    decision = await world.inspect(bound)
    assert decision.outcome is Activation.EXACT_RESUME
    assert (await world.place(decision)).source is ResumeSource.LIVE


async def test_state_is_not_exchanged_under_a_running_sibling(world: World) -> None:
    """While another session's provider runs, only live state will do."""
    world.log().write_bytes(b"one\n")
    await world.capture()
    world.log().write_bytes(b"other\n")
    with pytest.raises(ContinuityRefusedError, match="other sessions"):
        await world.place(may_restore=False)
    assert world.log().read_bytes() == b"other\n"


@pytest.mark.guarantee("CONT-11")
async def test_a_turn_is_safe_only_when_captured(world: World) -> None:
    """After a restore the state holds exactly the captured turns; the turn that completed later stays uncaptured."""
    world.log().write_bytes(b"one\n")
    safe = world.add_turn(world.session, TurnState.COMPLETED)
    await world.capture()
    late = world.add_turn(world.session, TurnState.COMPLETED)
    world.log().unlink()
    assert (await world.place()).source is ResumeSource.GENERATION
    turns = world.store.turns
    assert (turns[safe].state, turns[late].state) == (TurnState.CAPTURED, TurnState.COMPLETED)


@pytest.mark.guarantee("CONT-7", "CONT-12")
async def test_observations_say_what_the_provider_reported(world: World) -> None:
    """Only the exact identity is a success; a later success supersedes a failure without deleting it."""
    world.log().write_bytes(b"x\n")
    row = await world.capture()
    for reported, outcome in (("thread-2", "failed"), (None, "failed"), ("thread-1", "succeeded")):
        seen = world.observed(row.id, source=ResumeSource.LIVE, reported=reported, detail="d")
        assert seen.outcome is ObservationOutcome(outcome)
        await world.observer.record(seen)
        assert await world.observer.latest(row.id, world.session.id) == seen
        if outcome == "failed":
            with pytest.raises(ResumeFailedError):
                require_success(seen)
        else:
            require_success(seen)
    assert len(world.store.observations(world.session)) == 3


@pytest.mark.guarantee("CONT-7", "CONT-12")
async def test_an_observation_that_cannot_be_written_fails_the_turn(world: World) -> None:
    """The error is typed, so that nothing of the provider is shown."""
    seen = world.observed(world.ids.uuid(), source=ResumeSource.LIVE, reported="thread-1")
    world.store.fails = ConflictError(kind="store", ref="", problem="full")
    with pytest.raises(ObservationLostError):
        await world.observer.record(seen)

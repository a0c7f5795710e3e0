"""The evidence that a fresh start is confirmed by: what its checksum covers, and each kind of failure from real damage (CONT-9)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

import jamcore
from jamcore.continuity.resuming.compare import RestoredOtherwiseError
from jamcore.continuity.resuming.restore import Restore
from jamcore.domain import layout
from jamcore.domain.cells import Placement
from jamcore.domain.continuity import (
    CheckpointReason,
    ContinuityFailure,
    ContinuityRefusedError,
    DatabaseHelperError,
    DatabaseRefusedError,
    ObservationOutcome,
    ResumeSource,
)
from jamcore.domain.resets import MEANING, SEVERITY, ContinuityEvidence, ResetRefusedError, SessionEvidence, worst
from jamcore.runtime.seat import Seat

if TYPE_CHECKING:
    from jamcore.domain.errors import JamError
    from tests.unit.resets.conftest import Life, Stage

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged]


async def evidence_of(life: Life, stage: Stage) -> ContinuityEvidence:
    """Look at the host."""
    return (await life.resets.inspect(str(stage.rooms[0].room.id))).evidence


def others(record: Any, *, but: str = "") -> list[Any]:  # noqa: ANN401 - any record
    """Return a record for each of its fields, in which that one has a value that no real one has."""
    names = [name for name in type(record).model_fields if name != but]
    return [record.model_copy(update={name: f"not {getattr(record, name)}"}) for name in names]


@pytest.mark.guarantee("CONT-9")
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
async def test_the_checksum_covers_every_field_and_not_the_order(stage: Stage) -> None:
    """Of the evidence itself, of each session, of the checkpoint and of the observation: another value is another checksum."""
    await stage.make()
    async with stage.living() as life:
        row = await life.capture(stage.host)
        await life.observe(stage.rooms[0].session, row.id, None)
        evidence = await evidence_of(life, stage)
    session = next(each for each in evidence.sessions if each.observation is not None)
    rest = tuple(each for each in evidence.sessions if each is not session)

    def with_session(other: SessionEvidence) -> ContinuityEvidence:
        return evidence.model_copy(update={"sessions": (other, *rest)})

    changed = [
        *others(evidence, but="sessions"),
        *(evidence.model_copy(update={"checkpoint": other}) for other in others(evidence.checkpoint)),
        *(with_session(other) for other in others(session, but="session_id")),
        with_session(session.model_copy(update={"session_id": stage.host.id})),
        *(with_session(session.model_copy(update={"observation": other})) for other in others(session.observation)),
    ]
    assert len({each.checksum() for each in (evidence, *changed)}) == len(changed) + 1 > 35
    assert evidence.model_copy(update={"sessions": evidence.sessions[::-1]}).checksum() == evidence.checksum()
    assert evidence.model_copy(update={"sessions": evidence.sessions[:1]}).checksum() != evidence.checksum()


async def _missing(stage: Stage, life: Life) -> None:
    (row,) = await life.store.read(lambda repos: repos.checkpoints.of_host(stage.host.id))
    (stage.world.app / layout.checkpoint_root(stage.host.id, row.id) / "complete.json").unlink()


async def _corrupt(stage: Stage, _life: Life) -> None:
    stage.corrupt()


async def _not_captured(stage: Stage, life: Life) -> None:
    await stage.join(life)


async def _version(stage: Stage, life: Life) -> None:
    continuity = life.continuity(stage.host)
    continuity.program_version = "0"
    await continuity.capture(CheckpointReason.AFTER_TURN)


async def _resume_failed(stage: Stage, life: Life) -> None:
    (row,) = await life.store.read(lambda repos: repos.checkpoints.of_host(stage.host.id))
    await life.observe(stage.rooms[1].session, row.id, None)


KINDS: tuple[tuple[Callable[..., Any], ContinuityFailure], ...] = (
    (_missing, ContinuityFailure.MISSING),
    (_corrupt, ContinuityFailure.CORRUPT),
    (_not_captured, ContinuityFailure.SESSION_NOT_CAPTURED),
    (_version, ContinuityFailure.PROVIDER_VERSION_MISMATCH),
    (_resume_failed, ContinuityFailure.RESUME_FAILED),
)


@pytest.mark.guarantee("CONT-9", "CONT-7")
@pytest.mark.parametrize(("damage", "kind"), KINDS, ids=[damage.__name__.strip("_") for damage, _ in KINDS])
async def test_each_kind_of_failure_is_found(stage: Stage, damage: Callable[..., Any], kind: ContinuityFailure) -> None:
    """What was done to the host is named by its kind, in words too, and only then may it be started afresh."""
    await stage.make()
    ref = str(stage.rooms[0].room.id)
    async with stage.living() as life:
        sound = await life.resets.inspect(ref)
        assert (sound.evidence.failure, sound.can_start_fresh) == (None, False)
        await damage(stage, life)
    async with stage.living() as life:
        view = await life.resets.inspect(ref)
        again = await life.resets.inspect(ref)
    assert view.evidence.failure is kind
    assert view.meaning.startswith(MEANING[kind])
    assert view.can_start_fresh
    assert view.digest == again.digest != sound.digest


@pytest.mark.guarantee("CONT-9", "CONT-7", "CONT-11")
async def test_nothing_is_given_up_while_the_live_state_holds_what_is_damaged(stage: Stage) -> None:
    """The inspection says what is damaged and that the live state holds all of it; once that state lost something, it is a failure."""
    await stage.make()
    stage.damage_log()
    ref = str(stage.rooms[0].room.id)
    async with stage.living() as life:
        view = await life.resets.inspect(ref)
        assert (view.evidence.generation_state, view.evidence.failure, view.can_start_fresh) == ("corrupt", None, False)
        assert view.meaning.startswith("every conversation of this host can be brought back: ")
        assert view.meaning.endswith("; the live state holds all of it, and is resumed")
        with pytest.raises(ResetRefusedError, match="can be brought back"):
            await life.start_fresh(stage.rooms[0].room.id, view.digest)
        (stage.state / "home" / "logs" / "a").write_bytes(b"hello\n")
        view = await life.resets.inspect(ref)
        assert (view.evidence.failure, view.can_start_fresh) == (ContinuityFailure.CORRUPT, True)
        assert view.meaning.endswith("; the live state does not hold all of it: home/logs/a is not what was captured")


@pytest.mark.guarantee("CONT-7", "CONT-11")
async def test_a_session_that_came_back_beside_damage_is_captured_at_once(stage: Stage) -> None:
    """Until then its conversation lies in the live state alone."""
    await stage.make(placement=Placement.DEDICATED, rooms=1)
    async with stage.living() as life:
        seat = await _seat(stage, life)
        sound = life.continuity(stage.host)
        await sound.activate(seat)
        assert not sound.needs_new_generation(seat)
        stage.damage_log()
        beside = life.continuity(stage.host)
        await beside.activate(seat)
        assert beside.needs_new_generation(seat)
        assert beside.expectations[seat.session.id][1].source is ResumeSource.LIVE


async def _seat(stage: Stage, life: Life) -> Seat:
    made = stage.rooms[0]
    session = await life.store.read(lambda repos: repos.sessions.get(made.session.id))
    return Seat(session=session, workspace=made.workspace, room_id=made.room.id, room_name=made.room.name)


@pytest.mark.guarantee("CONT-7", "CONT-12")
async def test_a_restore_that_did_not_do_what_it_should_is_a_failed_resume(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something writes the files while they are restored: nothing is started on them, and the attempt is on record."""
    await stage.make(placement=Placement.DEDICATED, rooms=1)
    log = stage.state / "home" / "logs" / "a"
    log.write_bytes(b"other\n")
    async with stage.living() as life:
        seat = await _seat(stage, life)
        run = Restore.run

        def disturbed(self: Restore, *arguments: Any) -> Path | None:
            aside = run(self, *arguments)
            log.write_bytes(b"other again\n")
            return aside

        with monkeypatch.context() as patched:
            patched.setattr(Restore, "run", disturbed)
            with pytest.raises(RestoredOtherwiseError):
                await life.continuity(stage.host).activate(seat)
        (seen,) = await life.store.read(lambda repos: repos.observations.of_session(seat.session.id))
        assert (seen.outcome, seen.source) == (ObservationOutcome.FAILED, ResumeSource.GENERATION)
        assert "home/logs/a is not what was captured" in seen.detail
        assert (await evidence_of(life, stage)).failure is ContinuityFailure.RESUME_FAILED
        await life.continuity(stage.host).activate(seat)
        assert log.read_bytes() == b"hello\n" * 100


@pytest.mark.guarantee("CONT-9", "CONT-7")
async def test_a_thread_that_was_killed_before_it_wrote_anything_can_be_started_afresh(stage: Stage) -> None:
    """Its generation is whole, holds the session, and lacks what a resume needs: the refusal and the inspection name one kind."""
    await stage.make(placement=Placement.DEDICATED, rooms=1, log=b"")
    async with stage.living() as life:
        view = await life.resets.inspect(str(stage.rooms[0].room.id))
        assert (view.evidence.generation_state, view.evidence.failure) == ("verified", ContinuityFailure.MISSING)
        assert view.can_start_fresh
        (stage.state / "home" / "logs" / "a").write_bytes(b"it did write something, which no generation holds yet")
        assert (await evidence_of(life, stage)).failure is None


@pytest.mark.guarantee("CONT-9", "CONT-12")
@pytest.mark.parametrize(
    "error",
    [
        DatabaseRefusedError(path="~/db", reason="damaged"),
        DatabaseHelperError(host="host", problem="no Python, or it is damaged"),
        RestoredOtherwiseError(host="host", problem="restored, and yet ~/db is damaged"),
        ContinuityRefusedError(session="session", failure="corrupt", detail="the last checkpoint is damaged"),
    ],
    ids=lambda error: error.code,
)
async def test_databases_that_cannot_be_put_back_are_a_failed_resume(stage: Stage, error: JamError) -> None:
    """The program was not started, and the attempt counts all the same: such a conversation can be started afresh.

    Also where the guest is such that no helper can ever run in it: a guest must not keep its room from going on for ever.
    """
    await stage.make(placement=Placement.DEDICATED, rooms=1)
    made = stage.rooms[0]

    async def refuse(*_: object, **__: object) -> None:
        raise error

    async with stage.living() as life:
        session = await life.store.read(lambda repos: repos.sessions.get(made.session.id))
        seat = Seat(session=session, workspace=made.workspace, room_id=made.room.id, room_name=made.room.name)
        continuity = life.continuity(stage.host)
        await continuity.activate(seat)
        continuity.databases = cast("Any", SimpleNamespace(activator=SimpleNamespace(place=refuse), guest=None))
        with pytest.raises(type(error)):
            await continuity.place_databases()
        evidence = await evidence_of(life, stage)
        assert evidence.failure is ContinuityFailure.RESUME_FAILED
        assert evidence.sessions[0].observation is not None
        assert "damaged" in evidence.sessions[0].observation.detail


@pytest.mark.guarantee("CONT-12")
async def test_a_later_success_supersedes_a_failed_resume(stage: Stage) -> None:
    """The latest observation of that generation and session decides; the failure stays on record."""
    await stage.make(placement=Placement.DEDICATED, rooms=1)
    session = stage.rooms[0].session
    async with stage.living() as life:
        (row,) = await life.store.read(lambda repos: repos.checkpoints.of_host(stage.host.id))
        for reported, expected in (
            (None, ContinuityFailure.RESUME_FAILED),
            ("thread-0", None),
            ("x", ContinuityFailure.RESUME_FAILED),
        ):
            await life.observe(session, row.id, reported)
            assert (await evidence_of(life, stage)).failure is expected
        seen = await life.store.read(lambda repos: repos.observations.of_session(session.id))
        assert [each.outcome for each in seen].count(ObservationOutcome.FAILED) == 2
        await life.capture(stage.host)
        assert (await evidence_of(life, stage)).failure is None, "a newer generation has not failed yet"


@pytest.mark.guarantee("CONT-9")
def test_a_host_is_said_to_have_its_worst_failure() -> None:
    """Whichever order its sessions come in; and there is one for every kind."""
    assert set(SEVERITY) == set(ContinuityFailure) == set(MEANING)
    for place, failure in enumerate(SEVERITY):
        assert worst([None, *SEVERITY[place:][::-1]]) is failure
    assert worst([None, None]) is None


@pytest.mark.guarantee("CONT-13")
def test_one_function_hands_the_reason_on() -> None:
    """Whoever wants a generation says why to the host's continuity; nobody else asks the broker for one."""
    core = Path(jamcore.__file__).parent
    modules = (path for path in core.rglob("*.py") if "testing" not in path.parts)
    assert [path.relative_to(core) for path in modules if "broker.capture(" in path.read_text()] == [Path("runtime/continuity.py")]

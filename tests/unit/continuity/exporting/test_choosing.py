"""Which checkpoint an export holds, and how raw names are written in it: both pure (WS-5)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jamcore.continuity.exporting.choosing import Choice, latest_compatible
from jamcore.domain.checkpoint_exports import spelled, unspelled
from jamcore.domain.continuity import Checkpoint, CheckpointReason, CheckpointSession, ContinuityFailure
from jamcore.domain.sessions import RuntimeSession, SessionState

pytestmark = [pytest.mark.unprivileged, pytest.mark.guarantee("WS-5")]

HOST, AGENT, SESSION = UUID(int=1), UUID(int=2), UUID(int=3)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
BOUND = RuntimeSession(
    id=SESSION, host_id=HOST, agent_id=AGENT, state=SessionState.DORMANT, provider_identity="t", model=None, created_at=NOW
)


def checkpoint(generation: int, *, version: str = "2", identity: str | None = "t", session: UUID = SESSION) -> Checkpoint:
    """Return a row."""
    held = CheckpointSession(session_id=session, provider_identity=identity, last_turn_id=None)
    return Checkpoint(
        id=UUID(int=100 + generation),
        host_id=HOST,
        agent_id=AGENT,
        provider="probe",
        provider_version=version,
        reason=CheckpointReason.AFTER_TURN,
        root_digest="0" * 64,
        sessions=(held,),
        files=0,
        bytes_total=0,
        bytes_written=0,
        generation=generation,
        created_at=NOW,
    )


def choose(*rows: Checkpoint, session: RuntimeSession = BOUND, unusable: dict[UUID, str] | None = None) -> Choice:
    """Choose, where the program is of version 2."""
    return latest_compatible(session, rows, accepts=lambda version: version == "2", unusable=unusable or {})


def test_the_newest_is_chosen_in_whatever_order_they_come() -> None:
    """Its number decides, as for a resume."""
    assert choose(checkpoint(2), checkpoint(10), checkpoint(9)) == Choice(checkpoint(10))


@pytest.mark.parametrize(
    ("newer", "failure", "why"),
    [
        (checkpoint(5, version="3"), ContinuityFailure.PROVIDER_VERSION_MISMATCH, "version 3"),
        (checkpoint(5, identity="other"), ContinuityFailure.SESSION_NOT_CAPTURED, "as other"),
        (checkpoint(5, identity=None), ContinuityFailure.SESSION_NOT_CAPTURED, "not begun"),
        (checkpoint(5, session=UUID(int=9)), ContinuityFailure.SESSION_NOT_CAPTURED, "does not hold"),
    ],
)
def test_what_no_resume_could_use_is_passed_over_and_named(newer: Checkpoint, failure: ContinuityFailure, why: str) -> None:
    """An older one is taken, and what is lost by that is known."""
    choice = choose(newer, checkpoint(4))
    assert choice.checkpoint == checkpoint(4)
    (passed,) = choice.passed_over
    assert (passed.checkpoint_id, passed.failure) == (newer.id, failure)
    assert why in passed.why


def test_what_is_damaged_is_passed_over() -> None:
    """The caller knows by having read it."""
    choice = choose(checkpoint(4), checkpoint(5), unusable={checkpoint(5).id: "a block is gone"})
    assert choice.checkpoint == checkpoint(4)
    assert [(one.failure, one.why) for one in choice.passed_over] == [(ContinuityFailure.CORRUPT, "a block is gone")]


def test_there_may_be_none() -> None:
    """A conversation that never began has nothing to bring back; where all are unusable, each is named."""
    assert choose(checkpoint(1), session=BOUND.model_copy(update={"provider_identity": None})) == Choice(None)
    assert choose() == Choice(None)
    assert replace(choose(checkpoint(1, version="1")), passed_over=()) == Choice(None)
    assert len(choose(checkpoint(1, version="1"), checkpoint(2, version="1")).passed_over) == 2


@given(raw=st.one_of(st.binary(max_size=40), st.text().map(lambda text: text.encode(errors="replace"))))
def test_each_name_has_one_spelling(raw: bytes) -> None:
    """What is written is read back, and nothing else is."""
    assert unspelled(spelled(raw)) == raw


@given(text=st.one_of(st.text(max_size=20), st.text("abAB+/=", max_size=12).map(lambda tail: f"base64:{tail}")))
def test_no_name_has_a_second_spelling(text: str) -> None:
    """What is not refused is what would be written."""
    try:
        raw = unspelled(text)
    except ValueError:
        return
    assert spelled(raw) == text


def test_names_are_readable() -> None:
    """UTF-8 stays as it is; what only looks like another spelling does not."""
    assert spelled("home/ä b\n".encode()) == "home/ä b\n"
    assert spelled(b"\xff") == "base64:/w=="
    assert spelled(b"base64:/w==") == "base64:YmFzZTY0Oi93PT0="

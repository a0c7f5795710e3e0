"""Continuity resets: the evidence of a failure, the record of a fresh start, and what people are shown of both (CONT-9). Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import ClassVar, Literal
from uuid import UUID

from pydantic import Field

from jamcore.domain.continuity import (
    Activation,
    ActivationDecision,
    Checkpoint,
    ContinuityFailure,
    Observation,
    ObservationOutcome,
)
from jamcore.domain.errors import RefusalError
from jamcore.domain.records import Record

SEVERITY = (
    ContinuityFailure.MISSING,
    ContinuityFailure.CORRUPT,
    ContinuityFailure.PROVIDER_VERSION_MISMATCH,
    ContinuityFailure.SESSION_NOT_CAPTURED,
    ContinuityFailure.RESUME_FAILED,
)
"""Which failure a host is said to have when its sessions have several: what concerns the whole host comes first."""

MEANING = MappingProxyType(
    {
        ContinuityFailure.MISSING: "there is no checkpoint that a resume could use",
        ContinuityFailure.CORRUPT: "the last checkpoint is damaged",
        ContinuityFailure.SESSION_NOT_CAPTURED: "the last checkpoint does not hold this conversation",
        ContinuityFailure.PROVIDER_VERSION_MISMATCH: "the agent's program may not resume what another version of it wrote",
        ContinuityFailure.RESUME_FAILED: "the last resume did not bring back this conversation",
    }
)
"""Each failure in words."""

GenerationState = Literal["none", "verified", "incomplete", "corrupt"]


class SessionEvidence(Record):
    """One session: where it sits, what the newest generation holds of it, and what was last observed of the two."""

    session_id: UUID
    room_id: UUID
    binding_id: UUID
    provider_identity: str | None
    captured_identity: str | None
    last_turn_id: UUID | None
    failure: ContinuityFailure | None
    observation: Observation | None


class ContinuityEvidence(Record):
    """Everything that a fresh start is decided on. Its checksum is what a person confirms.

    Attributes:
        schema_version: Part of the checksum: another form of the evidence can never be confirmed by an old one.
        checkpoint: The newest generation as stored, or ``None``.
        generation_state: What reading it whole has shown.
        current_version: Version of the program that would resume.
        failure: The host's, or ``None``: every session can be brought back.
        sessions: One for each session of the host.
    """

    schema_version: Literal["jam-continuity-evidence-1"] = "jam-continuity-evidence-1"
    host_id: UUID
    agent_id: UUID
    provider: str
    engine: str
    sandbox: str
    checkpoint: Checkpoint | None
    generation_state: GenerationState
    current_version: str
    failure: ContinuityFailure | None
    sessions: tuple[SessionEvidence, ...]

    def checksum(self) -> str:
        """Return the SHA-256 of the evidence, in hex. The order in which sessions were found does not count."""
        ordered = tuple(sorted(self.sessions, key=lambda session: session.session_id))
        return self.model_copy(update={"sessions": ordered}).content_digest()


def failure_of(decision: ActivationDecision, observation: Observation | None, lacking: str = "") -> ContinuityFailure | None:
    """Return why a session cannot be brought back, or ``None``.

    Args:
        decision: The inspection's.
        observation: The newest one for the decision's generation and this session: a later success supersedes a failure (CONT-12).
        lacking: What a resume would still lack although the decision is to resume; empty: nothing.
    """
    if decision.failure is not None:
        return decision.failure
    if decision.outcome is not Activation.EXACT_RESUME:
        return None
    if lacking:
        return ContinuityFailure.MISSING
    if observation is not None and observation.outcome is ObservationOutcome.FAILED:
        return ContinuityFailure.RESUME_FAILED
    return None


def worst(failures: Iterable[ContinuityFailure | None]) -> ContinuityFailure | None:
    """Return the failure that a host with these is said to have."""
    found = set(failures)
    return next((failure for failure in SEVERITY if failure in found), None)


class SessionReplacement(Record):
    """One session of the source, and what takes its place. ``native_id``: only where its directory belongs to no host (WS-14)."""

    room_id: UUID
    source_session_id: UUID
    session_id: UUID
    source_binding_id: UUID
    binding_id: UUID
    source_workspace_id: UUID
    workspace_id: UUID
    native_id: UUID | None
    operation_id: UUID


class ContinuityReset(Record):
    """The immutable record of one fresh start: every id and the whole plan of what comes, known before anything is changed.

    Attributes:
        evidence: What was confirmed.
        confirmed: Its checksum.
        checkpoint_id: The id that a last generation of the source gets, if one can be made.
        plan_json: The exact plan of the new host.
    """

    schema_version: Literal[1] = 1
    id: UUID
    source_host_id: UUID
    host_id: UUID
    sandbox: str
    plan_json: str
    evidence: ContinuityEvidence
    confirmed: str
    checkpoint_id: UUID
    sessions: tuple[SessionReplacement, ...]
    created_at: datetime

    def referenced_checkpoints(self) -> frozenset[UUID]:
        """Return the generations that this record is evidence of: their payload is never deleted (WS-9)."""
        seen = self.evidence.checkpoint
        return frozenset({self.checkpoint_id} | ({seen.id} if seen else set()))


FilesCarried = Literal["copied", "in-place", "left"]
"""A fresh start works on a copy of a room's files, or in them, or they stay where they are and it begins without them."""


class RoomStanding(Record):
    """One room of a host that is looked at: what it would lose, and where its files are.

    ``turns`` were finished in this conversation; ``captured`` of them are in a checkpoint. ``carried`` says what a fresh start does with
    the files.
    """

    room_id: UUID
    name: str
    failure: ContinuityFailure | None
    turns: int
    captured: int
    files: str
    carried: FilesCarried


class ContinuityView(Record):
    """What an inspection shows. ``blocked`` says why a fresh start is not possible now, where there is a failure to start from.

    ``unfinished`` is a fresh start that was confirmed and cut: it can only be finished.
    """

    evidence: ContinuityEvidence
    digest: str
    meaning: str
    rooms: tuple[RoomStanding, ...]
    can_start_fresh: bool
    blocked: str = ""
    unfinished: UUID | None = None


class FreshStart(Record):
    """A fresh start that a room's conversation came from, as people see it: when, why, and where the one before it is kept."""

    at: datetime
    failure: ContinuityFailure | None
    source_session_id: UUID
    source_host_id: UUID
    source_sandbox: str


class StartFreshRequest(Record):
    """Give up the conversations of a host and start them afresh. The id is the client's; ``evidence`` is the checksum that was shown."""

    id: UUID
    evidence: str = Field(pattern=r"^[0-9a-f]{64}$")
    confirm: Literal[True]


class StartFreshResult(Record):
    """What was done. ``checkpoint`` and ``files`` are words; ``problem`` says why the room is not live again, if it is not."""

    id: UUID
    source_host_id: UUID
    source_sandbox: str
    host_id: UUID
    sandbox: str
    rooms: tuple[str, ...]
    checkpoint: str
    files: tuple[str, ...]
    live: bool
    problem: str = ""


@dataclass(eq=False)
class ResetRefusedError(RefusalError):
    """A fresh start is not possible now, or not on this evidence; nothing was changed."""

    code: ClassVar[str] = "continuity.reset_refused"
    hint: ClassVar[str] = "Look again with `jam continuity inspect ROOM`, and confirm the evidence that it shows."

    host: str
    problem: str


@dataclass(eq=False)
class NotConfirmedError(RefusalError):
    """A fresh start gives conversations up for good, and that was not confirmed; nothing was changed (CONT-9)."""

    code: ClassVar[str] = "continuity.not_confirmed"
    hint: ClassVar[str] = (
        "`jam continuity inspect ROOM` shows what is given up. If that is what you want, repeat the command with `--confirm`."
    )

    room: str
    evidence: str


@dataclass(eq=False)
class ResetUnfinishedError(RefusalError):
    """A fresh start of this conversation was confirmed and cut; it must be finished before the room can be used."""

    code: ClassVar[str] = "continuity.reset_unfinished"
    hint: ClassVar[str] = "`jam continuity inspect ROOM` shows the command that finishes it; so does a start of the daemon."

    host: str
    room: str = ""

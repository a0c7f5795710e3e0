"""Checkpoints, what a plugin declares about its state, and the activation decision as one pure function (CONT)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, Literal
from uuid import UUID

from jamcore.domain.errors import FaultError, RefusalError
from jamcore.domain.records import Record


class CaptureKind(StrEnum):
    """How the core treats files that match a pattern (CONT-3)."""

    APPEND_ONLY = "append-only"
    WHOLE = "whole"
    DATABASE = "database"
    NEVER = "never"


class CaptureEntry(Record):
    """Files below the provider's state root: a relative glob (``**`` any depth) and how they are captured.

    A DATABASE lies below the guest's home instead, on the guest's own disk, and its pattern is a path in which ``*`` and ``?`` stay within
    a name. One that is named exactly must be there at every checkpoint; of those that a star finds, the ones that are there are taken. Only
    SQLite databases are known. What a DATABASE pattern matches below the state root refuses the checkpoint: it is in the wrong place.
    """

    pattern: str
    kind: CaptureKind


class CaptureList(Record):
    """What is captured, first match wins; a file that matches nothing is not captured.

    ``guest_scratch`` are directories below the guest's home that hold rebuildable state (live databases): emptied on restore (CONT-5).
    ``credential_patterns`` must never be captured: a match inside the captured set refuses the checkpoint by path (SEC-7).
    ``conversation_patterns`` match captured files of one conversation alone, and all that its resume needs; ``{identity}`` stands for its
    provider's id. With them one session of a Shared host can be exported without its siblings; without them only the whole host.
    """

    entries: tuple[CaptureEntry, ...]
    guest_scratch: tuple[str, ...] = ()
    credential_patterns: tuple[str, ...] = ()
    conversation_patterns: tuple[str, ...] = ()


CONVERSATION = "{identity}"
"""Stands in a conversation pattern for the provider's id."""


class ActivationPlan(Record):
    """What a restore does besides placing the captured files: delete rebuildable files that would diverge silently (CONT-5).

    ``delete`` are relative globs below the provider's state root; ``check`` are globs of which at least one file must exist afterwards.
    """

    delete: tuple[str, ...] = ()
    check: tuple[str, ...] = ()


class CheckpointReason(StrEnum):
    """Why a generation was made (CONT-6).

    FIRST_TURN holds a just-opened thread's identity right before its first turn, so that a kill during that turn can still be resumed.
    FROM_EXPORT was made from the files of an export, and not from the live state; beside it stands what it was made from.
    """

    FIRST_TURN = "first-turn"
    AFTER_TURN = "after-turn"
    BEFORE_STOP = "before-stop"
    BEFORE_RESET = "before-reset"
    FROM_EXPORT = "from-export"


class Checkpoint(Record):
    """The row of one published generation (CONT-4). ``root_digest`` names the root object; bytes are in the block store."""

    id: UUID
    host_id: UUID
    agent_id: UUID
    provider: str
    provider_version: str
    reason: CheckpointReason
    root_digest: str
    sessions: tuple[CheckpointSession, ...]
    files: int
    bytes_total: int
    bytes_written: int
    generation: int
    created_at: datetime


class CheckpointSession(Record):
    """One session that the generation holds, with the identity it had and the last turn it contains."""

    session_id: UUID
    provider_identity: str | None
    last_turn_id: UUID | None


class EntryKind(StrEnum):
    """What a generation holds under a name."""

    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    DATABASE = "database"


class CheckpointEntry(Record):
    """One name in a generation.

    ``path`` is below the provider's state root, escaped; a database's is below the guest's home and begins with ``~/``. ``mode`` is octal;
    a link's bytes are its target.
    """

    path: str
    kind: EntryKind
    mode: str
    bytes: int


class ObservationOutcome(StrEnum):
    """What an attempt to resume showed."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"


class ResumeSource(StrEnum):
    """Which bytes the resume used: the live state, proven to extend the generation, or the generation itself (CONT-11)."""

    LIVE = "live"
    GENERATION = "generation"


class Observation(Record):
    """One immutable record of one resume attempt (CONT-7, CONT-12)."""

    id: UUID
    session_id: UUID
    checkpoint_id: UUID
    outcome: ObservationOutcome
    source: ResumeSource
    expected_identity: str
    reported_identity: str | None
    detail: str
    observed_at: datetime

    @property
    def said(self) -> str:
        """What came back, in words: the reported identity, and what was wrong."""
        return ": ".join(filter(None, (self.reported_identity, self.detail))) or "nothing"


class Activation(StrEnum):
    """The four outcomes of the inspection before a provider starts (CONT-7)."""

    FRESH_START = "fresh-start"
    EXACT_RESUME = "exact-resume"
    REFUSE_NO_CHECKPOINT = "refuse-no-checkpoint"
    REFUSE_UNUSABLE = "refuse-unusable"


class ContinuityFailure(StrEnum):
    """Why exact continuity cannot be honoured (CONT-9)."""

    MISSING = "missing"
    CORRUPT = "corrupt"
    SESSION_NOT_CAPTURED = "session-not-captured"
    PROVIDER_VERSION_MISMATCH = "provider-version-mismatch"
    RESUME_FAILED = "resume-failed"


class ActivationEvidence(Record):
    """All that the decision looks at, and ``problem``: what is wrong with the generation, for people. The decision ignores that.

    ``live_holds``: the generation is damaged, and the live state was proven, by the digests in it, to hold all that was captured.
    """

    provider_identity: str | None
    checkpoint_id: UUID | None
    generation_state: Literal["none", "verified", "incomplete", "corrupt"]
    session_captured: bool
    captured_identity: str | None
    version_compatible: bool
    captured_version: str | None
    current_version: str | None
    problem: str = ""
    live_holds: bool = False


class ActivationDecision(Record):
    """The decision with its evidence; stored before anything starts (CONT-7)."""

    outcome: Activation
    failure: ContinuityFailure | None
    evidence: ActivationEvidence


def decide_activation(evidence: ActivationEvidence) -> ActivationDecision:
    """Decide how a session may start. Pure; total over its input.

    A session that never bound an identity starts fresh. One that did resumes exactly from a verified generation which captured
    this session with this identity under a compatible provider version, or is refused with the kind of failure (CONT-1, CONT-9).
    Where the live state was proven to hold all of a damaged generation, that state takes the generation's place, and nothing else does.
    """

    def decided(outcome: Activation, failure: ContinuityFailure | None = None) -> ActivationDecision:
        return ActivationDecision(outcome=outcome, failure=failure, evidence=evidence)

    if evidence.provider_identity is None:
        return decided(Activation.FRESH_START)
    if evidence.generation_state in ("none", "incomplete"):
        return decided(Activation.REFUSE_NO_CHECKPOINT, ContinuityFailure.MISSING)
    if evidence.generation_state == "corrupt" and not evidence.live_holds:
        return decided(Activation.REFUSE_NO_CHECKPOINT, ContinuityFailure.CORRUPT)
    if not evidence.session_captured or evidence.captured_identity != evidence.provider_identity:
        return decided(Activation.REFUSE_UNUSABLE, ContinuityFailure.SESSION_NOT_CAPTURED)
    if not evidence.version_compatible:
        return decided(Activation.REFUSE_UNUSABLE, ContinuityFailure.PROVIDER_VERSION_MISMATCH)
    return decided(Activation.EXACT_RESUME)


def why_refused(decision: ActivationDecision) -> str:
    """Return why a decision is not to resume, in words; empty for one that is no refusal."""
    evidence = decision.evidence
    match decision.failure:
        case ContinuityFailure.SESSION_NOT_CAPTURED if evidence.session_captured:
            return (
                f"the last checkpoint holds it as {evidence.captured_identity or 'not begun'}, not as {evidence.provider_identity}"
            )
        case ContinuityFailure.SESSION_NOT_CAPTURED:
            return "the last checkpoint does not hold this session"
        case ContinuityFailure.PROVIDER_VERSION_MISMATCH:
            current = evidence.current_version or "not known"
            return f"version {evidence.captured_version} of the program wrote it; the version here, {current}, cannot resume that"
        case None:
            return ""
        case _:
            return evidence.problem or "there is no checkpoint"


@dataclass(eq=False)
class ContinuityRefusedError(RefusalError):
    """The exact conversation cannot be brought back, so nothing was started (CONT-1)."""

    code: ClassVar[str] = "continuity.refused"
    hint: ClassVar[str] = (
        "Nothing was changed or deleted. `jam continuity inspect ROOM` shows the evidence, and how to go on with a new conversation."
    )

    session: str
    failure: str
    detail: str
    room: str = ""


@dataclass(eq=False)
class ResumeFailedError(RefusalError):
    """The provider did not come back with the exact conversation; the observation is recorded (CONT-7)."""

    code: ClassVar[str] = "continuity.resume_failed"
    hint: ClassVar[str] = (
        "Nothing was deleted, and a resume may be tried again. `jam continuity inspect ROOM` shows what was expected and reported, and how "
        "to go on with a new conversation."
    )

    session: str
    expected: str
    reported: str
    room: str = ""


@dataclass(eq=False)
class CaptureRefusedError(RefusalError):
    """A checkpoint would break a bound, hold a credential or a special file; it was not published (CONT-4, SEC-7).

    ``concerns``: the rooms whose conversation the path is, or all of the sandbox's, since a checkpoint holds them all or none.
    """

    code: ClassVar[str] = "continuity.capture_refused"
    hint: ClassVar[str] = "Look at the named path in the provider's state; the last good checkpoint is untouched."

    path: str
    reason: str
    concerns: str = ""


@dataclass(eq=False)
class SiblingRefusedError(CaptureRefusedError):
    """The resume of another conversation was refused, and its state, which is in no checkpoint, cannot be told from theirs (CONT-7)."""

    code: ClassVar[str] = "continuity.sibling_refused"
    hint: ClassVar[str] = (
        "Resume that room again. If it is refused again, stop all rooms of its sandbox (`jam room stop ROOM --accept-unsaved` accepts that "
        "the last checkpoint is missing) and resume it first: what is in no checkpoint is then given up, and the last one restored for all."
    )


@dataclass(eq=False)
class SecretInStateError(CaptureRefusedError):
    """The provider's state holds a secret as plain text, so no checkpoint of it is made (SEC-7)."""

    code: ClassVar[str] = "continuity.secret_in_state"
    hint: ClassVar[str] = (
        "Change that secret. The turns since the last checkpoint are in the live state alone: take the files with "
        "`jam change new ROOM`, and go on in a new room."
    )


@dataclass(eq=False)
class DatabaseRefusedError(CaptureRefusedError):
    """A database that the provider needs is missing, damaged, or not one that can be copied (CONT-5)."""

    code: ClassVar[str] = "continuity.database_refused"
    hint: ClassVar[str] = "Look at the named database in the guest's home; the last good checkpoint is untouched."


@dataclass(eq=False)
class DatabaseBusyError(CaptureRefusedError):
    """A program in the guest holds a database locked, so no copy of it could be made (CONT-5)."""

    code: ClassVar[str] = "continuity.database_busy"
    hint: ClassVar[str] = "Jam tries again with the next checkpoint; stop what writes to the named database if it stays so."


@dataclass(eq=False)
class DatabaseHelperError(FaultError):
    """The program that copies and restores databases in the guest could not be started, did not end, or said nonsense (CONT-5)."""

    code: ClassVar[str] = "continuity.database_helper"
    hint: ClassVar[str] = (
        "Try again; if it stays so, look at what else runs in the room's sandbox. Nothing was published, and what a restore replaced is "
        "kept."
    )

    host: str
    problem: str


@dataclass(eq=False)
class CheckpointCorruptError(FaultError):
    """A generation's bytes do not have the digest they were stored under."""

    code: ClassVar[str] = "continuity.corrupt"
    hint: ClassVar[str] = "It is kept as it is. `jam continuity inspect ROOM` shows whether the conversation can be brought back."

    checkpoint: str
    detail: str

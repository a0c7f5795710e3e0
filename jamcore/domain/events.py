"""What happens in a turn, as typed events (one closed union), and the numbered form in which a room stores and streams them."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field, TypeAdapter

from jamcore.domain.approvals import ApprovalState, ApprovalSubject, DecidedBy
from jamcore.domain.records import Record

TEXT_LIMIT = 1 << 20
"""Characters of one event's text that are kept; the rest is cut and marked. No known provider's inputs are larger than 2**20."""


class TurnOutcome(StrEnum):
    """How the provider ended a turn, in its own end mark."""

    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


class TurnStarted(Record):
    """The provider accepted the turn; ``provider_turn`` is its own id."""

    kind: Literal["turn.started"] = "turn.started"
    provider_turn: str


class TextDelta(Record):
    """More text of an answer that is still being written. Never stored one by one: coalesced or group-committed."""

    kind: Literal["text.delta"] = "text.delta"
    item: str
    text: str


class Message(Record):
    """A finished message of the agent."""

    kind: Literal["message"] = "message"
    item: str
    text: str


class Reasoning(Record):
    """A finished summary of the agent's reasoning."""

    kind: Literal["reasoning"] = "reasoning"
    item: str
    text: str


class ToolCall(Record):
    """A call of a tool that is neither a command nor a file change, with its bounded result."""

    kind: Literal["tool.call"] = "tool.call"
    item: str
    name: str
    arguments: str
    result: str = ""
    ok: bool = True


class Working(Record):
    """The agent is at work on something of which people need not read: a thought that grows, a tool that runs.

    It tells a turn that goes on from one that is silent, and is neither stored nor shown. ``item`` names a call that began and is no
    command; with ``over`` one that ended and has no event of its own that says so. Without ``item`` it is a sign of life.
    """

    kind: Literal["working"] = "working"
    item: str = ""
    over: bool = False


class CommandStarted(Record):
    """The agent started a command in the guest."""

    kind: Literal["command.started"] = "command.started"
    item: str
    command: str
    cwd: str


class CommandOutput(Record):
    """More output of a running command; a delta like :class:`TextDelta`."""

    kind: Literal["command.output"] = "command.output"
    item: str
    text: str


class CommandFinished(Record):
    """A command ended. ``exit_code`` is absent when the provider does not know it."""

    kind: Literal["command.finished"] = "command.finished"
    item: str
    command: str
    output: str
    exit_code: int | None


class FileChanged(Record):
    """The agent changed a file through its own tool. ``path`` is the guest's."""

    kind: Literal["file.changed"] = "file.changed"
    item: str
    path: str
    change: Literal["add", "update", "delete"]
    diff: str


class ApprovalRequested(Record):
    """The provider asks for permission; answered through Jam, never by the guest.

    ``request`` is the provider's own id of what it asks, by which it is answered; in a room it is the id of Jam's approval instead.
    ``detail`` says all that is asked for, since a rule compares it; ``preview`` is what a person looks at besides, as a file's change.
    """

    kind: Literal["approval.requested"] = "approval.requested"
    item: str
    subject: ApprovalSubject
    detail: str
    request: str = ""
    preview: str = ""


class UsageReported(Record):
    """Tokens used by the thread so far, as the provider counts them."""

    kind: Literal["usage"] = "usage"
    input_tokens: int
    output_tokens: int
    total_tokens: int


class Notice(Record):
    """Something the provider wants a person to know: a warning, a retry."""

    kind: Literal["notice"] = "notice"
    level: Literal["info", "warning", "error"]
    text: str


class TurnEnded(Record):
    """The provider's own end mark, always the last event of a turn's stream.

    ``code`` classifies a failure in the provider's stable words, or is a code of Jam's where Jam ended the turn; ``detail`` is for people.
    """

    kind: Literal["turn.ended"] = "turn.ended"
    outcome: TurnOutcome
    code: str = ""
    detail: str = ""


ProviderEvent = Annotated[
    TurnStarted
    | TextDelta
    | Message
    | Reasoning
    | ToolCall
    | Working
    | CommandStarted
    | CommandOutput
    | CommandFinished
    | FileChanged
    | ApprovalRequested
    | UsageReported
    | Notice
    | TurnEnded,
    Field(discriminator="kind"),
]


class UserSaid(Record):
    """A person's message, accepted as a turn."""

    kind: Literal["user.said"] = "user.said"
    text: str


IN_DOUBT = "in-doubt"
"""Not a state of a turn: its end was not seen, and the next resume decides between kept and cut."""


class ApprovalDecided(Record):
    """An approval came to its end: ``approval`` is its id, ``rule`` the rule that allowed it, if one did."""

    kind: Literal["approval.decided"] = "approval.decided"
    approval: UUID
    state: ApprovalState
    decided_by: DecidedBy
    rule: UUID | None = None


class TurnStateChanged(Record):
    """Jam's own view of a turn moved on (CONT-11): ``state`` is a :class:`~jamcore.domain.sessions.TurnState` or :data:`IN_DOUBT`.

    ``uncaptured``: it was completed, and nobody need wait for a checkpoint of it, because its provider declares no continuity.
    """

    kind: Literal["turn.state"] = "turn.state"
    state: str
    detail: str = ""
    uncaptured: bool = False


class SessionNotice(Record):
    """Something Jam did with the session: started, parked, resumed with which evidence, refused and why."""

    kind: Literal["session.notice"] = "session.notice"
    code: str
    detail: str


RoomPayload = Annotated[
    TurnStarted
    | TextDelta
    | Message
    | Reasoning
    | ToolCall
    | CommandStarted
    | CommandOutput
    | CommandFinished
    | FileChanged
    | ApprovalRequested
    | UsageReported
    | Notice
    | TurnEnded
    | UserSaid
    | ApprovalDecided
    | TurnStateChanged
    | SessionNotice,
    Field(discriminator="kind"),
]


class RoomEvent(Record):
    """One numbered event of a room. ``seq`` starts at 1 and has no gaps within a room."""

    room_id: UUID
    seq: int
    at: datetime
    turn_id: UUID | None
    payload: RoomPayload


ROOM_PAYLOAD: TypeAdapter[RoomPayload] = TypeAdapter(RoomPayload)
"""Reads a stored payload back; JSON in, record out."""

DELTA_KINDS = frozenset({"text.delta", "command.output"})
"""Kinds that may be coalesced: their item's finished event carries the whole text."""

"""Operations as people are shown them: a list that no damaged row breaks, and the story of one (WS-2, WS-3)."""

from __future__ import annotations

from datetime import datetime

from jamcore.domain.records import Record

LISTED = 100
"""So many operations are listed unless somebody asks for more."""
MOST_LISTED = 1000


class OperationRow(Record):
    """One operation as lists show it. Kinds and states are text: another version of Jam may have begun it.

    Attributes:
        id: Of the operation, and of the request that began it.
        kind: Its name in the journal.
        title: What it does and to what, in words.
        state: How far it is; empty when the row cannot be read.
        result: The class of what came of it; empty for what went well.
        room: The name of the room that it is about; empty when it names none.
        sandbox: The name of the sandbox that it is about; empty when it names none.
        under_way: The daemon works on it at this moment. One that has not ended and is not under way was cut short.
        problem: Why the row cannot be read; empty when it can.
    """

    id: str
    kind: str
    title: str
    state: str = ""
    result: str = ""
    room: str = ""
    sandbox: str = ""
    started_at: datetime | None = None
    ended_at: datetime | None = None
    under_way: bool = False
    problem: str = ""


class OperationPage(Record):
    """Operations, newest first, and whether there are older ones."""

    items: tuple[OperationRow, ...]
    more: bool = False


class OperationLine(Record):
    """One line of a story: a change of the state, where ``step`` is empty, or a boundary of a step.

    Attributes:
        seq: Its number: a reader that was cut goes on after it.
        took_s: Seconds since the step was begun or, at the end, since the operation was; ``None`` for a beginning.
        failure: The class of a failure, or of how the operation ended.
        hint: What to do about a failure of that class; empty for none, and for a class that this Jam does not know.
        last: Nothing follows.
    """

    seq: int
    at: datetime
    state: str
    step: str = ""
    phase: str = ""
    took_s: float | None = None
    failure: str = ""
    hint: str = ""
    last: bool = False


class OperationView(Record):
    """One operation with its story.

    Attributes:
        row: As in a list.
        about: What it is about and what was asked for and confirmed, as names and values.
        lines: The story, oldest first.
        stays: What stays because it failed, in words; empty while it has not.
        next: What a person can do now; empty when there is nothing to do.
    """

    row: OperationRow
    about: tuple[tuple[str, str], ...] = ()
    lines: tuple[OperationLine, ...] = ()
    stays: str = ""
    next: str = ""

"""What becomes of a conversation when something is lost at some moment: one cell for each pair, with what must come of it (CONT-1, CONT-9).

The table is the specification: tests play every cell with a real program in a real sandbox, and the page on continuity shows it. A cell
follows from two facts alone: whether the live state survives what happens, and what of the last turn is in it or in a generation.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from jamcore.domain.continuity import ContinuityFailure, ResumeSource


class Loss(StrEnum):
    """What happens."""

    PROVIDER_KILLED = "the provider is killed"
    SANDBOX_REMOVED = "the sandbox is removed"
    DAEMON_KILLED = "the daemon is killed"
    DIRECTORY_MOVED = "the app directory is moved"
    REBOOT = "everything ends, as in a reboot"
    STATE_LOST = "the sandbox and the live state are removed"
    GENERATIONS_LOST = "everything ends, live state and generations are lost"

    @property
    def daemon_survives(self) -> bool:
        """Whether the daemon sees it happen. A directory is moved between two of its lives."""
        return self in (Loss.PROVIDER_KILLED, Loss.SANDBOX_REMOVED, Loss.STATE_LOST)

    @property
    def keeps_live_state(self) -> bool:
        """Whether the provider's own files survive."""
        return self not in (Loss.STATE_LOST, Loss.GENERATIONS_LOST)


class Moment(StrEnum):
    """When it happens, after two turns that are captured; what runs then is the third."""

    BETWEEN_TURNS = "between turns"
    IN_A_TURN = "in a turn"
    IN_A_CAPTURE = "in its capture"
    BEFORE_THE_ROW = "between manifest and row"


class Fate(StrEnum):
    """What becomes of the third turn."""

    NONE = "there was none"
    KEPT = "kept whole"
    CUT = "cut, and said to be"
    OPEN = "not decided: nobody can ask the provider"


@dataclass(frozen=True, slots=True)
class Cell:
    """One pair and what must come of it: an exact resume from ``source``, or a refusal of the kind ``failure`` and nothing started."""

    loss: Loss
    moment: Moment
    source: ResumeSource | None
    failure: ContinuityFailure | None
    fate: Fate

    @property
    def needs_a_word(self) -> bool:
        """Whether the last checkpoint can never be made, so that a person must say so before anything starts (CONT-8)."""
        return self.loss is Loss.STATE_LOST and self.moment is Moment.IN_A_CAPTURE

    @property
    def name(self) -> str:
        """A name for the test of the cell."""
        return f"{self.loss.name}-{self.moment.name}".lower().replace("_", "-")


def cell(loss: Loss, moment: Moment) -> Cell:
    """Return what must come of a pair."""
    if loss is Loss.GENERATIONS_LOST:
        return Cell(loss, moment, None, ContinuityFailure.MISSING, Fate.NONE if moment is Moment.BETWEEN_TURNS else Fate.OPEN)
    source = ResumeSource.LIVE if loss.keeps_live_state else ResumeSource.GENERATION
    kept = moment is Moment.BEFORE_THE_ROW or (moment is Moment.IN_A_CAPTURE and loss.keeps_live_state)
    fate = Fate.KEPT if kept else Fate.CUT
    return Cell(loss, moment, source, None, Fate.NONE if moment is Moment.BETWEEN_TURNS else fate)


def cells() -> tuple[Cell, ...]:
    """Return the whole table, row by row."""
    return tuple(cell(loss, moment) for loss in Loss for moment in Moment)


def table() -> str:
    """Return the table as it stands in the page on continuity."""
    header = ["| | " + " | ".join(Moment) + " |", "|---" * (len(Moment) + 1) + "|"]
    rows = [f"| {loss} | " + " | ".join(in_words(cell(loss, moment)) for moment in Moment) + " |" for loss in Loss]
    return "\n".join((*header, *rows))


def in_words(found: Cell) -> str:
    """Return a cell in words."""
    if found.failure is not None:
        return f"refused: {found.failure}"
    source = "live state" if found.source is ResumeSource.LIVE else "generation"
    fate = {Fate.NONE: "", Fate.KEPT: ", kept", Fate.CUT: ", cut"}.get(found.fate, "")
    return f"{source}{fate}{', on a word' if found.needs_a_word else ''}"

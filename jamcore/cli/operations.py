"""How operations look to a person: a list, and a story that reads like a log."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType

from jamcore.cli.output import Output
from jamcore.cli.views import moment
from jamcore.cli.words import SHORT_ID
from jamcore.domain.operation_views import OperationLine, OperationRow, OperationView

_PHASES = MappingProxyType({"intended": "begins", "recorded": "done", "failed": "failed"})
_STYLES = MappingProxyType({"failed": "red", "cancelled": "yellow", "succeeded": "green"})


def state_word(row: OperationRow) -> str:
    """Return how far an operation is, in a word or two: one that has not ended and is not under way was cut short."""
    if row.problem:
        return "unreadable"
    if row.ended_at is not None or not row.state:
        return row.state
    return row.state if row.under_way else f"{row.state}, cut short"


def took(seconds: float | None) -> str:
    """Return how long something took; empty for a beginning."""
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"


def show_operations(output: Output, found: Iterable[OperationRow]) -> None:
    """Print a list of operations."""
    output.table(
        ("OPERATION", "STATE", "BEGUN", "TOOK", "WHAT", "RESULT"),
        (
            (
                row.id[:SHORT_ID],
                state_word(row),
                moment(row.started_at),
                took((row.ended_at - row.started_at).total_seconds()) if row.ended_at and row.started_at else "-",
                row.title,
                row.problem or row.result or "-",
            )
            for row in found
        ),
    )


def show_operation(output: Output, view: OperationView) -> None:
    """Print one operation: what it is about, its story, and what to do."""
    row = view.row
    output.pairs(
        (
            ("operation", row.id),
            ("what", row.title),
            ("kind", row.kind),
            ("state", state_word(row)),
            *view.about,
        )
    )
    for line in view.lines:
        show_line(output, line)
    show_end(output, view)


def show_line(output: Output, line: OperationLine) -> None:
    """Print one line of a story."""
    lasted = f"  ({took(line.took_s)})" if line.took_s is not None else ""
    if line.step:
        words = f"{line.step}: {_PHASES.get(line.phase, line.phase)}"
    else:
        words = line.state if line.last else f"the operation is {line.state}"
    failure = f"  {line.failure}" if line.failure else ""
    style = _STYLES.get(line.phase or line.state, "")
    output.line(f"{moment(line.at)}  {words}{failure}{lasted}", style)


def show_end(output: Output, view: OperationView) -> None:
    """Print what stays of one that failed, and what to do about it."""
    if view.row.problem:
        output.note(f"{view.row.problem}.", "red")
    if view.stays:
        output.line(f"What stays: {view.stays}")
    if view.next:
        output.note(f"Next: {view.next}", "yellow")

"""Exit statuses: one table, which docs/cli.md repeats and a test compares."""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jamcore.domain.errors import JamError


class Exit(IntEnum):
    """How a command ended."""

    OK = 0
    NOT_WELL = 1
    USAGE = 2
    REFUSED = 3
    FAULT = 4
    UNREACHABLE = 5
    INTERRUPTED = 130


MEANING = MappingProxyType(
    {
        Exit.OK: "Done.",
        Exit.NOT_WELL: (
            "The work ended, but not well: the turn failed or was cut, a room was stopped without its last checkpoint, a checkpoint or "
            "an export is damaged, `jam continuity inspect` found that a conversation cannot be brought back, or `jam doctor` that no "
            "engine or no agent's plugin can be used here (a missing program or key alone is a gap that it names)."
        ),
        Exit.USAGE: "The command line is wrong; nothing was asked.",
        Exit.REFUSED: (
            "Refused with a typed reason that you can act on; so is a plan of `jam checkpoint rm`, `jam export rm`, "
            "`jam workspace archive` or `jam host cleanup` that something stands against."
        ),
        Exit.FAULT: "Something broke in Jam or in what it relies on.",
        Exit.UNREACHABLE: "The daemon does not run, could not be started, is of another release, or did not answer.",
        Exit.INTERRUPTED: "You pressed Ctrl-C: the turn was interrupted, or you detached from it and it goes on.",
    }
)

_UNREACHABLE_FAMILY = "daemon"


def exit_of(error: JamError) -> Exit:
    """Return the status for an error: by code and family, never by its words."""
    from jamcore.domain.errors import RefusalError  # late: what ends well needs no error

    if error.code.partition(".")[0] == _UNREACHABLE_FAMILY:
        return Exit.UNREACHABLE
    return Exit.REFUSED if isinstance(error, RefusalError) else Exit.FAULT

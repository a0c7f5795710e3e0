"""What a person can type in a room that is no message: a line that begins with a slash."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from jamcore.cli.diff import diff_lines
from jamcore.cli.invoke import Session
from jamcore.cli.text import safe_line
from jamcore.cli.views import show_change, show_trouble
from jamcore.control.client import JamClient

HELP = (
    "A line is said to the agent; end it with \\ to go on in the next. "
    "/interrupt  /stop  /change  /show N  /quit (or Ctrl-D)  /help"
)
PATCH_LINES = 60
"""Lines of a patch that are shown in a room; `jam change show` shows all of them."""


class Next(Enum):
    """What follows a line that was typed."""

    STAY = auto()
    LEAVE = auto()


class Slash:
    """The commands of one room. ``unfold`` shows the piece of work of a number, or says that there is none."""

    def __init__(self, session: Session, client: JamClient, ref: str, unfold: Callable[[str], bool]) -> None:
        self._session = session
        self._client = client
        self._ref = ref
        self._unfold = unfold

    async def run(self, line: str) -> Next:
        """Do what a line says. Errors of the daemon are the caller's."""
        word, _, rest = line.strip().partition(" ")
        output = self._session.output
        match word:
            case "/quit":
                return Next.LEAVE
            case "/interrupt":
                await self._client.interrupt(self._ref)
            case "/stop":
                result = await self._client.stop(self._ref)
                kept = f", generation {result.checkpoint.generation}" if result.checkpoint else ""
                back = "" if result.room.safety.unsaved else " A message brings the room back."
                output.note(f"{result.outcome}{kept}.{back}", "bold")
                show_trouble(output, result.room)
            case "/change":
                await self._change()
            case "/show":
                if not self._unfold(rest.strip()):
                    output.note("There is nothing of that number to show.", "yellow")
            case "/help":
                output.note(HELP)
            case _:
                output.note(f"There is no command {safe_line(word)}, and nothing was said to the agent.", "yellow")
                output.note(HELP)
        return Next.STAY

    async def _change(self) -> None:
        """Make a change request of the room's files as they are now, and show it."""
        output = self._session.output
        change = await self._client.build_change(self._ref, self._session.ids.uuid())
        show_change(output, change)
        if not change.paths:
            return
        lines = list(diff_lines((await self._client.change(str(change.id))).patch))
        for line in lines[:PATCH_LINES]:
            output.line(line.text, line.style)
        if len(lines) > PATCH_LINES:
            output.note(f"… {len(lines) - PATCH_LINES} more lines: jam change show {change.id}", "yellow")
        output.note(f"Accept it: jam change accept {change.id}", "bold")

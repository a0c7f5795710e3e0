"""A room's events as a person reads them: what the agent says on standard output, what it does beside it."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import assert_never
from uuid import UUID

from jamcore.cli.output import Output
from jamcore.cli.text import safe_line
from jamcore.domain.events import (
    IN_DOUBT,
    ApprovalRequested,
    CommandFinished,
    CommandOutput,
    CommandStarted,
    FileChanged,
    Message,
    Notice,
    Reasoning,
    RoomEvent,
    RoomPayload,
    SessionNotice,
    TextDelta,
    ToolCall,
    TurnEnded,
    TurnOutcome,
    TurnStarted,
    TurnStateChanged,
    UsageReported,
    UserSaid,
)
from jamcore.domain.sessions import TurnState

_Saying = Message | Reasoning | Notice | UserSaid | SessionNotice
_Doing = ToolCall | CommandStarted | CommandFinished | FileChanged | ApprovalRequested

OUTPUT_LINES = 8
"""Lines of a command's output that are shown: its end, where the error is. All of it is in the transcript."""
LINE_CHARACTERS = 160
_MARKS: Mapping[str, tuple[str, str]] = MappingProxyType({"add": ("+", "green"), "update": ("~", "yellow"), "delete": ("-", "red")})
_LEVELS: Mapping[str, str] = MappingProxyType({"info": "dim", "warning": "yellow", "error": "red"})


class EventView:
    """Prints the events of one room in their order."""

    def __init__(self, output: Output, *, ref: str, mine: AbstractSet[UUID | None]) -> None:
        """Take the output.

        Args:
            output: Where to print; with JSON each event is one line ``{"event": …}``.
            ref: How the person calls the room, for what to type next.
            mine: Turns whose message the person has just typed, so that it need not be shown again.
        """
        self._output = output
        self._ref = ref
        self._mine = mine
        self._open = ""
        self._streamed: set[str] = set()
        self._gone = ""

    def show(self, event: RoomEvent) -> None:
        """Print one event."""
        if self._output.json:
            self._output.json_line({"event": event})
        else:
            self._show(event.payload, typed_here=event.turn_id in self._mine)

    def in_doubt(self) -> None:
        """Say that the end of a turn was not seen, and what decides it (CONT-11)."""
        self.close()
        back = f"`jam room resume {self._ref}` brings the conversation back and says what was kept."
        self._output.note(f"The agent (or the daemon) ended in the middle of this turn. {back}", "red")

    def close(self) -> None:
        """End a line that is still open."""
        if self._open:
            self._open = ""
            self._output.ticker.hold(hold=False)
            self._output.piece("\n")

    def _show(self, payload: RoomPayload, *, typed_here: bool) -> None:
        if isinstance(payload, TextDelta):
            self._delta(payload)
        elif isinstance(payload, Message) and payload.item in self._streamed:
            self.close()
        elif isinstance(payload, UserSaid) and typed_here:
            return
        elif not isinstance(payload, CommandOutput | TurnStarted | UsageReported):
            self.close()
            self._whole(payload)

    def _delta(self, delta: TextDelta) -> None:
        if self._open != delta.item:
            self.close()
            self._open = delta.item
            self._output.ticker.hold(hold=True)
        self._streamed.add(delta.item)
        self._output.piece(delta.text)

    def _whole(self, payload: _Doing | _Saying | TurnEnded | TurnStateChanged) -> None:
        if isinstance(payload, TurnEnded | TurnStateChanged):
            self._ended(payload)
        elif isinstance(payload, Message | Reasoning | Notice | UserSaid | SessionNotice):
            self._saying(payload)
        else:
            self._doing(payload)

    def _saying(self, payload: _Saying) -> None:
        note = self._output.note
        match payload:
            case Message():
                self._output.line(payload.text)
            case Reasoning():
                note(f"· {_short(payload.text)}")
            case Notice():
                note(_short(payload.text), _LEVELS[payload.level])
            case UserSaid():
                note(f"> {payload.text}", "bold")
            case SessionNotice():
                note(self._notice(payload))
            case _:
                assert_never(payload)

    def _notice(self, notice: SessionNotice) -> str:
        """Return a notice as a sentence; the reason of an end is said once, with what brings the room back."""
        detail = _short(notice.detail)
        if notice.code == "session.live":
            return f"sandbox {detail} is running"
        if notice.code == "provider.gone":
            self._gone = notice.detail
            return f"the agent's program ended: {detail}"
        if notice.code == "session.parked":
            said, self._gone = self._gone, ""
            why = "" if said and said in notice.detail else f" ({detail})"
            return f"the room is parked{why}: say something, or `jam room resume {self._ref}`, to bring it back"
        return f"{detail} ({_short(notice.code)})"

    def _doing(self, payload: _Doing) -> None:
        note = self._output.note
        match payload:
            case ToolCall():
                note(f"tool {_short(payload.name)}" + ("" if payload.ok else ": failed"), "cyan" if payload.ok else "red")
            case CommandStarted():
                note(f"$ {_short(payload.command)}", "cyan")
            case CommandFinished():
                self._finished(payload)
            case FileChanged():
                mark, style = _MARKS[payload.change]
                note(f"{mark} {_short(payload.path)}", style)
            case ApprovalRequested():
                note(f"asks for permission, {payload.subject}: {_short(payload.detail)}", "yellow")
            case _:
                assert_never(payload)

    def _finished(self, command: CommandFinished) -> None:
        lines = command.output.rstrip().splitlines()
        if hidden := len(lines) - OUTPUT_LINES if len(lines) > OUTPUT_LINES else 0:
            self._output.note(f"  … {hidden} lines before")
        for line in lines[hidden:]:
            self._output.note(f"  {safe_line(line, LINE_CHARACTERS)}")
        if command.exit_code is not None and command.exit_code < 0:
            self._output.note("  killed", "red")
        elif command.exit_code:
            self._output.note(f"  exit status {command.exit_code}", "red")

    def _ended(self, payload: TurnEnded | TurnStateChanged) -> None:
        if isinstance(payload, TurnEnded):
            if payload.outcome is TurnOutcome.FAILED:
                self._output.note(f"the turn failed: {_short(payload.detail)} ({_short(payload.code)})", "red")
        elif payload.state == IN_DOUBT:
            self.in_doubt()
        elif payload.state == TurnState.INTERRUPTED:
            self._output.note("the turn was interrupted", "yellow")
        elif payload.state == TurnState.CUT:
            self._output.note(f"the turn was cut: {_short(payload.detail) or 'the agent or the daemon died'}", "red")


def _short(text: str) -> str:
    return safe_line(text, LINE_CHARACTERS)

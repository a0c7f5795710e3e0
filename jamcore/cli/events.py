"""A room's events as a person reads them: what the agent says on standard output, what it does beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from types import MappingProxyType
from typing import assert_never
from uuid import UUID

from jamcore.cli.command_lines import CommandLines, Lines
from jamcore.cli.failures import what_to_do
from jamcore.cli.output import Output
from jamcore.cli.text import safe_line
from jamcore.cli.words import quoted
from jamcore.domain.approvals import ApprovalState, DecidedBy
from jamcore.domain.events import (
    IN_DOUBT,
    ApprovalDecided,
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
from jamcore.domain.requests import RoomView
from jamcore.domain.sessions import Turn, TurnState

_Saying = Message | Reasoning | Notice | UserSaid | SessionNotice
_Asking = ApprovalRequested | ApprovalDecided
_Doing = ToolCall | CommandStarted | CommandFinished | FileChanged | ApprovalRequested | ApprovalDecided

LINE_CHARACTERS = 160
NOTICE_CHARACTERS = 600
"""A notice of Jam itself says what happened and what to do: two sentences and a path."""
SETTLED = frozenset(TurnState) - {TurnState.ACCEPTED, TurnState.RUNNING}
"""States in which it is known what became of a turn."""
ENDED = SETTLED | {IN_DOUBT}
"""After which nothing more comes of it."""
PREVIEW_LINES = 40
"""Lines that are shown of what is only there to look at, as a file's change; `jam approvals show` shows all of them."""
DECIDED: Mapping[DecidedBy, str] = MappingProxyType(
    {
        DecidedBy.PERSON: "by a person",
        DecidedBy.RULE: "by a rule: jam approvals rules ls",
        DecidedBy.DEADLINE: "nobody answered in time",
        DecidedBy.RESTART: "the daemon ended before an answer",
        DecidedBy.TURN_ENDED: "the turn ended before an answer",
    }
)
_MARKS: Mapping[str, tuple[str, str]] = MappingProxyType({"add": ("+", "green"), "update": ("~", "yellow"), "delete": ("-", "red")})
_LEVELS: Mapping[str, str] = MappingProxyType({"info": "dim", "warning": "yellow", "error": "red"})


@dataclass(frozen=True, slots=True)
class Past:
    """What was known of a room when its history began to be shown: what its events say to do may be done long since.

    ``settled`` are the turns of which it is known what became of them; ``live`` says that the room is not parked any more.
    """

    last_seq: int = 0
    live: bool = False
    settled: AbstractSet[UUID] = frozenset()

    @classmethod
    def of(cls, view: RoomView, turns: Iterable[Turn]) -> Past:
        """Return what the room's record and its turns say."""
        return cls(view.last_seq, view.live, frozenset(turn.id for turn in turns if turn.state in SETTLED))


class EventView:
    """Prints the events of one room in their order."""

    def __init__(
        self,
        output: Output,
        *,
        ref: str,
        mine: AbstractSet[UUID | None],
        past: Past | None = None,
        how_to_answer: bool = True,
    ) -> None:
        """Take the output.

        Args:
            output: Where to print; with JSON each event is one line ``{"event": …}``.
            ref: How the person calls the room, for what to type next.
            mine: Turns whose message the person has just typed, so that it need not be shown again.
            how_to_answer: Whether to name the command that answers a question; not where the person is asked on the spot.
            past: What is known of events that are shown again.
        """
        self._past = past or Past()
        self._is_past = False
        self._commands = CommandLines()
        self._output = output
        self._ref = ref
        self._mine = mine
        self._how_to_answer = how_to_answer
        self._open = ""
        self._streamed: set[str] = set()
        self._gone = ""
        self._end_told = False

    def show(self, event: RoomEvent) -> None:
        """Print one event."""
        if self._output.json:
            self._output.json_line({"event": event})
            return
        self._is_past = event.seq <= self._past.last_seq
        if not (self._is_past and _is_doubt(event.payload) and event.turn_id in self._past.settled):
            self._show(event.payload, typed_here=event.turn_id in self._mine)
        if event.seq == self._past.last_seq:
            self._lines(self._commands.release())

    def in_doubt(self, why: str = "") -> None:
        """Say that the end of a turn was not seen, why, and what decides it (CONT-11)."""
        self.close()
        back = f"`jam room resume {quoted(self._ref)}` brings the conversation back and says what was kept."
        self._output.note(f"The agent (or the daemon) ended in the middle of this turn. {back}", "red")
        if why:
            self._output.note(f"  {safe_line(why, NOTICE_CHARACTERS)}", "red")

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
        elif isinstance(payload, CommandOutput):
            self._output_of(payload)
        elif not isinstance(payload, TurnStarted | UsageReported):
            self.close()
            self._whole(payload)

    def _output_of(self, output: CommandOutput) -> None:
        """Show output as it comes; of what came earlier only the end, and only where the command has not ended since."""
        if self._is_past:
            self._commands.hold(output.item, output.text)
            return
        lines = self._commands.more(output.item, output.text)
        if lines.shown:
            self.close()
            self._lines(lines)

    def _lines(self, lines: Lines) -> None:
        if lines.earlier:
            self._output.note("  … and before that:")
        if lines.hidden:
            self._output.note(f"  … {lines.hidden} lines before")
        for line in lines.shown:
            self._output.note(f"  {safe_line(line, LINE_CHARACTERS)}")

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
                note(safe_line(payload.text, NOTICE_CHARACTERS), _LEVELS[payload.level])
            case UserSaid():
                note(f"> {payload.text}", "bold")
            case SessionNotice():
                note(self._notice(payload))
            case _:
                assert_never(payload)

    def _notice(self, notice: SessionNotice) -> str:
        """Return a notice as a sentence; the reason of an end is said once, with what brings the room back."""
        detail = safe_line(notice.detail, NOTICE_CHARACTERS)
        if notice.code == "session.live":
            return f"sandbox {detail} is running"
        if notice.code == "provider.gone":
            self._gone = notice.detail
            return f"the agent's program ended: {detail}"
        if notice.code == "session.parked":
            said, self._gone = self._gone, ""
            why = "" if said and said in notice.detail else f" ({detail})"
            if self._is_past and self._past.live:
                return f"the room was parked{why}"
            return f"the room is parked{why}: {_way_back(notice.detail, quoted(self._ref))}"
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
            case ApprovalRequested() | ApprovalDecided():
                self._asking(payload)
            case _:
                assert_never(payload)

    def _asking(self, payload: _Asking) -> None:
        """Say what is asked and how to answer, or how it was answered."""
        note = self._output.note
        if isinstance(payload, ApprovalDecided):
            note(f"{payload.state} ({DECIDED[payload.decided_by]})", "dim" if payload.state is ApprovalState.ALLOWED else "yellow")
            return
        # All of what would be allowed, whatever its length: a person must not say yes to what was cut off.
        first, *rest = payload.detail.splitlines() or [""]
        note(f"asks for permission, {payload.subject}: {first}", "bold yellow")
        for line in rest:
            note(f"  {line}", "bold yellow")
        about = payload.preview.splitlines()
        for line in about[:PREVIEW_LINES]:
            note(f"  {safe_line(line, LINE_CHARACTERS)}")
        if len(about) > PREVIEW_LINES:
            note(f"  … {len(about) - PREVIEW_LINES} lines more: jam approvals show {safe_line(payload.request)}", "bold red")
        if self._how_to_answer and payload.request and not self._is_past:
            note(f"  answer: jam approvals decide {safe_line(payload.request)} allow   (or deny)")

    def _finished(self, command: CommandFinished) -> None:
        for lines in self._commands.rest(command.item, command.output):
            self._lines(lines)
        if command.exit_code is not None and command.exit_code < 0:
            self._output.note("  killed", "red")
        elif command.exit_code:
            self._output.note(f"  exit status {command.exit_code}", "red")

    def _ended(self, payload: TurnEnded | TurnStateChanged) -> None:
        """Say how a turn ended: in the agent's own words, or in Jam's where it ended before the agent began."""
        if isinstance(payload, TurnEnded):
            self._commands.clear()
            self._end_told = True
            if payload.outcome is TurnOutcome.FAILED:
                self._failed(f"{safe_line(payload.detail, NOTICE_CHARACTERS)} ({_short(payload.code)})".lstrip())
                if not self._is_past and (advice := what_to_do(payload.code)):
                    self._output.note(f"  {advice}", "yellow")
            return
        end_told, self._end_told = self._end_told, False
        if payload.state == IN_DOUBT:
            self.in_doubt(payload.detail)
        elif payload.state == TurnState.FAILED and not end_told:
            self._failed(safe_line(payload.detail, NOTICE_CHARACTERS))
        elif payload.state == TurnState.INTERRUPTED:
            self._output.note("the turn was interrupted", "yellow")
        elif payload.state == TurnState.CUT:
            self._output.note(f"the turn was cut: {_short(payload.detail) or 'the agent or the daemon died'}", "red")

    def _failed(self, why: str) -> None:
        self._output.note(f"the turn failed: {why}", "red")


def _is_doubt(payload: RoomPayload) -> bool:
    return isinstance(payload, TurnStateChanged) and payload.state == IN_DOUBT


def _short(text: str) -> str:
    return safe_line(text, LINE_CHARACTERS)


def _way_back(why: str, ref: str) -> str:
    """Return what to type in a parked room, by why it was parked: not every room comes back by being spoken to."""
    if why.startswith(("continuity.refused", "continuity.resume_failed")):
        return f"`jam continuity inspect {ref}` says what can be done"
    if why.startswith("continuity.unsaved"):
        return f"`jam room stop {ref}` makes the last checkpoint again"
    return f"say something, or `jam room resume {ref}`, to bring it back"

"""What an agent does beside its answer, folded to one line each, and unfolded when a person asks. Pure: events in, folds out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from jamcore.cli.command_lines import last_state
from jamcore.cli.diff import DiffLine, diff_lines
from jamcore.cli.text import safe_line
from jamcore.domain.events import (
    IN_DOUBT,
    CommandFinished,
    CommandOutput,
    CommandStarted,
    FileChanged,
    RoomPayload,
    SessionNotice,
    ToolCall,
    TurnEnded,
    TurnStateChanged,
)

KEPT = 300
"""Folds that can still be unfolded; a person asks for one of the last."""
DETAIL_CHARACTERS = 256 << 10
"""Of one fold's text its end is kept, where the error is; all of it is in the transcript."""
TITLE_CHARACTERS = 120
INLINE_DIFF_LINES = 16
"""A change of so many lines is shown at once; of a longer one the beginning."""
OPEN_SHOWN = 3
"""Commands that run are shown below the text, so many at most."""

WORK = (CommandStarted, CommandOutput, CommandFinished, FileChanged, ToolCall)
"""What is folded, so that nothing else shows it."""
_MARKS: Mapping[str, str] = MappingProxyType({"add": "+", "update": "~", "delete": "-"})
_PARKED = frozenset({"session.parked", "session.interrupted", "provider.gone"})


@dataclass(frozen=True, slots=True)
class Fold:
    """One piece of work on one line: ``detail`` is what unfolding shows, ``inline`` what is shown with the line already."""

    number: int
    mark: str
    title: str
    style: str
    detail: tuple[DiffLine, ...] = ()
    inline: tuple[DiffLine, ...] = ()

    @property
    def line(self) -> str:
        """The line, with how to see more when there is more."""
        more = f"   /show {self.number}" if len(self.detail) > len(self.inline) else ""
        return f"{self.mark} {self.title}{more}"


class Folds:
    """The folds of one room, numbered from 1 in the order in which the work ended."""

    def __init__(self) -> None:
        self._kept: deque[Fold] = deque(maxlen=KEPT)
        self._running: dict[str, _Running] = {}
        self._last = 0

    def take(self, payload: RoomPayload) -> tuple[Fold, ...]:
        """Take what happened and return the folds that came to their end by it."""
        match payload:
            case CommandStarted():
                self._running[payload.item] = _Running(payload)
            case CommandOutput():
                if running := self._running.get(payload.item):
                    running.more(payload.text)
            case CommandFinished():
                running = self._running.pop(payload.item, None)
                return (self._command(payload, running),)
            case FileChanged():
                return (self._change(payload),)
            case ToolCall():
                return (self._tool(payload),)
            case _:
                return self._cut() if _is_end(payload) else ()
        return ()

    @property
    def running(self) -> tuple[str, ...]:
        """One line for each command that runs, the newest last."""
        return tuple(running.line for running in self._running.values())[-OPEN_SHOWN:]

    def find(self, word: str) -> Fold | None:
        """Return the fold of a number, or the last one for an empty word."""
        if not word:
            return self._kept[-1] if self._kept else None
        return next((fold for fold in self._kept if str(fold.number) == word), None)

    def _command(self, command: CommandFinished, running: _Running | None) -> Fold:
        lines = _lines(command.output or (running.output if running else ""))
        code = command.exit_code
        count = f"   {len(lines)} lines" if len(lines) > 1 else f"   {safe_line(lines[0].text, 60)}" if lines else ""
        title = f"$ {safe_line(command.command, TITLE_CHARACTERS)}"
        detail = (DiffLine(f"$ {command.command}", "bold"), *lines)
        if code is not None and code < 0:
            return self._keep("✗", f"{title}   killed{count}", "red", detail)
        if code:
            return self._keep("✗", f"{title}   exit status {code}{count}", "red", detail)
        return self._keep("✓" if code == 0 else "·", f"{title}{count}", "cyan", detail)

    def _change(self, change: FileChanged) -> Fold:
        diff = tuple(_diff(change))
        added = sum(line.style == "green" for line in diff)
        removed = sum(line.style == "red" for line in diff)
        title = f"{_MARKS[change.change]} {safe_line(change.path, TITLE_CHARACTERS)}   +{added} -{removed}"
        return self._keep("✓", title, "cyan", diff, diff[:INLINE_DIFF_LINES])

    def _tool(self, call: ToolCall) -> Fold:
        detail = (DiffLine(f"tool {call.name} {call.arguments}", "bold"), *_lines(call.result))
        title = f"tool {safe_line(call.name, TITLE_CHARACTERS)}" + ("" if call.ok else "   failed")
        return self._keep("✓" if call.ok else "✗", title, "cyan" if call.ok else "red", detail)

    def _cut(self) -> tuple[Fold, ...]:
        """Fold what will not end any more."""
        cut = tuple(
            self._keep(
                "?", f"{running.title}   no end was seen", "yellow", (DiffLine(running.title, "bold"), *_lines(running.output))
            )
            for running in self._running.values()
        )
        self._running.clear()
        return cut

    def _keep(self, mark: str, title: str, style: str, detail: tuple[DiffLine, ...], inline: tuple[DiffLine, ...] = ()) -> Fold:
        self._last += 1
        fold = Fold(self._last, mark, title, style, detail, inline)
        self._kept.append(fold)
        return fold


class _Running:
    """A command that runs: what it was called with, and the end of what it printed so far."""

    def __init__(self, started: CommandStarted) -> None:
        self.title = f"$ {safe_line(started.command, TITLE_CHARACTERS)}"
        self.output = ""

    def more(self, text: str) -> None:
        """Take more output."""
        self.output = (self.output + text)[-DETAIL_CHARACTERS:]

    @property
    def line(self) -> str:
        """The command and its last line."""
        said = safe_line(last_state((self.output.rstrip().splitlines() or [""])[-1]), TITLE_CHARACTERS)
        return f"… {self.title}" + (f"   {said}" if said else "")


def _is_end(payload: RoomPayload) -> bool:
    if isinstance(payload, SessionNotice):
        return payload.code in _PARKED
    return isinstance(payload, TurnEnded) or (isinstance(payload, TurnStateChanged) and payload.state == IN_DOUBT)


def _lines(text: str) -> tuple[DiffLine, ...]:
    kept = text[-DETAIL_CHARACTERS:].rstrip()
    return tuple(DiffLine(last_state(line)) for line in kept.split("\n")) if kept else ()


def _diff(change: FileChanged) -> Iterable[DiffLine]:
    """Return a change's lines with their styles. Some providers give a new file's text instead of a patch of it."""
    text = change.diff[-DETAIL_CHARACTERS:]
    lines = text.splitlines()
    if any(line.startswith("@@ ") for line in lines):
        return diff_lines(text)
    if change.change == "update":
        return (DiffLine(line, {"+": "green", "-": "red"}.get(line[:1], "")) for line in lines)
    mark, style = ("+", "green") if change.change == "add" else ("-", "red")
    return (DiffLine(f"{mark}{line}", style) for line in lines)

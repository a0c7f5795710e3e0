"""Claude Code's frames as Jam's typed events."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from jam_claude_code.failures import classify
from jam_claude_code.protocol import ABORTED, SYNTHETIC, System, Told
from jam_claude_code.transcript import Remembered
from jamcore.api import (
    EVENT_TEXT,
    CommandFinished,
    CommandStarted,
    FileChanged,
    Message,
    Notice,
    ProviderEvent,
    Reasoning,
    TextDelta,
    ToolCall,
    TurnEnded,
    TurnOutcome,
    UsageReported,
    Working,
    entries,
    identifier,
    member,
    number,
    shown,
    text,
)

COMMAND = "Bash"
FILE_TOOLS: Mapping[str, str] = {"Write": "file_path", "Edit": "file_path", "NotebookEdit": "notebook_path"}
"""Tools that change a file, and where each names it."""
OPEN_TOOLS = 1_024
"""Calls of one turn whose results are waited for."""
FAILED_COMMAND = re.compile(r"Exit code (\d{1,3})\b")
"""How the result of a command begins that failed. A changed sentence makes the code unknown, nothing else."""

_USAGE = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")

Frame = Mapping[str, object]


@dataclass
class Translator:
    """The events of one turn. It keeps what a later frame refers to: the place of a block in its message, and the calls that run.

    Args:
        cwd: The thread's directory; a command's own is not told.
        spent: What the thread cost so far; kept up to date.
    """

    cwd: str
    spent: Remembered
    _blocks: dict[str, int] = field(default_factory=dict)
    _calls: dict[str, tuple[str, Mapping[str, object]]] = field(default_factory=dict)
    _kind: object = None

    def translate(self, kind: str, frame: Frame) -> Iterator[ProviderEvent]:
        """Yield the events that one frame stands for, in order; usually one or none."""
        match kind:
            case Told.STREAM:
                yield from self._streamed(frame)
            case Told.ASSISTANT:
                yield from self._assistant(frame)
            case Told.USER:
                yield from self._results(frame)
            case Told.SYSTEM:
                yield from self._system(frame)
            case Told.RESULT:
                yield self._used(frame)
                yield self._ended(frame)

    def _streamed(self, frame: Frame) -> Iterator[ProviderEvent]:
        event = frame.get("event")
        if frame.get("parent_tool_use_id") is None and member(event, "delta", "type") == "text_delta":
            item = f"{identifier(frame.get('api_message_id'))}.{number(member(event, 'index'))}"
            yield TextDelta(item=item, text=text(member(event, "delta", "text")))
        elif isinstance(member(event, "delta"), Mapping):
            yield Working()  # a thought, or what a tool is given

    def _assistant(self, frame: Frame) -> Iterator[ProviderEvent]:
        message = frame.get("message")
        if member(message, "model") == SYNTHETIC:
            self._kind = frame.get("error")  # words about a failure: the end mark has them too
            return
        inner = frame.get("parent_tool_use_id") is not None  # a sub-agent: what it does is shown, what it says is its caller's
        for block in entries(member(message, "content")):
            item = self._place(identifier(member(message, "id")))
            match block.get("type"):
                case "text" if not inner and block.get("text"):
                    yield Message(item=item, text=text(block.get("text")))
                case "thinking" if not inner and block.get("thinking"):
                    yield Reasoning(item=item, text=text(block.get("thinking")))
                case "tool_use":
                    yield from self._called(block)

    def _place(self, message: str) -> str:
        """Return the item of the next block of a message; each block comes in a frame of its own, in order."""
        place = self._blocks.get(message, 0)
        self._blocks[message] = place + 1
        return f"{message}.{place}"

    def _called(self, block: Frame) -> Iterator[ProviderEvent]:
        call, name, given = identifier(block.get("id")), identifier(block.get("name")), block.get("input")
        if len(self._calls) < OPEN_TOOLS:
            self._calls[call] = name, given if isinstance(given, Mapping) else {}
        if name == COMMAND:
            yield CommandStarted(item=call, command=text(member(given, "command")), cwd=self.cwd)
        else:
            yield Working(item=call)

    def _results(self, frame: Frame) -> Iterator[ProviderEvent]:
        for block in entries(member(frame, "message", "content")):
            call = identifier(block.get("tool_use_id"))
            if block.get("type") == "tool_result" and call in self._calls:
                name, given = self._calls.pop(call)
                yield self._result(call, name, given, block, frame.get("tool_use_result"))

    def _result(self, call: str, name: str, given: Frame, block: Frame, details: object) -> ProviderEvent:
        ok = block.get("is_error") is not True
        if name == COMMAND:
            said = shown(block.get("content"), EVENT_TEXT)
            return CommandFinished(
                item=call, command=text(given.get("command")), output=said, exit_code=_code(said, details, ok=ok)
            )
        if name in FILE_TOOLS and ok:
            created = member(details, "type") == "create"
            diff = text(member(details, "content")) if created else _diff(member(details, "structuredPatch"))
            path = text(given.get(FILE_TOOLS[name]))
            return FileChanged(item=call, path=path, change="add" if created else "update", diff=diff)
        return ToolCall(item=call, name=name, arguments=shown(given), result=shown(block.get("content")), ok=ok)

    def _system(self, frame: Frame) -> Iterator[ProviderEvent]:
        match frame.get("subtype"):
            case System.RETRY:
                why = text(frame.get("error"), 80)
                if (status := number(frame.get("error_status"))) != 0:
                    why = f"{why}, status {status}"
                count = f"{number(frame.get('attempt'))} of {number(frame.get('max_retries'))}"
                yield Notice(level="warning", text=f"The model endpoint failed ({why}); Claude Code tries again ({count}).")
            case System.COMPACTED:
                yield Notice(level="info", text="Claude Code replaced the older part of the conversation by a summary.")

    def _used(self, frame: Frame) -> UsageReported:
        """Count on what the thread cost before. What the program says of the whole begins anew in some of its lives, and not in others."""
        models = frame.get("model_usage_since_last_result")
        used = [model for model in models.values() if isinstance(model, Mapping)] if isinstance(models, Mapping) else []
        self.spent.input_tokens += sum(number(model.get(key)) for model in used for key in _USAGE)
        self.spent.output_tokens += sum(number(model.get("outputTokens")) for model in used)
        told, said = self.spent.input_tokens, self.spent.output_tokens
        return UsageReported(input_tokens=told, output_tokens=said, total_tokens=told + said)

    def _ended(self, frame: Frame) -> TurnEnded:
        reason = frame.get("terminal_reason")
        if isinstance(reason, str) and reason in ABORTED:
            return TurnEnded(outcome=TurnOutcome.INTERRUPTED)
        if frame.get("is_error") is not True:  # the subtype says "success" of failures too
            return TurnEnded(outcome=TurnOutcome.COMPLETED)
        words = text(frame.get("result")) or shown(frame.get("errors"))
        code = classify(reason=reason, status=frame.get("api_error_status"), kind=self._kind, words=words)
        return TurnEnded(outcome=TurnOutcome.FAILED, code=code, detail=text(words, EVENT_TEXT >> 4))


def _code(said: str, details: object, *, ok: bool) -> int | None:
    if ok:
        return None if member(details, "interrupted") is True else 0
    found = FAILED_COMMAND.match(said)
    return int(found[1]) if found else None


def _diff(patch: object) -> str:
    parts = []
    for hunk in entries(patch):
        numbers = [number(hunk.get(key)) for key in ("oldStart", "oldLines", "newStart", "newLines")]
        parts.append("@@ -{},{} +{},{} @@".format(*numbers))
        lines = hunk.get("lines")
        parts += [line for line in lines if isinstance(line, str)] if isinstance(lines, list) else []
    return text("\n".join(parts) + "\n" if parts else "")

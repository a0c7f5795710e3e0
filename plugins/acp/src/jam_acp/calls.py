"""One tool call of an agent, put together from what the agent tells of it bit by bit."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Literal

from jam_acp.diffs import Change, change_of, diff_of, leads_to, says_again
from jam_acp.profile import Profile
from jamcore.api import (
    ApprovalRequested,
    CommandFinished,
    CommandOutput,
    CommandStarted,
    FileChanged,
    Notice,
    ProviderEvent,
    ToolCall,
    Working,
    as_json,
    entries,
    identifier,
    member,
    shown,
    text,
    whole,
)

Events = tuple[ProviderEvent, ...]
Update = Mapping[str, object]
Subject = Literal["command", "file-change", "other"]

CHANGES = frozenset({"edit", "delete", "move"})
"""The kinds of a call that changes files."""
ENDED = frozenset({"completed", "failed"})
WAITING = frozenset({"", "pending"})
"""A call that does not run yet: the model still writes it, or somebody is asked."""


@dataclass
class Call:
    """What is known of one call. Later tellings replace earlier ones member by member, as the protocol says."""

    item: str
    cwd: str = ""
    """The session's directory, from which relative paths count."""
    kind: str = "other"
    title: str = ""
    status: str = ""
    asked: Mapping[str, object] = field(default_factory=dict)
    """Its input; what a request for permission calls its input is often less, so members are kept."""
    replaced: dict[str, object] = field(default_factory=dict)
    """What was told of its kind, input, places or changes before something else was told in its place."""
    result: object = None
    diffs: tuple[Mapping[str, object], ...] = ()
    paths: tuple[str, ...] = ()
    said: str = ""
    shown: str = ""
    begun: bool = False
    over: bool = False

    def learn(self, told: Update) -> None:
        """Take what is new."""
        for name in ("kind", "title", "status"):
            if value := text(told.get(name), 4096):
                if name == "kind" and self.kind not in ("other", value):
                    self.replaced["kind"] = self.kind
                setattr(self, name, value)
        if (given := told.get("rawInput")) is not None:
            asked = given if isinstance(given, Mapping) else {"rawInput": given}
            self.replaced |= {name: old for name, old in self.asked.items() if name in asked and asked[name] != old}
            self.asked = {**self.asked, **asked}
        if told.get("rawOutput") is not None:
            self.result = told["rawOutput"]
        self._learn_paths(tuple(path for place in entries(told.get("locations")) if (path := text(place.get("path"), 4096))))
        content = entries(told.get("content"))
        if diffs := tuple(part for part in content if part.get("type") == "diff"):
            if self.diffs not in ((), diffs):
                self.replaced["content"] = list(self.diffs)
            self.diffs = diffs
        if said := "".join(text(member(part, "content", "text")) for part in content if part.get("type") == "content"):
            self.said = text(said)

    def _learn_paths(self, paths: tuple[str, ...]) -> None:
        if paths and self.paths and self._places(*self.paths) != self._places(*paths):
            self.replaced["locations"] = list(self.paths)
        self.paths = paths or self.paths

    @property
    def command(self) -> str:
        """The command that it runs, if it says so."""
        return self._words("command") or self._words("cmd")

    def _words(self, key: str) -> str:
        command = self.asked.get(key)
        if isinstance(command, list) and command and all(isinstance(part, str) for part in command):
            return text(shlex.join(command))
        return text(command)

    @property
    def changes_files(self) -> bool:
        """Whether it changes files."""
        return self.kind in CHANGES or bool(self.diffs)

    # ------------------------------------------------------------------------------------------------------------ events

    def progress(self) -> Events:
        """Return the events that what was learnt last stands for."""
        if self.over:
            return ()
        self.over = self.status in ENDED
        if self.kind == "execute":
            return self._command_events()
        if not self.over:
            return (Working(item=self.item),) if self.status not in WAITING else ()
        return self._changed() if self.changes_files else (self._called(),)

    def cut(self) -> Events:
        """Return what ends a command that was never heard of again."""
        if not self.begun or self.over:
            return ()
        self.over = True
        return (CommandFinished(item=self.item, command=self.command or self.title, output=self._output(), exit_code=None),)

    def _command_events(self) -> Events:
        events: list[ProviderEvent] = []
        if not self.begun and (self.command or self.status not in WAITING):
            self.begun = True
            cwd = text(self.asked.get("cwd"), 4096) or (self.paths[0] if self.paths else "")
            events.append(CommandStarted(item=self.item, command=self.command or self.title, cwd=cwd))
        if not self.over:
            if len(self.said) > len(self.shown) and self.said.startswith(self.shown):
                events.append(CommandOutput(item=self.item, text=self.said[len(self.shown) :]))
                self.shown = self.said
            return tuple(events)
        code = next((found for path in _EXIT_CODES if (found := whole(member(self.result, *path))) is not None), None)
        done = CommandFinished(item=self.item, command=self.command or self.title, output=self._output(), exit_code=code)
        return (*events, done)

    def _output(self) -> str:
        plain = next((found for name in _OUTPUTS if (found := text(member(self.result, name)))), "")
        return plain or self.said or shown(self.result)

    def _changed(self) -> Events:
        if self.status == "failed":
            notice = Notice(level="warning", text=f"A change was not made: {self.title or self.kind}")
            return notice, Working(item=self.item, over=True)
        if changes := tuple(self._change(diff) for diff in self.diffs):
            return changes
        if not self.paths:
            return (self._called(),)
        change: Change = "delete" if self.kind == "delete" else "update"
        return tuple(FileChanged(item=self.item, path=path, change=change, diff="") for path in self.paths)

    def _change(self, diff: Update) -> FileChanged:
        old, new = diff.get("oldText"), diff.get("newText")
        return FileChanged(
            item=self.item,
            path=text(diff.get("path"), 4096),
            change=change_of(self.kind, old, new),
            diff=diff_of(text(old), text(new)),
        )

    def _called(self) -> ToolCall:
        result = self.said or shown(self.result)
        return ToolCall(
            item=self.item,
            name=self.title or self.kind,
            arguments=shown(dict(self.asked)),
            result=result,
            ok=self.status == "completed",
        )

    # ---------------------------------------------------------------------------------------------------------- question

    def question(self, profile: Profile) -> ApprovalRequested:
        """Return the question whether it may be done.

        A rule may cover a command or a change only where its detail is all that would be done. Whatever has a member that the profile does
        not know, or one that says something else than the change, was told in two ways, or is both, is something else: it is shown whole,
        and no rule covers it.
        """
        command, cwd = self._words(profile.command_key), self.asked.get("cwd", "")
        plain = not self.replaced and isinstance(cwd, str) and len(cwd) < _PATH
        if plain and self.kind == "execute" and command and len(command) < _WHOLE:
            if self.asked.keys() - {"cwd", *profile.harmless} == {profile.command_key} and not self.diffs:
                return self._asked("command", command, f"in {cwd}" if cwd else "")
        elif plain and self.changes_files and self.kind not in ("execute", "move"):
            lines = self._lines()
            if lines and len("\n".join(lines)) < _WHOLE and self._says_one_change(profile):
                return self._asked("file-change", "\n".join(lines), self._bodies() if self.diffs else text(_json(self.asked)))
        told = (self.title or self.kind, _json(self.asked), _json(self.replaced), *self._lines(), *self.paths)
        return self._asked("other", "\n".join(part for part in dict.fromkeys(told) if part), self._bodies())

    def _says_one_change(self, profile: Profile) -> bool:
        """Whether its places, its input and its diffs all say the same. Without a diff the contents in its input are shown."""
        keys: Mapping[str, str] = dict(profile.change_keys)
        said = tuple(text(diff.get("path"), _PATH) for diff in self.diffs)
        named = self._places(*(said or self.paths))
        if self.asked.keys() - keys.keys() or "" in said or not named >= self._places(*self.paths):
            return False
        values: dict[str, list[str]] = {"path": [], "old": [], "new": [], "patch": []}
        for key, value in self.asked.items():
            if keys[key] != "nothing":
                if not isinstance(value, str):
                    return False
                values[keys[key]].append(value)
        if not named >= self._places(*values["path"]):
            return False
        olds, news, patches = values["old"], values["new"], values["patch"]
        if not self.diffs or not (olds or news or patches):
            return True
        if len(self.diffs) > 1:
            return False  # nothing says which of them the contents are of
        path, old, new = (
            found if isinstance(found := self.diffs[0].get(key), str) else "" for key in ("path", "oldText", "newText")
        )
        pairs = ((part, put) for part in olds or (None,) for put in news or (None,))
        return all(leads_to(old, new, *pair) for pair in pairs) and all(says_again(patch, path, old, new) for patch in patches)

    def _places(self, *paths: str) -> set[PurePosixPath]:
        """Return where paths lie. ``..`` stays: behind a symbolic link it leads elsewhere."""
        return {PurePosixPath(self.cwd, path) for path in paths}

    def _lines(self) -> tuple[str, ...]:
        """Return which files it changes, and how."""
        if self.diffs:
            return tuple(
                f"{change_of(self.kind, diff.get('oldText'), diff.get('newText'))} {diff.get('path')}" for diff in self.diffs
            )
        change: Change = "delete" if self.kind == "delete" else "update"
        return tuple(f"{change} {path}" for path in self.paths) if self.changes_files else ()

    def _bodies(self) -> str:
        """Return its changes line by line."""
        return text("\n".join(f"{line}\n{self._change(diff).diff}" for line, diff in zip(self._lines(), self.diffs, strict=False)))

    def _asked(self, subject: Subject, detail: str, preview: str) -> ApprovalRequested:
        return ApprovalRequested(item=self.item, subject=subject, detail=text(detail), preview=preview)


_PATH = 4096
_WHOLE = 1 << 19
"""Characters of what a rule compares; longer is not a command or a change any more, but something else."""
_OUTPUTS = ("output", "aggregated_output", "stdout")
_EXIT_CODES = (("exitCode",), ("exit_code",), ("metadata", "exit"), ("exit",))
"""Where agents say what a command printed and how it ended: the protocol has no place for either, only for what people look at."""


def _json(value: Mapping[str, object]) -> str:
    return as_json(dict(value)) if value else ""


def call_id(told: Update) -> str:
    """Return the id of the call that an update or a question is about."""
    return identifier(told.get("toolCallId"))

"""The real ``jam`` before a daemon that says nothing but escape sequences: ``python evil_jam.py answers|errors DIRECTORY``.

Every command of the table is run once with its arguments, itself full of escapes, and whatever text an answer may hold is
:data:`EVIL`: the records are filled by the types of their fields, so a new field or a new command is looked at on the day it is written.
"""

# ruff: noqa: ANN401 - values of any type

from __future__ import annotations

import io
import json
import sys
from collections.abc import AsyncGenerator, Mapping
from datetime import UTC, datetime
from enum import Enum
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, NewType, Union, get_args, get_origin
from uuid import UUID

from pydantic import BaseModel

from jamcore.cli.main import run
from jamcore.cli.standing import AHEAD
from jamcore.cli.table import COMMANDS, Command
from jamcore.control.client import JamClient
from jamcore.control.failures import RemoteRefusalError
from jamcore.control.operations import OperationClient
from jamcore.control.schemas import ErrorBody
from jamcore.control.wire import Request
from jamcore.domain.events import RoomEvent, RoomPayload, SessionNotice, TurnStateChanged
from jamcore.domain.operation_views import OperationLine

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\x08\x7f\x00 \u202egpj \u2066x\u2028 \U000e0041\r\n\x1b[1;31mtail"
PLAIN: Mapping[type, object] = {bool: True, int: 7, float: 7.0, datetime: datetime(2026, 1, 1, tzinfo=UTC), str: EVIL, bytes: b"7"}
ENDS = "── "
"""A line of this, written by no command, says which one comes."""
SEEN = ("--patch-sha256", "0" * 64)
WORDS: Mapping[str, tuple[str, ...]] = {"accept": ("--author", "A <a@example.org>", *SEEN), "reject": ("--why", "no", *SEEN)}
TAKEN: frozenset[str] = frozenset({"demo", "daemon start", "daemon stop", "plugin new", "plugin check"})
"""They start and stop programs, and print nothing that came from a guest."""


def evil(kind: Any, current: UUID) -> Any:
    """Return a value of a type, with evil wherever a text may be."""
    origin, parts = get_origin(kind), get_args(kind)
    if isinstance(kind, NewType):
        return evil(kind.__supertype__, current)
    if origin in (Union, UnionType):
        return evil(next(part for part in parts if part is not NoneType), current)
    if origin in (tuple, list, frozenset, set):
        return origin((evil(parts[0], current),))
    if origin is Literal or kind in PLAIN:
        return parts[0] if origin is Literal else PLAIN[kind]
    if origin is not None:
        return {evil(parts[0], current): evil(parts[1], current)}
    return _of_class(kind, current)


def _of_class(kind: Any, current: UUID) -> Any:
    if kind is UUID:
        return current
    if issubclass(kind, Enum):
        return next(iter(kind))
    assert issubclass(kind, BaseModel), kind
    kind.model_rebuild()  # a field may name a class that comes later in its module
    return kind.model_construct(**{name: evil(field.annotation, current) for name, field in kind.model_fields.items()})


class EvilDaemon:
    """What answers in place of a daemon."""

    def __init__(self, *, errors: bool) -> None:
        self._errors = errors
        self._current = UUID(int=7)

    async def once(self, kind: Any, request: Request) -> Any:
        """Answer with an evil record, or refuse with evil words."""
        body = json.loads(request.body or b"{}")
        self._current = UUID(body.get("turn_id") or body.get("id") or str(self._current))
        if self._errors:
            self.refuse()
        return evil(kind, self._current)

    def refuse(self) -> None:
        """Refuse."""
        raise RemoteRefusalError(answer=ErrorBody(code=EVIL, message=EVIL, context={EVIL: EVIL}, hint=EVIL))

    async def events(self, _ref: str, *, after: int = 0, follow: bool = True) -> AsyncGenerator[RoomEvent, None]:
        """Tell one event of each kind, the end of the turn that was asked for last, and then no more; a follower is refused then."""
        kinds = [kind for kind in get_args(get_args(RoomPayload)[0]) if kind is not TurnStateChanged]
        payloads = [*(evil(kind, self._current) for kind in kinds), SessionNotice.model_construct(code=AHEAD, detail=EVIL)]
        ends = [TurnStateChanged.model_construct(state=state, detail=EVIL) for state in ("in-doubt", "cut")]
        for seq, payload in enumerate((*payloads, *ends), after + 1):
            turn = self._current if payload in ends else None
            yield RoomEvent.model_construct(
                room_id=self._current, seq=seq, at=datetime(2026, 1, 1, tzinfo=UTC), turn_id=turn, payload=payload
            )
        if follow:
            self.refuse()

    async def story(self, _ref: str, *, after: int = 0, follow: bool = True) -> AsyncGenerator[OperationLine, None]:
        """Tell one line of an operation's story, and then no more; a follower is refused then."""
        yield evil(OperationLine, self._current).model_copy(update={"seq": after + 1})
        if follow:
            self.refuse()


def words_of(command: Command) -> list[str]:
    """Return a command line with every argument that is needed."""
    function = import_module(f"jamcore.cli.commands.{command.module}").command
    needed = [name for name, given in signature(function).parameters.items() if given.default is Parameter.empty]
    arguments = [EVIL.replace("\x00", "") for name in needed if name != "why"]
    if command.module == "room_say":
        arguments.append("hello")
    if command.module == "room_attach":
        arguments.append("--watch")
    return [*command.path, *arguments, *WORDS.get(command.path[-1], ())]


def main(what: str, directory: str) -> None:
    """Run every command."""
    daemon = EvilDaemon(errors=what == "errors")
    JamClient._once = daemon.once  # type: ignore[method-assign,assignment]
    JamClient.events = daemon.events  # type: ignore[method-assign,assignment]
    OperationClient.events = daemon.story  # type: ignore[method-assign,assignment]
    (Path(directory) / "jamd.log").write_text(EVIL)
    for command in COMMANDS:
        if command.name not in TAKEN:
            print(f"{ENDS}{command.name}", flush=True)
            sys.stdin = io.StringIO("secret\n")
            run([*words_of(command), "--app-directory", directory])
    for wrong in ([EVIL], ["room", EVIL], ["ls", f"--{EVIL}"], ["room", "new", "codex", "--placement", EVIL]):
        print(f"{ENDS}a wrong command line", flush=True)
        run([word.replace("\x00", "") for word in wrong])


if __name__ == "__main__":
    main(*sys.argv[1:])

"""What Codex asks before it acts, as Jam's events, and Jam's answers in Codex's words: this once, or no.

Codex offers more ("for the session", amendments of its own rules); none of it is ever said: what is allowed for good is Jam's to know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jam_codex.answers import notice
from jam_codex.turns import Turn
from jamcore.api import (
    CUT,
    EVENT_TEXT,
    ApprovalAnswer,
    ApprovalRequested,
    OpenQuestions,
    RemoteError,
    as_json,
    entries,
    identifier,
    labelled,
    member,
    text,
)

NOTED = 256
"""Changes of files of one thread that are remembered until they are asked about."""
REFUSED = -32601

Params = Mapping[str, Any]


class Questions:
    """The open questions of one thread, and the changes of files that were announced: the question about one only names it."""

    def __init__(self) -> None:
        self._open = OpenQuestions()
        self._announced: dict[str, object] = {}

    def note(self, params: Params) -> None:
        """Remember a change of files that was announced; ``params`` are those of an item that began."""
        item = params.get("item")
        if member(item, "type") != ANNOUNCED:
            return
        while len(self._announced) >= NOTED:
            del self._announced[next(iter(self._announced))]
        self._announced[identifier(member(item, "id"))] = member(item, "changes")

    async def ask(self, turn: Turn, method: str, params: Params) -> object:
        """Pass a question on and return the answer for Codex. A turn that ends first leaves it denied; a change that nobody knows is.

        Raises:
            RemoteError: Denied, where Codex has no word for that.
        """
        await turn.accepted.wait()
        if identifier(params.get("turnId")) != turn.provider_turn:
            return reply(method, params, ApprovalAnswer.DENY)  # of a turn that is over
        if (about := self._about(method, params)) is None:
            await turn.take(notice(method, params))
            return reply(method, params, ApprovalAnswer.DENY)
        return reply(method, params, await self._open.ask(turn, about) or ApprovalAnswer.DENY)

    def answer(self, request: str, answer: ApprovalAnswer) -> None:
        """See :meth:`jamcore.api.OpenQuestions.answer`."""
        self._open.answer(request, answer)

    def _about(self, method: str, params: Params) -> ApprovalRequested | None:
        item = identifier(params.get("itemId"))
        if method == PERMISSIONS:
            return permissions(item, params)
        return command(item, params) if method == COMMAND else change(item, params, self._announced.get(item))


COMMAND = "item/commandExecution/requestApproval"
CHANGE = "item/fileChange/requestApproval"
PERMISSIONS = "item/permissions/requestApproval"
ANNOUNCED = "fileChange"
ASKED = frozenset({COMMAND, CHANGE, PERMISSIONS})
"""What a person can answer with yes or no. Everything else that Codex may ask is refused (:mod:`jam_codex.answers`)."""


def command(item: str, params: Params) -> ApprovalRequested:
    """Return the event for a command. One that wants more than to be run, or was cut, is something else, which no rule covers."""
    wanted = text(params.get("command"))
    more = {key: params[key] for key in ("additionalPermissions", "networkApprovalContext") if params.get(key)}
    if params.get("kind") not in (None, "command"):
        more["kind"] = text(params.get("kind"), 80)
    preview = labelled(("in", text(params.get("cwd"), 4096)), ("because", text(params.get("reason"), 4096)))
    if more or not wanted or wanted.endswith(CUT):
        detail = f"{wanted}\n{as_json(more)}".strip()
        return ApprovalRequested(item=item, subject="other", detail=detail, preview=preview)
    return ApprovalRequested(item=item, subject="command", detail=wanted, preview=preview)


def change(item: str, params: Params, changes: object) -> ApprovalRequested | None:
    """Return the event for changes of files: which files and how, and their contents to look at.

    ``None``: what was announced does not say which files, and nobody can say yes to that.
    """
    known = entries(changes)
    if not known or list(known) != changes or not all(text(member(entry, "path")) for entry in known):
        return None
    lines = [f"{text(member(entry, 'kind', 'type'), 40)} {text(member(entry, 'path'), 4096)}" for entry in known]
    moved = any(member(entry, "kind", "move_path") for entry in known)
    root = text(params.get("grantRoot"), 4096)
    reason = text(params.get("reason"), 4096)
    body = "\n".join(f"{line}\n{text(member(entry, 'diff'))}" for line, entry in zip(lines, known, strict=True))
    preview = text("\n".join(part for part in (labelled(("because", reason)), body) if part))
    if root or moved or sum(map(len, lines)) + len(lines) > EVENT_TEXT:
        wanted = "\n".join([*lines, f"write below {root}" if root else ""]).strip()
        return ApprovalRequested(item=item, subject="other", detail=text(wanted), preview=preview)
    return ApprovalRequested(item=item, subject="file-change", detail="\n".join(lines), preview=preview)


def permissions(item: str, params: Params) -> ApprovalRequested:
    """Return the event for more permissions, which Codex's own sandbox would need and Jam's does not know."""
    return ApprovalRequested(
        item=item, subject="other", detail=_wanted(params), preview=labelled(("because", text(params.get("reason"), 4096)))
    )


def _wanted(params: Params) -> str:
    return text(as_json(params.get("permissions")))


def reply(method: str, params: Params, answer: ApprovalAnswer) -> dict[str, object]:
    """Return what is said to Codex: this once, or no.

    Raises:
        RemoteError: No, where Codex has no word for it: any error is a rejection, and the turn goes on.
    """
    allowed = answer is ApprovalAnswer.ALLOW
    if method != PERMISSIONS:
        return {"decision": "accept" if allowed else "decline"}
    if not allowed or _wanted(params).endswith(CUT):  # nobody saw all of what would be granted
        raise RemoteError(REFUSED, "denied")
    return {"permissions": params.get("permissions") or {}, "scope": "turn"}

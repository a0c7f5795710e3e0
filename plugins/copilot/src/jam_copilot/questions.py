"""What Copilot asks before it acts, as Jam's events, and Jam's answers in Copilot's words: this once, or no.

Copilot knows more ("for the session", "always here"); none of it is ever said: what is allowed for good is Jam's to know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

from jamcore.api import CUT, EVENT_TEXT, ApprovalAnswer, ApprovalRequested, Notice, as_json, identifier, labelled, member, text

Data = Mapping[str, Any]

WANTS_MORE = ("requestSandboxBypass", "requestSandboxPermissive", "sandboxPathGrant", "managedApprovalRequired")
"""Members of a request for more than the thing itself; no rule that covers the thing covers that."""

ALLOW: Mapping[str, object] = {"kind": "approve-once"}
DENY: Mapping[str, object] = {"kind": "reject", "feedback": "It was not allowed. Go on without it, or say what you need."}
"""Without words the turn would end there; with them the model is told, and goes on."""


def reply(answer: ApprovalAnswer) -> dict[str, object]:
    """Return what is said to Copilot: this once, or no."""
    return dict(ALLOW if answer is ApprovalAnswer.ALLOW else DENY)


def only_reads(request: object, cwd: str, *, isolated: bool) -> bool:
    """Whether a request is to look at something that nobody has to be asked about: in a sandbox all, else what lies in the workspace.

    Where no sandbox is, that is known only of a path of which Copilot says where its links lead.
    """
    if member(request, "kind") != "read" or any(member(request, key) for key in WANTS_MORE):
        return False
    return isolated or all(_inside(member(request, key), cwd) for key in ("path", "resolvedPath"))


def question(data: Data) -> ApprovalRequested:
    """Return the event for a ``permission.requested``."""
    request = data.get("permissionRequest")
    about = _READERS.get(str(member(request, "kind")), _other)(request)
    return about.model_copy(
        update={"request": identifier(data.get("requestId")), "item": identifier(member(request, "toolCallId"))}
    )


def refused(data: Data) -> Notice:
    """Return what a person is told of a question that came where none may be asked."""
    about = question(data)
    return Notice(level="warning", text=f"Copilot asked Jam and was refused: {text(about.detail, 200)}")


def _command(request: object) -> ApprovalRequested:
    """A command. One that wants more than to be run, or was cut, is something else, which no rule covers."""
    wanted = text(member(request, "fullCommandText"))
    more = {key: member(request, key) for key in WANTS_MORE if member(request, key)}
    preview = labelled(
        ("in", text(member(request, "resolvedWorkingDirectory"), 4096)),
        ("because", text(member(request, "intention"), 4096)),
        ("warning", text(member(request, "warning"), 4096)),
    )
    if more or not wanted or wanted.endswith(CUT):
        detail = text(f"{wanted}\n{as_json(more)}".strip())
        return ApprovalRequested(item="", subject="other", detail=detail, preview=preview)
    return ApprovalRequested(item="", subject="command", detail=wanted, preview=preview)


def _write(request: object) -> ApprovalRequested:
    """A change of files: which files and how, and the difference to look at. What cannot be listed whole is something else."""
    edits, diff = member(request, "fileEdits"), text(member(request, "diff")).strip("\n")
    lines = [_edit(edit) for edit in edits] if isinstance(edits, list) else []
    name, resolved = member(request, "fileName"), member(request, "resolvedPath")
    more = {key: member(request, key) for key in WANTS_MORE if member(request, key)}
    elsewhere = resolved if isinstance(resolved, str) and resolved != name else None
    listed = [line for line in lines if line is not None]
    whole = bool(listed) and len(listed) == len(lines) and sum(map(len, listed)) + len(listed) <= EVENT_TEXT
    if more or elsewhere or not whole:
        wanted = [*listed, *([f"change {text(name, 4096)}"] if not listed else []), *([f"really {elsewhere}"] if elsewhere else [])]
        detail = "\n".join([*wanted, *([as_json(more)] if more else [])])
        return ApprovalRequested(item="", subject="other", detail=text(detail), preview=diff)
    return ApprovalRequested(item="", subject="file-change", detail="\n".join(listed), preview=diff)


def _edit(edit: object) -> str | None:
    """Return a line for one file; ``None``: it is not simply one file added, changed or removed."""
    before, after = member(edit, "before", "path"), member(edit, "after", "path")
    if isinstance(after, str) and before in (None, after):
        return f"{'add' if before is None else 'update'} {after}"
    return f"delete {before}" if isinstance(before, str) and after is None else None


def _other(request: object) -> ApprovalRequested:
    """Anything else, with all that it says."""
    return ApprovalRequested(item="", subject="other", detail=text(as_json(request)), preview="")


_READERS: Mapping[str, Callable[[object], ApprovalRequested]] = MappingProxyType({"shell": _command, "write": _write})


def _inside(place: object, cwd: str) -> bool:
    return isinstance(place, str) and ".." not in PurePosixPath(place).parts and PurePosixPath(place).is_relative_to(cwd)

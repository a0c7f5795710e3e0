"""What Claude Code asks before it acts, as Jam's events, and Jam's answers in its words: this once, or no.

It suggests more (rules, directories, another mode); none of it is ever said: what is allowed for good is Jam's to know.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from jam_claude_code.events import COMMAND, FILE_TOOLS
from jamcore.api import CUT, ApprovalAnswer, ApprovalRequested, as_json, identifier, labelled, text

Params = Mapping[str, Any]

DENIED = "The person who uses this session said no. Go on without it, or say what you need it for."
NOT_ASKED = "This session asks nobody. Go on without it."
_KNOWN_OF_COMMANDS = frozenset({"command", "description", "timeout"})
"""Parts of a command's input that say no more than what is run; with any other it is something else, which no rule covers."""


def question(params: Params, cwd: str = "/") -> ApprovalRequested:
    """Return the event for what is asked, in a thread that works in ``cwd``: a command, a change of one file, or something else."""
    item, tool = identifier(params.get("tool_use_id")), identifier(params.get("tool_name"))
    given = _given(params)
    reasons = labelled(("because", text(params.get("decision_reason"), 4096)), _about(text(params.get("blocked_path"), 4096), cwd))
    command, path = text(given.get("command")), text(given.get(FILE_TOOLS.get(tool, "")))
    if tool == COMMAND and command and not command.endswith(CUT) and given.keys() <= _KNOWN_OF_COMMANDS:
        return ApprovalRequested(item=item, subject="command", detail=command, preview=reasons)
    body = as_json(given)
    if tool in FILE_TOOLS and path and not path.endswith(CUT):
        preview = labelled(("", reasons), ("", text(body)))
        return ApprovalRequested(item=item, subject="file-change", detail=f"update {path}", preview=preview)
    return ApprovalRequested(item=item, subject="other", detail=text(f"{tool} {body}"), preview=reasons)


def _about(path: str, cwd: str) -> tuple[str, str]:
    """Return the path that a question is about behind its label: where a thread asks, Claude Code names also those of the workspace."""
    place = PurePosixPath(posixpath.normpath(posixpath.join(cwd, path)))
    return "touches" if place.is_relative_to(cwd) else "outside", path


def reply(params: Params, answer: ApprovalAnswer) -> dict[str, object]:
    """Return what is said to Claude Code: this once and exactly this, or no. What nobody could see whole is not granted."""
    if answer is not ApprovalAnswer.ALLOW or question(params).detail.endswith(CUT):
        return {"behavior": "deny", "message": DENIED}
    return {"behavior": "allow", "updatedInput": dict(_given(params))}


def not_asked() -> dict[str, object]:
    """Return the answer in a thread that never asks."""
    return {"behavior": "deny", "message": NOT_ASKED}


def _given(params: Params) -> Params:
    given = params.get("input")
    return given if isinstance(given, Mapping) else {}

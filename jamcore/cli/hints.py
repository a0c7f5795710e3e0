"""What to do about an error, as far as the command line knows it better than the error's class: with the names in question."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from jamcore.cli.words import quoted

if TYPE_CHECKING:
    from jamcore.domain.errors import JamError

_INSTALL = "Run `jam provider install {provider}`."
_CREDENTIAL = "Run `jam credential set {credential}`: it asks for the key and keeps it in the daemon. Then repeat the command."
_MEANT = "Did you mean {}? `jam provider ls` lists the agents."
_INSPECT = (
    "Nothing was changed or deleted. See the evidence, and how to go on with a new conversation: jam continuity inspect {room}"
)
_CONFIRM = (
    "See what is given up: jam continuity inspect {room}. If that is what you want: "
    "jam continuity start-fresh {room} --confirm --evidence {evidence}"
)
_SIBLINGS = (
    "Stop the other rooms of its sandbox (`jam ls` shows them), then resume this one first: its state must be restored for all."
)
_GOES_ON = (
    "If it was begun it goes on, also at each start of the daemon: `jam operation watch {operation}` shows it to its end. "
    "If there is none of that id, it was not begun or has taken over one that was cut before: `jam operation ls --unfinished`. "
    "Repeating the command is safe."
)
_NEVER_UP = "Check the agent's command and version; if you wrote a table for it, they are there."
_PROGRAM = ("provider.gone", "provider.protocol", "provider.timeout")
"""The agent's own program did not come up."""
_KEPT = "{hint} Room {room} is kept; `jam resume {room}` tries again."
_LOST = ("continuity.refused", "continuity.resume_failed", "continuity.reset_unfinished")


_ABOUT_THE_ROOM = ("continuity", "ownership", "workspace")
"""Families of errors that are about the room that a command was given, also where they do not name it themselves."""
_ABOUT_ANOTHER = ("continuity.host_busy",)
"""Of these families, what is about rooms that it names in its own words."""
_PLACE = re.compile(r"\b(ROOM|PROVIDER)\b")


def hint_of_new(error: JamError, *, room: str) -> str:
    """Return the hint for a person whose command made a room that did not come up. It has had no turn, and it holds its name."""
    hint = _NEVER_UP if error.code in _PROGRAM else hint_of(error, room=room)
    return _KEPT.format(hint=hint, room=quoted(room))


def hint_of(error: JamError, *, room: str = "") -> str:
    """Return the hint for a person. ``room`` is the one that their command was about; empty: none."""
    context = error.context()
    room = _room_of(error.code, context, room)
    if hint := _about_a_name(error.code, context):
        return hint
    if context.get("failure") == "live-state" and room:
        return _SIBLINGS
    if error.code in _LOST and room:
        return _INSPECT.format(room=quoted(room))
    if error.code == "continuity.not_confirmed" and room:
        return _CONFIRM.format(room=quoted(room), evidence=context["evidence"])
    if error.code == "daemon.connection_dropped" and context.get("operation"):
        return _GOES_ON.format_map(context)
    if error.code == "conflict.changed_record" and context.get("kind") == "room":
        # The command line makes a new id for each request, so what is taken can only be the name.
        return "Choose another name; `jam ls` lists those that are taken."
    known = {"ROOM": quoted(room) if room else "", "PROVIDER": context.get("provider", "")}
    return _PLACE.sub(lambda place: known[place[0]] or place[0], error.hint)


def _about_a_name(code: str, context: Mapping[str, str]) -> str:
    """Return what to do about an agent or a credential that is not there; empty where the error does not name it."""
    if code == "toolchain.missing" and context.get("provider"):
        return _INSTALL.format_map(context)
    if code == "credential.missing" and context.get("credential"):
        return _CREDENTIAL.format_map(context)
    if code == "capability.unknown_provider" and context.get("provider"):
        from difflib import get_close_matches  # late: most hints need none

        close = get_close_matches(context["provider"], context.get("known", "").split(", "), n=2, cutoff=0.5)
        return _MEANT.format(" or ".join(f"`{name}`" for name in close)) if close else ""
    return ""


def _room_of(code: str, context: Mapping[str, str], asked: str) -> str:
    """Return the room that an error is about; empty where it is about several or none, or nobody can tell."""
    if named := context.get("room") or context.get("rooms"):
        return "" if ", " in named else named
    return asked if code.partition(".")[0] in _ABOUT_THE_ROOM and code not in _ABOUT_ANOTHER else ""

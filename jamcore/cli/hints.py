"""What to do about an error, as far as the command line knows it better than the error's class: with the names in question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jamcore.cli.words import quoted

if TYPE_CHECKING:
    from jamcore.domain.errors import JamError

_INSTALL = "Run `jam provider install {provider}`."
_CREDENTIAL = "Run `jam credential set {credential}`: it asks for the key and keeps it in the daemon. Then repeat the command."
_INSPECT = (
    "Nothing was changed or deleted. See the evidence, and how to go on with a new conversation: jam continuity inspect {room}"
)
_SIBLINGS = (
    "Stop the other rooms of its sandbox (`jam ls` shows them), then resume this one first: its state must be restored for all."
)
_LOST = ("continuity.refused", "continuity.resume_failed", "continuity.reset_unfinished")


def hint_of(error: JamError) -> str:
    """Return the hint for a person."""
    context = error.context()
    if error.code == "toolchain.missing" and context.get("provider"):
        return _INSTALL.format_map(context)
    if error.code == "credential.missing" and context.get("credential"):
        return _CREDENTIAL.format_map(context)
    if context.get("failure") == "live-state" and context.get("room"):
        return _SIBLINGS
    if error.code in _LOST and context.get("room"):
        return _INSPECT.format(room=quoted(context["room"]))
    if error.code == "continuity.unsaved" and context.get("rooms") and ", " not in context["rooms"]:
        return error.hint.replace("ROOM", quoted(context["rooms"]))
    if error.code == "conflict.changed_record" and context.get("kind") == "room":
        # The command line makes a new id for each request, so what is taken can only be the name.
        return "Choose another name; `jam ls` lists those that are taken."
    return error.hint

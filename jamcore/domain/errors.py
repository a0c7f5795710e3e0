"""The one error hierarchy.

Two families matter to callers: a *refusal* is something a person can act on, a *fault* is Jam or the machine being wrong.
Transport layers map families and codes, never words. Concrete errors live beside what raises them, in the domain module
or the package that owns the failure; all of them derive from here.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

CONTEXT_LIMIT = 400
"""Characters of one context field that may leave the process: enough for a path, too little for a log."""


@dataclass(eq=False)
class JamError(Exception):
    """Base of every error that Jam raises on purpose.

    Subclasses are ``@dataclass(eq=False)``, never frozen and never slotted: ``contextlib`` and ``add_note`` must be able to set
    ``__traceback__`` and ``__notes__``. The fields are the context; ``code`` is stable for ever; ``hint`` tells a person what to
    do next. Nothing may depend on the wording of ``str(error)``.
    """

    code: ClassVar[str] = "fault.internal"
    hint: ClassVar[str] = "This is a fault in Jam: please report it with the output of `jam doctor`."

    def context(self) -> dict[str, str]:
        """Return the fields as bounded text, safe to send to a client."""
        return {f.name: bounded(getattr(self, f.name)) for f in fields(self)}

    def __str__(self) -> str:
        return f"{self.code}: " + ", ".join(f"{k}={v}" for k, v in self.context().items())


@dataclass(eq=False)
class RefusalError(JamError):
    """Jam will not do this, and a person can change that."""

    code: ClassVar[str] = "refused.other"
    hint: ClassVar[str] = "Read the reason, change the request and try again."


@dataclass(eq=False)
class FaultError(JamError):
    """Something that Jam relies on broke, or Jam itself is wrong."""

    code: ClassVar[str] = "fault.other"
    hint: ClassVar[str] = "Look at the daemon's log; nothing was lost. Run `jam doctor`."


@dataclass(eq=False)
class InvalidInputError(RefusalError):
    """A value from outside does not have the form that Jam accepts."""

    code: ClassVar[str] = "input.invalid"
    hint: ClassVar[str] = "Correct the named field."

    field: str
    problem: str


@dataclass(eq=False)
class NotFoundError(RefusalError):
    """The named record does not exist."""

    code: ClassVar[str] = "input.not_found"
    hint: ClassVar[str] = (
        "List what exists: `jam room ls`, `jam change ls`, `jam checkpoint ls ROOM`, `jam export ls`, `jam host ls`, `jam operation ls`."
    )

    kind: str
    ref: str


@dataclass(eq=False)
class ConflictError(RefusalError):
    """The record exists already with other content, or somebody was faster (WS-11)."""

    code: ClassVar[str] = "conflict.changed_record"
    hint: ClassVar[str] = "Reload the record; use a new id for a new request."

    kind: str
    ref: str
    problem: str


@dataclass(eq=False)
class IllegalTransitionError(JamError):
    """A state machine was asked for a step that its table does not have (WS-2)."""

    code: ClassVar[str] = "conflict.illegal_transition"
    hint: ClassVar[str] = "Reload the record: it moved on, or the request is not possible from its state."

    machine: str
    ref: str
    old: str
    new: str


def bounded(value: object) -> str:
    """Return ``value`` as text of at most :data:`CONTEXT_LIMIT` characters, tuples joined by commas."""
    text = ", ".join(str(part) for part in value) if isinstance(value, tuple) else str(value)
    return text if len(text) <= CONTEXT_LIMIT else text[: CONTEXT_LIMIT - 1] + "…"

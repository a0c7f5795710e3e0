"""Journaled actions as values: a kind, a typed record, and named steps in order.

For each step the runner persists the intent, runs the side effect, and persists the result. The three boundaries of each step are its
crash points, so the crash matrix is generated from the code.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from jamcore.domain.operations import OnRestart
from jamcore.domain.records import Record

R = TypeVar("R", bound=Record)

EDGES = ("intended", "acted", "recorded")
BEGUN, ENDED = "begun", "ended"
_NAME = re.compile(r"[a-z][a-z0-9-]{0,47}\Z")
"""Kinds and steps are names of rows and parts of crash points: short, and without a dot."""


@dataclass(frozen=True, slots=True)
class Observed(Generic[R]):
    """What the world says of a step that was begun: whether its effect is there, and the record as it is then."""

    done: bool
    record: R


@dataclass(frozen=True, slots=True)
class Step(Generic[R]):
    """One named step.

    Attributes:
        name: Stable: journals of older versions name it.
        act: The side effect; returns the record with what it learned.
        on_restart: What a restart does when the step was begun and not recorded.
        intend: Pure: the typed state that must be known before the effect; persisted before ``act``.
        observe: Asks the world whether the effect is there; needed for OBSERVE_THEN_FINISH, never repeats anything.
    """

    name: str
    act: Callable[[R], Awaitable[R]]
    on_restart: OnRestart
    intend: Callable[[R], R] = lambda record: record
    observe: Callable[[R], Awaitable[Observed[R]]] | None = None


class Action(Generic[R]):
    """A journaled action: its kind, the type of its record, and its steps in order.

    A step cannot be made without saying what a restart does with it, so an action without restart rules cannot exist (START-6).

    Raises:
        ValueError: Names that are not lower-case words, or are there twice; no step; a step that is to be observed and cannot be.
    """

    def __init__(self, kind: str, record: type[R], steps: Sequence[Step[R]]) -> None:
        names = [step.name for step in steps]
        if bad := [name for name in (kind, *names) if not _NAME.match(name)]:
            raise ValueError(f"{kind}: {bad[0]!r} is not a short lower-case name")
        if len(set(names)) != len(names) or not names:
            raise ValueError(f"{kind}: steps must be there and differ")
        for step in steps:
            if step.on_restart is OnRestart.OBSERVE_THEN_FINISH and step.observe is None:
                raise ValueError(f"{kind}.{step.name}: nothing observes it")
        self.kind = kind
        self.record = record
        self.steps = tuple(steps)

    def crash_points(self) -> tuple[str, ...]:
        """Return every boundary in the order in which a run passes them; one durable effect lies between two (WS-12)."""
        return boundaries(self.kind, [step.name for step in self.steps])


def boundaries(kind: str, steps: Sequence[str]) -> tuple[str, ...]:
    """Return the boundaries of a kind with these steps, in order: for a module that names its action's before it can make one."""
    inner = (f"{step}.{edge}" for step in steps for edge in EDGES)
    return tuple(f"{kind}.{edge}" for edge in (BEGUN, *inner, ENDED))

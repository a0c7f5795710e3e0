"""Journaled actions as values: a kind, a typed record, and named steps in order.

For each step the runner persists the intent, runs the side effect, and persists the result. The three boundaries of each step are its
crash points, so the crash matrix is generated from the code.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from jamcore.domain.operations import OnRestart
from jamcore.domain.records import Record

R = TypeVar("R", bound=Record)

EDGES = ("intended", "acted", "recorded")


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
    """A journaled action."""

    def __init__(self, kind: str, record: type[R], steps: Sequence[Step[R]]) -> None:
        if len({step.name for step in steps}) != len(steps) or not steps:
            raise ValueError(f"{kind}: steps must be there and differ")
        for step in steps:
            if step.on_restart is OnRestart.OBSERVE_THEN_FINISH and step.observe is None:
                raise ValueError(f"{kind}.{step.name}: nothing observes it")
        self.kind = kind
        self.record = record
        self.steps = tuple(steps)

    def crash_points(self) -> tuple[str, ...]:
        """Return every boundary, in order."""
        return tuple(f"{self.kind}.{step.name}.{edge}" for step in self.steps for edge in EDGES)

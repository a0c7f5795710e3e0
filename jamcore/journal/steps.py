"""Journaled actions as values: a kind, a typed record, and named steps in order.

For each step the runner persists the intent, runs the side effect, and persists the result. The three boundaries of each step are its
crash points, so the crash matrix is generated from the code.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from jamcore.domain.errors import JamError
from jamcore.domain.operations import About, OnRestart, OperationState
from jamcore.domain.records import Record
from jamcore.journal.declaration import Declaration

R = TypeVar("R", bound=Record)

EDGES = ("intended", "acted", "recorded")
BEGUN, ENDED = "begun", "ended"
FAILURE_EDGES = ("failed", "given-up")
"""The boundaries of a failure for good: it is noted, and the action has ended."""
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
        leaves: What stays when the action fails for good at this step, as words for a person.
    """

    name: str
    act: Callable[[R], Awaitable[R]]
    on_restart: OnRestart
    intend: Callable[[R], R] = lambda record: record
    observe: Callable[[R], Awaitable[Observed[R]]] | None = None
    leaves: str = ""


class Action(Generic[R]):
    """A journaled action: its kind, the type of its record, and its steps in order.

    A step cannot be made without saying what a restart does with it, so an action without restart rules cannot exist (START-6).

    Args:
        kind: Its name in the journal.
        record: The type of its record.
        steps: In order.
        hopeless: Errors that no repetition mends: the action ends with them as failed, and no start tries it again.
        attempts: How many failures end it all the same; ``None``: a start tries it for as long as it takes, as one must that destroys.
        commits_at: The step from which on something is removed, when it is not the first: until that is intended the operation is
            Pending, and nothing is lost if it never goes on.
        lets_go: Whether every failure before ``commits_at`` ends the action: nothing is lost by that, and whoever asked may ask again.
        settle: Told of the error that ends the action for good, before that is noted: puts the states of other rows right. It may be
            called again after a crash.
        declares: What a registry needs to know of the kind besides.

    Raises:
        ValueError: Names that are not lower-case words, or are there twice; no step; a step that is to be observed and cannot be; an action
            that can fail for good and does not say at each step what stays then; it commits at a step that it does not have, or lets go
            before it commits and never does.
    """

    def __init__(
        self,
        kind: str,
        record: type[R],
        steps: Sequence[Step[R]],
        *,
        hopeless: tuple[type[JamError], ...] = (),
        attempts: int | None = None,
        commits_at: str | None = None,
        lets_go: bool = False,
        settle: Callable[[R, Exception], Awaitable[None]] | None = None,
        declares: Declaration | None = None,
    ) -> None:
        names = [step.name for step in steps]
        if bad := [name for name in (kind, *names) if not _NAME.match(name)]:
            raise ValueError(f"{kind}: {bad[0]!r} is not a short lower-case name")
        if len(set(names)) != len(names) or not names:
            raise ValueError(f"{kind}: steps must be there and differ")
        for step in steps:
            if step.on_restart is OnRestart.OBSERVE_THEN_FINISH and step.observe is None:
                raise ValueError(f"{kind}.{step.name}: nothing observes it")
            if (hopeless or attempts or lets_go) and not step.leaves:
                raise ValueError(f"{kind}.{step.name}: what stays when it fails for good is not said")
        if (lets_go or commits_at is not None) and commits_at not in names:
            raise ValueError(f"{kind}: it has no step {commits_at}")
        self.kind = kind
        self.record = record
        self.steps = tuple(steps)
        self.hopeless = hopeless
        self.attempts = attempts
        self.commits_at = commits_at
        self._let_go = frozenset(names[: names.index(commits_at)]) if lets_go and commits_at is not None else frozenset()
        self.settle = settle
        self.declares = declares

    @property
    def first_state(self) -> OperationState:
        """The state that one begins in."""
        return OperationState.RUNNING if self.commits_at is None else OperationState.PENDING

    def crash_points(self) -> tuple[str, ...]:
        """Return every boundary in the order in which a run passes them; one durable effect lies between two (WS-12)."""
        return boundaries(self.kind, [step.name for step in self.steps])

    def failure_points(self) -> tuple[str, ...]:
        """Return every boundary that a failure for good passes instead of the next one: none where nothing is ever given up."""
        if not self.hopeless and self.attempts is None and not self._let_go:
            return ()
        return tuple(f"{self.kind}.{step.name}.{edge}" for step in self.steps for edge in FAILURE_EDGES)

    def gives_up(self, step: str, error: Exception, failures: int) -> bool:
        """Say whether an error at a step ends the action for good, being its ``failures``-th."""
        too_often = self.attempts is not None and failures >= self.attempts
        return step in self._let_go or too_often or isinstance(error, self.hopeless)


def boundaries(kind: str, steps: Sequence[str]) -> tuple[str, ...]:
    """Return the boundaries of a kind with these steps, in order: for a module that names its action's before it can make one."""
    inner = (f"{step}.{edge}" for step in steps for edge in EDGES)
    return tuple(f"{kind}.{edge}" for edge in (BEGUN, *inner, ENDED))


def about(record: Record) -> About:
    """Return the columns of an action's row: those of its record's fields that have a column's name."""
    return About.model_validate({name: getattr(record, name) for name in About.model_fields if hasattr(record, name)})


def learned(value: str | None) -> str:
    """Return what an earlier step wrote into the record.

    Raises:
        ValueError: No step has learned it yet: the steps are in the wrong order.
    """
    if value is None:
        raise ValueError("an earlier step has not learned it yet")
    return value

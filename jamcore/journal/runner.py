"""Runs a journaled action, or finishes one that was begun: resuming is the same call."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar
from uuid import UUID

from jamcore.domain.errors import FaultError
from jamcore.domain.operations import OnRestart
from jamcore.domain.records import Record
from jamcore.journal.points import CrashPoints
from jamcore.journal.steps import Action, Step

R = TypeVar("R", bound=Record)

INTENDED, RECORDED = "intended", "recorded"
SUCCEEDED, INTERRUPTED = "succeeded", "interrupted"


@dataclass(eq=False)
class ActionInterruptedError(FaultError):
    """The action was cut by a crash at a step that must never be repeated; its record says how far it came."""

    code: ClassVar[str] = "journal.interrupted"
    hint: ClassVar[str] = "Look at what the named step left, then begin a new action."

    kind: str
    action: str
    step: str


class Journal(Protocol):
    """Where boundaries are kept; the store satisfies it."""

    def begin(self, identifier: UUID, kind: str, initial: str, /) -> Awaitable[str]:
        """Keep the intent of an action and return its state; ConflictError when the id was used for something else."""

    def steps(self, identifier: UUID, /) -> Awaitable[tuple[tuple[str, str, str], ...]]:
        """Return (step, phase, record) in order."""

    def note(self, identifier: UUID, step: str, phase: str, record: str, /) -> Awaitable[None]:
        """Append a boundary, durably."""

    def end(self, identifier: UUID, state: str, /) -> Awaitable[None]:
        """Note how the action ended."""


class Runner:
    """Runs actions against one journal."""

    def __init__(self, journal: Journal, crash: CrashPoints) -> None:
        self._journal = journal
        self._crash = crash

    async def run(self, action: Action[R], identifier: UUID, record: R) -> R:
        """Run, or finish, an action and return its last record.

        An exact retry of a finished one changes nothing and returns the same. A step that was begun and not recorded is treated as its
        ``on_restart`` says; the world is asked before anything is repeated.

        Raises:
            ConflictError: The id was used for another action or record (WS-11).
            ActionInterruptedError: A step that must not be repeated was cut.
            JamError, OSError: What a step raised; the action stays begun and can be run again.
        """
        state = await self._journal.begin(identifier, action.kind, record.canonical_json().decode())
        begun: set[str] = set()
        done: set[str] = set()
        for step_name, phase, text in await self._journal.steps(identifier):
            (done if phase == RECORDED else begun).add(step_name)
            record = action.record.model_validate_json(text)
        if state == SUCCEEDED:
            return record
        for step in action.steps:
            if state == INTERRUPTED and step.name in begun - done:
                raise ActionInterruptedError(kind=action.kind, action=str(identifier), step=step.name)
            if step.name not in done:
                record = await self._step(action, step, identifier, record, begun=step.name in begun)
        await self._journal.end(identifier, SUCCEEDED)
        return record

    async def _step(self, action: Action[R], step: Step[R], identifier: UUID, record: R, *, begun: bool) -> R:
        point = f"{action.kind}.{step.name}"
        acted = False
        if begun:
            if step.on_restart is OnRestart.MARK_INTERRUPTED:
                await self._journal.end(identifier, INTERRUPTED)
                raise ActionInterruptedError(kind=action.kind, action=str(identifier), step=step.name)
            if step.observe is not None:
                observed = await step.observe(record)
                acted, record = observed.done, observed.record
        else:
            record = step.intend(record)
            await self._journal.note(identifier, step.name, INTENDED, record.canonical_json().decode())
            self._crash.reach(f"{point}.intended")
        if not acted:
            record = await step.act(record)
        self._crash.reach(f"{point}.acted")
        await self._journal.note(identifier, step.name, RECORDED, record.canonical_json().decode())
        self._crash.reach(f"{point}.recorded")
        return record

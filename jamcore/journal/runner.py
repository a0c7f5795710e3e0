"""Runs a journaled action, or finishes one that was begun: resuming is the same call."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar
from uuid import UUID

import anyio
from pydantic import ValidationError

from jamcore.domain.errors import FaultError, JamError
from jamcore.domain.operations import About, OnRestart, Operation, OperationState
from jamcore.domain.records import Record
from jamcore.journal.points import CrashPoints
from jamcore.journal.steps import BEGUN, ENDED, Action, Step, about
from jamcore.system.files import storage_error

R = TypeVar("R", bound=Record)

INTENDED, RECORDED, FAILED = "intended", "recorded", "failed"
INTERRUPTED = "interrupted"
"""The result of an action that was cut at a step which must not be repeated."""
FAILURE_CHARACTERS = 64
"""Longest class of a failure; it classifies and never carries intent (WS-3)."""


@dataclass(eq=False)
class ActionInterruptedError(FaultError):
    """The action was cut at a step that must never be repeated; its record says how far it came."""

    code: ClassVar[str] = "journal.interrupted"
    hint: ClassVar[str] = "Look at what the named step left, then begin a new action."

    kind: str
    action: str
    step: str


@dataclass(eq=False)
class ActionGivenUpError(FaultError):
    """The action failed for good and is over; no start tries it again."""

    code: ClassVar[str] = "journal.given_up"
    hint: ClassVar[str] = "Mend what the failure names, then begin a new action."

    kind: str
    action: str
    step: str
    failure: str
    stays: str


@dataclass(eq=False)
class UnreadableActionError(FaultError):
    """The journal holds something of this action that this Jam cannot read; it is kept as it is."""

    code: ClassVar[str] = "journal.unreadable"
    hint: ClassVar[str] = "It was begun by another version of Jam: start that one to finish it."

    kind: str
    action: str
    problem: str


class Journal(Protocol):
    """Where boundaries are kept; the store satisfies it. Each write is durable when it returns."""

    def begin(self, identifier: UUID, kind: str, initial: str, about: About, state: OperationState, /) -> Awaitable[Operation]:
        """Keep the intent of an action and return its operation as it is; ConflictError when the id was used for something else."""

    def steps(self, identifier: UUID, /) -> Awaitable[tuple[tuple[str, str, str], ...]]:
        """Return (step, phase, record) in order."""

    def note(
        self, identifier: UUID, step: str, phase: str, record: str, /, *, failure: str = "", commits: bool = False
    ) -> Awaitable[None]:
        """Append a boundary; one that ``commits`` makes a Pending operation a Running one."""

    def failures(self, identifier: UUID, /) -> Awaitable[tuple[tuple[str, str], ...]]:
        """Return (step, class) of every failed attempt, in order."""

    def end(self, identifier: UUID, state: OperationState, result: str, /) -> Awaitable[None]:
        """Note how the action ended, with a bounded class."""


class Runner:
    """Runs actions against one journal, one run at a time for each id. Belongs to one daemon instance."""

    def __init__(self, journal: Journal, crash: CrashPoints) -> None:
        self._journal = journal
        self._crash = crash
        self._running: dict[UUID, _Turnstile] = {}

    def under_way(self) -> tuple[str, ...]:
        """Return the kind of every action that runs now."""
        return tuple(turnstile.kind for turnstile in self._running.values())

    def is_under_way(self, identifier: UUID) -> bool:
        """Whether this runner works on an action at this moment."""
        return identifier in self._running

    async def run(self, action: Action[R], identifier: UUID, record: R) -> R:
        """Run, or finish, an action and return its last record.

        An exact retry of a finished one changes nothing and returns the same; one that comes while the first still runs waits for it.
        A step that was begun and not recorded is treated as its ``on_restart`` says; the world is asked before anything is repeated.

        Raises:
            ConflictError: The id was used for another action or record (WS-11).
            ActionInterruptedError: A step that must not be repeated was cut.
            ActionGivenUpError: It failed for good before.
            UnreadableActionError: Another version of Jam began it.
            StorageFullError, StorageFailedError, MachineStuckError: The machine failed a step: its ``OSError``, typed.
            Exception: What a step raised. Its class is noted; the action stays begun, and a retry or the next start goes on, unless no
                repetition helps: then it has ended as failed, and a note of the error says what stays.
        """
        async with self._alone(identifier, action.kind):
            begun = await self._journal.begin(identifier, action.kind, _text(record), about(record), action.first_state)
            self._crash.reach(f"{action.kind}.{BEGUN}")
            passed, record = _passed(action, identifier, await self._journal.steps(identifier), record)
            if begun.state is OperationState.SUCCEEDED:
                return record
            if begun.finished:
                raise _ended(action, begun, passed)
            for step in action.steps:
                if passed.get(step.name) != RECORDED:
                    record = await self._step(action, step, identifier, record, begun=step.name in passed)
            await self._journal.end(identifier, OperationState.SUCCEEDED, "")
            self._crash.reach(f"{action.kind}.{ENDED}")
            return record

    async def _step(self, action: Action[R], step: Step[R], identifier: UUID, record: R, *, begun: bool) -> R:
        point = f"{action.kind}.{step.name}"
        if not begun:
            record = step.intend(record)
            await self._journal.note(identifier, step.name, INTENDED, _text(record), commits=step.name == action.commits_at)
            self._crash.reach(f"{point}.intended")
        elif step.on_restart is OnRestart.MARK_INTERRUPTED:
            await self._journal.end(identifier, OperationState.FAILED, INTERRUPTED)
            raise ActionInterruptedError(kind=action.kind, action=str(identifier), step=step.name)
        try:
            record = await _act(step, record, repeated=begun)
        except OSError as error:
            typed = storage_error(error)
            await self._note_failure(action, identifier, step, record, typed, _failure_class(error))
            raise typed from error
        except Exception as error:
            await self._note_failure(action, identifier, step, record, error, _failure_class(error))
            raise
        self._crash.reach(f"{point}.acted")
        await self._journal.note(identifier, step.name, RECORDED, _text(record))
        self._crash.reach(f"{point}.recorded")
        return record

    async def _note_failure(
        self, action: Action[R], identifier: UUID, step: Step[R], record: R, error: Exception, failure: str
    ) -> None:
        """Note the class of a failure, and the end of an action that no repetition helps.

        A journal that fails too (a full disk fails both) must not hide the first error: the action then stays begun.
        """
        point = f"{action.kind}.{step.name}"
        try:
            await self._journal.note(identifier, step.name, FAILED, _text(record), failure=failure)
            if action.gives_up(step.name, error, len(await self._journal.failures(identifier))):
                self._crash.reach(f"{point}.failed")
                if action.settle is not None:
                    await action.settle(record, error)
                await self._journal.end(identifier, OperationState.FAILED, failure)
                error.add_note(f"given up: {step.leaves}")
                self._crash.reach(f"{point}.given-up")
        except (JamError, OSError) as second:
            error.add_note(f"the journal could not note it: {second}")

    @asynccontextmanager
    async def _alone(self, identifier: UUID, kind: str) -> AsyncIterator[None]:
        """Let one run of an id through at a time, so that a retry never acts beside the first attempt."""
        turnstile = self._running.setdefault(identifier, _Turnstile(kind, anyio.Lock()))
        turnstile.users += 1
        try:
            async with turnstile.lock:
                yield
        finally:
            turnstile.users -= 1
            if not turnstile.users:
                del self._running[identifier]


@dataclass(slots=True)
class _Turnstile:
    kind: str
    lock: anyio.Lock
    users: int = 0


async def _act(step: Step[R], record: R, *, repeated: bool) -> R:
    """Carry out a step; one that may have happened already is looked for first."""
    if repeated and step.observe is not None:
        observed = await step.observe(record)
        if observed.done:
            return observed.record
        record = observed.record
    return await step.act(record)


def _ended(action: Action[R], ended: Operation, passed: dict[str, str]) -> FaultError:
    """Return what an exact retry of an action that did not succeed is told."""
    kind, ref, step = action.kind, str(ended.id), next(reversed(passed), "")
    if ended.result == INTERRUPTED:
        return ActionInterruptedError(kind=kind, action=ref, step=step)
    stays = next((each.leaves for each in action.steps if each.name == step), "")
    return ActionGivenUpError(kind=kind, action=ref, step=step, failure=ended.result, stays=stays)


def _passed(action: Action[R], identifier: UUID, rows: tuple[tuple[str, str, str], ...], record: R) -> tuple[dict[str, str], R]:
    """Return the furthest boundary of each begun step, and the record as it was at the last one."""
    known = {step.name for step in action.steps}
    passed: dict[str, str] = {}
    for name, phase, text in rows:
        if name not in known:
            raise UnreadableActionError(kind=action.kind, action=str(identifier), problem=f"no step {name}")
        passed[name] = phase
        record = read_record(action, identifier, text)
    return passed, record


def read_record(action: Action[R], identifier: UUID, text: str) -> R:
    """Read a stored record of an action.

    Raises:
        UnreadableActionError: It has another form.
    """
    try:
        return action.record.model_validate_json(text)
    except ValidationError as error:
        problem = f"{error.error_count()} fields do not fit {action.record.__name__}"
        raise UnreadableActionError(kind=action.kind, action=str(identifier), problem=problem) from error


def _text(record: Record) -> str:
    return record.canonical_json().decode()


def _failure_class(error: Exception) -> str:
    if isinstance(error, JamError):
        return error.code[:FAILURE_CHARACTERS]
    if isinstance(error, OSError):
        return f"os.{errno.errorcode.get(error.errno or 0, 'unknown').lower()}"
    return f"untyped.{type(error).__name__}"[:FAILURE_CHARACTERS].lower()

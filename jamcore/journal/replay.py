"""What start-up does with actions that had not ended: each is run again by its registered kind, and one failure stops no other."""

from __future__ import annotations

from collections.abc import Awaitable, Collection
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol
from uuid import UUID

from jamcore.domain.errors import FaultError, JamError
from jamcore.journal.declaration import Declaration
from jamcore.journal.runner import Runner, read_record
from jamcore.journal.steps import Action


@dataclass(eq=False)
class UnknownActionError(FaultError):
    """The journal names a kind that this Jam does not have; it is kept as it is."""

    code: ClassVar[str] = "journal.unknown_kind"
    hint: ClassVar[str] = "It was begun by another version of Jam: start that one to finish it."

    kind: str
    action: str


@dataclass(eq=False)
class ActionFailedError(FaultError):
    """An action could not be finished for a reason that has no type of its own; it stays begun."""

    code: ClassVar[str] = "journal.failed"
    hint: ClassVar[str] = "Mend what the detail names; the next start goes on with it."

    kind: str
    action: str
    detail: str


class Unfinished(Protocol):
    """The journal's list of actions that have not ended."""

    def running(self) -> Awaitable[tuple[tuple[UUID, str, str], ...]]:
        """Return (id, kind, initial record), oldest first."""


class ActionRegistry:
    """The kinds of one daemon: an instance that the composition root fills, never a global. A kind is registered once (START-6)."""

    def __init__(self) -> None:
        self._actions: dict[str, Action[Any]] = {}

    def register(self, action: Action[Any]) -> None:
        """Add a kind.

        Raises:
            ValueError: It is there already, does not declare what START-6 asks for, or its confirmation would fit another kind.
        """
        if action.kind in self._actions:
            raise ValueError(f"{action.kind} is registered already")
        declared = action.declares
        problem = declared.problem(action.record) if declared else "it declares nothing"
        if declared and declared.seal is not None and declared.seal in self._seals():
            problem = "its confirmation could be passed to another kind"
        if problem:
            raise ValueError(f"{action.kind}: {problem}")
        self._actions[action.kind] = action

    def _seals(self) -> frozenset[str | None]:
        return frozenset(action.declares.seal for action in self._actions.values() if action.declares)

    def kinds(self) -> tuple[str, ...]:
        """Return the registered kinds in order."""
        return tuple(sorted(self._actions))

    def action(self, kind: str) -> Action[Any]:
        """Return a registered kind.

        Raises:
            KeyError: There is none of that name.
        """
        return self._actions[kind]

    def declared(self, kind: str) -> Declaration | None:
        """Return what a kind declares; ``None`` for one that this Jam does not know."""
        action = self._actions.get(kind)
        return action.declares if action else None

    def leaves(self, kind: str, step: str) -> str:
        """Return what stays when an action of a kind fails for good at a step, in words; empty where nobody can say."""
        action = self._actions.get(kind)
        return next((each.leaves for each in action.steps if each.name == step), "") if action else ""

    def crash_points(self) -> tuple[str, ...]:
        """Return every boundary of every kind, for the crash matrix (WS-12)."""
        return tuple(point for kind in self.kinds() for point in self._actions[kind].crash_points())

    async def replay(
        self, journal: Unfinished, runner: Runner, *, only: str | None = None, but: Collection[str] = ()
    ) -> tuple[tuple[UUID, JamError], ...]:
        """Finish every action that had not ended and return what could not be finished (START-1, START-2).

        ``only`` one kind, or all ``but`` some: kinds with a step of their own in the start.

        What fails for good is returned once: it has ended with that, and the next start does not try it.
        """
        failed: list[tuple[UUID, JamError]] = []
        for identifier, kind, initial in await journal.running():
            if kind in but or only not in (None, kind):
                continue
            try:
                await self.finish(runner, identifier, kind, initial)
            except JamError as error:
                failed.append((identifier, error))
            except Exception as error:  # noqa: BLE001 - a step of start-up: one bad record blocks no other
                failed.append((identifier, ActionFailedError(kind=kind, action=str(identifier), detail=repr(error))))
        return tuple(failed)

    async def finish(self, runner: Runner, identifier: UUID, kind: str, initial: str) -> None:
        """Finish one action that had not ended, from the record that it was begun with.

        Raises:
            UnknownActionError, UnreadableActionError: Another version of Jam began it.
            Exception: As :meth:`Runner.run`.
        """
        action = self._actions.get(kind)
        if action is None:
            raise UnknownActionError(kind=kind, action=str(identifier))
        await runner.run(action, identifier, read_record(action, identifier, initial))

"""What start-up does with actions that had not ended: each is run again by its registered kind, and one failure stops no other."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol
from uuid import UUID

from jamcore.domain.errors import FaultError, JamError
from jamcore.domain.records import Record
from jamcore.journal.runner import Runner
from jamcore.journal.steps import Action


@dataclass(eq=False)
class UnknownActionError(FaultError):
    """The journal names a kind that this Jam does not have; it is kept as it is."""

    code: ClassVar[str] = "journal.unknown_kind"
    hint: ClassVar[str] = "It was begun by another version of Jam: start that one to finish it."

    kind: str
    action: str


class Unfinished(Protocol):
    """The journal's list of actions that have not ended."""

    def running(self) -> Awaitable[tuple[tuple[UUID, str, str], ...]]:
        """Return (id, kind, initial record), oldest first."""


class ActionRegistry:
    """The kinds of one daemon. A kind is registered once, with all its restart rules (START-6)."""

    def __init__(self) -> None:
        self._actions: dict[str, Action[Any]] = {}

    def register(self, action: Action[Any]) -> None:
        """Add a kind.

        Raises:
            ValueError: It is there already.
        """
        if action.kind in self._actions:
            raise ValueError(f"{action.kind} is registered already")
        self._actions[action.kind] = action

    def kinds(self) -> tuple[str, ...]:
        """Return the registered kinds in order."""
        return tuple(sorted(self._actions))

    async def replay(self, journal: Unfinished, runner: Runner) -> tuple[tuple[UUID, JamError], ...]:
        """Finish every action that had not ended and return what could not be finished."""
        failed: list[tuple[UUID, JamError]] = []
        for identifier, kind, initial in await journal.running():
            try:
                await self._finish(runner, identifier, kind, initial)
            except JamError as error:
                failed.append((identifier, error))
        return tuple(failed)

    async def _finish(self, runner: Runner, identifier: UUID, kind: str, initial: str) -> None:
        action = self._actions.get(kind)
        if action is None:
            raise UnknownActionError(kind=kind, action=str(identifier))
        record: Record = action.record.model_validate_json(initial)
        await runner.run(action, identifier, record)

"""The store as the journal sees it: each boundary is one durable transaction."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from jamcore.domain.operations import About, Operation, OperationState
from jamcore.store.engine import Store


class StoreJournal:
    """Satisfies the journal's Protocols on a store; ``told`` hears of each operation of which something was committed."""

    def __init__(self, store: Store, told: Callable[[UUID], None] = lambda _operation: None) -> None:
        self._store = store
        self._told = told

    async def begin(self, identifier: UUID, kind: str, initial: str, about: About, state: OperationState, /) -> Operation:
        """Keep the intent of an action and return its operation; ConflictError when the id was used for something else."""
        begun = await self._store.transact(lambda repos: repos.operations.begin(identifier, kind, initial, about, state=state))
        self._told(identifier)
        return begun

    async def steps(self, identifier: UUID, /) -> tuple[tuple[str, str, str], ...]:
        """Return (step, phase, record) in order."""
        return await self._store.read(lambda repos: repos.operations.steps(identifier))

    async def note(
        self, identifier: UUID, step: str, phase: str, record: str, /, *, failure: str = "", commits: bool = False
    ) -> None:
        """Append a boundary, durably."""
        await self._store.transact(
            lambda repos: repos.operations.note(identifier, step, phase, record, failure=failure, commits=commits)
        )
        self._told(identifier)

    async def failures(self, identifier: UUID, /) -> tuple[tuple[str, str], ...]:
        """Return (step, class) of every failed attempt, in order."""
        return await self._store.read(lambda repos: repos.operations.failures(identifier))

    async def end(self, identifier: UUID, state: OperationState, result: str, /) -> None:
        """Note how the action ended."""
        await self._store.transact(lambda repos: repos.operations.end(identifier, state, result))
        self._told(identifier)

    async def running(self) -> tuple[tuple[UUID, str, str], ...]:
        """Return (id, kind, initial record) of every action that has not ended, oldest first."""
        return await self._store.read(lambda repos: repos.operations.running())

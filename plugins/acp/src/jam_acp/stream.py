"""One running turn: its events on their way from the connection to whoever runs it."""

from __future__ import annotations

import anyio

from jamcore.api import Notice, ProviderEvent, TurnEnded, TurnStream


class Turn(TurnStream):
    """The stream of one turn. The protocol has no word for a turn's start: what only a running turn has is the start."""

    def __init__(self, provider_turn: str) -> None:
        super().__init__(provider_turn)
        self.stopping = anyio.Event()
        """Set once somebody wants the turn to end: nothing is waited for any more."""
        self._answered = False

    @property
    def ended(self) -> bool:
        """Whether the agent gave its answer, which is the end mark, or is gone: what it tells from then on belongs to no turn."""
        return self._answered or self.over.is_set()

    def answered(self) -> None:
        """Note the answer, once everything was taken that the agent told before it."""
        self._answered = True

    async def take(self, event: ProviderEvent) -> None:
        """Pass an event on. A notice may come before the start, and waits for it."""
        if not isinstance(event, Notice | TurnEnded):
            await self.start()
        await super().take(event)

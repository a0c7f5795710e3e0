"""One running turn: its events on their way from the connection to whoever runs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from jamcore.api import ProviderEvent, TurnStream

LOOK_S = 0.1
"""While a model thinks about its first word, it is looked this often whether the person's text is kept."""


class Turn(TurnStream):
    """The stream of one turn. The program never says that it keeps what the person said, so that is looked for.

    Args:
        provider_turn: The turn's id.
        look: Called every so often while nothing is heard, until the turn has started; it may start it.
    """

    def __init__(self, provider_turn: str, *, look: Callable[[Turn], Awaitable[None]]) -> None:
        super().__init__(provider_turn)
        self.sent = False
        """Whether the person's message was handed over."""
        self.begun = False
        """Whether the program works on it; until then what the program says belongs to something else."""
        self._look = look

    async def receive(self) -> ProviderEvent:
        """Wait for the next event, and look meanwhile."""
        while not (self.started or self.over.is_set()):
            with anyio.move_on_after(LOOK_S):
                return await super().receive()
            await self._look(self)
        return await super().receive()

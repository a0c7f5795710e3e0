"""What a person should be told of a thread while no turn runs in it: kept, in bounded number, until a turn can show it."""

from __future__ import annotations

from jamcore.domain.events import Notice, ProviderEvent
from jamcore.plugins.turnstream import TurnStream

NOTICES = 20
"""Notices that are kept; of more the oldest go."""


class KeptNotices:
    """The notices of one thread that are still to be shown: in its next turn, never in another thread's."""

    def __init__(self) -> None:
        self._kept: list[Notice] = []

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, *events: ProviderEvent) -> None:
        """Keep what is a notice; anything else said while no turn runs means nothing to a person."""
        self._kept += [event for event in events if isinstance(event, Notice)]
        del self._kept[:-NOTICES]

    async def show_in(self, turn: TurnStream) -> None:
        """Show in a turn what was kept, once. Of a turn that is over nobody sees anything more, so it is kept for the next."""
        while self._kept and not turn.over.is_set():
            await turn.take(self._kept.pop(0))

    async def say(self, notice: Notice, turn: TurnStream | None) -> None:
        """Show a notice in the running turn, or keep it for the next."""
        self.keep(notice)
        if turn is not None:
            await self.show_in(turn)

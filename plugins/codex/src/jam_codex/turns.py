"""One running turn: its events on their way from the connection to whoever runs it."""

from __future__ import annotations

import anyio

from jamcore.api import CommandFinished, CommandOutput, CommandStarted, ProviderEvent, TurnStream

OPEN_COMMANDS = 1_024
"""Commands of one turn that are waited for after an interrupt."""


class Turn(TurnStream):
    """The stream of one turn. Codex names a turn in most of what it says, and keeps the commands of an interrupted one alive."""

    def __init__(self) -> None:
        super().__init__()
        self._commands: set[str] = set()
        self._quiet = anyio.Event()

    async def told(self, event: ProviderEvent, provider_turn: str | None) -> None:
        """Pass on what Codex said. ``provider_turn`` is the turn that it names, if it names one.

        A command of an earlier turn may still speak and end in this one; nothing else of another turn belongs here.
        """
        foreign = provider_turn is not None and provider_turn != self.provider_turn
        if foreign and not isinstance(event, CommandOutput | CommandFinished):
            return
        await self.take(event)
        self._count(event)  # last: who waits for quiet then closes the stream

    async def quiet(self) -> None:
        """Wait until every command that the turn started has ended."""
        while self._commands:
            self._quiet = anyio.Event()
            await self._quiet.wait()

    def _count(self, event: ProviderEvent) -> None:
        if isinstance(event, CommandStarted) and len(self._commands) < OPEN_COMMANDS:
            self._commands.add(event.item)
        elif isinstance(event, CommandFinished):
            self._commands.discard(event.item)
            if not self._commands:
                self._quiet.set()

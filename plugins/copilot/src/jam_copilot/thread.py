"""What is known of one session that is loaded in the program."""

from __future__ import annotations

from dataclasses import dataclass, field

import anyio

from jam_copilot.events import Translator
from jam_copilot.protocol import Event, Told
from jamcore.api import KeptNotices, Notice, TurnStream


class Turn(TurnStream):
    """The stream of one turn."""

    def __init__(self) -> None:
        super().__init__()
        self.saved = anyio.Event()
        """Set once the person's message is in the journal on disk, or that is not waited for any more."""


@dataclass
class Thread:
    """A session that is loaded in the program."""

    identity: str
    cwd: str
    asks: bool
    translator: Translator
    calm: anyio.Event = field(default_factory=anyio.Event)
    """Set while the agent does nothing, neither in a turn of Jam's nor by itself."""
    turn: Turn | None = None
    notices: KeptNotices = field(default_factory=KeptNotices)
    open: set[str] = field(default_factory=set)
    """Questions that wait for an answer."""

    def __post_init__(self) -> None:
        self.calm.set()

    def begins(self) -> None:
        """The agent works from now on."""
        if self.calm.is_set():
            self.calm = anyio.Event()

    def running_turn(self, event: Event) -> Turn | None:
        """Return the turn that an event belongs to. What comes before the person's message is of what the agent did by itself before.

        An error ends a turn all the same: Copilot may have one before it takes the message.
        """
        if self.turn is None or self.turn.over.is_set():
            return None
        begun = self.turn.accepted.is_set() or (event.kind == Told.IDLE and self.translator.failed)
        return self.turn if begun else None

    async def say(self, notice: Notice) -> None:
        """Say something in the running turn, or in the next one."""
        await self.notices.say(notice, self.turn)

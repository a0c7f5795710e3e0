"""What is known of one session that is loaded in the program."""

from __future__ import annotations

from dataclasses import dataclass, field

import anyio

from jam_copilot.events import Translator
from jam_copilot.protocol import Event, Told
from jam_copilot.stream import Turn
from jamcore.api import Notice, ProviderEvent

NOTICES = 20
"""Warnings kept until a turn can show them."""


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
    taken: str = ""
    """The person's message that came last into the conversation."""
    stopping: anyio.Lock = field(default_factory=anyio.Lock)
    notices: list[Notice] = field(default_factory=list)
    """What was said of it while no turn ran; shown in its next one, never in another thread's."""
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

    def keep(self, event: ProviderEvent) -> None:
        """Keep a notice for the next turn; anything else is passed over."""
        self.notices += (event,) if isinstance(event, Notice) else ()
        del self.notices[:-NOTICES]

    def kept(self) -> tuple[Notice, ...]:
        """Return what was kept, and keep it no longer."""
        kept, self.notices = tuple(self.notices), []
        return kept

    async def say(self, notice: Notice) -> None:
        """Say something in the running turn, or in the next one."""
        if self.turn is None or self.turn.over.is_set():
            self.keep(notice)
        else:
            await self.turn.take(notice)

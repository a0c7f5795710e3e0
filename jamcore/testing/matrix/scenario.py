"""What the matrices need of a journaled kind besides its boundaries.

A kind that a daemon registers and that has no scenario fails the crash matrix by name. To add one, subclass :class:`Scenario`:
:meth:`~Scenario.prepare` brings the world of :mod:`jamcore.testing.parked_world` to where the action can be asked for,
:meth:`~Scenario.ask` asks for it, always in the same words, and :meth:`~Scenario.check` says what has come of it. Each of them runs in
another process, so whatever a later one needs is noted in the world. Then name it in :data:`jamcore.testing.matrix.scenarios.SCENARIOS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar
from uuid import UUID

from jamcore.daemon.services import Services
from jamcore.testing.parked_world import Rooms, World

EARLIER, LATER = (UUID(int=number << 100) for number in (71, 72))
"""The ids of what was asked for while the world was prepared. The action itself is asked for under the id that its world names."""


class Scenario(ABC):
    """One kind in a world.

    Attributes:
        kind: Which.
        rooms: What sort of room it is about.
        has_words: Whether somebody asks for it under an id of theirs; a start does what has none by itself.
        inner: Boundaries that a run passes inside its steps.
    """

    kind: ClassVar[str]
    rooms: ClassVar[Rooms] = Rooms.MANAGED
    has_words: ClassVar[bool] = True
    inner: ClassVar[tuple[str, ...]] = ()

    @property
    def name(self) -> str:
        """What it is called: by its kind, and its rooms where they are others than managed ones."""
        return self.kind if self.rooms is Rooms.MANAGED else f"{self.kind} ({self.rooms})"

    @abstractmethod
    async def prepare(self, services: Services, world: World) -> None:
        """Bring the world to where the action can be asked for."""

    @abstractmethod
    async def ask(self, services: Services, world: World) -> object:
        """Ask for it, in the same words each time, and return the answer."""

    async def look_again(self, services: Services, world: World) -> None:
        """Do what a person does before asking anew, after an attempt that has ended without success: look again, say that it may go on."""
        del services, world

    async def ask_otherwise(self, services: Services, world: World) -> object:
        """Ask for something else under the same id: this must be refused.

        Raises:
            JamError: It is.
        """
        raise NotImplementedError

    @abstractmethod
    async def check(self, services: Services, world: World) -> None:
        """Require that it was done, once and wholly."""

    @abstractmethod
    def holds(self, world: World) -> None:
        """Require what is true of the files at every moment, also while nothing lives."""

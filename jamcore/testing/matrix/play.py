"""A world of the matrices with a scenario of it, played life by life from the same prepared state."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from jamcore.testing.crash import Lives
from jamcore.testing.leftovers import left_in
from jamcore.testing.matrix.lives import REGISTERED, make, prepare
from jamcore.testing.matrix.scenarios import SCENARIOS
from jamcore.testing.parked_world import SIBLING, World, files_in, replace_tree


class PlayError(AssertionError):
    """Something that was played is not as it must be."""


@dataclass(slots=True)
class Play:
    """One world, below a directory of its own.

    Attributes:
        root: The directory.
        lives: Begins processes.
        cell: What is being played, for messages.
        registered: Every kind that a daemon registers, with its boundaries.
    """

    root: Path
    lives: Lives
    cell: str = "making the world"
    registered: dict[str, list[str]] = field(init=False)
    _sibling: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        """Make the world."""
        self.world.root.mkdir(exist_ok=True)
        self.live(make, self.world.root)
        self.keep("made")
        self.registered = json.loads(self.said(REGISTERED))
        self._sibling = self._of_sibling()

    @property
    def world(self) -> World:
        """The world, which is always at the same path."""
        return World(self.root / "world")

    def prepare(self, kind: str) -> None:
        """Bring the world to where an action of a kind can be asked for."""
        self.cell = f"{kind}, being prepared"
        self.bring_back("made")
        self.live(prepare, self.world.root, kind)
        self.keep("prepared")

    def live(self, main: object, *arguments: object) -> None:
        """Live once.

        Raises:
            PlayError: The life failed; with what it said.
        """
        said = self.root / "said"
        said.unlink(missing_ok=True)
        try:
            code = self.lives.run(main, *arguments, said=said)  # type: ignore[arg-type]
        except TimeoutError as error:
            raise PlayError(f"{self.cell}: {error}") from error
        if code:
            raise PlayError(f"{self.cell}: its life ended with {code}:\n{said.read_text()[-4000:]}")

    def require_held(self, kind: str) -> None:
        """Require what is true of the files at every moment.

        Raises:
            PlayError: It is not.
        """
        try:
            SCENARIOS[kind].holds(self.world)
        except AssertionError as error:
            raise PlayError(f"{self.cell}: what must be true at every moment is not") from error

    def require_tidy(self) -> None:
        """Require that nothing temporary is left, and that the other room is as it was.

        Raises:
            PlayError: It is not.
        """
        if left := left_in(self.world.app):
            raise PlayError(f"{self.cell}: left behind: {left}")
        if self._of_sibling() != self._sibling:
            raise PlayError(f"{self.cell}: the other room was touched")

    def said(self, name: str) -> str:
        """Return what a life has left beside the world."""
        return (self.root / name).read_text().strip()

    def keep(self, name: str) -> None:
        """Keep the world as it is."""
        replace_tree(self.world.root, self.root / name)

    def bring_back(self, name: str) -> None:
        """Make the world what it was."""
        replace_tree(self.root / name, self.world.root)

    def _of_sibling(self) -> dict[str, str]:
        return self.world.host_digest(SIBLING) | files_in(self.world.work(SIBLING))

"""What is known of one behaviour: where from, and of which versions.

The sources are the tags of the facts sheet about the program (``D``, ``M``, ``RN``, ``SDK``, ``DEN``, ``CAP`` and so on; ``ISS #n`` is
a reported issue).
"""

from __future__ import annotations

from dataclasses import dataclass

VERSIONS = ("0.35", "0.39", "0.43", "0.47")
"""The versions that the simulator can be."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One behaviour.

    Args:
        ident: Its stable name.
        text: What the program does, in one sentence.
        sources: The tags of the facts sheet; empty for a guess.
        since: The first version (the number after ``0.``) that does it.
        until: The last one; ``None``: all later ones.
        look: For a guess, what a person with the real program has to look at.
        probe: The live test compares it with a real program.
    """

    ident: str
    text: str
    sources: tuple[str, ...]
    since: int = 0
    until: int | None = None
    look: str = ""
    probe: bool = False

    @property
    def guess(self) -> bool:
        """Whether no source says it."""
        return bool(self.look)

    def holds(self, version: str) -> bool:
        """Whether a version (``0.43``) does it."""
        number = minor(version)
        return self.since <= number and (self.until is None or number <= self.until)

    @property
    def versions(self) -> tuple[str, ...]:
        """Those of :data:`VERSIONS` that do it."""
        return tuple(version for version in VERSIONS if self.holds(version))


def minor(version: str) -> int:
    """Return the number after ``0.``."""
    return int(version.split(".")[1])


def up_to(number: int) -> tuple[str, ...]:
    """Return those of :data:`VERSIONS` that are not newer than ``0.`` and a number."""
    return tuple(version for version in VERSIONS if minor(version) <= number)


def fact(ident: str, text: str, sources: str, *, since: int = 0, until: int | None = None, probe: bool = False) -> Behaviour:
    """Return a behaviour that a source says; several tags are parted by commas."""
    return Behaviour(ident, text, tuple(tag.strip() for tag in sources.split(",")), since, until, "", probe)


def guess(ident: str, text: str, look: str, *, since: int = 0, until: int | None = None, probe: bool = False) -> Behaviour:
    """Return a behaviour that no source says."""
    return Behaviour(ident, text, (), since, until, look, probe)

"""Says whether the live state may be used as it is: does it extend the generation (CONT-11).

Live state extends a generation when every file declared append-only begins with the captured bytes, and every other captured file, link
and directory is there with equal content. A whole file that changed proves nothing, so it does not extend.

What is compared are digests, which the directories name. So live state is proven also where a file's stored bytes are damaged: then all of
them must be there, exactly.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from jamcore.continuity.capturing.growth import Live, begins, keeps_lines, live_file
from jamcore.continuity.generations.content import Content, DigestsOnly, write_stream
from jamcore.continuity.generations.format import Source
from jamcore.continuity.generations.objects import MODES, Entry, Growth, Kind, Root, read_directory
from jamcore.continuity.generations.packs import BlockDamagedError
from jamcore.continuity.generations.publish import CheckpointFailedError
from jamcore.system.crew import spread
from jamcore.system.trees import Names, Seen, look, open_directory, open_file, owned, reading, shown

WORTH_SPREADING = 1 << 20
"""Bytes in one directory from which threads take less time than they cost."""


@dataclass(eq=False)
class RestoredOtherwiseError(CheckpointFailedError):
    """A generation was restored, and what lies there is not what was captured; nothing was started on it (CONT-1, CONT-7)."""

    code: ClassVar[str] = "continuity.restored_otherwise"
    hint: ClassVar[str] = (
        "Look at what else writes to the named path, then resume again: it is restored anew. What was there before is kept, and "
        "`jam continuity inspect ROOM` shows what was observed."
    )


class Standing(StrEnum):
    """How a live file stands to its captured entry."""

    EXACT = "exact"
    EXTENDS = "extends"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The standing of every captured file and link, and the first path, if any, that keeps the live state from being used."""

    standings: dict[Names, Standing]
    hindrance: str | None


class Comparer:
    """One comparison."""

    def __init__(self, source: Source, alive: Callable[[], None] = lambda: None) -> None:
        self._source = source
        self._alive = alive
        self._standings: dict[Names, Standing] = {}
        self._hindrance: str | None = None

    def compare(self, root: Root, directory: int) -> Comparison:
        """Compare the tree below an open directory with a generation.

        Raises:
            BlockDamagedError: A directory of the generation cannot be read.
        """
        self._directory(root.content, directory, ())
        return Comparison(self._standings, self._hindrance)

    def _directory(self, content: Content, directory: int | None, path: Names) -> None:
        found: list[tuple[Entry, Seen | None]] = []
        for entry in read_directory(self._source, content):
            self._alive()
            found.append((entry, look(directory, entry.name, (*path, entry.name)) if directory is not None else None))
        for (entry, seen), standing in zip(found, self._standings_of(found), strict=True):
            below = (*path, entry.name)
            if entry.kind is Kind.DIRECTORY:
                self._subdirectory(entry, seen, below)
                continue
            self._standings[below] = standing
            if standing is Standing.OTHER:
                self._hinder(below, "is gone" if seen is None else "is not what was captured")

    def _subdirectory(self, entry: Entry, seen: Seen | None, path: Names) -> None:
        try:
            descriptor = open_directory(seen) if seen and seen.is_directory else None
        except OSError:
            descriptor = None
        if descriptor is None:
            self._hinder(path, "is no directory")
            self._directory(entry.content, None, path)
            return
        with owned(descriptor):
            self._directory(entry.content, descriptor, path)

    def _standings_of(self, found: Sequence[tuple[Entry, Seen | None]]) -> list[Standing]:
        """Compare what is in one directory; directories stand for nothing here."""

        def standing(one: tuple[Entry, Seen | None], alive: Callable[[], None]) -> Standing:
            alive()
            entry, seen = one
            return self._standing(entry, seen) if seen and entry.kind is not Kind.DIRECTORY else Standing.OTHER

        if sum(entry.content.size for entry, _ in found) < WORTH_SPREADING:
            return [standing(one, self._alive) for one in found]
        return spread(standing, found, self._alive)

    def _standing(self, entry: Entry, seen: Seen) -> Standing:
        if entry.kind is Kind.LINK:
            same = seen.is_link and write_stream(DigestsOnly(), os.readlink(seen.name, dir_fd=seen.parent)) == entry.content
            return Standing.EXACT if same else Standing.OTHER
        if not seen.is_file:
            return Standing.OTHER
        try:
            descriptor = open_file(seen)
        except OSError:
            return Standing.OTHER  # whatever cannot be read proves nothing
        with owned(descriptor):
            return self._file(entry, descriptor)

    def _file(self, entry: Entry, descriptor: int) -> Standing:
        now = os.fstat(descriptor)
        if entry.growth is Growth.WHOLE and now.st_size != entry.content.size:
            return Standing.OTHER
        live = live_file(reading(descriptor), now.st_size)
        if begins(self._source, entry.content, live):
            same = now.st_size == entry.content.size and now.st_mode & MODES == entry.mode
            return Standing.EXACT if same else Standing.EXTENDS
        return Standing.EXTENDS if entry.growth is Growth.APPENDED and self._keeps_lines(entry, live) else Standing.OTHER

    def _keeps_lines(self, entry: Entry, live: Live) -> bool:
        try:
            return keeps_lines(self._source, entry.content, live)
        except BlockDamagedError:
            return False  # exactly the stored bytes, or nothing

    def _hinder(self, path: Names, what: str) -> None:
        if self._hindrance is None:
            self._hindrance = f"{shown(path)} {what}"

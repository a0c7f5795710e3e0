"""What generations need: every unit that can be reached from their roots (WS-9).

Subtrees that were reached before are not read again, so a thousand generations that differ by a line each cost little more than one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from jamcore.continuity.generations.content import Content
from jamcore.continuity.generations.databases import read_databases
from jamcore.continuity.generations.format import DIGEST, Source, Unit
from jamcore.continuity.generations.objects import Kind, read_directory, read_root
from jamcore.continuity.generations.packs import BlockDamagedError

UnitOf = Callable[[bytes], Unit | None]


@dataclass(slots=True)
class Marks:
    """The units that were reached, and the directories that were read.

    The two are kept apart: a file may hold the very bytes of a directory, and then its blocks are the directory's, but nothing below it
    was looked at. ``order`` has the units as they were reached.
    """

    units: set[bytes] = field(default_factory=set)
    order: list[bytes] = field(default_factory=list)
    directories: set[Content] = field(default_factory=set)

    def add(self, digest: bytes) -> None:
        """Add a unit."""
        if digest not in self.units:
            self.units.add(digest)
            self.order.append(digest)


def mark(source: Source, unit_of: UnitOf, root: bytes, marks: Marks, alive: Callable[[], None]) -> None:
    """Add everything that a generation is made of.

    Blocks of files and databases are added and not read: whether their bytes are sound is not found out here.

    Args:
        source: Where directories and index nodes are read.
        unit_of: Says what a stored unit is; ``None`` where no pack holds it.
        root: The digest of the generation's root.
        marks: What was reached by others; added to.
        alive: Called often; raises to end it.

    Raises:
        BlockDamagedError: Something is missing, or damaged where it had to be read.
    """
    _need(unit_of, root)
    marks.add(root)
    top = read_root(source, root)
    pending = [top.content]
    while pending:
        content = pending.pop()
        if content in marks.directories:
            continue
        alive()
        for entry in read_directory(source, content):
            if entry.kind is Kind.DIRECTORY:
                pending.append(entry.content)
            else:
                _stream(source, unit_of, entry.content, marks)
        _stream(source, unit_of, content, marks)
        marks.directories.add(content)
    for database in read_databases(source, top.databases):
        _stream(source, unit_of, database.content, marks)
    _stream(source, unit_of, top.databases, marks)


def _stream(source: Source, unit_of: UnitOf, content: Content, marks: Marks) -> None:
    """Add the blocks of a stream and the nodes above them."""
    pending = [content.digest] if content.size else []
    while pending:
        digest = pending.pop()
        if digest in marks.units:
            continue
        if _need(unit_of, digest) is Unit.NODE:
            data = source.get(Unit.NODE, digest)
            pending += [data[at : at + DIGEST] for at in range(0, len(data), DIGEST)]
        marks.add(digest)


def _need(unit_of: UnitOf, digest: bytes) -> Unit:
    found = unit_of(digest)
    if found is None:
        raise BlockDamagedError(digest=digest.hex(), problem="no published pack holds it")
    return found

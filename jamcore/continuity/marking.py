"""What generations need: every unit that can be reached from their roots (WS-9).

Subtrees that were reached before are not read again, so a thousand generations that differ by a line each cost little more than one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from jamcore.continuity.content import Content
from jamcore.continuity.databases import read_databases
from jamcore.continuity.format import DIGEST, Source, Unit
from jamcore.continuity.objects import Kind, read_directory, read_root
from jamcore.continuity.packs import BlockDamagedError


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


def mark(source: Source, kinds: Mapping[bytes, Unit], root: bytes, marks: Marks, alive: Callable[[], None]) -> None:
    """Add everything that a generation is made of.

    Blocks of files and databases are added and not read: whether their bytes are sound is not found out here.

    Args:
        source: Where directories and index nodes are read.
        kinds: Every stored unit, and what it is.
        root: The digest of the generation's root.
        marks: What was reached by others; added to.
        alive: Called often; raises to end it.

    Raises:
        BlockDamagedError: Something is missing, or damaged where it had to be read.
    """
    _need(kinds, root)
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
                _stream(source, kinds, entry.content, marks)
        _stream(source, kinds, content, marks)
        marks.directories.add(content)
    for database in read_databases(source, top.databases):
        _stream(source, kinds, database.content, marks)
    _stream(source, kinds, top.databases, marks)


def _stream(source: Source, kinds: Mapping[bytes, Unit], content: Content, marks: Marks) -> None:
    """Add the blocks of a stream and the nodes above them."""
    pending = [content.digest] if content.size else []
    while pending:
        digest = pending.pop()
        if digest in marks.units:
            continue
        if _need(kinds, digest) is Unit.NODE:
            data = source.get(Unit.NODE, digest)
            pending += [data[at : at + DIGEST] for at in range(0, len(data), DIGEST)]
        marks.add(digest)


def _need(kinds: Mapping[bytes, Unit], digest: bytes) -> Unit:
    found = kinds.get(digest)
    if found is None:
        raise BlockDamagedError(digest=digest.hex(), problem="no published pack holds it")
    return found

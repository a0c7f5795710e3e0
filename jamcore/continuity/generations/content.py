"""Streams of bytes as blocks under index nodes: what files and directories have in common.

A stream of ``size`` bytes is cut into blocks of a fixed size. Their digests are packed into nodes, the nodes' digests into further nodes,
until one digest is left: that and the size name the stream. One block needs no node, and no bytes need nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jamcore.continuity.generations.format import BLOCK, DIGEST, FANOUT, Sink, Source, Unit, digest_of
from jamcore.continuity.generations.packs import BlockDamagedError

NOTHING = bytes(DIGEST)
"""Stands where an empty stream has no digest."""


@dataclass(frozen=True, slots=True)
class Content:
    """A stored stream: its size in bytes, its topmost digest, and the size of its blocks, which is not usual for databases alone."""

    size: int
    digest: bytes
    block: int = BLOCK


EMPTY = Content(0, NOTHING)


class DigestsOnly:
    """A sink that keeps nothing: what is written to it gets its name."""

    def put(self, unit: Unit, data: bytes) -> bytes:
        """Return the digest of a unit."""
        return digest_of(unit, data)


def leaf_count(size: int, block: int = BLOCK) -> int:
    """Return how many blocks a stream of ``size`` bytes has."""
    return -(-size // block)


def leaf_bytes(size: int, index: int, block: int = BLOCK) -> int:
    """Return how many bytes block ``index`` of a stream has."""
    return min(block, size - index * block)


def write_stream(sink: Sink, data: bytes) -> Content:
    """Store a stream that is in memory."""
    leaves = [sink.put(Unit.LEAF, data[at : at + BLOCK]) for at in range(0, len(data), BLOCK)]
    return write_index(sink, leaves, len(data))


def write_index(sink: Sink, leaves: Sequence[bytes], size: int, block: int = BLOCK) -> Content:
    """Store the index nodes over blocks that are stored already."""
    if len(leaves) != leaf_count(size, block):
        raise ValueError(f"{size} bytes are not {len(leaves)} blocks")
    if not leaves:
        return EMPTY
    level = list(leaves)
    while len(level) > 1:
        level = [sink.put(Unit.NODE, b"".join(level[at : at + FANOUT])) for at in range(0, len(level), FANOUT)]
    return Content(size, level[0], block)


def read_leaves(source: Source, content: Content) -> list[bytes]:
    """Return the digests of a stream's blocks, in order.

    Raises:
        BlockDamagedError: A node is missing, damaged, or not of the width that the size demands.
    """
    if content.size == 0:
        if content.digest != NOTHING:
            raise BlockDamagedError(digest=content.digest.hex(), problem="an empty stream has no blocks")
        return []
    widths = [leaf_count(content.size, content.block)]
    while widths[-1] > 1:
        widths.append(-(-widths[-1] // FANOUT))
    level = [content.digest]
    for width in reversed(widths[:-1]):
        level = _expand(source, level, width)
    return level


def read_blocks(source: Source, content: Content) -> Iterator[bytes]:
    """Yield a stream's blocks in order, each verified.

    Raises:
        BlockDamagedError: A block or node is missing or damaged.
    """
    for index, digest in enumerate(read_leaves(source, content)):
        yield read_leaf(source, content, index, digest)


def read_leaf(source: Source, content: Content, index: int, digest: bytes) -> bytes:
    """Return one block, verified to have the length that its place demands."""
    data = source.get(Unit.LEAF, digest)
    if len(data) != leaf_bytes(content.size, index, content.block):
        raise BlockDamagedError(digest=digest.hex(), problem="a block has the wrong length for its place")
    return data


def read_stream(source: Source, content: Content) -> bytes:
    """Return a whole stream; for directories and links, which are small."""
    return b"".join(read_blocks(source, content))


def _expand(source: Source, level: Sequence[bytes], width: int) -> list[bytes]:
    below: list[bytes] = []
    for position, digest in enumerate(level):
        data = source.get(Unit.NODE, digest)
        if len(data) != DIGEST * min(FANOUT, width - position * FANOUT):
            raise BlockDamagedError(digest=digest.hex(), problem="an index node has the wrong width")
        below += [data[at : at + DIGEST] for at in range(0, len(data), DIGEST)]
    return below

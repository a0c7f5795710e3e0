"""Whether a log still holds what a generation has of it (CONT-10, CONT-11).

The rule is: every stored byte is there, in its place. One exception is allowed. A process that is killed may leave a line half
written, and its program may cut that line off when it comes back; so where the stored bytes end in the middle of a line, the
complete lines are what must be there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jamcore.continuity.generations.content import (
    Content,
    DigestsOnly,
    leaf_bytes,
    leaf_count,
    read_leaf,
    read_leaves,
    write_index,
)
from jamcore.continuity.generations.format import BLOCK, Source, Unit, digest_of
from jamcore.continuity.generations.packs import BlockDamagedError
from jamcore.domain import limits


@dataclass(frozen=True, slots=True)
class Live:
    """The bytes that are there now.

    ``has_leaf(i, digest)`` says whether whole block ``i`` has this digest; ``read(offset, count)`` returns bytes, fewer at the end.
    """

    size: int
    has_leaf: Callable[[int, bytes], bool]
    read: Callable[[int, int], bytes]


def live_file(read: Callable[[int, int], bytes], size: int) -> Live:
    """Return the view of a file whose blocks have to be read and hashed."""
    return Live(size, lambda index, digest: digest_of(Unit.LEAF, read(index * BLOCK, BLOCK)) == digest, read)


def keeps(source: Source, stored: Content, live: Live) -> bool:
    """Say whether ``live`` holds what is stored of a log: all of it, or but for a line that was half written.

    Raises:
        BlockDamagedError: What is stored cannot be read.
    """
    return _begins_with(source, stored, read_leaves(source, stored), stored.size, live) or keeps_lines(source, stored, live)


def keeps_lines(source: Source, stored: Content, live: Live) -> bool:
    """Say whether what is stored ends within a line and ``live`` holds all complete lines of it.

    Raises:
        BlockDamagedError: What is stored cannot be read.
    """
    leaves = read_leaves(source, stored)
    settled = _end_of_last_line(source, stored, leaves)
    return settled is not None and _begins_with(source, stored, leaves, settled, live)


def begins(source: Source, stored: Content, live: Live) -> bool:
    """Say whether ``live`` begins with exactly what is stored. Its digests tell, so the stored bytes themselves may be damaged or gone."""
    try:
        return _begins_with(source, stored, read_leaves(source, stored), stored.size, live)
    except BlockDamagedError:
        return _has_digest(stored, live)


def _has_digest(stored: Content, live: Live) -> bool:
    """Say the same from the topmost digest alone, where the nodes below it cannot be read."""
    if live.size < stored.size:
        return False
    blocks = range(leaf_count(stored.size))
    leaves = [digest_of(Unit.LEAF, live.read(index * BLOCK, leaf_bytes(stored.size, index))) for index in blocks]
    return write_index(DigestsOnly(), leaves, stored.size) == stored


def _begins_with(source: Source, stored: Content, leaves: Sequence[bytes], count: int, live: Live) -> bool:
    """Say whether the first ``count`` stored bytes are there."""
    if live.size < count:
        return False
    whole, rest = divmod(count, BLOCK)
    if not all(live.has_leaf(index, leaves[index]) for index in range(whole)):
        return False
    if not rest:
        return True
    there = live.read(whole * BLOCK, rest)
    if count == stored.size:
        return digest_of(Unit.LEAF, there) == leaves[whole]
    return there == read_leaf(source, stored, whole, leaves[whole])[:rest]


def _end_of_last_line(source: Source, stored: Content, leaves: Sequence[bytes]) -> int | None:
    """Return where the complete lines end when the stored bytes end within one, else ``None``.

    A line longer than any provider may write is none: such a file does not consist of lines, and no exception is made for it.
    """
    for back, index in enumerate(reversed(range(len(leaves)))):
        block = read_leaf(source, stored, index, leaves[index])
        at = block.rfind(b"\n")
        if back == 0 and at == len(block) - 1:
            return None
        if at >= 0:
            return index * BLOCK + at + 1
        if (back + 1) * BLOCK > limits.PROVIDER_LINE_BYTES:
            return None
    return None

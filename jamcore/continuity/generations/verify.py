"""Proves a generation: every unit it is made of is there and has its digest (CONT-1, CONT-7)."""

from __future__ import annotations

from collections.abc import Callable

from jamcore.continuity.generations.content import Content, leaf_bytes, read_leaf, read_leaves
from jamcore.continuity.generations.damage import damage_of
from jamcore.continuity.generations.databases import read_databases
from jamcore.continuity.generations.format import Source
from jamcore.continuity.generations.objects import Kind, Root, read_root, walk_tree
from jamcore.continuity.generations.packs import BlockDamagedError
from jamcore.continuity.generations.publish import Generation
from jamcore.domain.continuity import CheckpointCorruptError
from jamcore.system.crew import spread
from jamcore.system.trees import shown


def verify(source: Source, generation: Generation, alive: Callable[[], None] = lambda: None) -> Root:
    """Read everything that the generation refers to and return its root.

    Raises:
        CheckpointCorruptError: Anything is missing or damaged.
        OSError: A pack is there and cannot be read, which proves nothing about it.
    """
    try:
        with damage_of(generation.checkpoint_id):
            return _verify(source, generation, alive)
    except ValueError as error:
        raise CheckpointCorruptError(checkpoint=str(generation.checkpoint_id), detail=f"its root has no digest: {error}") from error


def _prove(source: Source, content: Content, proven: set[tuple[bytes, int]], alive: Callable[[], None]) -> None:
    """Read the blocks of one file, link or database that are not proven yet."""
    for index, leaf in enumerate(read_leaves(source, content)):
        known = (leaf, leaf_bytes(content.size, index, content.block))
        if known not in proven:
            alive()
            read_leaf(source, content, index, leaf)
            proven.add(known)


def _verify(source: Source, generation: Generation, alive: Callable[[], None]) -> Root:
    root = read_root(source, bytes.fromhex(generation.root_digest))
    files = bytes_total = 0
    proven: set[tuple[bytes, int]] = set()
    captured: list[tuple[tuple[bytes, ...], Content]] = []
    for path, entry in walk_tree(source, root):
        alive()
        if entry.kind is Kind.DIRECTORY:
            continue  # its blocks are proven by being walked
        files += 1
        bytes_total += entry.content.size
        captured.append((path, entry.content))

    def prove(one: tuple[tuple[bytes, ...], Content], still: Callable[[], None]) -> None:
        try:
            _prove(source, one[1], proven, still)
        except BlockDamagedError as error:
            raise error.at(f"of {shown(one[0])}") from error

    captured.sort(key=lambda one: one[1].size, reverse=True)
    spread(prove, captured, alive)
    for one in read_databases(source, root.databases):
        files += 1
        bytes_total += one.content.size
        try:
            _prove(source, one.content, proven, alive)
        except BlockDamagedError as error:
            raise error.at(f"of ~/{shown(one.path)}") from error
    if (files, bytes_total) != (root.files, root.bytes_total) or (files, bytes_total) != (generation.files, generation.bytes_total):
        raise BlockDamagedError(digest=generation.root_digest, problem="the root counts other files than there are")
    return root

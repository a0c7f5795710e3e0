"""The constants of the checkpoint format: what a digest is, how big a block is (docs/decisions/0005-checkpoint-format.md).

Every stored unit is named by the SHA-256 of one tag byte and its bytes. The tag keeps the three kinds of unit apart, so that no
provider can write a file whose block passes for an index node.
"""

from __future__ import annotations

import hashlib
from enum import IntEnum
from typing import Literal, Protocol

SCHEMA = 2
"""Version of what is written: roots and ``complete.json``. The second has databases."""
SCHEMAS = (1, 2)
"""Versions that are read: a person's checkpoints survive an upgrade."""
PACK_SCHEMA = 1
"""Version of packs and of the units in them, which the second version left as they were."""

Algorithm = Literal["sha256"]
ALGORITHM: Algorithm = "sha256"
ALGORITHM_ID = 1
"""What the pack header records for ``sha256``."""

DIGEST = 32
"""Bytes of a digest."""

BLOCK = 32 << 10
"""Bytes of a content block. An append rewrites half a block on average, and each block costs an index entry of some 200 bytes in
memory: 32 KiB keeps the first at a few kilobytes of a compressed log, and the second at 130 MB for the largest state allowed."""

FANOUT = 128
"""Digests in one index node (4 KiB): an append to a large file rewrites one node per level, not the whole list."""


class Unit(IntEnum):
    """What a stored unit is; its value is the tag byte."""

    LEAF = 1
    NODE = 2
    ROOT = 3


def digest_of(unit: Unit, data: bytes | memoryview) -> bytes:
    """Return the name of a unit."""
    state = hashlib.sha256(bytes((unit,)))
    state.update(data)
    return state.digest()


class Sink(Protocol):
    """Takes units; the same unit twice is kept once."""

    def put(self, unit: Unit, data: bytes) -> bytes:
        """Keep ``data`` and return its digest."""


class Source(Protocol):
    """Gives units back, verified."""

    def get(self, unit: Unit, digest: bytes) -> bytes:
        """Return a unit's bytes.

        Raises:
            BlockDamagedError: It is not there, or its bytes do not have this digest.
        """

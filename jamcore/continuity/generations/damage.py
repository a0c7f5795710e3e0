"""Damage of a stored unit, said as damage of the generation that needs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

from jamcore.continuity.generations.packs import BlockDamagedError
from jamcore.domain.continuity import CheckpointCorruptError


@contextmanager
def damage_of(checkpoint: UUID | None) -> Iterator[None]:
    """Turn damage of a unit into damage of a generation; ``None`` is any that stays.

    Raises:
        CheckpointCorruptError: A unit was damaged.
    """
    try:
        yield
    except BlockDamagedError as error:
        whose = str(checkpoint) if checkpoint else "one that stays"
        raise CheckpointCorruptError(checkpoint=whose, detail=error.told()) from error

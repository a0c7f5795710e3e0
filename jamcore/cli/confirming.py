"""Reads what a person confirms."""

from __future__ import annotations

import re

from jamcore.domain.errors import InvalidInputError

_DIGEST = re.compile(r"[0-9a-f]{64}")


def digest_of(text: str) -> str:
    """Accept a digest as a person copied it.

    Raises:
        InvalidInputError: It is none.
    """
    if not _DIGEST.fullmatch(digest := text.strip().lower()):
        raise InvalidInputError(field="--confirm", problem="not the plan's digest: 64 hexadecimal digits")
    return digest

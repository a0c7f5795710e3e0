"""Ids that the program lets its client choose: of a thread when it is begun, and of what a person says in it."""

from __future__ import annotations

import os
from uuid import UUID


def new_id() -> str:
    """Return a random UUID, the only form that the program takes."""
    return str(UUID(bytes=os.urandom(16), version=4))

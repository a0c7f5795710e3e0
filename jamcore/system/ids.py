"""Ids and secrets as dependencies."""

from __future__ import annotations

import secrets
import time
from typing import Protocol
from uuid import UUID


class IdSource(Protocol):
    """Where new UUIDs and nonces come from."""

    def uuid(self) -> UUID:
        """Return a new UUIDv7: unique, and sorted by creation time to the millisecond."""

    def nonce(self) -> str:
        """Return 256 random bits as 64 hex characters."""


class SystemIds:
    """Ids from the machine's clock and random source."""

    def uuid(self) -> UUID:
        """See :meth:`IdSource.uuid`. Layout of RFC 9562, section 5.7."""
        millis = time.time_ns() // 1_000_000
        value = (millis & ((1 << 48) - 1)) << 80 | 0x7 << 76 | secrets.randbits(12) << 64 | 0b10 << 62 | secrets.randbits(62)
        return UUID(int=value)

    def nonce(self) -> str:
        """See :meth:`IdSource.nonce`."""
        return secrets.token_hex(32)


def random_id() -> str:
    """Return a random UUID, for programs that let their client choose an id and take no other form."""
    return str(UUID(bytes=secrets.token_bytes(16), version=4))


def behind(fresh: UUID, other: UUID | None) -> UUID:
    """Return ``fresh``, or where it does not sort behind ``other``, because the clock was set back since, the same bits a moment later."""
    if other is None or fresh > other:
        return fresh
    millis = (other.int >> 80) + 1
    return UUID(int=millis << 80 | fresh.int & ((1 << 80) - 1))

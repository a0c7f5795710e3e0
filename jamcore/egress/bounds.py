"""What a relay adds and how much it lets through."""

from __future__ import annotations

from dataclasses import dataclass, field

from jamcore.domain.limits import RELAY_CONCURRENT, RELAY_REQUEST_BYTES, RELAY_RESPONSE_BYTES

CONNECT_S = 30.0
"""TCP and TLS to the endpoint: a far host on a bad line takes seconds."""
SILENCE_S = 900.0
"""An answer may be silent while a model thinks; clients give up sooner by themselves. This ends what everybody forgot."""
CLOSE_S = 2.0
"""How long open answers may go on when the relay is closed."""
GUEST_IDLE_S = 3600.0
"""A guest's connection between two requests costs one descriptor, and its number is bounded by the engine."""


@dataclass(frozen=True, slots=True)
class RelayCredential:
    """The header that is added outside the guest. Its value is in no representation of this record."""

    header: str
    value: str = field(repr=False)

    @property
    def secret(self) -> str:
        """The part of the value that must never be seen in the guest: the last word."""
        return self.value.rpartition(" ")[2]


@dataclass(frozen=True, slots=True)
class RelayLimits:
    """Bounds of one relay; the defaults are the domain's."""

    request_bytes: int = RELAY_REQUEST_BYTES
    response_bytes: int = RELAY_RESPONSE_BYTES
    concurrent: int = RELAY_CONCURRENT
    connect_s: float = CONNECT_S
    silence_s: float = SILENCE_S

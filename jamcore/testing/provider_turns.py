"""Running turns of a provider runtime in tests."""

from __future__ import annotations

import anyio

from jamcore.domain.events import ProviderEvent, Working
from jamcore.domain.ids import provider_identity
from jamcore.plugins.runtime import ProviderRuntime

TURN_S = 60.0
"""A scripted turn takes well under a second; a provider's own retries of a failing model some more."""


async def run_turn(runtime: ProviderRuntime, identity: str, text: str, *, timeout_s: float = TURN_S) -> list[ProviderEvent]:
    """Run one turn to its end and return the events that a room would have of it: its signs of life are not among them.

    Raises:
        TimeoutError: It did not end in time; it was interrupted.
        ProviderGoneError, ProviderProtocolError, ProviderRefusedError: As the runtime raised it.
    """
    with anyio.fail_after(timeout_s):
        async with runtime.turn(provider_identity(identity), text) as events:
            return [event async for event in events if not isinstance(event, Working)]

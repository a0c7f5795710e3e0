"""The plugin: what is declared beside it, and the hooks that do something, each in one line."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import ClassVar

from jamcore.api import (
    GuestLauncher,
    PlanContext,
    PlanContribution,
    ProviderRuntime,
    ResumableProvider,
    RuntimeRequest,
    hookimpl,
)

from jam_example_agent.description import DESCRIPTION, SEATS
from jam_example_agent.opening import Program, bundled, open_runtime
from jam_example_agent.plan import contribute
from jam_example_agent.state import ACTIVATION, CAPTURE, accepts_version


class ExampleAgentPlugin(ResumableProvider):
    """ExampleAgent as a provider of Jam. What is not here (placement, credentials) is answered from what is declared.

    Args:
        program: What is started in the guest; tests put programs in its place that misbehave.
    """

    # The plugin interface that this was built for, in numbers: a core with another major number refuses it by name.
    api_version: ClassVar[tuple[int, int]] = (1, 0)
    description = DESCRIPTION
    seats = SEATS
    capture = CAPTURE
    activation = ACTIVATION

    def __init__(self, program: Program = bundled) -> None:
        self._program = program

    @hookimpl
    def jam_contribute_plan(self, context: PlanContext) -> PlanContribution:
        """See `jam_example_agent.plan`."""
        return contribute(context)

    @hookimpl
    def jam_accepts_version(self, captured: str, current: str) -> bool:
        """See `jam_example_agent.state`."""
        return accepts_version(captured, current)

    @hookimpl
    async def jam_open_runtime(
        self, request: RuntimeRequest, launcher: GuestLauncher
    ) -> AbstractAsyncContextManager[ProviderRuntime]:
        """See `jam_example_agent.opening`. Nothing starts before the context is entered."""
        return open_runtime(request, launcher, self._program)

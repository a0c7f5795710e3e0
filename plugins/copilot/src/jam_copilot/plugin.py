"""The plugin: what is declared beside it, and the hooks that do something, each in one line."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import ClassVar

from jam_copilot.description import DESCRIPTION, NO_LOGIN, SHARED_SEATS
from jam_copilot.opening import open_copilot
from jam_copilot.pins import RESUMES
from jam_copilot.plan import contribute
from jam_copilot.state import ACTIVATION, CAPTURE
from jamcore.api import (
    GuestLauncher,
    PlanContext,
    PlanContribution,
    ProviderRuntime,
    ResumableProvider,
    RuntimeRequest,
    hookimpl,
)


class CopilotPlugin(ResumableProvider):
    """GitHub Copilot as a provider of Jam."""

    api_version: ClassVar[tuple[int, int]] = (1, 0)
    description = DESCRIPTION
    seats = SHARED_SEATS
    no_login = NO_LOGIN
    capture = CAPTURE
    activation = ACTIVATION
    resumes = RESUMES

    @hookimpl
    def jam_contribute_plan(self, context: PlanContext) -> PlanContribution:
        """See :func:`jam_copilot.plan.contribute`."""
        return contribute(context)

    @hookimpl
    async def jam_open_runtime(
        self, request: RuntimeRequest, launcher: GuestLauncher
    ) -> AbstractAsyncContextManager[ProviderRuntime]:
        """See :func:`jam_copilot.opening.open_copilot`."""
        return open_copilot(request, launcher)

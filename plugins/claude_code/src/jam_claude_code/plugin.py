"""The plugin: what is declared beside it, and the hooks that do something, each in one line."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import ClassVar

from jam_claude_code.description import DESCRIPTION, NO_LOGIN, SHARED_SEATS
from jam_claude_code.pins import RESUMES
from jam_claude_code.plan import contribute
from jam_claude_code.runtime import open_claude_code
from jam_claude_code.state import ACTIVATION, CAPTURE
from jamcore.api import (
    GuestLauncher,
    PlanContext,
    PlanContribution,
    ProviderRuntime,
    ResumableProvider,
    RuntimeRequest,
    hookimpl,
)


class ClaudeCodePlugin(ResumableProvider):
    """Claude Code as a provider of Jam."""

    api_version: ClassVar[tuple[int, int]] = (1, 0)
    description = DESCRIPTION
    seats = SHARED_SEATS
    no_login = NO_LOGIN
    capture = CAPTURE
    activation = ACTIVATION
    resumes = RESUMES

    @hookimpl
    def jam_contribute_plan(self, context: PlanContext) -> PlanContribution:
        """See :func:`jam_claude_code.plan.contribute`."""
        return contribute(context)

    @hookimpl
    async def jam_open_runtime(
        self, request: RuntimeRequest, launcher: GuestLauncher
    ) -> AbstractAsyncContextManager[ProviderRuntime]:
        """See :func:`jam_claude_code.runtime.open_claude_code`."""
        return open_claude_code(request, launcher)

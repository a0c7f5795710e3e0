"""The plugin: what is declared beside it, and the hooks that do something, each in one line."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import ClassVar

from jam_codex.description import DESCRIPTION, NO_LOGIN, SHARED_SEATS
from jam_codex.opening import open_codex
from jam_codex.pins import RESUMES
from jam_codex.plan import contribute, prepare
from jam_codex.state import ACTIVATION, CAPTURE
from jamcore.api import (
    GuestLauncher,
    PlanContext,
    PlanContribution,
    Preparation,
    ProviderRuntime,
    ResumableProvider,
    RuntimeRequest,
    hookimpl,
)


class CodexPlugin(ResumableProvider):
    """OpenAI Codex as a provider of Jam."""

    api_version: ClassVar[tuple[int, int]] = (1, 0)
    description = DESCRIPTION
    seats = SHARED_SEATS
    no_login = NO_LOGIN
    capture = CAPTURE
    activation = ACTIVATION
    resumes = RESUMES
    patches = True  # of one release: they changed nothing in a rollout so far

    @hookimpl
    def jam_contribute_plan(self, context: PlanContext) -> PlanContribution:
        """See :func:`jam_codex.plan.contribute`."""
        return contribute(context)

    @hookimpl
    def jam_prepare(self) -> Preparation:
        """See :func:`jam_codex.plan.prepare`."""
        return prepare()

    @hookimpl
    async def jam_open_runtime(
        self, request: RuntimeRequest, launcher: GuestLauncher
    ) -> AbstractAsyncContextManager[ProviderRuntime]:
        """See :func:`jam_codex.opening.open_codex`."""
        return open_codex(request, launcher)

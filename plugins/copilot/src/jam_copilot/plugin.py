"""The plugin: each hook in one line, the answers in the modules beside it."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import ClassVar

from jam_copilot.description import DESCRIPTION, check_credentials, place_session
from jam_copilot.opening import open_copilot
from jam_copilot.plan import contribute
from jam_copilot.state import ACTIVATION, CAPTURE, accepts_version
from jamcore.api import (
    ActivationPlan,
    CaptureList,
    CredentialReport,
    CredentialView,
    GuestLauncher,
    PlacementAnswer,
    PlacementRequest,
    PlanContext,
    PlanContribution,
    ProviderDescription,
    ProviderRuntime,
    RuntimeRequest,
    hookimpl,
)


class CopilotPlugin:
    """GitHub Copilot as a provider of Jam."""

    api_version: ClassVar[tuple[int, int]] = (1, 0)

    @hookimpl
    def jam_describe_provider(self) -> ProviderDescription:
        """See :data:`jam_copilot.description.DESCRIPTION`."""
        return DESCRIPTION

    @hookimpl
    def jam_contribute_plan(self, context: PlanContext) -> PlanContribution:
        """See :func:`jam_copilot.plan.contribute`."""
        return contribute(context)

    @hookimpl
    def jam_place_session(self, request: PlacementRequest) -> PlacementAnswer:
        """See :func:`jam_copilot.description.place_session`."""
        return place_session(request)

    @hookimpl
    def jam_declare_capture(self) -> CaptureList:
        """See :mod:`jam_copilot.state`."""
        return CAPTURE

    @hookimpl
    def jam_declare_activation(self) -> ActivationPlan:
        """See :mod:`jam_copilot.state`."""
        return ACTIVATION

    @hookimpl
    def jam_accepts_version(self, captured: str, current: str) -> bool:
        """See :func:`jam_copilot.state.accepts_version`."""
        return accepts_version(captured, current)

    @hookimpl
    async def jam_check_credentials(self, view: CredentialView) -> CredentialReport:
        """See :func:`jam_copilot.description.check_credentials`."""
        return check_credentials(view)

    @hookimpl
    async def jam_open_runtime(
        self, request: RuntimeRequest, launcher: GuestLauncher
    ) -> AbstractAsyncContextManager[ProviderRuntime]:
        """See :func:`jam_copilot.opening.open_copilot`."""
        return open_copilot(request, launcher)

"""The plugins: one object for each profile, each hook in a few lines."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import ClassVar

from jam_acp.opening import open_acp
from jam_acp.places import Places
from jam_acp.profile import CELLS, Profile
from jam_acp.profiles.cursor import CURSOR
from jam_acp.profiles.opencode import OPENCODE
from jam_acp.state import accepts_version
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
    Preparation,
    PreparedFile,
    ProviderDescription,
    ProviderRuntime,
    RuntimeRequest,
    hookimpl,
)


class AcpPlugin:
    """One agent of the Agent Client Protocol as a provider of Jam. Its conversations end with its process."""

    api_version: ClassVar[tuple[int, int]] = (1, 0)

    def __init__(self, profile: Profile) -> None:
        self.profile = profile.model_copy(deep=True)  # two daemons of one process share nothing

    @hookimpl
    def jam_describe_provider(self) -> ProviderDescription:
        """Say what the profile says."""
        profile = self.profile
        return ProviderDescription(
            name=profile.name,
            title=profile.title,
            cells=CELLS[profile.cells],
            toolchain=profile.toolchain,
            credential=profile.credential,
            default_origin=profile.default_origin,
            continuity=profile.continuity,
            threads_share_process=False,
            approvals=profile.approvals,
        )

    @hookimpl
    def jam_contribute_plan(self, context: PlanContext) -> PlanContribution:
        """Return the contribution; it is the same for every cell. What the agent's process needs is given to it when it starts."""
        profile = self.profile
        return PlanContribution(
            agent_image=profile.agent_image,
            state_subdirectories=profile.state_subdirectories,
            guest_directories=profile.guest_directories,
            endpoint_paths=profile.endpoint_paths,
        )

    @hookimpl
    def jam_prepare(self, context: PlanContext) -> Preparation:
        """Return the files that must lie in the state root before each start (PREP-3)."""
        places = Places(context.tools_root, context.state_root, context.home, context.relay_url)
        return Preparation(
            files=tuple(PreparedFile(path=file.path, content=places.fill(file.content)) for file in self.profile.prepared)
        )

    @hookimpl
    def jam_place_session(self, request: PlacementRequest) -> PlacementAnswer:
        """Each session has a process of its own, also beside others (SHARE-5)."""
        seats, title = self.profile.seats, self.profile.title
        if request.seats < seats:
            return PlacementAnswer(accepted=True, own_process=True)
        return PlacementAnswer(accepted=False, own_process=True, reason=f"one host serves at most {seats} sessions of {title}")

    @hookimpl
    async def jam_check_credentials(self, view: CredentialView) -> CredentialReport:
        """Ready when there is a key, or none is needed; whether it is a good one only the endpoint knows."""
        credential = self.profile.credential
        if credential is None or view.present:
            return CredentialReport(ready=True)
        return CredentialReport(
            ready=False,
            reason=f"there is no key for {self.profile.title}",
            hint=f"Set {' or '.join(credential.environment_names)} in the daemon's environment, or run "
            f"`jam credential set {credential.name}`. A login on this machine cannot be used: its file would lie in the sandbox.",
        )

    @hookimpl
    async def jam_open_runtime(
        self, request: RuntimeRequest, launcher: GuestLauncher
    ) -> AbstractAsyncContextManager[ProviderRuntime]:
        """See :func:`jam_acp.opening.open_acp`."""
        return open_acp(self.profile, request, launcher)


class ResumableAcpPlugin(AcpPlugin):
    """An agent whose sessions come back."""

    @hookimpl
    def jam_declare_capture(self) -> CaptureList:
        """Return what the profile declares; a profile with continuity has it."""
        assert self.profile.capture is not None
        return self.profile.capture

    @hookimpl
    def jam_declare_activation(self) -> ActivationPlan:
        """Return what the profile declares."""
        return self.profile.activation

    @hookimpl
    def jam_accepts_version(self, captured: str, current: str) -> bool:
        """See :func:`jam_acp.state.accepts_version`."""
        return accepts_version(self.profile, captured, current)


class OpenCodePlugin(ResumableAcpPlugin):
    """OpenCode."""

    def __init__(self) -> None:
        super().__init__(OPENCODE)


class CursorPlugin(ResumableAcpPlugin):
    """Cursor."""

    def __init__(self) -> None:
        super().__init__(CURSOR)


def plugin_of(profile: Profile) -> AcpPlugin:
    """Return the plugin object for a profile: one that cannot bring sessions back has no hook that promises it."""
    return ResumableAcpPlugin(profile) if profile.continuity else AcpPlugin(profile)

"""The plugins: one object for each profile, each hook in a few lines."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import ClassVar

from jam_acp.opening import open_acp
from jam_acp.places import Places
from jam_acp.profile import CELLS, Profile
from jam_acp.profiles.cursor import CURSOR
from jam_acp.profiles.opencode import OPENCODE
from jamcore.api import (
    DeclaredProvider,
    GuestLauncher,
    PlanContext,
    PlanContribution,
    Preparation,
    PreparedFile,
    ProviderDescription,
    ProviderRuntime,
    ResumableProvider,
    RuntimeRequest,
    hookimpl,
)


class AcpPlugin(DeclaredProvider):
    """One agent of the Agent Client Protocol as a provider of Jam. Its conversations end with its process."""

    api_version: ClassVar[tuple[int, int]] = (1, 0)

    def __init__(self, profile: Profile) -> None:
        self.profile = profile = profile.model_copy(deep=True)  # two daemons of one process share nothing
        self.seats = profile.seats
        self.description = ProviderDescription(
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
    async def jam_open_runtime(
        self, request: RuntimeRequest, launcher: GuestLauncher
    ) -> AbstractAsyncContextManager[ProviderRuntime]:
        """See :func:`jam_acp.opening.open_acp`."""
        return open_acp(self.profile, request, launcher)


class ResumableAcpPlugin(AcpPlugin, ResumableProvider):
    """An agent whose sessions come back."""

    def __init__(self, profile: Profile) -> None:
        super().__init__(profile)
        assert self.profile.capture is not None  # a profile with continuity has it
        self.capture, self.activation = self.profile.capture, self.profile.activation
        self.resumes, self.patches = self.profile.resumes, self.profile.versions == "patch"


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

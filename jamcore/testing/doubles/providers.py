"""Provider plugins for tests: one good, the others each wrong in one way. The package's docstring is their index."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, ClassVar

from jamcore.api import (
    DEDICATED_MANAGED_CELLS,
    FULL_CELLS,
    ActivationPlan,
    CaptureEntry,
    CaptureKind,
    CaptureList,
    Cell,
    Configuration,
    CredentialReport,
    CredentialSpec,
    CredentialView,
    FaultError,
    GuestLauncher,
    Placement,
    PlacementAnswer,
    PlacementRequest,
    PlanContext,
    PlanContribution,
    Preparation,
    PreparedFile,
    ProviderDescription,
    ProviderRuntime,
    RuntimeRequest,
    WorkspaceSource,
    hookimpl,
)

GOOD = ProviderDescription(
    name="good",
    title="Good",
    cells=FULL_CELLS,
    toolchain=None,
    credential=CredentialSpec(
        name="good", environment_names=("GOOD_KEY",), header="authorization", prefix="Bearer ", origin="https://models.example"
    ),
    default_origin="https://models.example",
    continuity=True,
    threads_share_process=True,
)
CONTRIBUTION = PlanContribution(
    agent_image="good",
    state_subdirectories=("home", "home/logs"),
    guest_directories=(".good/scratch",),
    environment=(("GOOD_HOME", "/jam/state/good/home"),),
    endpoint_paths=("POST /v1/answers",),
)


class _NoRuntime(AbstractAsyncContextManager[ProviderRuntime]):
    """A runtime that these doubles do not have: entering it fails."""

    async def __aenter__(self) -> ProviderRuntime:
        raise NotImplementedError

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        return None


class GoodProvider:
    """Does everything right."""

    api_version: ClassVar[Any] = (1, 0)
    description: ClassVar[ProviderDescription] = GOOD

    @hookimpl
    def jam_describe_provider(self) -> ProviderDescription:
        """Describe."""
        return self.description

    @hookimpl
    def jam_contribute_plan(self, context: PlanContext) -> PlanContribution:
        """Contribute."""
        return CONTRIBUTION.model_copy(update={"environment": (("GOOD_HOME", f"{context.state_root}/home"),)})

    @hookimpl
    def jam_prepare(self) -> Preparation:
        """Prepare one file."""
        return Preparation(files=(PreparedFile(path="home/config.toml", content="quiet = true\n"),))

    @hookimpl
    def jam_place_session(self, request: PlacementRequest) -> PlacementAnswer:
        """Take up to four sessions."""
        return PlacementAnswer(accepted=request.seats < 4, own_process=False)

    @hookimpl
    def jam_declare_capture(self) -> CaptureList:
        """Capture the logs."""
        entries = (CaptureEntry(pattern="home/logs/**", kind=CaptureKind.APPEND_ONLY),)
        return CaptureList(entries=entries, guest_scratch=(".good/scratch",), credential_patterns=("home/auth.json",))

    @hookimpl
    def jam_declare_activation(self) -> ActivationPlan:
        """Delete the index, check the logs."""
        return ActivationPlan(delete=("home/*.index",), check=("home/logs/*",))

    @hookimpl
    def jam_accepts_version(self, captured: str, current: str) -> bool:
        """Accept the same version."""
        return captured == current

    @hookimpl
    async def jam_check_credentials(self, view: CredentialView) -> CredentialReport:
        """Ready when it is there."""
        return CredentialReport(ready=view.present)

    @hookimpl
    async def jam_open_runtime(
        self, request: RuntimeRequest, launcher: GuestLauncher
    ) -> AbstractAsyncContextManager[ProviderRuntime]:
        """Return a context that starts nothing."""
        return _NoRuntime()


class ManagedOnlyProvider:
    """Three Dedicated cells and no continuity: the smallest useful plugin."""

    api_version: ClassVar[Any] = (1, 0)

    @hookimpl
    def jam_describe_provider(self) -> ProviderDescription:
        """Describe."""
        update = {"name": "managed_only", "cells": DEDICATED_MANAGED_CELLS, "continuity": False, "credential": None}
        return GOOD.model_copy(update=update)

    @hookimpl
    def jam_contribute_plan(self) -> PlanContribution:
        """Contribute next to nothing."""
        return PlanContribution(agent_image="managed-only")

    @hookimpl
    async def jam_open_runtime(self) -> AbstractAsyncContextManager[ProviderRuntime]:
        """Return a context that starts nothing."""
        return _NoRuntime()


class OtherInterfaceProvider(GoodProvider):
    """Written for another major version."""

    api_version = (2, 0)


class NoInterfaceProvider(GoodProvider):
    """Does not say which interface it was written for."""

    api_version = None


class MisspeltHookProvider(GoodProvider):
    """Has a hook that does not exist."""

    @hookimpl
    def jam_contribute_plam(self) -> PlanContribution:
        """Never called."""
        return CONTRIBUTION


class UnmarkedHookProvider(GoodProvider):
    """Overrides a hook and forgets the mark, so that it would never be called."""

    def jam_prepare(self) -> Preparation:
        """Never called."""
        return Preparation()


class WrongSignatureProvider(GoodProvider):
    """Wants an argument that no caller gives."""

    @hookimpl
    def jam_accepts_version(self, captured: str, current: str, host: str = "", *, session: str = "") -> bool:
        """Want a host and a session."""
        return True

    @hookimpl
    def jam_place_session(self, request: PlacementRequest, host_id: str) -> PlacementAnswer:  # type: ignore[override]
        """Want the host's id."""
        return PlacementAnswer(accepted=bool(host_id), own_process=request.seats > 0)


class WrongTypeProvider(GoodProvider):
    """Answers with something else than a record, in two hooks."""

    @hookimpl
    def jam_contribute_plan(self, context: PlanContext) -> PlanContribution:
        """Answer a dictionary."""
        return {"agent_image": context.home}  # type: ignore[return-value]

    @hookimpl
    def jam_accepts_version(self, captured: str, current: str) -> bool:
        """Answer a number."""
        return len(captured) - len(current)  # type: ignore[return-value]


class HiddenTypeProvider(GoodProvider):
    """Answers a record that was made without validation."""

    @hookimpl
    def jam_contribute_plan(self, context: PlanContext) -> PlanContribution:
        """Hide a number where a text belongs."""
        return CONTRIBUTION.model_copy(update={"environment": ((context.home, 7),)})


class CoroutineProvider(GoodProvider):
    """Answers a synchronous hook with a coroutine."""

    @hookimpl
    async def jam_declare_capture(self) -> CaptureList:  # type: ignore[override]
        """Be asynchronous where nobody waits."""
        return CaptureList(entries=())


class NotAwaitableProvider(GoodProvider):
    """Answers an asynchronous hook at once."""

    @hookimpl
    def jam_check_credentials(self, view: CredentialView) -> Awaitable[CredentialReport]:  # type: ignore[override]
        """Be synchronous where somebody waits."""
        return CredentialReport(ready=view.present)  # type: ignore[return-value]


class RaisingProvider(GoodProvider):
    """Raises in one hook."""

    @hookimpl
    def jam_contribute_plan(self, context: PlanContext) -> PlanContribution:
        """Fail for path-backed workspaces alone."""
        if context.cell.workspace is not WorkspaceSource.MANAGED:
            raise KeyError("no workspace")
        return CONTRIBUTION


class ExitingProvider(GoodProvider):
    """Ends the program in a hook, or would like to."""

    @hookimpl
    def jam_prepare(self) -> Preparation:
        """Exit."""
        raise SystemExit(3)


class CancellingProvider(GoodProvider):
    """Raises what cancels a task."""

    @hookimpl
    def jam_prepare(self) -> Preparation:
        """Pretend to be cancelled."""
        raise asyncio.CancelledError


class HangingProvider(GoodProvider):
    """A hook that comes back when ``release`` is set, which nobody does."""

    def __init__(self) -> None:
        self.release = threading.Event()

    @hookimpl
    def jam_prepare(self) -> Preparation:
        """Hang."""
        self.release.wait()
        return Preparation()


class AsyncHangingProvider(GoodProvider):
    """An asynchronous hook that never comes back."""

    @hookimpl
    async def jam_check_credentials(self, view: CredentialView) -> CredentialReport:
        """Wait for ever."""
        await asyncio.Event().wait()
        return CredentialReport(ready=view.present)


class MoodyProvider(GoodProvider):
    """Describes itself differently each time."""

    def __init__(self) -> None:
        self._calls = 0

    @hookimpl
    def jam_describe_provider(self) -> ProviderDescription:
        """Count the calls in the title."""
        self._calls += 1
        return GOOD.model_copy(update={"title": f"Good {self._calls}"})


class WrongNameProvider(GoodProvider):
    """Says that it is somebody else."""

    description = GOOD.model_copy(update={"name": "better"})


class BadSharedProvider(GoodProvider):
    """Publishes a shared cell that cannot exist."""

    _CELL = Cell(configuration=Configuration.JAM_MANAGED, workspace=WorkspaceSource.DIRECT_HOST, placement=Placement.SHARED)
    description = GOOD.model_copy(update={"cells": FULL_CELLS | {_CELL}})


class LeakingProvider(GoodProvider):
    """Puts secret-like and custody names into the guest's environment."""

    @hookimpl
    def jam_contribute_plan(self, context: PlanContext) -> PlanContribution:
        """Leak."""
        pairs = (("GOOD_API_KEY", context.home), ("MY_BAND_AGENT_KEY", "proxy-managed"))
        return CONTRIBUTION.model_copy(update={"environment": pairs})


class EscapingProvider(GoodProvider):
    """Names paths that leave their roots."""

    @hookimpl
    def jam_contribute_plan(self, context: PlanContext) -> PlanContribution:
        """Climb."""
        update = {
            "state_subdirectories": ("../other",),
            "guest_directories": (f"{context.home}/x",),
            "endpoint_paths": ("POST /a/../b",),
        }
        return CONTRIBUTION.model_copy(update=update)

    @hookimpl
    def jam_prepare(self) -> Preparation:
        """Climb."""
        return Preparation(files=(PreparedFile(path="home/../../x", content=""),))


class NoPlacementProvider(ManagedOnlyProvider):
    """A shared cell without the hook that places sessions."""

    @hookimpl
    def jam_describe_provider(self) -> ProviderDescription:
        """Describe."""
        return GOOD.model_copy(update={"name": "no_placement", "continuity": False, "credential": None})


class NoContinuityHooksProvider(ManagedOnlyProvider):
    """Promises continuity and declares nothing."""

    @hookimpl
    def jam_describe_provider(self) -> ProviderDescription:
        """Describe."""
        update = {"name": "no_continuity", "cells": DEDICATED_MANAGED_CELLS, "credential": None}
        return GOOD.model_copy(update=update)


class NoCredentialHookProvider(ManagedOnlyProvider):
    """Needs a credential and cannot judge one."""

    @hookimpl
    def jam_describe_provider(self) -> ProviderDescription:
        """Describe."""
        update = {"name": "no_credential", "cells": DEDICATED_MANAGED_CELLS, "continuity": False}
        return GOOD.model_copy(update=update)


class ColdProvider(GoodProvider):
    """Needs a sandbox before its runtime's context is entered."""

    @hookimpl
    async def jam_open_runtime(
        self, request: RuntimeRequest, launcher: GuestLauncher
    ) -> AbstractAsyncContextManager[ProviderRuntime]:
        """Start something at once."""
        await launcher.run(("true",), cwd=request.start_directory, timeout_s=1)
        raise FaultError

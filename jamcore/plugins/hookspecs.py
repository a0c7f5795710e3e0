"""The hooks of a provider plugin: one per decision that a provider makes.

A hook is called for exactly one provider's plugin, plus wrappers of policy plugins. Hooks take and return frozen records; decisions
are synchronous and pure. Two are asynchronous (``jam_check_credentials``, ``jam_open_runtime``) and are awaited only by the typed
facade, under a time limit. No argument names a host, a session, a checkpoint, a thread of another session or an operation (PLUG-3).
"""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import AbstractAsyncContextManager

import pluggy

from jamcore.domain.continuity import ActivationPlan, CaptureList
from jamcore.domain.plan import PlanContext, PlanContribution
from jamcore.domain.providers import (
    CredentialReport,
    CredentialView,
    PlacementAnswer,
    PlacementRequest,
    Preparation,
    ProviderDescription,
    RuntimeRequest,
)
from jamcore.plugins.runtime import GuestLauncher, ProviderRuntime

PROJECT = "jam"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


class ProviderSpecs:
    """The specifications, in the order in which a session meets them."""

    @hookspec(firstresult=True)
    def jam_describe_provider(self) -> ProviderDescription:
        """Say what the provider is. Called once when the plugin is loaded; must be the same at every call (CAP-3).

        .. versionadded:: 1.0
        """
        raise NotImplementedError

    @hookspec(firstresult=True)
    def jam_contribute_plan(self, context: PlanContext) -> PlanContribution:
        """Add the provider's part to a plan (PLAN-5). Pure; must not fail for any cell of the description.

        .. versionadded:: 1.0
        """
        raise NotImplementedError

    @hookspec(firstresult=True)
    def jam_prepare(self, context: PlanContext) -> Preparation:
        """Name the files that must lie in the state root before the program starts (PREP-3). Pure; called before each start.

        .. versionadded:: 1.0
        """
        raise NotImplementedError

    @hookspec(firstresult=True)
    def jam_place_session(self, request: PlacementRequest) -> PlacementAnswer:
        """Say whether one more session fits on a shared host, and in which process. Required by a Shared cell (CAP-6, SHARE-5).

        .. versionadded:: 1.0
        """
        raise NotImplementedError

    @hookspec(firstresult=True)
    def jam_declare_capture(self) -> CaptureList:
        """Declare which files a checkpoint holds and how (CONT-3). Pure and constant. Required for continuity.

        Databases that a resume needs lie in the guest's home and are declared by their paths there (CONT-5). Declare those alone: one that
        can be rebuilt costs every checkpoint its copy, and belongs into ``guest_scratch``.

        .. versionadded:: 1.0
        """
        raise NotImplementedError

    @hookspec(firstresult=True)
    def jam_declare_activation(self) -> ActivationPlan:
        """Declare what a restore deletes and checks besides placing the captured files (CONT-5). Required for continuity.

        .. versionadded:: 1.0
        """
        raise NotImplementedError

    @hookspec(firstresult=True)
    def jam_accepts_version(self, captured: str, current: str) -> bool:
        """Say whether program version ``current`` may resume what ``captured`` wrote. Pure. Required for continuity.

        .. versionadded:: 1.0
        """
        raise NotImplementedError

    @hookspec(firstresult=True)
    def jam_check_credentials(self, view: CredentialView) -> Awaitable[CredentialReport]:
        """Say whether the provider can work with what is there. Asynchronous. Required when a credential is described (CAP-6).

        .. versionadded:: 1.0
        """
        raise NotImplementedError

    @hookspec(firstresult=True)
    def jam_open_runtime(
        self, request: RuntimeRequest, launcher: GuestLauncher
    ) -> Awaitable[AbstractAsyncContextManager[ProviderRuntime]]:
        """Start the program in the guest and return its runtime as a context. Asynchronous.

        The awaitable returns quickly; the program starts when the context is entered and is gone when it is left.

        .. versionadded:: 1.0
        """
        raise NotImplementedError

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
    """The specifications, in the order in which a session meets them. docs/hooks.md is made of them.

    "Called" names each module of the core that asks, and when; a plugin is besides asked with probes when it is loaded (CAP-6).
    """

    @hookspec(firstresult=True)
    def jam_describe_provider(self) -> ProviderDescription:
        """Say what the provider is (CAP-3). Pure, and the same at every call.

        Returns:
            Facts: the name of the entry point again, the legal cells, the pinned program, the credential.

        Called:
            When the daemon loads the plugin (`jamcore.plugins.validation`), more than once; what it said then is kept.

        .. versionadded:: 1.0
        """
        raise NotImplementedError

    @hookspec(firstresult=True)
    def jam_contribute_plan(self, context: PlanContext) -> PlanContribution:
        """Add the provider's part to a plan (PLAN-5). Pure; must not fail for any cell of the description.

        Args:
            context: The legal cell, what the engine can do, and where things will lie in the guest.

        Returns:
            Directories, mounts, variables and endpoints that the program needs; the core decides whether they may be.

        Called:
            When a host is planned for a new room (`jamcore.sandbox.planning`), and before each start of its program
            (`jamcore.runtime.bringup`).

        .. versionadded:: 1.0
        """
        raise NotImplementedError

    @hookspec(firstresult=True)
    def jam_prepare(self, context: PlanContext) -> Preparation:
        """Name the files that must lie in the state root before the program starts (PREP-3). Pure. Without it there are none.

        Args:
            context: As of the contribution, with the paths as this guest sees them.

        Returns:
            Small files without secrets; the core writes them.

        Called:
            Before each start of the program (`jamcore.runtime.bringup`).

        .. versionadded:: 1.0
        """
        raise NotImplementedError

    @hookspec(firstresult=True)
    def jam_place_session(self, request: PlacementRequest) -> PlacementAnswer:
        """Say whether one more session fits on a shared host, and in which process (SHARE-5). Pure.

        Args:
            request: How many sessions are there.

        Returns:
            Yes or no with the reason, and whether the session gets a process of its own.

        Called:
            When a room asks for a seat on a host that others have, new or coming back (`jamcore.runtime.allocator`).

        .. versionadded:: 1.0
        """
        raise NotImplementedError

    @hookspec(firstresult=True)
    def jam_declare_capture(self) -> CaptureList:
        """Declare which files a checkpoint holds and how (CONT-3). Pure and constant.

        Databases that a resume needs lie in the guest's home and are declared by their paths there (CONT-5). Declare those alone: one that
        can be rebuilt costs every checkpoint its copy, and belongs into ``guest_scratch``.

        Returns:
            Patterns below the state root, databases and scratch below the guest's home, and what looks like a credential there.

        Called:
            Before each checkpoint and each resume (`jamcore.runtime.continuity`), before each start of the program
            (`jamcore.runtime.bringup`), and when a conversation is exported, restored, imported or adopted
            (`jamcore.daemon.export_sources`, `jamcore.daemon.restores`, `jamcore.daemon.imports`, `jamcore.daemon.adoptions`).

        .. versionadded:: 1.0
        """
        raise NotImplementedError

    @hookspec(firstresult=True)
    def jam_declare_activation(self) -> ActivationPlan:
        """Declare what a restore deletes and checks besides placing the captured files (CONT-5). Pure and constant.

        Returns:
            Patterns of files that must not outlive a restore, and of those that are checked after it.

        Called:
            When a conversation is brought back from a checkpoint (`jamcore.runtime.continuity`).

        .. versionadded:: 1.0
        """
        raise NotImplementedError

    @hookspec(firstresult=True)
    def jam_accepts_version(self, captured: str, current: str) -> bool:
        """Say whether one version of the program may resume what another wrote. Pure.

        Args:
            captured: The program's version when the checkpoint was made.
            current: The version that is installed now.

        Returns:
            Whether the conversation comes back exactly; when in doubt, no.

        Called:
            When a checkpoint is chosen for a resume or judged (`jamcore.runtime.continuity`), and when a conversation is exported with
            others or comes from elsewhere (`jamcore.daemon.export_sources`, `jamcore.daemon.imports`).

        .. versionadded:: 1.0
        """
        raise NotImplementedError

    @hookspec(firstresult=True)
    def jam_check_credentials(self, view: CredentialView) -> Awaitable[CredentialReport]:
        """Say whether the provider can work with what is there. Asynchronous, under a time limit.

        Args:
            view: Whether the credential is there, and where it comes from; never its text.

        Returns:
            Ready or not, with the reason and what a person can do.

        Called:
            When a room is asked for that uses the provider's own model endpoint (`jamcore.daemon.resolve`).

        .. versionadded:: 1.0
        """
        raise NotImplementedError

    @hookspec(firstresult=True)
    def jam_open_runtime(
        self, request: RuntimeRequest, launcher: GuestLauncher
    ) -> Awaitable[AbstractAsyncContextManager[ProviderRuntime]]:
        """Start the program in the guest and return its runtime as a context. Asynchronous, under a time limit.

        The awaitable returns quickly; the program starts when the context is entered and is gone when it is left.

        Args:
            request: Where things lie in this guest, and how the model is reached.
            launcher: Starts processes in this one prepared sandbox.

        Returns:
            The context of the running program: its threads and turns.

        Called:
            When a host is brought up, and for each session on a shared host that has a process of its own (`jamcore.runtime.bringup`).

        .. versionadded:: 1.0
        """
        raise NotImplementedError

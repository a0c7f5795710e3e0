"""From a stored host to a running provider, and back to parked: the one order in which that happens.

Decision and placement come first (nothing starts before the decision is stored, CONT-7), then the one preparation path, then the
baseline of the work tree, then the provider's runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

import anyio

from jamcore.domain.cells import Ability
from jamcore.domain.plan import GUEST_HOME, RELAY_URL, STATE_ROOT, TOOLS_ROOT, ModelEndpoint, Plan
from jamcore.domain.provider_rules import plan_context
from jamcore.domain.providers import RuntimeRequest
from jamcore.domain.sandboxes import Isolation
from jamcore.engines.port import Engine
from jamcore.plugins.provider import ProviderHooks
from jamcore.plugins.runtime import ProviderRuntime
from jamcore.runtime.continuity import HostContinuity
from jamcore.runtime.moved import forget_old_places
from jamcore.runtime.seat import Seat
from jamcore.runtime.standing import HostStanding
from jamcore.runtime.worktree import WorkTreeHiddenError, WorkTrees
from jamcore.sandbox.fence import Fenced, fence
from jamcore.sandbox.places import GuestView, guest_view
from jamcore.sandbox.planning import require_policies, require_stored_name
from jamcore.sandbox.prepare import PreparationRequest, Preparer
from jamcore.sandbox.prepared import Door, EndpointRoute, NetworkPolicy, PreparedExec
from jamcore.sandbox.teardown import NotParked, Sleep, park
from jamcore.system.blocking import in_thread
from jamcore.system.names import show_path
from jamcore.workspace.review import ReviewGitError

OpenRoute = Callable[[ModelEndpoint, str], AbstractAsyncContextManager[EndpointRoute]]
"""Opens the relay of an endpoint, with its credential looked up at that moment; the text is what its targets begin with."""

SHOWN_PATHS = 20
"""How many paths are named that are ahead of the conversation."""
_MARKS: Mapping[str, str] = MappingProxyType({"A": "+", "D": "-"})


class HostDoor(Door, Protocol):
    """A way in from the host's loopback: its address for the guest, and what every target of that address begins with."""

    @property
    def url(self) -> str:
        """The address."""

    @property
    def prefix(self) -> str:
        """The beginning of every target."""


@dataclass(frozen=True, slots=True)
class BringUp:
    """Everything that one host's worker starts and stops. Owned by the worker."""

    plan: Plan
    hooks: ProviderHooks
    engine: Engine
    preparer: Preparer
    open_route: OpenRoute
    open_door: Callable[[], AbstractAsyncContextManager[HostDoor]]
    continuity: HostContinuity
    standing: HostStanding
    work_trees: WorkTrees

    async def start(self, stack: AsyncExitStack, first: Seat, proven: Callable[[], None]) -> PreparedExec:
        """Bring the host up for its first seat, to a sandbox in which its provider can be started; the stack closes what was opened.

        What runs in the sandbox from a former life is stopped before anything else is done (SHARE-4). ``proven`` is called once the
        sandbox is there and proven to be this plan's: from then on it may be stopped.

        Raises:
            JamError: What did not work; a sandbox of ours is parked.
        """
        require_stored_name(self.plan, self.continuity.host.sandbox)
        await self._require_policies()
        await self.standing.take((first,))
        if await fence(self.preparer.ownership, self.plan) is Fenced.STOPPED:
            await self.standing.say(
                (first,), "host.fenced", "its sandbox ran on without a daemon; it was proven to be Jam's and stopped"
            )
        await self.continuity.activate(first)
        await self._forget_old_places()
        prepared = await self._prepare(stack, first, proven)
        if prepared.renewal:
            detail = f"the sandbox had lost or changed its own proof of ownership; the engine's proof held, and {prepared.renewal}"
            await self.standing.say((first,), "ownership.proof_renewed", detail)
        await self._keep_base(first)
        return prepared

    async def admit(self, seat: Seat) -> None:
        """Do for a session that joins a host that is up what :meth:`start` does for the first; the host itself is not touched.

        Raises:
            ContinuityRefusedError: Its state would have to be restored under its siblings' provider (CONT-11), or it may not start.
        """
        await self.standing.take((seat,))
        await self.continuity.activate(seat, may_restore=False)
        await self._keep_base(seat)

    async def open_runtime(self, prepared: PreparedExec) -> AbstractAsyncContextManager[ProviderRuntime]:
        """Return a provider's runtime in the prepared sandbox; its program starts when the context is entered.

        It starts in a fixed guest directory; each thread brings its own (SHARE-5).

        Raises:
            PreparationMismatchError: Something else than this host's plan and policy was prepared (PREP-2).
        """
        prepared.configure_environment(self.plan, NetworkPolicy(endpoint=self.plan.endpoint), ())
        return await self.hooks.open_runtime(self._request(prepared.view), prepared)

    async def _keep_base(self, seat: Seat) -> None:
        try:
            await self.work_trees.keep_base(self.continuity.host, seat.workspace, self.engine)
        except (WorkTreeHiddenError, ReviewGitError) as error:
            await self.standing.say((seat,), error.code, f"no change request can be built from these files: {error}")

    async def files_of(self, seat: Seat) -> str | None:
        """Return the digest of the session's work tree as it is now; ``None`` when it cannot be read (CONT-11).

        A work tree that cannot be read never keeps a conversation from going on: the room says so, and that is all.
        """
        try:
            return (await self.work_trees.review(self.continuity.host, seat.workspace, self.engine).snapshot()).tree
        except WorkTreeHiddenError:
            return None
        except (ReviewGitError, OSError) as error:
            await self.standing.say((seat,), "workspace.unreadable", f"the state of the files is not known: {error}")
            return None

    async def between(self, seat: Seat, before: str, now: str) -> str:
        """Say what differs between two states of a session's work tree, a bounded list of paths; nothing where that cannot be told."""
        try:
            changes = await self.work_trees.review(self.continuity.host, seat.workspace, self.engine).changes(before, now)
        except (WorkTreeHiddenError, ReviewGitError, OSError):
            return ""
        listed = ", ".join(f"{_MARKS.get(each.status, '~')} {show_path(each.path)}" for each in changes[:SHOWN_PATHS])
        more = f" and {len(changes) - SHOWN_PATHS} more" if len(changes) > SHOWN_PATHS else ""
        return f": {listed}{more}" if listed else ""

    async def park(self, told: NotParked, pause: Sleep = anyio.sleep) -> None:
        """Stop the sandbox and keep its disk, again and again until it is done."""
        await park(self.engine, self.plan.name, limit_s=self.preparer.limits.lifecycle_s, told=told, sleep=pause)

    async def _require_policies(self) -> None:
        """Nothing is started without what policies make mandatory: not while one is missing, nor from a plan that is older than one."""
        self.hooks.require_policies()
        if policies := self.hooks.wrapped_by("jam_contribute_plan"):
            context = plan_context(self.plan.provider, self.plan.cell, self.engine.abilities)
            wanted, own = await self.hooks.contribute_plan(context), await self.hooks.contribute_alone(context)
            require_policies(self.plan, policies=policies, wanted=wanted, own=own)

    async def _forget_old_places(self) -> None:
        scratch = (await self.hooks.declare_capture()).guest_scratch
        app, files = self.preparer.app_root, self.preparer.files
        await in_thread(lambda: forget_old_places(self.plan, app, scratch, files=files))

    async def _prepare(self, stack: AsyncExitStack, first: Seat, proven: Callable[[], None]) -> PreparedExec:
        context = plan_context(self.plan.provider, self.plan.cell, self.engine.abilities)
        door = await stack.enter_async_context(self.open_door()) if Ability.HOST_NETWORK in self.engine.abilities else None
        view = guest_view(self.plan, self.preparer.app_root, relay_url=door.url if door else RELAY_URL)
        prefix = door.prefix if door else ""
        route = await stack.enter_async_context(self.open_route(self.plan.endpoint, prefix)) if self.plan.endpoint else None
        request = PreparationRequest(
            plan=self.plan,
            policy=NetworkPolicy(endpoint=self.plan.endpoint),
            contribution=await self.hooks.contribute_plan(context),
            preparation=await self.hooks.prepare(view.context(context)),
        )
        prepared = await self.preparer.prepare(request, route=route, door=door, view=view, ensured=proven)
        stack.callback(prepared.shut)
        if await self.continuity.place_databases():
            await self.preparer.prepare_files_again(request, view)
        return prepared

    def _request(self, view: GuestView) -> RuntimeRequest:
        return RuntimeRequest(
            tools_root=view.path(f"{TOOLS_ROOT}/{self.plan.provider}"),
            state_root=view.path(f"{STATE_ROOT}/{self.plan.provider}"),
            home=view.path(GUEST_HOME),
            relay_url=view.relay_url,
            start_directory=view.path(GUEST_HOME),
            expected_version=self.plan.toolchain.version if self.plan.toolchain else None,
            shutdown_s=self.preparer.limits.child_shutdown_s,
            isolated=self.engine.isolation > Isolation.NONE,
        )

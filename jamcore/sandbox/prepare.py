"""The one preparation path, as ordered steps (PREP-1). Whatever fails after the sandbox is there, the sandbox ends parked.

The steps and their order are :data:`STEPS`; nothing prepares a sandbox in another way. A step is added here when there is something for
it to do.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import anyio

from jamcore.domain import layout
from jamcore.domain.cells import Ability, EngineLacksAbilityError
from jamcore.domain.errors import FaultError, InvalidInputError, RefusalError
from jamcore.domain.limits import Limits
from jamcore.domain.plan import GUEST_HOME, RELAY_PORT, AppPath, MountRole, Plan, PlanContribution, PlanMount
from jamcore.domain.providers import Preparation, ToolchainMissingError
from jamcore.domain.records import Record
from jamcore.domain.sandboxes import Presence
from jamcore.engines.port import Reaches
from jamcore.sandbox.ensure import Approve, Ensured, Renewal, ensure_created
from jamcore.sandbox.environment import guest_environment
from jamcore.sandbox.ownership import Ownership
from jamcore.sandbox.places import GuestView, extra_links, guest_view
from jamcore.sandbox.prepared import Door, EndpointRoute, Gate, NetworkPolicy, PreparationMismatchError, PreparedExec
from jamcore.sandbox.specification import spec_of
from jamcore.sandbox.state_files import StateTree
from jamcore.sandbox.teardown import park
from jamcore.system.files import Files
from jamcore.system.ids import IdSource

_MAKE_DIRECTORIES = 'umask 077 && mkdir -p -- "$@"'
MAKE_LINKS = """umask 077
while [ $# -gt 1 ]; do
  { [ -L "$1" ] || [ ! -e "$1" ]; } && mkdir -p -- "$(dirname -- "$1")" && ln -sfn -- "$2" "$1" || exit 4
  shift 2
done"""
"""Links from where the guest expects a directory to where it lies; what is no link is never replaced."""
_READABLE = 'for d; do [ -d "$d" ] && [ -r "$d" ] && [ -x "$d" ] || exit 3; done'


class PreparationRequest(Record):
    """What is prepared: the plan, the policy that must hold, and the plugin's part in both."""

    plan: Plan
    policy: NetworkPolicy
    contribution: PlanContribution
    preparation: Preparation = Preparation()


@dataclass(eq=False)
class PreparationFailedError(FaultError):
    """A step of the preparation failed; the sandbox was parked."""

    code: ClassVar[str] = "prepare.failed"
    hint: ClassVar[str] = "Resume the room to try again; the daemon's log has the details."

    sandbox: str
    step: str
    detail: str


@dataclass(eq=False)
class ReferenceNotReadyError(RefusalError):
    """A reference folder cannot be read in the guest; the sandbox was parked."""

    code: ClassVar[str] = "prepare.reference_not_ready"
    hint: ClassVar[str] = "Make the folder readable, or leave it out."

    sandbox: str
    paths: tuple[str, ...]


@dataclass(slots=True)
class _Work:
    """One preparation as it goes; owned by the call of :meth:`Preparer.prepare`."""

    request: PreparationRequest
    route: EndpointRoute | None
    approve: Approve | None
    door: Door | None
    view: GuestView
    gate: Gate = field(default_factory=Gate)
    outcome: Ensured | None = None
    renewal: Renewal | None = None

    @property
    def plan(self) -> Plan:
        return self.request.plan


def _unwatched(_step: str) -> None:
    return None


def _unnoted() -> None:
    return None


class Preparer:
    """Prepares sandboxes of one engine. ``reached`` is told each step's name when it is done: tests fail or kill there."""

    def __init__(
        self,
        app_root: Path,
        *,
        ownership: Ownership,
        files: Files,
        ids: IdSource,
        reached: Callable[[str], None] = _unwatched,
        park_sandbox: Callable[[str], Awaitable[object]] | None = None,
    ) -> None:
        self.app_root = app_root
        self.ownership = ownership
        self.engine = ownership.engine
        self.files = files
        self.ids = ids
        self._reached = reached
        self.limits: Limits = ownership.limits
        self._park = park_sandbox or self._park_here

    async def prepare(
        self,
        request: PreparationRequest,
        *,
        route: EndpointRoute | None = None,
        door: Door | None = None,
        view: GuestView | None = None,
        approve: Approve | None = None,
        ensured: Callable[[], None] = _unnoted,
    ) -> PreparedExec:
        """Take every step in order and return the prepared sandbox.

        Args:
            request: The plan, its policy and the plugin's part.
            route: The relay of the policy's endpoint; its owner keeps it open for as long as the sandbox runs.
            door: Where connections come in when the guest's loopback is the host's; its owner keeps it open as well.
            view: What the guest sees; by default what the plan says.
            approve: Asked before a sandbox is created; raises when it is not to be.
            ensured: Told once the sandbox runs and is proven to be the plan's: who asked sees to it that it is parked, where this cannot.

        Raises:
            JamError: A step failed, was refused or took too long. A sandbox of ours that exists by then was parked.
        """
        work = _Work(request, route, approve, door, view or guest_view(request.plan, self.app_root))
        name = "begin"
        try:
            with anyio.fail_after(self.limits.prepare_s):
                for name, step in STEPS:
                    await anyio.lowlevel.checkpoint_if_cancelled()
                    await step(self, work)
                    if step is _ensure_created:
                        ensured()
                    self._reached(name)
        except BaseException as error:
            work.gate.close()
            if work.outcome is not None:
                await self._park_after(error, work.plan.name)
            if isinstance(error, TimeoutError | OSError):
                raise PreparationFailedError(sandbox=work.plan.name, step=name, detail=str(error) or "took too long") from error
            raise
        assert work.outcome is not None
        return PreparedExec(
            engine=self.engine,
            plan=work.plan,
            policy=request.policy,
            outcome=work.outcome,
            renewal=work.renewal,
            gate=work.gate,
            view=work.view,
        )

    async def prepare_files_again(self, request: PreparationRequest, view: GuestView) -> None:
        """Write the provider's own directories and files again, in a prepared sandbox whose state was restored since."""
        work = _Work(request, None, None, None, view)
        await _make_directories(self, work)
        await _make_guest_directories(self, work)

    async def _park_after(self, error: BaseException, sandbox: str) -> None:
        with anyio.move_on_after(self.limits.finalise_s, shield=True) as scope:
            await self._park(sandbox)
        if scope.cancelled_caught:
            error.add_note(f"{sandbox} could not be parked within {self.limits.finalise_s:g} s")

    async def _park_here(self, sandbox: str) -> None:
        await park(self.engine, sandbox, limit_s=self.limits.lifecycle_s)


async def _overlay_environment(_preparer: Preparer, work: _Work) -> None:
    """The plan was checked when it was built; it may have been stored since by an older Jam with other rules (ENV-2)."""
    guest_environment(work.plan.environment)


async def _make_directories(preparer: Preparer, work: _Work) -> None:
    """Everything that is mounted exists, with the provider's own directories and files, before the sandbox does (PREP-3)."""
    host = work.plan.owner.stable_id
    for mount in work.plan.mounts:
        if mount.role is MountRole.TOOLCHAIN and not (preparer.app_root / mount.source.path).exists():
            raise ToolchainMissingError(provider=work.plan.provider, problem=f"{preparer.app_root / mount.source.path} is gone")
    for relative in (
        layout.guest_disk(host),
        layout.provider_state(host, work.plan.provider),
        _primary_directory(work.plan) or f"{layout.workspace_root(host)}/sessions",
    ):
        if not (preparer.app_root / relative).exists():
            preparer.files.make_private(preparer.app_root / relative)
    tree = StateTree(preparer.app_root.resolve() / layout.provider_state(host, work.plan.provider), files=preparer.files)
    contribution = work.request.contribution
    for relative in (*contribution.state_subdirectories, *(extra.subdirectory for extra in contribution.extra_mounts)):
        tree.make_directory(relative)
    for file in work.request.preparation.files:
        tree.write_file(file.path, file.content.encode())


def _primary_directory(plan: Plan) -> str | None:
    """Return the directory of Jam's own that is the primary workspace, if it is one."""
    primary = plan.primary
    return primary.source.path if isinstance(primary, PlanMount) and isinstance(primary.source, AppPath) else None


async def _set_gate(preparer: Preparer, work: _Work) -> None:
    """The engine learns where connections to the endpoint go before the sandbox starts; they are refused until the policy holds."""
    plan, engine = work.plan, preparer.engine
    if work.request.policy.endpoint != plan.endpoint:
        raise PreparationMismatchError(sandbox=plan.name, part="policy")
    if plan.endpoint is None:
        return
    if work.route is None or work.route.endpoint != plan.endpoint:
        raise PreparationMismatchError(sandbox=plan.name, part="endpoint route")
    if Ability.HOST_NETWORK in engine.abilities and work.door is not None:
        work.door.hand_to(work.gate.accept)
        return
    if Ability.REACH not in engine.abilities or not isinstance(engine, Reaches):
        raise EngineLacksAbilityError(
            provider=plan.provider, engine=engine.name, asked=str(plan.cell), missing=(Ability.REACH.value,), nearest=()
        )
    engine.on_connection(plan.name, RELAY_PORT, work.gate.accept)


async def _ensure_created(preparer: Preparer, work: _Work) -> None:
    if work.plan.engine != preparer.engine.name:
        raise InvalidInputError(field="plan.engine", problem=f"planned for {work.plan.engine}, not for {preparer.engine.name}")
    there = await preparer.ownership.calls.presence(work.plan.name) is not Presence.ABSENT
    spec = spec_of(work.plan, preparer.app_root, abilities=preparer.engine.abilities, cloned=there)

    def note(renewal: Renewal) -> None:
        work.renewal = renewal

    work.outcome = await ensure_created(preparer.ownership, work.plan, spec, ids=preparer.ids, approve=work.approve, note=note)


async def _check_cancellation(_preparer: Preparer, _work: _Work) -> None:
    """A caller that went away during a long creation gets no provider started on its behalf."""
    await anyio.lowlevel.checkpoint()


async def _make_guest_directories(preparer: Preparer, work: _Work) -> None:
    """The provider's directories on the guest's own disk."""
    paths = tuple(work.view.path(f"{GUEST_HOME}/{name}") for name in work.request.contribution.guest_directories)
    if paths and (code := await _shell(preparer, work, _MAKE_DIRECTORIES, paths)) != 0:
        raise PreparationFailedError(sandbox=work.plan.name, step="guest-directories", detail=f"mkdir ended with code {code}")
    links = tuple(path for pair in extra_links(work.plan, work.view) for path in pair)
    if links and (code := await _shell(preparer, work, MAKE_LINKS, links)) != 0:
        raise PreparationFailedError(sandbox=work.plan.name, step="guest-directories", detail=f"ln ended with code {code}")


async def _check_references(preparer: Preparer, work: _Work) -> None:
    paths = tuple(work.view.path(mount.guest_path) for mount in work.plan.mounts if mount.role is MountRole.REFERENCE)
    if paths and await _shell(preparer, work, _READABLE, paths) != 0:
        raise ReferenceNotReadyError(sandbox=work.plan.name, paths=paths)


async def _reconcile_policy(_preparer: Preparer, work: _Work) -> None:
    """An engine whose guests have no network but the gate: the policy is exactly whether the gate is open, and for which route."""
    if work.route is not None and work.plan.endpoint is not None:
        work.gate.open(work.route)


async def _shell(preparer: Preparer, work: _Work, script: str, arguments: tuple[str, ...]) -> int | None:
    argv = ("/bin/sh", "-c", script, "jam-prepare", *arguments)
    return (await preparer.ownership.calls.command(work.plan.name, argv, limit=0)).code


STEPS: tuple[tuple[str, Callable[[Preparer, _Work], Awaitable[None]]], ...] = (
    ("environment-overlay", _overlay_environment),
    ("provider-directories", _make_directories),
    ("endpoint-gate", _set_gate),
    ("ensure-created", _ensure_created),
    ("cancellation-check", _check_cancellation),
    ("reference-readiness", _check_references),
    ("guest-directories", _make_guest_directories),
    ("network-policy", _reconcile_policy),
)
"""The order is the contract (PREP-1)."""

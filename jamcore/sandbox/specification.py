"""From a plan to what an engine is told: host paths are resolved here, and nothing outside Jam's storage passes (ENG-6)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from jamcore.domain import layout
from jamcore.domain.cells import Ability
from jamcore.domain.errors import RefusalError
from jamcore.domain.plan import RELAY_PORT, AppPath, ClonePlan, Plan, PlanMount
from jamcore.domain.sandboxes import CloneSource, HostMount, SandboxSpec
from jamcore.sandbox.places import GuestView, guest_view


@dataclass(eq=False)
class UnsafePathError(RefusalError):
    """A path of the plan is not there, leads out of Jam's storage, or would show Jam's own records to a guest (ENG-6)."""

    code: ClassVar[str] = "plan.unsafe_path"
    hint: ClassVar[str] = "Look at the named path; name another one, or remove the symbolic link."

    path: str
    problem: str


def spec_of(plan: Plan, app_root: Path, *, abilities: frozenset[Ability], cloned: bool = False) -> SandboxSpec:
    """Return the engine's specification of a plan. Every directory exists already (PREP-3).

    Args:
        plan: The plan.
        app_root: The app directory, wherever it lies now (PLAN-4).
        abilities: The engine's.
        cloned: Whether the sandbox exists: then its clone is whole, and the repository that it came from is needed no more.

    Raises:
        UnsafePathError: A directory is missing, is or is reached by a symbolic link, or holds Jam's app directory.
    """
    root = app_root.resolve()
    view = guest_view(plan, root)
    mounts = [*([plan.primary] if isinstance(plan.primary, PlanMount) else []), *plan.mounts]
    clone = plan.primary if isinstance(plan.primary, ClonePlan) else None
    return SandboxSpec(
        name=plan.name,
        guest_disk=str(below(root, layout.guest_disk(plan.owner.stable_id))),
        # A mount inside another one must come after it.
        mounts=tuple(_mount(mount, root, view) for mount in sorted(mounts, key=lambda mount: mount.guest_path)),
        clone=None if clone is None else _clone(clone, root, view, needed=not cloned),
        environment=view.environment(plan.environment),
        resources=plan.resources,
        reach_ports=(RELAY_PORT,) if plan.endpoint is not None and Ability.REACH in abilities else (),
    )


def below(root: Path, relative: str) -> Path:
    """Return the directory ``relative`` of an already resolved root, which must exist and be reached without a symbolic link.

    Raises:
        UnsafePathError: It does not, or is not.
    """
    wanted = root / relative
    found = _resolve(wanted)
    if found != wanted or not found.is_relative_to(root):
        raise UnsafePathError(path=str(wanted), problem="it leads out of Jam's directory or through a symbolic link")
    return found


def _mount(mount: PlanMount, root: Path, view: GuestView) -> HostMount:
    owned = isinstance(mount.source, AppPath)
    path = below(root, mount.source.path) if owned else _persons(mount.source.path, root)
    return HostMount(host_path=str(path), guest_path=view.path(mount.guest_path), access=mount.access, owned=owned)


def _clone(clone: ClonePlan, root: Path, view: GuestView, *, needed: bool) -> CloneSource:
    path = _resolve(Path(clone.source.path)) if needed else Path(clone.source.path)
    if path != Path(clone.source.path) or path.is_relative_to(root):
        raise UnsafePathError(path=clone.source.path, problem="not the directory that was asked for, or inside Jam's own")
    return CloneSource(host_path=str(path), commit=clone.commit, guest_path=view.path(clone.guest_path))


def _persons(path: str, root: Path) -> Path:
    """Accept a person's directory as the plan recorded it; never one that holds Jam's credentials and records, or lies among them."""
    found = _resolve(Path(path))
    if found != Path(path):
        raise UnsafePathError(path=path, problem="it became a symbolic link since it was planned")
    if found.is_relative_to(root) or root.is_relative_to(found):
        raise UnsafePathError(path=path, problem="it would show Jam's own directory to the guest")
    return found


def _resolve(path: Path) -> Path:
    try:
        found = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise UnsafePathError(path=str(path), problem=f"cannot be reached: {error}") from error
    if not found.is_dir():
        raise UnsafePathError(path=str(path), problem="not a directory")
    return found

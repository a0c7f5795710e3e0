"""Where a guest sees what its plan puts at fixed guest paths: there, or, where the engine shows host paths, at those (PLAN-4).

A plan names guest paths that are the same on every machine, and host directories below the app directory relative to it. For an engine
that cannot choose guest paths the plan says so in one word (:class:`~jamcore.domain.plan.GuestPaths`), and both are resolved together,
here, whenever the plan meets a machine. So moving the app directory changes no plan on any engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from jamcore.domain import layout
from jamcore.domain.plan import (
    GUEST_HOME,
    RELAY_URL,
    STATE_ROOT,
    AppPath,
    ClonePlan,
    GuestPaths,
    MountRole,
    Plan,
    PlanContext,
    PlanMount,
    Source,
)

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class GuestView:
    """What a guest sees of one plan on this machine.

    ``places`` are pairs of a planned and a seen path, the most particular first; none: everything is where the plan says. ``relay_url``
    is how the guest reaches its model endpoint.
    """

    places: Pairs
    relay_url: str = RELAY_URL

    def path(self, planned: str) -> str:
        """Return where the guest sees a path of the plan. One that lies in no place is seen where it says."""
        for place, seen in self.places:
            if planned == place or planned.startswith(f"{place}/"):
                return seen + planned[len(place) :]
        return planned

    def environment(self, pairs: Pairs) -> Pairs:
        """Return variables of a plan as the guest needs them: paths, lists of paths and the endpoint's address are translated."""
        return tuple((name, self._value(value)) for name, value in pairs)

    def context(self, planned: PlanContext) -> PlanContext:
        """Return what a plugin is told of this guest, from what it is told when it plans, which is the same on every machine."""
        seen = {name: self.path(getattr(planned, name)) for name in ("state_root", "tools_root", "home")}
        return planned.model_copy(update={**seen, "relay_url": self.relay_url})

    def _value(self, value: str) -> str:
        if value == RELAY_URL or value.startswith(f"{RELAY_URL}/"):
            return self.relay_url + value[len(RELAY_URL) :]
        return ":".join(self.path(part) for part in value.split(":"))


def guest_view(plan: Plan, app_root: Path, *, relay_url: str = RELAY_URL) -> GuestView:
    """Return the view of a plan's guest, with the app directory where it lies now."""
    if plan.paths is GuestPaths.FIXED:
        return GuestView((), relay_url)
    places = sorted(_places(plan, app_root.resolve()), key=lambda place: len(place[0]), reverse=True)
    return GuestView(tuple(places), relay_url)


def extra_links(plan: Plan, view: GuestView) -> Pairs:
    """Return where a guest expects the provider's extra directories, and where they lie, if those are not one place.

    A provider knows its home and its state root and builds the rest itself; nothing is mounted for a guest that sees host paths, so what
    it expects elsewhere is reached by a link.
    """
    if plan.paths is GuestPaths.FIXED:
        return ()
    roots = (GUEST_HOME, f"{STATE_ROOT}/{plan.provider}")
    found = []
    for mount in plan.mounts:
        root = next((root for root in roots if mount.guest_path.startswith(f"{root}/")), None)
        if mount.role is MountRole.EXTRA and root is not None:
            expected = view.path(root) + mount.guest_path[len(root) :]
            found.append((expected, view.path(mount.guest_path)))
    return tuple(pair for pair in found if pair[0] != pair[1])


def _places(plan: Plan, root: Path) -> Iterator[tuple[str, str]]:
    disk = root / layout.guest_disk(plan.owner.stable_id)
    if plan.paths is GuestPaths.HOST:
        yield GUEST_HOME, str(disk / "home")
    if isinstance(plan.primary, ClonePlan):
        yield plan.primary.guest_path, str(disk / "clone")
    for mount in (*((plan.primary,) if isinstance(plan.primary, PlanMount) else ()), *plan.mounts):
        yield mount.guest_path, _on_host(mount.source, root)


def _on_host(source: Source, root: Path) -> str:
    return str(root / source.path) if isinstance(source, AppPath) else source.path

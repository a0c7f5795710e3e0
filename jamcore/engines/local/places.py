"""Where a local sandbox's directories lie, and what of a specification this engine cannot do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jamcore.domain.plan import GUEST_HOME
from jamcore.domain.sandboxes import EngineFailedError, SandboxSpec
from jamcore.engines.local.names import ENGINE


@dataclass(frozen=True, slots=True)
class Places:
    """The sandbox's own directories: home, temporary files, and the private clone when there is one."""

    home: Path
    temporary: Path
    clone: Path | None

    @classmethod
    def of(cls, spec: SandboxSpec) -> Places:
        """Return the places of a specification."""
        disk = Path(spec.guest_disk)
        return cls(home=disk / "home", temporary=disk / "tmp", clone=Path(spec.clone.guest_path) if spec.clone else None)


def require_possible(spec: SandboxSpec) -> None:
    """Accept a specification whose guest paths are host paths, which is all that a host process can see (ENG-6).

    Raises:
        EngineFailedError: What is wrong with it.
    """
    if not spec.name or "/" in spec.name or spec.name.startswith("."):
        raise _refused(f"not a sandbox name: {spec.name!r}")
    for mount in spec.mounts:
        if mount.guest_path != mount.host_path:
            raise _refused(f"a host process sees {mount.host_path} there, not at {mount.guest_path}")
    if spec.clone is not None and not Path(spec.clone.guest_path).is_relative_to(spec.guest_disk):
        raise _refused("the clone must lie on the sandbox's own disk")
    if spec.reach_ports:
        raise _refused("host processes share the host's loopback: no port of it is the sandbox's own")


def host_path(spec: SandboxSpec, path: str) -> Path:
    """Return a path of the sandbox as it is on the host, which is the same; :data:`GUEST_HOME` names the home here too.

    Raises:
        EngineFailedError: It lies in no place of the sandbox, or is reached through a link.
    """
    places = Places.of(spec)
    if path == GUEST_HOME or path.startswith(f"{GUEST_HOME}/"):
        path = f"{places.home}{path.removeprefix(GUEST_HOME)}"
    clone: tuple[Path, ...] = () if places.clone is None else (places.clone,)
    mounts = (Path(mount.host_path) for mount in spec.mounts)
    for place in (places.home, *clone, *mounts):
        if path == str(place) or path.startswith(f"{place}/"):
            found = place / path[len(str(place)) :].lstrip("/")
            if found.resolve() == place.resolve() / path[len(str(place)) :].lstrip("/"):
                return found
    raise EngineFailedError(engine=ENGINE, operation="host-view", detail=f"no place of the sandbox holds {path}")


def _refused(detail: str) -> EngineFailedError:
    return EngineFailedError(engine=ENGINE, operation="specification", detail=detail)

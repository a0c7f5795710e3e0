"""What this engine refuses of a specification before it touches anything (ENG-6)."""

from __future__ import annotations

import posixpath

from jamcore.domain.sandboxes import EngineFailedError, SandboxSpec
from jamcore.engines.bubblewrap.names import ENGINE

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/proc", "/dev", "/sys", "/run")
RESERVED = (*_SYSTEM, "/jam/init", "/jam/python")
"""Where the sandbox's own system lies: nothing of a plan may hide it."""


def require_possible(spec: SandboxSpec) -> None:
    """Check names and guest paths.

    Raises:
        EngineFailedError: What is wrong with them.
    """
    if not spec.name or "/" in spec.name or spec.name.startswith("."):
        raise _refused(f"not a sandbox name: {spec.name!r}")
    paths = [mount.guest_path for mount in spec.mounts] + ([spec.clone.guest_path] if spec.clone else [])
    for path in paths:
        if not path.startswith("/") or posixpath.normpath(path) != path or path == "/":
            raise _refused(f"not a plain absolute guest path: {path!r}")
        if any(path == place or path.startswith(f"{place}/") for place in RESERVED):
            raise _refused(f"the sandbox's own system lies at {path}")
    if len(set(paths)) != len(paths):
        raise _refused("two mounts at one guest path")
    if any(not 1 <= port <= 65535 for port in spec.reach_ports):
        raise _refused(f"not TCP ports: {spec.reach_ports}")


def _refused(detail: str) -> EngineFailedError:
    return EngineFailedError(engine=ENGINE, operation="specification", detail=detail)

"""The host's directories of a sandbox, looked at before each start (ENG-6)."""

from __future__ import annotations

import os

from jamcore.domain.sandboxes import EngineFailedError, SandboxSpec


def require_real_directories(spec: SandboxSpec, *, engine: str) -> None:
    """Check that what is shown to a guest is a directory at exactly its path: the core resolved it, so no link is in it.

    Raises:
        EngineFailedError: A path is none, or leads elsewhere.
    """
    for path in (spec.guest_disk, *(mount.host_path for mount in spec.mounts)):
        problem = ""
        if not os.path.isdir(path):  # noqa: PTH112 - compared as text
            problem = f"not a directory: {path}"
        elif os.path.realpath(path) != path:
            problem = f"{path} leads elsewhere, through a symbolic link"
        if problem:
            raise EngineFailedError(engine=engine, operation="specification", detail=problem)

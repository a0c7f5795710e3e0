"""The daemon's lasting id: one for each app directory, made once."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from jamcore.domain.ids import DaemonId
from jamcore.system.files import Files
from jamcore.system.ids import IdSource
from jamcore.system.lock import AppDirectoryUnusableError

NAME = "cfg/daemon-id"


def daemon_identity(app: Path, *, files: Files, ids: IdSource) -> DaemonId:
    """Return the app directory's daemon id, making it at the first start.

    Raises:
        AppDirectoryUnusableError: The file is there and is not one, or it cannot be written.
    """
    path = app / NAME
    try:
        if path.exists():
            return DaemonId(UUID(path.read_text(encoding="ascii").strip()))
        files.make_private(path.parent)
        made = ids.uuid()
        files.write_atomic(path, f"{made}\n".encode())
    except (OSError, ValueError) as error:
        raise AppDirectoryUnusableError(directory=str(app), problem=f"{NAME}: {error}") from error
    return DaemonId(made)

"""Looks at the manifests of hosts, and keeps one that is not theirs beside the one that is (START-3)."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from uuid import UUID

from pydantic import ValidationError

from jamcore.domain import layout
from jamcore.domain.reconciling import ManifestState, PlaceFound, WorkspacePlace
from jamcore.system.files import Files
from jamcore.workspace.provision import HostManifest

LONGEST = 64 << 10
"""Bytes of a manifest that are read; a longer one is none."""
_NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR})


def expected(place: WorkspacePlace) -> HostManifest:
    """Return the manifest that the host's directory should have."""
    return HostManifest(
        agent_id=place.agent_id,
        host_id=place.host_id,
        provider=place.provider,
        sandbox=place.sandbox,
        created_at=place.created_at,
    )


class Manifests:
    """Reads and keeps manifests of one app directory. Blocking: call it in a worker thread."""

    def __init__(self, app: Path, *, files: Files) -> None:
        self._app = app
        self._files = files

    def look(self, place: WorkspacePlace) -> PlaceFound:
        """Return what lies there: one small read, and one look at a name.

        Raises:
            OSError: The machine cannot say; that is not the same as not there.
        """
        return PlaceFound(manifest=self._manifest(place), directory=self._is_directory(place.own))

    def read(self, host: UUID) -> bytes:
        """Return the beginning of what lies in the manifest's place.

        Raises:
            OSError: Nothing can be read there.
        """
        opened = os.open(self._path(host), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return os.read(opened, LONGEST)
        finally:
            os.close(opened)

    def keep_aside(self, host: UUID, name: str) -> bool:
        """Give what lies in the manifest's place another name beside it; ``False`` when nothing does. The same again is fine.

        Raises:
            OSError: It could not be renamed; it is where it was.
        """
        path = self._path(host)
        if not os.path.lexists(path) or os.path.lexists(path.with_name(name)):
            return False
        self._files.rename(path, path.with_name(name))
        return True

    def kept(self, host: UUID, prefix: str) -> tuple[str, ...]:
        """Return the names below the host's directory that begin so, sorted."""
        try:
            names = (path.name for path in (self._app / layout.host_root(host)).iterdir())
            return tuple(sorted(name for name in names if name.startswith(prefix)))
        except OSError:
            return ()

    def _manifest(self, place: WorkspacePlace) -> ManifestState:
        wanted = expected(place)
        try:
            text = self.read(place.host_id)
        except OSError as error:
            if error.errno in _NOT_THERE:
                return ManifestState.MISSING
            if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
                return ManifestState.UNREADABLE
            raise
        if text == wanted.canonical_json() + b"\n":
            return ManifestState.SOUND
        try:
            found = HostManifest.model_validate_json(text)
        except ValidationError:
            return ManifestState.UNREADABLE
        return ManifestState.SOUND if found.is_of_same_host(wanted) else ManifestState.ANOTHERS

    def _is_directory(self, own: str | None) -> bool:
        if own is None:
            return True
        try:
            return stat.S_ISDIR(os.lstat(self._app / own).st_mode)
        except OSError as error:
            if error.errno in _NOT_THERE:
                return False
            raise

    def _path(self, host: UUID) -> Path:
        return self._app / layout.manifest(host)

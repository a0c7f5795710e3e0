"""What a host has on the disk, in its own directory and beside it, and its removal: by descriptor, below the app directory alone (WS-8)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType
from uuid import UUID

from jamcore.domain import layout
from jamcore.domain.cleanup_plans import CleanupItem
from jamcore.system.files import Files
from jamcore.system.trees import DIRECTORY_FLAGS, names_in, open_root, owned, status_of
from jamcore.system.usage import BLOCK, Usage, mounts_below, usage_of
from jamcore.workspace.keeping.aside import SetAside

WHAT = MappingProxyType(
    {
        "workspace-root": "workspaces",
        "provider-state": "provider state",
        "guest-disk": "guest disk",
        "recovery": "checkpoints",
        "manifest.json": "manifest",
    }
)
"""What lies under each name of a host's directory; anything else is shown by its name."""
DISK = "guest-disk"
_MOST_NAMES = 1000


class HostFiles:
    """The directories of hosts in one app directory. Blocking: call it in a worker thread."""

    def __init__(self, app: Path, *, files: Files) -> None:
        self._app = app
        self._aside = SetAside(app, files=files)

    def mounted(self, host: UUID) -> tuple[str, ...]:
        """Return what is mounted at or below the directory."""
        return mounts_below(self._app / layout.host_root(host))

    def items(self, host: UUID, *, disk_goes: bool, alive: Callable[[], None]) -> tuple[CleanupItem, ...]:
        """Return everything in a host's directory, by name, and the directory itself; nothing when it is gone.

        Args:
            host: Whose.
            disk_goes: The engine removes the guest disk with the sandbox.
            alive: Called often; raises when the caller gave up.

        Raises:
            OSError: Something cannot be looked at.
        """
        found = []
        for name, usage in self.usage(host, alive=alive):
            if not name:
                found.append(CleanupItem(what="the directory itself", path=layout.host_root(host), bytes=usage.bytes, entries=1))
                continue
            goes = disk_goes and name == DISK
            found.append(_item(WHAT.get(name, name), f"{layout.host_root(host)}/{name}", usage, with_sandbox=goes))
        return tuple(found)

    def usage(self, host: UUID, *, at_most: int | None = None, alive: Callable[[], None]) -> Iterator[tuple[str, Usage]]:
        """Yield what each name of a host's directory takes, and the directory itself under the empty name; nothing when it is gone.

        Args:
            host: Whose.
            at_most: Entries that are looked at; the rest is left uncounted.
            alive: Called often; raises when the caller gave up.

        Raises:
            OSError: Something cannot be looked at.
        """
        with owned(open_root(self._app / layout.HOSTS)) as hosts:
            if status_of(hosts, _name(host)) is None:
                return
            with owned(os.open(_name(host), DIRECTORY_FLAGS, dir_fd=hosts)) as root:
                yield from self._usage(root, at_most, alive)

    def owner_records(self, sandbox: str) -> tuple[CleanupItem, ...]:
        """Return what proves that a sandbox is Jam's, and goes last with it.

        Raises:
            OSError: Something cannot be looked at.
        """
        found = []
        for what, path in (
            ("owner marker", layout.owner_marker(sandbox)),
            ("unfinished creation", layout.pending_cleanup(sandbox)),
        ):
            if (usage := self._beside(path)) is not None:
                found.append(_item(what, path, usage, in_root=False))
        return tuple(found)

    def has_disk(self, host: UUID) -> bool:
        """Say whether anything lies on the guest's disk."""
        disk = self._app / layout.guest_disk(host)
        return disk.is_dir() and any(disk.iterdir())

    def has(self, path: str) -> bool:
        """Say whether anything lies at a path below the app directory.

        Raises:
            OSError: It cannot be said.
        """
        return self._aside.is_there(path)

    def set_aside(self, host: UUID) -> None:
        """Give the directory another name durably; that it has it, or is gone, is fine.

        Raises:
            OSError: It could not be renamed, or something is mounted there.
        """
        if self.is_there(host):
            self._aside.move(layout.host_root(host), layout.removed_host(host))

    def is_there(self, host: UUID) -> bool:
        """Say whether a host's directory has its own name."""
        return self._aside.is_there(layout.host_root(host))

    def remove(self, host: UUID) -> None:
        """Remove what was set aside; that it is gone is fine.

        Raises:
            OSError: Something could not be removed, or something is mounted there; what is left can be removed again.
        """
        self._aside.remove(layout.removed_host(host))

    def _usage(self, root: int, at_most: int | None, alive: Callable[[], None]) -> Iterator[tuple[str, Usage]]:
        names = names_in(root, _MOST_NAMES)
        if len(names) > _MOST_NAMES:
            raise OSError(f"the directory has more than {_MOST_NAMES} names")
        for name in names:
            if (usage := usage_of(root, name, at_most=at_most, alive=alive)) is not None:
                at_most = None if at_most is None else max(0, at_most - usage.entries)
                yield name.decode("utf-8", "backslashreplace"), usage
        yield "", Usage(bytes=os.fstat(root).st_blocks * BLOCK, entries=1)

    def _beside(self, path: str) -> Usage | None:
        parent, _, name = path.rpartition("/")
        if not (self._app / parent).is_dir():
            return None
        with owned(open_root(self._app / parent)) as directory:
            return usage_of(directory, name.encode())


def _item(what: str, path: str, usage: Usage, *, in_root: bool = True, with_sandbox: bool = False) -> CleanupItem:
    return CleanupItem(
        what=what,
        path=path,
        bytes=usage.bytes,
        entries=usage.entries,
        state=usage.state,
        in_root=in_root,
        with_sandbox=with_sandbox,
    )


def _name(host: UUID) -> bytes:
    return str(host).encode()

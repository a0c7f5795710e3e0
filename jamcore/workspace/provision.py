"""Makes the directories of a host and a session, and the manifest that says whose they are (WS-1, START-3)."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Literal
from uuid import UUID

from pydantic import ValidationError

from jamcore.domain import layout
from jamcore.domain.cells import WorkspaceSource
from jamcore.domain.records import Record
from jamcore.domain.sessions import RuntimeHost
from jamcore.system.files import PRIVATE_DIRECTORY, Files

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class HostManifest(Record):
    """``manifest.json`` of a host root: enough for a person, or a restore, to know what the directory is."""

    schema_version: Literal[1] = 1
    agent_id: UUID
    host_id: UUID
    provider: str
    sandbox: str
    created_at: datetime

    @classmethod
    def of(cls, host: RuntimeHost) -> HostManifest:
        """Return the manifest of a host."""
        return cls(
            agent_id=host.agent_id, host_id=host.id, provider=host.provider, sandbox=host.sandbox, created_at=host.created_at
        )

    def is_of_same_host(self, other: HostManifest) -> bool:
        """Say whether both are of one host.

        The sandbox's name does not count: one that is not its plan's is refused by the plan, before any engine is asked (PLAN-6).
        """
        return (self.agent_id, self.host_id, self.provider) == (other.agent_id, other.host_id, other.provider)


class Provisioner:
    """Makes and re-makes the layout. Every call is idempotent: that is what lets start-up replay it (START-2)."""

    def __init__(self, app: Path, *, files: Files) -> None:
        self._app = app
        self._files = files

    def provision(
        self,
        manifest: HostManifest,
        *,
        session: UUID,
        source: WorkspaceSource,
        subdirectories: tuple[str, ...],
        elsewhere: str | None = None,
        without_own: bool = False,
    ) -> bool:
        """Make all directories and publish the manifest.

        Args:
            manifest: What the host is.
            session: The session whose workspace is made when it is a Managed one.
            source: Where the session's files come from.
            subdirectories: Below the provider's state root; they must exist before the sandbox does (PREP-3).
            elsewhere: Where the directories of the agent's sessions are, below the app directory, when not in the host's root (WS-14).
            without_own: Whether the session's own directory is left to whoever brings its files (WS-6).

        Returns:
            False when a manifest is there that cannot be read or names somebody else: it is preserved as it is (START-3).
        """
        host = manifest.host_id
        state = layout.provider_state(host, manifest.provider)
        for path in (
            *((layout.workspace_root(host),) if elsewhere is None else ()),
            state,
            layout.guest_disk(host),
            layout.packs(host),
            layout.recovery(host) + "/review",
        ):
            self._files.make_private(self._app / path)
        for name in subdirectories:
            self._files.make_private(self._app / state / name)
        sessions = self._files.make_private(self._app / (elsewhere or f"{layout.workspace_root(host)}/sessions"))
        if source is WorkspaceSource.MANAGED and not without_own:
            self._make_session_directory(sessions, str(session))
        published = self._app / layout.manifest(host)
        if published.exists():
            return self._is_ours(published, manifest)
        self._files.write_atomic(published, manifest.canonical_json() + b"\n")
        return True

    def _make_session_directory(self, sessions: Path, name: str) -> None:
        """Make a directory in the one that a running guest may be writing: no link is followed, and it belongs to whom that one belongs.

        Raises:
            OSError: Something else has its name, or the disk failed.
        """
        parent = os.open(sessions, _DIRECTORY)
        try:
            with suppress(FileExistsError):
                os.mkdir(name, PRIVATE_DIRECTORY, dir_fd=parent)
            made = os.open(name, _DIRECTORY, dir_fd=parent)
            try:
                owner, mine = os.fstat(parent), os.fstat(made)
                if (owner.st_uid, owner.st_gid) != (mine.st_uid, mine.st_gid) and os.geteuid() == 0:
                    os.fchown(made, owner.st_uid, owner.st_gid)
                os.fchmod(made, PRIVATE_DIRECTORY)
            finally:
                os.close(made)
            self._files.sync(parent)
        finally:
            os.close(parent)

    def _is_ours(self, path: Path, manifest: HostManifest) -> bool:
        try:
            found = HostManifest.model_validate_json(path.read_bytes())
        except ValidationError:
            return False
        return found.is_of_same_host(manifest)

"""The files that go on with a new session when a conversation is given up: people lose the conversation, not their work (CONT-9).

Copied are the session's directory, the sandbox's own disk where a private clone is on it (without the guest's home, which holds what the
old conversation left), and Jam's own git view of the work tree, so that change requests are against what they were against. The originals
stay where they are. A person's own directory is neither copied nor touched.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import UUID

import anyio.from_thread
from anyio import to_thread

from jamcore.daemon.enginehouse import EngineHouse
from jamcore.daemon.reset_plan import SourceSession, source_sessions
from jamcore.domain import layout
from jamcore.domain.cells import Ability, WorkspaceSource
from jamcore.domain.resets import ContinuityReset, FilesCarried, SessionReplacement
from jamcore.domain.sessions import RuntimeHost
from jamcore.engines.port import Engine
from jamcore.store import Store
from jamcore.system.files import Files, storage_error
from jamcore.workspace.carry import Carried, TreeTooLargeError, carry

HOME = "home"


@dataclass(frozen=True, slots=True)
class ResetFiles:
    """Copies what the new sessions work on."""

    app: Path
    store: Store
    engines: EngineHouse
    files: Files

    async def carry(self, reset: ContinuityReset) -> tuple[str, ...]:
        """Copy everything that has not been copied yet, and say for each session in order where its files are.

        Raises:
            StorageFullError, StorageFailedError: The disk is full or failed: it can be done again.
        """
        host = await self.store.read(lambda repos: repos.hosts.get(reset.source_host_id))
        sources = await self.store.read(lambda repos: source_sessions(repos, host.id))
        by_id = {source.session.id: source for source in sources}
        engine = self.engines.get(host.engine)
        said = []
        try:
            for each in reset.sessions:
                copy = partial(self._carry, host, engine, by_id[each.source_session_id], each, reset.host_id)
                said.append(await to_thread.run_sync(copy))
        except OSError as error:
            raise storage_error(error) from error
        return tuple(said)

    def where(self, host: RuntimeHost, source: SourceSession) -> str:
        """Return where a session's files are, for a person."""
        if source.workspace.source is WorkspaceSource.DIRECT_HOST:
            return source.workspace.path or ""
        if source.workspace.source is WorkspaceSource.MANAGED:
            return str(self._directory(host.id, source, source.session.id))
        return f"{self.app / layout.guest_disk(host.id)}" if self._keeps_disk(host) else f"inside the sandbox {host.sandbox}"

    def carried(self, host: RuntimeHost, source: SourceSession) -> FilesCarried:
        """Say what a fresh start does with the session's files."""
        if source.workspace.source is WorkspaceSource.DIRECT_HOST:
            return "in-place"
        return "copied" if source.workspace.source is WorkspaceSource.MANAGED or self._keeps_disk(host) else "left"

    def _keeps_disk(self, host: RuntimeHost) -> bool:
        return _is_kept(self.engines.get(host.engine))

    def _directory(self, host: UUID, source: SourceSession, session: UUID) -> Path:
        if source.native is not None:
            return self.app / layout.host_native_workspace(source.native.account_id, source.native.agent_id, session)
        return self.app / layout.session_workspace(host, session)

    def _carry(self, host: RuntimeHost, engine: Engine, source: SourceSession, each: SessionReplacement, new_host: UUID) -> str:
        copied, left, unable = False, 0, ""
        try:
            for old, new in self._pairs(host, engine, source, each, new_host):
                self.files.make_private(new.parent)
                done = carry(old, new, files=self.files, alive=anyio.from_thread.check_cancelled) or Carried()
                copied, left = True, left + done.left
            review = layout.review_repository
            kept, target = self.app / review(host.id, each.source_session_id), self.app / review(new_host, each.session_id)
            self.files.make_private(target.parent)
            carry(kept, target, files=self.files, alive=anyio.from_thread.check_cancelled)
        except TreeTooLargeError as error:
            unable = str(error)
        return _words(self.where(host, source), source, copied=copied and not unable, left=left, unable=unable)

    def _pairs(
        self, host: RuntimeHost, engine: Engine, source: SourceSession, each: SessionReplacement, new_host: UUID
    ) -> Iterator[tuple[Path, Path]]:
        if source.workspace.source is WorkspaceSource.MANAGED:
            yield self._directory(host.id, source, each.source_session_id), self._directory(new_host, source, each.session_id)
        elif source.workspace.source is WorkspaceSource.PRIVATE_HOST_CLONE and _is_kept(engine):
            disk, new = (self.app / layout.guest_disk(identifier) for identifier in (host.id, new_host))
            names = sorted(disk.iterdir(), key=lambda path: (path.is_dir(), path.name)) if disk.is_dir() else []
            # Records of the engine first: what they vouch for has its name only after them.
            yield from ((path, new / path.name) for path in names if path.name != HOME and not path.name.startswith("."))


def _is_kept(engine: Engine) -> bool:
    """Whether the sandbox's disk outlives the sandbox, as a directory of Jam's layout."""
    return Ability.KEEPS_DISK in engine.abilities


def _words(where: str, source: SourceSession, *, copied: bool, left: int, unable: str) -> str:
    if source.workspace.source is WorkspaceSource.DIRECT_HOST:
        return f"it works on in {where}"
    if unable:
        return f"its files are too many to be copied ({unable}): they stay in {where}, and it begins without them"
    if not copied:
        return f"its old files stay in {where}, and it begins without them"
    special = f" but for {left} that are no files or cannot be read" if left else ""
    return f"it goes on with a copy of its files{special}; the originals stay in {where}"

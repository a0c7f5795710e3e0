"""Checks exports, and brings the workspace of one back to a new place: copied beside it, compared, made durable, renamed (WS-6)."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path, PurePosixPath
from uuid import UUID

from jamcore.domain import layout
from jamcore.domain.checkpoint_exports import unspelled
from jamcore.domain.errors import ConflictError, NotFoundError
from jamcore.domain.exports import WORKSPACE, ExportDamagedError, ExportRequest, TreeChangedError, TreeTotals
from jamcore.system.files import Files
from jamcore.system.removal import remove_tree
from jamcore.system.tree_calls import TreeCalls
from jamcore.system.trees import open_root, owned
from jamcore.workspace.exports.compare import TreeComparison
from jamcore.workspace.exports.copying import TreeCopy
from jamcore.workspace.exports.durable import make_durable
from jamcore.workspace.exports.format import DamagedError, ExportFiles
from jamcore.workspace.exports.reading import opened_below
from jamcore.workspace.exports.survey import Named, survey
from jamcore.workspace.exports.verify import Verification, Verified


class ExportReader:
    """Reads the exports of one app directory and changes none. Blocking: call it in a worker thread."""

    def __init__(
        self, app: Path, *, files: Files, calls: TreeCalls | None = None, reach: Callable[[str], None] = lambda name: None
    ) -> None:
        """Compose it; the arguments are those of :class:`~jamcore.workspace.exports.write.ExportWriter`."""
        self._app = app
        self._files = files
        self._calls = calls or TreeCalls()
        self._reach = reach

    def verify(self, export: UUID, digest: str | None, alive: Callable[[], None] = lambda: None) -> Verified:
        """Check a whole export.

        Args:
            export: Its id.
            digest: The digest that was recorded of it; ``None`` when none was: then it is held against itself alone.
            alive: Called often; raises when the caller gave up.

        Raises:
            NotFoundError: There is no such export.
            ExportDamagedError: Names all that differs, up to a bound.
            OSError: The machine failed.
        """
        try:
            root = open_root(self._app / layout.export_root(export))
        except FileNotFoundError:
            raise NotFoundError(kind="export", ref=str(export)) from None
        with owned(root):
            return Verification(root, self._calls, alive).run(str(export), digest)

    def require_same(self, export: UUID, digest: str, source: str, alive: Callable[[], None] = lambda: None) -> None:
        """Require that a workspace is what an export holds, byte for byte, but for what was left out and stripped.

        Args:
            export: Its id.
            digest: The digest that was recorded of it.
            source: The workspace's path below the app directory.
            alive: Called often; raises when the caller gave up.

        Raises:
            TreeChangedError: It is not; names all that differs, up to a bound.
            ExportDamagedError: The export is not what was recorded.
            OSError: The machine failed.
        """
        found = Named()

        def compared(request: ExportRequest) -> TreeComparison:
            leave_out = frozenset(tuple(unspelled(path).split(b"/")) for path in request.leave_out)
            return TreeComparison(tree, WORKSPACE, found, self._calls, alive, leave_out=leave_out)

        with opened_below(self._app, source, self._calls) as tree:
            self._hold(export, digest, compared, alive)
        if found.total:
            raise TreeChangedError(total=found.total, named=tuple(found.first))

    def restore(self, export: UUID, digest: str, destination: str, alive: Callable[[], None] = lambda: None) -> TreeTotals:
        """Bring the workspace of an export back. The export stays as it is.

        Args:
            export: Its id.
            digest: The digest that was recorded of it.
            destination: Where to, below the app directory. Its parent exists, and owns what is restored.
            alive: Called often; raises when the caller gave up.

        Returns:
            What was restored.

        Raises:
            ConflictError: Something has this name already.
            NotFoundError: There is no such export.
            ExportDamagedError: The export, or the copy of it, is not what was recorded; nothing has the name.
            TreeChangedError: Somebody changed the export meanwhile; nothing has the name.
            OSError: The machine failed; nothing has the name.
        """
        self.verify(export, digest, alive)
        where = PurePosixPath(destination)
        name = os.fsencode(where.name)
        staging = b"." + name + b".restoring"
        with opened_below(self._app, str(where.parent), self._calls) as parent:
            self._require_free(parent, name)
            remove_tree(parent, staging, sync=self._files.sync, alive=alive)
            try:
                totals = self._stage(export, digest, parent, staging, alive)
                self._calls.rename(parent, staging, name)
            except BaseException:
                with suppress(OSError):
                    remove_tree(parent, staging, sync=self._files.sync)
                raise
            self._files.sync(parent)
        self._reach("restore.published")
        return totals

    def _require_free(self, parent: int, name: bytes) -> None:
        with suppress(FileNotFoundError):
            self._calls.status(parent, name)
            raise ConflictError(kind="workspace", ref=os.fsdecode(name), problem="something is there already")

    def _stage(self, export: UUID, digest: str, parent: int, staging: bytes, alive: Callable[[], None]) -> TreeTotals:
        self._calls.make_directory(parent, staging)
        self._reach("restore.begun")
        source = f"{layout.export_root(export)}/{WORKSPACE}"
        with opened_below(self._app, source, self._calls) as tree, owned(self._calls.open_directory(parent, staging)) as target:
            look = survey(tree, self._calls, alive=alive)
            look.require_exportable()
            TreeCopy(self._calls, tree, target, owner=_owner_of(parent), alive=alive).run(look)
            self._reach("restore.copied")
            totals = self._compare(export, digest, target, alive)
            make_durable(target, self._files, self._calls, alive)
        self._reach("restore.durable")
        return totals

    def _compare(self, export: UUID, digest: str, target: int, alive: Callable[[], None]) -> TreeTotals:
        """Hold what was restored against the entries of the export."""
        found = Named()
        totals = self._hold(export, digest, lambda _: TreeComparison(target, WORKSPACE, found, self._calls, alive), alive)
        if found.total:
            raise ExportDamagedError(export=str(export), total=found.total, named=tuple(found.first))
        return totals

    def _hold(
        self, export: UUID, digest: str, compared: Callable[[ExportRequest], TreeComparison], alive: Callable[[], None]
    ) -> TreeTotals:
        """Hold the entries of an export's workspace against a tree, as what the export was made for says."""
        top = WORKSPACE.encode()
        try:
            with owned(open_root(self._app / layout.export_root(export))) as root:
                files = ExportFiles(root, self._calls, alive)
                manifest = files.manifest(digest)[0]
                tree = compared(manifest.request)
                for entry in files.entries(manifest):
                    if unspelled(entry.path).split(b"/")[0] == top:
                        tree.take(entry)
        except DamagedError as error:
            raise ExportDamagedError(export=str(export), total=1, named=(f"{error.name}: {error.problem}",)) from error
        return tree.end()


def _owner_of(parent: int) -> tuple[int, int] | None:
    """Return who owns what is restored in a directory: whom that belongs to; ``None`` where this process makes it so anyway."""
    status = os.fstat(parent)
    owner = (status.st_uid, status.st_gid)
    return owner if os.geteuid() == 0 and owner != (os.geteuid(), os.getegid()) else None

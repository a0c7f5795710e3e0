"""Takes an export from elsewhere in: checked before it is copied, copied beside its place, and verified there (WS-6, SEC-7).

Nothing of it is believed. It is read by descriptor and no link in it is followed; what its own lists claim is bounded before anything of
that size is read or written; and what is verified in the end is the copy, which nobody else can write.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from uuid import UUID

from jamcore.domain import layout, limits
from jamcore.domain.exports import (
    CHECKPOINT,
    ENTRIES,
    MANIFEST,
    README,
    SUMS,
    WORKSPACE,
    ExportDamagedError,
    ExportedKind,
    ExportEntry,
    ExportManifest,
    Listed,
    TreeTotals,
)
from jamcore.domain.imports import ImportRefusedError
from jamcore.domain.records import Record
from jamcore.system.files import Files
from jamcore.system.tree_calls import TreeCalls
from jamcore.system.trees import open_root, owned
from jamcore.workspace.exports.copying import TreeCopy
from jamcore.workspace.exports.describing import describe
from jamcore.workspace.exports.durable import make_durable
from jamcore.workspace.exports.format import DamagedError, ExportFiles, sha256
from jamcore.workspace.exports.names import check_names
from jamcore.workspace.exports.survey import SET_ID, Item, Named, Survey, survey
from jamcore.workspace.exports.verify import Verification, Verified

_SHORT = frozenset({README, MANIFEST})
_NO_EXPORT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})


class Taken(Record):
    """What was taken in: the digest of its manifest, and where in its workspace something looks like a credential."""

    digest: str
    credentials: Listed


class ExportTaker:
    """Takes exports into one app directory. Blocking: call it in a worker thread."""

    def __init__(
        self, app: Path, *, files: Files, calls: TreeCalls | None = None, reach: Callable[[str], None] = lambda name: None
    ) -> None:
        """Compose it; the arguments are those of :class:`~jamcore.workspace.exports.write.ExportWriter`."""
        self._app = app
        self._files = files
        self._calls = calls or TreeCalls()
        self._reach = reach

    def copy(self, export: UUID, source: Path, alive: Callable[[], None] = lambda: None) -> Taken:
        """Copy an export beside its place here, verified and durable. What an earlier attempt left there goes first.

        Args:
            export: Its id here.
            source: Its directory.
            alive: Called often; raises when the caller gave up.

        Raises:
            ImportNamesError, ImportRefusedError, ExportDamagedError, ExportRefusedError: Something of it cannot be taken in; it is named.
            TreeChangedError: Somebody changes it meanwhile.
            OSError: The machine failed. Whatever is raised, nothing is left.
        """
        staging = self._app / layout.taken_export(export)
        self._files.make_private(staging.parent)
        self._files.remove_tree(staging)
        try:
            with owned(_opened(source)) as root, _damage_of(export):
                return self._take(root, staging, str(export), alive)
        except BaseException:
            with suppress(OSError):  # the next attempt removes what is left of this one
                self.drop(export)
            raise

    def publish(self, export: UUID) -> None:
        """Give the copy its name.

        Raises:
            OSError: The machine failed; it has its own name still.
        """
        self._files.rename(self._app / layout.taken_export(export), self._app / layout.export_root(export))

    def is_published(self, export: UUID) -> bool:
        """Say whether something has its name."""
        return os.path.lexists(self._app / layout.export_root(export))

    def drop(self, export: UUID, *, published: bool = False) -> None:
        """Remove a copy, also one that got its name when nobody keeps a record of it; that it is gone is fine."""
        if published:
            with suppress(FileNotFoundError):
                self._files.rename(self._app / layout.export_root(export), self._app / layout.taken_export(export))
        self._files.remove_tree(self._app / layout.taken_export(export))

    def _take(self, root: int, staging: Path, name: str, alive: Callable[[], None]) -> Taken:
        _require_manifest(root)
        files = ExportFiles(root, self._calls, alive)
        manifest, data = files.manifest(None)
        self._require_bounded(root, manifest)
        check_names(_within(files.entries(manifest)))
        with ExitStack() as stack:
            trees = self._looks(stack, root, manifest, alive)
            self._files.make_private(staging)
            self._reach("import.begun")
            target = stack.enter_context(owned(open_root(staging)))
            found = self._copy(trees, target, alive)
            for file in (README, MANIFEST, ENTRIES, SUMS):
                self._copy_file(root, target, file, alive)
            self._reach("import.copied")
            verified = _verified(Verification(target, self._calls, alive), name, sha256(data))
            make_durable(target, self._files, self._calls, alive)
        self._reach("import.durable")
        return Taken(digest=verified.digest, credentials=found)

    def _require_bounded(self, root: int, manifest: ExportManifest) -> None:
        """Hold what the export claims against the bounds, and its top against what may be there."""
        found = Named()
        tops = {README, MANIFEST, ENTRIES, SUMS, WORKSPACE, *((CHECKPOINT,) if manifest.checkpoint_files else ())}
        there = self._calls.names(root, 2 * len(tops))
        for name in sorted(set(there) - {top.encode() for top in tops}):
            found.add((name,), "does not belong to an export")
        for name in sorted({top.encode() for top in tops} - set(there)):
            found.add((name,), "is missing")
        if not found.total and self._calls.status(root, ENTRIES.encode()).st_size > limits.EXPORT_LIST_BYTES:
            found.add((ENTRIES.encode(),), f"has more than {limits.EXPORT_LIST_BYTES} bytes")
        if (manifest.checkpoint is None) != (manifest.checkpoint_files is None):
            found.add((MANIFEST.encode(),), "names a checkpoint without its files, or files without their checkpoint")
        for totals in (manifest.workspace, manifest.checkpoint_files or TreeTotals()):
            names = totals.files + totals.directories + totals.symlinks + totals.left_out
            if names > limits.EXPORT_ENTRIES or totals.bytes_total > limits.EXPORT_BYTES:
                found.add((MANIFEST.encode(),), f"claims more than {limits.EXPORT_ENTRIES} names or {limits.EXPORT_BYTES} bytes")
        _require_none(found)

    def _looks(
        self, stack: ExitStack, root: int, manifest: ExportManifest, alive: Callable[[], None]
    ) -> dict[str, tuple[int, Survey]]:
        """Look at the trees, and require of them what can be required before a byte of a file is read."""
        claimed = {WORKSPACE: manifest.workspace}
        if manifest.checkpoint_files is not None:
            claimed[CHECKPOINT] = manifest.checkpoint_files
        looks: dict[str, tuple[int, Survey]] = {}
        found = Named()
        for top, totals in claimed.items():
            tree = stack.enter_context(owned(self._directory(root, top)))
            look = survey(tree, self._calls, alive=alive)
            look.require_exportable()
            _hold(look, top, totals, found)
            looks[top] = tree, look
        _require_none(found)
        return looks

    def _directory(self, root: int, top: str) -> int:
        try:
            return self._calls.open_directory(root, top.encode())
        except OSError as error:
            if error.errno not in _NO_EXPORT:
                raise
            raise DamagedError(top, "it is missing, or no directory") from error

    def _copy(self, trees: dict[str, tuple[int, Survey]], target: int, alive: Callable[[], None]) -> Listed:
        found = Listed()
        for top, (tree, look) in trees.items():
            self._calls.make_directory(target, top.encode())
            with owned(self._calls.open_directory(target, top.encode())) as copy:
                learned = TreeCopy(self._calls, tree, copy, scan=top == WORKSPACE, alive=alive).run(look)
            if top == WORKSPACE:
                found = describe(look, learned, top).credentials.listed()
        return found

    def _copy_file(self, root: int, target: int, name: str, alive: Callable[[], None]) -> None:
        """Copy one of the files beside the trees; what it must be is verified afterwards."""
        most = limits.EXPORT_MANIFEST_BYTES if name in _SHORT else limits.EXPORT_LIST_BYTES
        buffer = memoryview(bytearray(1 << 20))
        offset = 0
        with owned(self._file(root, name)) as source, owned(self._calls.create(target, name.encode())) as copy:
            while done := self._calls.read(source, buffer, offset):
                alive()
                self._calls.write(copy, buffer[:done], offset)
                offset += done
                if offset > most:
                    raise DamagedError(name, f"it has more than {most} bytes")

    def _file(self, root: int, name: str) -> int:
        try:
            return self._calls.open_file(root, name.encode())
        except OSError as error:
            if error.errno not in _NO_EXPORT | {errno.ENXIO}:
                raise
            raise DamagedError(name, "it is missing, or no file") from error


def _verified(look: Verification, name: str, digest: str) -> Verified:
    """Run the look; an export of which only times differ is no damaged one, but was not copied as it should be."""
    try:
        return look.run(name, digest)
    except ExportDamagedError as error:
        if look.only_times:
            raise ImportRefusedError(total=error.total, named=error.named) from error
        raise


@contextmanager
def _damage_of(export: UUID) -> Iterator[None]:
    try:
        yield
    except DamagedError as error:
        raise ExportDamagedError(export=str(export), total=1, named=(f"{error.name}: {error.problem}",)) from error


def _opened(source: Path) -> int:
    try:
        return open_root(source)
    except OSError as error:
        if error.errno not in _NO_EXPORT:
            raise
        problem = "it is a link; name what it leads to" if source.is_symlink() else "it is no directory; unpack an archive first"
        raise ImportRefusedError(total=1, named=(f"{source}: {problem}",)) from error


def _require_manifest(root: int) -> None:
    """Tell another directory from an export that is damaged."""
    try:
        os.stat(MANIFEST, dir_fd=root, follow_symlinks=False)
    except FileNotFoundError as error:
        raise ImportRefusedError(total=1, named=(f"{MANIFEST}: it is missing, so that this is no export",)) from error


def _within(entries: Iterator[ExportEntry]) -> Iterator[ExportEntry]:
    """Bound what the names in a list take in memory."""
    text = 0
    for entry in entries:
        text += len(entry.path) + len(entry.target or "")
        if text > 3 * limits.EXPORT_TEXT_BYTES:
            raise DamagedError(ENTRIES, "the names in it are longer than those of any export")
        yield entry


def _hold(look: Survey, top: str, totals: TreeTotals, found: Named) -> None:
    """Name what no copy of an export has, and counts that are not what is claimed."""
    names: dict[int, int] = {}
    for item in look.items:
        if item.kind is ExportedKind.FILE:
            names[item.inode] = names.get(item.inode, 0) + 1
    for item in look.items:
        if problem := _foreign(item, names):
            found.add((top.encode(), *item.path), problem)
    there = look.totals().model_copy(update={"left_out": totals.left_out})
    if there != totals and not found.total:
        found.add((top.encode(),), f"holds {there.files} files of {there.bytes_total} bytes, and not what the manifest counts")


def _foreign(item: Item, names: dict[int, int]) -> str:
    if item.kind is ExportedKind.LEFT_OUT:
        return f"is {item.why}, and none is in an export"
    if item.kind is not ExportedKind.SYMLINK and item.mode & SET_ID:
        return "has a set-id bit, and nothing in an export has one"
    if item.kind is ExportedKind.FILE and item.links != names[item.inode]:
        return "has another name outside of the export"
    return ""


def _require_none(found: Named) -> None:
    if found.total:
        raise ImportRefusedError(total=found.total, named=tuple(found.first))

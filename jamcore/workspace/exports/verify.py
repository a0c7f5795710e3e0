"""Checks a whole export: the manifest against what was recorded, the entries against it, every name and byte against the entries."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass

from jamcore.domain.checkpoint_exports import unspelled
from jamcore.domain.exports import (
    CHECKPOINT,
    ENTRIES,
    MANIFEST,
    README,
    SUMS,
    WORKSPACE,
    ExportDamagedError,
    ExportEntry,
    ExportManifest,
)
from jamcore.system.tree_calls import TreeCalls
from jamcore.system.trees import Names, owned
from jamcore.workspace.exports.compare import TreeComparison
from jamcore.workspace.exports.format import DamagedError, ExportFiles, entry_sum, first_sums
from jamcore.workspace.exports.reading import SWAPPED
from jamcore.workspace.exports.survey import Named

_MOST_NAMES = 1000


@dataclass(frozen=True, slots=True)
class Verified:
    """An export that is whole. ``digest`` is the SHA-256 of its manifest."""

    manifest: ExportManifest
    digest: str


class Verification:
    """One look through one export, in one thread and its helpers."""

    def __init__(self, root: int, calls: TreeCalls, alive: Callable[[], None] = lambda: None) -> None:
        self._root = root
        self._calls = calls
        self._alive = alive
        self._files = ExportFiles(root, calls, alive)
        self._found = Named()

    @property
    def only_times(self) -> bool:
        """Whether modification times are all that differs: the export was copied without them."""
        return self._found.only_lesser

    def run(self, name: str, digest: str | None) -> Verified:
        """Check everything.

        Args:
            name: What the export is called, for the error.
            digest: The recorded digest; ``None`` when there is none, and the export can only be held against itself.

        Raises:
            ExportDamagedError: Names all that differs, up to a bound.
            OSError: The machine failed.
        """
        verified: Verified | None = None
        try:
            manifest, data = self._files.manifest(digest)
            verified = Verified(manifest, hashlib.sha256(data).hexdigest())
            self._names(manifest)
            self._trees(manifest, data)
        except DamagedError as error:
            self._found.add((error.name.encode(),), error.problem)
        if verified is None or self._found.total:
            raise ExportDamagedError(export=name, total=self._found.total, named=tuple(self._found.first))
        return verified

    def _names(self, manifest: ExportManifest) -> None:
        expected = {README, MANIFEST, ENTRIES, SUMS, WORKSPACE} | ({CHECKPOINT} if manifest.checkpoint_files else set())
        there = set(self._calls.names(self._root, _MOST_NAMES))
        for name in sorted(there - {each.encode() for each in expected}):
            self._found.add((name,), "does not belong to the export")
        if self._files.digest(README) != manifest.readme_sha256:
            self._found.add((README.encode(),), "has other content")

    def _trees(self, manifest: ExportManifest, data: bytes) -> None:
        tops = {WORKSPACE: manifest.workspace}
        if manifest.checkpoint_files is not None:
            tops[CHECKPOINT] = manifest.checkpoint_files
        with ExitStack() as stack:
            trees = {
                top.encode(): TreeComparison(stack.enter_context(self._directory(top)), top, self._found, self._calls, self._alive)
                for top in tops
            }
        sums = self._compare(
            self._files.entries(manifest), trees, first_sums(data, manifest.entries_sha256, manifest.readme_sha256)
        )
        for top, totals in tops.items():
            if trees[top.encode()].end() != totals:
                self._found.add((MANIFEST.encode(),), f"counts {top}/ in another way than the list of entries")
        if self._files.digest(SUMS) != sums:
            self._found.add((SUMS.encode(),), "has other content")

    def _directory(self, top: str) -> AbstractContextManager[int]:
        try:
            return owned(self._calls.open_directory(self._root, top.encode()))
        except OSError as error:
            if error.errno not in SWAPPED:
                raise
            raise DamagedError(top, "is missing, or no directory") from error

    def _compare(self, entries: Iterable[ExportEntry], trees: dict[bytes, TreeComparison], sums: bytes) -> str:
        """Hold all entries against the trees, and return the digest that the sums must have."""
        digest = hashlib.sha256(sums)
        before: Names = ()
        for entry in entries:
            path = tuple(unspelled(entry.path).split(b"/"))
            if path <= before:
                raise DamagedError(ENTRIES, f"{entry.path} is there twice, or out of order")
            before = path
            tree = trees.get(path[0])
            if tree is None:
                raise DamagedError(ENTRIES, f"{entry.path} is in no tree of the export")
            tree.take(entry)
            digest.update(entry_sum(entry))
        return digest.hexdigest()

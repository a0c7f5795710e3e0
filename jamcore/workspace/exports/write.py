"""Writes an export beside its name, makes it durable, and renames it (WS-5)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import Protocol
from uuid import UUID

from jamcore.domain import layout
from jamcore.domain.checkpoint_exports import CheckpointSummary, unspelled
from jamcore.domain.errors import ConflictError
from jamcore.domain.exports import CHECKPOINT, ENTRIES, MANIFEST, README, SUMS, WORKSPACE, ExportManifest, ExportRequest, TreeTotals
from jamcore.system.clock import Clock
from jamcore.system.files import Files
from jamcore.system.tree_calls import TreeCalls
from jamcore.system.trees import Names, open_root, owned
from jamcore.workspace.exports.copying import TreeCopy
from jamcore.workspace.exports.describing import Copied, describe
from jamcore.workspace.exports.durable import make_durable
from jamcore.workspace.exports.format import README_BYTES, first_sums, sha256
from jamcore.workspace.exports.learning import learn
from jamcore.workspace.exports.reading import opened_below
from jamcore.workspace.exports.survey import Survey, changed_between, require_unchanged, survey
from jamcore.workspace.exports.verify import Verification, Verified


class CheckpointSource(Protocol):
    """Puts a checkpoint into an export."""

    def __call__(self, into: Path) -> CheckpointSummary:
        """Write it into an empty private directory, verified while it is written, as files and directories alone.

        Raises:
            JamError, OSError: It cannot go into an export; what is in the directory is removed by the caller.
        """


class ExportWriter:
    """Makes the exports of one app directory. Blocking: call it in a worker thread."""

    def __init__(
        self,
        app: Path,
        *,
        files: Files,
        clock: Clock,
        calls: TreeCalls | None = None,
        reach: Callable[[str], None] = lambda name: None,
    ) -> None:
        """Compose it.

        Args:
            app: The app directory.
            files: For what must be durable.
            clock: Says when an export was made.
            calls: How trees are read and copied.
            reach: Called at each boundary between two lasting effects, with its name.
        """
        self._app = app
        self._files = files
        self._clock = clock
        self._calls = calls or TreeCalls()
        self._reach = reach

    def inspect(
        self, source: str, *, leave_out: AbstractSet[Names] = frozenset(), alive: Callable[[], None] = lambda: None
    ) -> Survey:
        """Look at a workspace as an export would, and change nothing: what it holds, and what of it would be refused.

        Raises:
            TreeChangedError: It changes meanwhile.
            OSError: It cannot be read.
        """
        with opened_below(self._app, source, self._calls) as tree:
            return survey(tree, self._calls, leave_out=leave_out, alive=alive)

    def write(
        self,
        request: ExportRequest,
        source: str,
        *,
        checkpoint: CheckpointSource | None = None,
        alive: Callable[[], None] = lambda: None,
    ) -> Verified:
        """Export a workspace. Where this export exists already it is verified, and never written again.

        Args:
            request: What to export, and under which id.
            source: The workspace's path below the app directory; it has no link in it.
            checkpoint: Puts the checkpoint into it; ``None`` when there is none.
            alive: Called often; raises when the caller gave up. Nothing is published then.

        Raises:
            ConflictError: An export with this id is there and is of something else.
            ExportDamagedError: It is there and not whole.
            ExportRefusedError: Something cannot be exported exactly.
            NotLeftOutError: What was to be left out is not there.
            TreeChangedError: The workspace changed while it was copied.
            JamError: What ``checkpoint`` raises.
            OSError: The machine failed. Whatever is raised, nothing is published.
        """
        target = self._app / layout.export_root(request.export_id)
        if os.path.lexists(target):
            return self._again(request, target, alive)
        partial = target.with_name(f".{target.name}.partial")
        self._files.make_private(target.parent)
        self._files.remove_tree(partial)
        renames = False
        try:
            manifest = self._fill(request, source, partial, checkpoint, alive)
            renames = True
            self._files.rename(partial, target)
        except BaseException:
            with suppress(OSError):  # the next attempt removes what is left of this one
                if renames and not os.path.lexists(partial):  # otherwise what has the name now is not of this attempt
                    self._files.rename(target, partial)
                self._files.remove_tree(partial)
            raise
        self._reach("export.published")
        return Verified(manifest, sha256(manifest.file_bytes()))

    def withdraw(self, export: UUID) -> None:
        """Remove an export that nobody keeps a record of, whether it got its name or not; that it is gone is fine.

        Raises:
            OSError: The machine failed; what is left of it has a name that the next start removes.
        """
        target = self._app / layout.export_root(export)
        partial = target.with_name(f".{target.name}.partial")
        if os.path.lexists(target):
            self._files.rename(target, partial)
        self._files.remove_tree(partial)

    def _again(self, request: ExportRequest, target: Path, alive: Callable[[], None]) -> Verified:
        with owned(open_root(target)) as root:
            verified = Verification(root, self._calls, alive).run(target.name, None)
        if verified.manifest.request != request:
            raise ConflictError(kind="export", ref=target.name, problem="it is of something else")
        return verified

    def _fill(
        self, request: ExportRequest, source: str, partial: Path, checkpoint: CheckpointSource | None, alive: Callable[[], None]
    ) -> ExportManifest:
        with opened_below(self._app, source, self._calls) as tree:
            leave_out = frozenset(tuple(unspelled(path).split(b"/")) for path in request.leave_out)
            before = survey(tree, self._calls, leave_out=leave_out, alive=alive)
            before.require_left_out()
            before.require_exportable()
            self._calls.pass_tick()
            self._files.make_private(partial)
            self._reach("export.begun")
            with owned(open_root(partial)) as root:
                copied = self._copy(tree, root, before, alive)
                after = survey(tree, self._calls, leave_out=leave_out, alive=alive)
                require_unchanged(tuple(changed_between(before, after)))
                self._reach("export.copied")
                manifest = self._describe(request, root, partial, (before.totals(), copied), checkpoint, alive)
                self._reach("export.described")
                make_durable(root, self._files, self._calls, alive)
        self._reach("export.durable")
        return manifest

    def _copy(self, tree: int, root: int, before: Survey, alive: Callable[[], None]) -> Copied:
        top = WORKSPACE.encode()
        self._calls.make_directory(root, top)
        with owned(self._calls.open_directory(root, top)) as target:
            learned = TreeCopy(self._calls, tree, target, scan=True, alive=alive).run(before)
        return describe(before, learned, WORKSPACE)

    def _describe(
        self,
        request: ExportRequest,
        root: int,
        partial: Path,
        workspace: tuple[TreeTotals, Copied],
        checkpoint: CheckpointSource | None,
        alive: Callable[[], None],
    ) -> ExportManifest:
        totals, copied = workspace
        summary, checkpoint_totals, described = self._checkpoint(root, partial, checkpoint, alive)
        manifest = ExportManifest(
            request=request,
            created_at=self._clock.now(),
            workspace=totals,
            checkpoint_files=checkpoint_totals,
            checkpoint=summary,
            left_out=copied.left_out.listed(),
            stripped=copied.stripped.listed(),
            credentials=copied.credentials.listed(),
            entries_sha256=self._put(root, ENTRIES, (*described.lines, *copied.lines)),
            readme_sha256=self._put(root, README, (README_BYTES,)),
        )
        data = manifest.file_bytes()
        self._put(root, MANIFEST, (data,))
        first = first_sums(data, manifest.entries_sha256, manifest.readme_sha256)
        self._put(root, SUMS, (first, *described.sums, *copied.sums))
        return manifest

    def _checkpoint(
        self, root: int, partial: Path, checkpoint: CheckpointSource | None, alive: Callable[[], None]
    ) -> tuple[CheckpointSummary | None, TreeTotals | None, Copied]:
        if checkpoint is None:
            return None, None, Copied()
        top = CHECKPOINT.encode()
        self._calls.make_directory(root, top)
        summary = checkpoint(partial / CHECKPOINT)
        with owned(self._calls.open_directory(root, top)) as directory:
            look = survey(directory, self._calls, alive=alive)
            look.require_exportable()
            learned, changed = learn(directory, look, self._calls, alive)
            require_unchanged(changed)
        return summary, look.totals(), describe(look, learned, CHECKPOINT)

    def _put(self, root: int, name: str, parts: Iterable[bytes]) -> str:
        """Write a file and return its SHA-256."""
        digest = hashlib.sha256()
        offset = 0
        with owned(self._calls.create(root, name.encode())) as descriptor:
            for part in _joined(parts):
                digest.update(part)
                self._calls.write(descriptor, memoryview(part), offset)
                offset += len(part)
        return digest.hexdigest()


def _joined(parts: Iterable[bytes], size: int = 1 << 20) -> Iterable[bytes]:
    """Join short parts to longer ones."""
    held: list[bytes] = []
    length = 0
    for part in parts:
        held.append(part)
        length += len(part)
        if length >= size:
            yield b"".join(held)
            held, length = [], 0
    if held:
        yield b"".join(held)

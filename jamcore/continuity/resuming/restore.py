"""Puts a generation in the place of the live state (CONT-5, CONT-11).

Every captured file is first written beside, verified and synced; then names are exchanged one by one below open directories, so that no
link that a guest left can lead out of the state root. What is replaced is moved to ``recovery/replaced/<id>``.
A marker stands for as long as the state is neither the old nor the new one: with it, nothing may be captured and no live state be used.
Where databases belong to the state it stands until they are in place, too: files and databases are of one moment.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from jamcore.continuity.generations.content import Content
from jamcore.continuity.generations.format import Source
from jamcore.continuity.generations.objects import Entry, Kind, Root, read_directory
from jamcore.continuity.generations.restoring import MARKER, end_restore
from jamcore.continuity.resuming.aside import Aside
from jamcore.continuity.resuming.compare import Standing
from jamcore.continuity.resuming.scratch import empty_scratch
from jamcore.continuity.resuming.staging import Owner, Stage
from jamcore.continuity.tree.patterns import CaptureRules, Globs
from jamcore.continuity.tree.walk import find
from jamcore.domain.continuity import ActivationPlan, CaptureKind
from jamcore.system.files import PRIVATE_DIRECTORY, Files
from jamcore.system.removal import empty_directory, remove_entry
from jamcore.system.trees import DIRECTORY_FLAGS, Names, Seen, look, open_root, owned

STAGING = "staging"
REPLACED = "replaced"

RESTORE_POINTS = ("restore.staged", "restore.begun", "restore.cleared", "restore.swapped", "restore.finished")
"""The boundaries of a restore, in order. From ``begun`` to ``finished`` the marker stands, and a repeat begins anew."""

_CAPTURED = frozenset({CaptureKind.APPEND_ONLY, CaptureKind.WHOLE})


@dataclass(frozen=True, slots=True)
class Place:
    """Where a restore works. ``scratch_root`` is the guest's home on the host's file system, if it has one there.

    ``databases_follow``: it is not at its end before somebody put databases in place and called :func:`end_restore`.
    """

    state_root: Path
    scratch_root: Path | None
    recovery: Path
    restore_id: UUID
    databases_follow: bool = False


class Restore:
    """One restore, in one thread; the provider does not run meanwhile."""

    def __init__(
        self,
        source: Source,
        root: Root,
        place: Place,
        *,
        files: Files,
        reach: Callable[[str], None],
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        self._source = source
        self._root = root
        self._place = place
        self._files = files
        self._reach = reach
        self._alive = alive

    def run(self, standings: Mapping[Names, Standing], rules: CaptureRules, plan: ActivationPlan) -> Path | None:
        """Restore, and return where replaced files were put, if any were.

        Args:
            standings: Which captured files are in place already, byte for byte.
            rules: What the provider declared; live files that it names and the generation lacks are set aside.
            plan: What the provider wants deleted besides.

        Raises:
            BlockDamagedError: The generation cannot be read; nothing was changed.
            OSError: The machine failed; once the marker stands it stays, and the next attempt begins anew.
        """
        marker = self._place.recovery / MARKER
        replaced = self._place.recovery / REPLACED / str(self._place.restore_id)
        staging = self._files.make_private(self._place.recovery / STAGING)
        with owned(open_root(self._place.state_root)) as state, owned(open_root(staging)) as directory:
            owner = Owner(state)
            stage = Stage(directory, self._source, owner, files=self._files, alive=self._alive)
            empty_directory(directory, self._alive)
            staged = self._stage(stage, standings)
            self._reach("restore.staged")
            self._files.write_atomic(marker, str(self._place.restore_id).encode())
            self._reach("restore.begun")
            with Aside(replaced, self._files) as aside:
                self._clear(state, standings, rules, plan, aside)
                self._reach("restore.cleared")
                _Swap(self._source, staged, directory, owner, aside, self._files).run(state, self._root.content)
            self._reach("restore.swapped")
        if not self._place.databases_follow:
            end_restore(self._place.recovery, self._files)
        self._reach("restore.finished")
        return replaced if aside.used else None

    def _stage(self, stage: Stage, standings: Mapping[Names, Standing]) -> dict[Names, bytes]:
        paths: list[Names] = []
        entries: list[Entry] = []
        pending: list[tuple[Names, Content]] = [((), self._root.content)]
        while pending:
            path, content = pending.pop()
            for entry in read_directory(self._source, content):
                below = (*path, entry.name)
                if entry.kind is Kind.DIRECTORY:
                    pending.append((below, entry.content))
                elif standings.get(below) is not Standing.EXACT:
                    paths.append(below)
                    entries.append(entry)
        return dict(zip(paths, stage.put(entries), strict=True))

    def _clear(
        self, state: int, standings: Mapping[Names, Standing], rules: CaptureRules, plan: ActivationPlan, aside: Aside
    ) -> None:
        """Set aside what the generation does not have, delete what can be rebuilt, and empty the guest's scratch directories.

        A directory that stands where the generation has a file is left alone here: the exchange sets it aside whole.
        """

        def foreign(seen: Seen) -> bool:
            return not seen.is_directory and rules.kind_of(seen.path) in _CAPTURED and seen.path not in standings

        for seen in find(state, foreign, lambda path: rules.descends_into(path) and path not in standings):
            aside.take(seen)
        deletable = Globs(plan.delete)
        for seen in find(state, lambda seen: deletable.matches(seen.path), deletable.may_match_below):
            remove_entry(seen.parent, seen.name, self._alive)
            self._files.sync(seen.parent)  # before the marker goes: what is deleted would disagree silently if it came back
        if self._place.scratch_root is not None:
            for relative in rules.guest_scratch:
                empty_scratch(self._place.scratch_root, relative, self._alive)


class _Swap:
    """Renames staged files into place, directory by directory."""

    def __init__(self, source: Source, staged: Mapping[Names, bytes], stage: int, owner: Owner, aside: Aside, files: Files) -> None:
        self._source = source
        self._staged = staged
        self._stage = stage
        self._owner = owner
        self._aside = aside
        self._files = files

    def run(self, directory: int, content: Content, path: Names = ()) -> None:
        """Bring one open directory, and all below it, to what was captured."""
        for entry in read_directory(self._source, content):
            below = (*path, entry.name)
            if entry.kind is Kind.DIRECTORY:
                with owned(self._enter(directory, entry, below)) as child:
                    self.run(child, entry.content, below)
                    self._owner.set_attributes(child, entry.mode, entry.mtime_ns)
            elif below in self._staged:
                if there := look(directory, entry.name, below):
                    self._aside.take(there)
                os.rename(self._staged[below], entry.name, src_dir_fd=self._stage, dst_dir_fd=directory)
            else:  # in place already, but for its time
                os.utime(entry.name, ns=(entry.mtime_ns, entry.mtime_ns), dir_fd=directory, follow_symlinks=False)
        self._files.sync(directory)

    def _enter(self, parent: int, entry: Entry, path: Names) -> int:
        """Open a captured directory for writing in it; make it where it is missing or where something else stands."""
        there = look(parent, entry.name, path)
        if there is not None and not there.is_directory:
            self._aside.take(there)
            there = None
        if there is None:
            os.mkdir(entry.name, PRIVATE_DIRECTORY, dir_fd=parent)
        descriptor = os.open(entry.name, DIRECTORY_FLAGS, dir_fd=parent)
        os.fchmod(descriptor, entry.mode | PRIVATE_DIRECTORY)
        return descriptor

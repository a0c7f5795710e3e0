"""Walks a provider's live state and stores what the capture list names (CONT-3, CONT-4).

What did not change since the generation before is not read: a file whose size, times and inode are those that were seen then. A large
log that grew is read from its last whole block on; that its beginning is still the stored one is checked later, when the host is no
longer held still (``Captured.deferred``).
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from jamcore.continuity.capturing.kept import NOTHING, Kept
from jamcore.continuity.capturing.logs import LogLedger, listing_before
from jamcore.continuity.capturing.reading import Before, Deferred, FileReader
from jamcore.continuity.generations.content import write_stream
from jamcore.continuity.generations.format import Sink
from jamcore.continuity.generations.objects import MODES, Entry, Growth, Kind, Listing, Root, encode, write_records, write_root
from jamcore.continuity.tree.locks import is_lock
from jamcore.continuity.tree.patterns import CaptureRules, NameRules
from jamcore.domain import limits
from jamcore.domain.continuity import CaptureKind, CaptureRefusedError
from jamcore.domain.secret_shapes import LOGIN_FILES
from jamcore.system.trees import (
    Names,
    Seen,
    SwappedError,
    look,
    names_in,
    open_directory,
    open_file,
    open_root,
    owned,
    shown,
    status_of,
)

READS = 3
"""How often a file is read that changes meanwhile; only possible where the guest cannot be frozen."""

NAMES_EACH = 64
"""Names looked at between two questions whether the caller gave up: some 300 microseconds."""

_GROWTHS: Mapping[CaptureKind, Growth] = {CaptureKind.WHOLE: Growth.WHOLE, CaptureKind.APPEND_ONLY: Growth.APPENDED}
_NOT_ANY_MORE = frozenset({errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.ENXIO})


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one checkpoint may hold, and how many names may be looked at for it (CONT-4)."""

    files: int = limits.CAPTURE_FILES
    bytes_total: int = limits.CAPTURE_BYTES
    depth: int = limits.CAPTURE_DEPTH


@dataclass(frozen=True, slots=True)
class Captured:
    """What was read. Every ``deferred`` must hold before it may be published."""

    root: Root
    root_digest: bytes
    deferred: tuple[Deferred, ...]


class _VanishedError(Exception):
    """A name was gone, or had become something else, when it was to be opened."""


class Capture:
    """One walk over one state root, in one thread."""

    def __init__(
        self,
        rules: CaptureRules,
        sink: Sink,
        before: Before,
        *,
        now_ns: int,
        stack: ExitStack,
        bounds: Bounds | None = None,
        kept: Kept = NOTHING,
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare the walk.

        Args:
            rules: What to capture.
            sink: Where units go.
            before: Where the units of earlier generations are.
            now_ns: The wall clock at the start; decides which change times are too young to prove anything.
            stack: Owns the descriptors of ``Captured.deferred``.
            bounds: The limits; the domain's by default.
            kept: Files that are not looked at: what the generation before has of them stays.
            alive: Called often; raises when the caller gave up.
        """
        self._rules = rules
        self._sink = sink
        self._source = before.source
        self._bounds = bounds or Bounds()
        self._kept = kept
        self._alive = alive
        self._reader = FileReader(sink, before, now_ns=now_ns, stack=stack, alive=alive)
        self._logs = LogLedger(before.source, rules)
        self._looked_at = self._files = self._bytes = 0
        self._device = -1

    def run(self, state_root: Path, previous: Root | None) -> Captured:
        """Walk the tree, store it, and compare it with the generation before.

        Raises:
            CaptureRefusedError: A bound, a credential, a special file, or a log that lost what a generation has of it.
            OSError: The tree cannot be read, or the pack not be written.
        """
        with owned(open_root(state_root)) as directory:
            seen = os.fstat(directory)
            self._device = seen.st_dev
            records = self._children(directory, (), listing_before(self._source, previous.content if previous else None))
            self._logs.account(directory)
        content = write_records(self._sink, records)
        root = Root(seen.st_mode & MODES, seen.st_mtime_ns, content, self._files, self._bytes)
        return Captured(root, write_root(self._sink, root), tuple(self._reader.deferred))

    def _children(self, directory: int, path: Names, stored: Listing) -> list[bytes]:
        """Store what is in an open directory and return its entries, encoded; those that did not change are passed on as they are."""
        names = self._names(directory, path)
        instead = self._instead(directory, path, names)
        rules = self._rules.within(path)
        records: list[bytes] = []
        passed_on: set[bytes] = set()
        changed: dict[bytes, Entry] = {}
        for number, name in enumerate(sorted({*names, *instead}) if instead else names):
            if number % NAMES_EACH == 0:
                self._alive()
            if name in instead:
                records += instead[name]
                passed_on.add(name)
                continue
            status = status_of(directory, name)
            if status is None:
                continue
            kind = rules.kind_of(name)
            if record := self._unchanged(stored, path, name, kind, status, rules):
                records.append(record)
                passed_on.add(name)
                continue
            try:
                entry = self._entry(Seen(directory, name, (*path, name), status), kind, rules, stored.entry(name))
            except _VanishedError:
                continue
            if entry is not None:
                records.append(encode(entry))
                changed[name] = entry
        for name in stored:
            if name not in passed_on:
                self._logs.note((*path, name), stored.entry(name), changed.get(name))
        return records

    def _names(self, directory: int, path: Names) -> list[bytes]:
        names = names_in(directory, self._bounds.files - self._looked_at)
        self._looked_at += len(names)
        if self._looked_at > self._bounds.files:
            raise CaptureRefusedError(path=shown(path) or ".", reason=f"more than {self._bounds.files} files")
        return names

    def _instead(self, directory: int, path: Names, names: list[bytes]) -> dict[bytes, list[bytes]]:
        """Return the names in a directory whose place what the generation before has takes, with that, encoded: nothing, where it has none.

        These are the files of kept conversations, and directories on the way to one that are gone.
        """
        kept, theirs = self._kept.below(path), self._kept.theirs.within(path)
        found: dict[bytes, list[bytes]] = {}
        for name in {*names, *kept} if kept or theirs else ():
            status = status_of(directory, name) if name in kept else None
            gone = name in kept and (status is None or not stat.S_ISDIR(status.st_mode))
            if gone or any(test.matches(name) for test in theirs):
                found[name] = self._kept_entry((*path, name), kept.get(name))
        return found

    def _kept_entry(self, path: Names, held: Entry | None) -> list[bytes]:
        """Return what the generation before has of kept conversations at a path, encoded; of a directory no more than what is theirs."""
        if held is None:
            return []
        if held.kind is not Kind.DIRECTORY:
            self._count(path, held.content.size)
            return [encode(held)]
        kept, stored = self._kept.below(path), listing_before(self._source, held.content)
        for name in stored:
            if name not in kept:
                self._logs.note((*path, name), stored.entry(name), None)
        records = [record for name in sorted(kept) for record in self._kept_entry((*path, name), kept[name])]
        return [encode(replace(held, content=write_records(self._sink, records)))]

    def _unchanged(
        self, stored: Listing, path: Names, name: bytes, kind: CaptureKind, status: os.stat_result, rules: NameRules
    ) -> bytes | None:
        """Return the stored entry of a file that is to be captured, is not refused by its name or place, and did not change.

        Thousands of files are what a turn does not change: this is all that is done for each of them.
        """
        growth = _GROWTHS.get(kind)
        if growth is None or status.st_dev != self._device or len(path) >= self._bounds.depth or not stat.S_ISREG(status.st_mode):
            return None
        if name in LOGIN_FILES or rules.is_credential(name) or is_lock(name, status.st_size):
            return None
        record = self._reader.record_of(stored, name, growth, status)
        if record is not None:
            self._count((*path, name), status.st_size)
        return record

    def _entry(self, seen: Seen, kind: CaptureKind, rules: NameRules, before: Entry | None) -> Entry | None:
        if seen.is_directory:
            return self._directory(seen, kind, before)
        if kind is CaptureKind.NEVER:
            return None
        if seen.name in LOGIN_FILES or rules.is_credential(seen.name):
            raise _refused(seen, "it is a credential")
        if kind is CaptureKind.WHOLE and (seen.is_file or seen.is_link) and is_lock(seen.name, seen.stat.st_size):
            return None
        if kind is CaptureKind.DATABASE:
            raise _refused(seen, "databases are not captured from the live state")
        self._require_place(seen)
        if seen.is_file:
            return self._file(seen, _GROWTHS[kind], before)
        if seen.is_link and kind is CaptureKind.WHOLE:
            return self._link(seen)
        raise _refused(seen, f"it is {_what(seen.stat.st_mode)}")

    def _directory(self, seen: Seen, kind: CaptureKind, before: Entry | None) -> Entry | None:
        """Store a directory; one that holds nothing captured counts only where the list names it itself."""
        itself = kind in _GROWTHS
        descends = self._rules.descends_into(seen.path)
        if not itself and not descends:
            return None
        self._require_place(seen)
        records: list[bytes] = []
        if descends:
            previous = before.content if before and before.kind is Kind.DIRECTORY else None
            with owned(_opened(open_directory, seen)) as child:
                records = self._children(child, seen.path, listing_before(self._source, previous))
        if not records and (not itself or is_lock(seen.name, 0)):
            return None
        content = write_records(self._sink, records)
        return Entry(seen.name, Kind.DIRECTORY, seen.stat.st_mode & MODES, seen.stat.st_mtime_ns, content)

    def _link(self, seen: Seen) -> Entry:
        target = os.readlink(seen.name, dir_fd=seen.parent)
        self._count(seen.path, len(target))
        return Entry(seen.name, Kind.LINK, MODES, seen.stat.st_mtime_ns, write_stream(self._sink, target))

    def _file(self, seen: Seen, growth: Growth, before: Entry | None) -> Entry:
        if growth is Growth.APPENDED and (before is None or before.growth is not growth):
            self._logs.note_new(seen.path)
        for _ in range(READS):
            self._require_room(seen.path, seen.stat.st_size)
            try:
                with owned(_opened(open_file, seen)) as descriptor:
                    entry = self._reader.read(descriptor, seen, growth, before)
            except SwappedError:
                again = look(seen.parent, seen.name, seen.path)
                if again is None or not again.is_file:
                    raise _VanishedError from None
                seen = again
            else:
                self._count(seen.path, entry.content.size)
                return entry
        raise _refused(seen, "it changes while it is read")

    def _count(self, path: Names, size: int) -> None:
        self._require_room(path, size)
        self._files += 1
        self._bytes += size

    def _require_room(self, path: Names, size: int) -> None:
        if self._bytes + size > self._bounds.bytes_total:
            raise CaptureRefusedError(path=shown(path), reason=f"more than {self._bounds.bytes_total} bytes in all")

    def _require_place(self, seen: Seen) -> None:
        if len(seen.path) > self._bounds.depth:
            raise _refused(seen, f"deeper than {self._bounds.depth} directories")
        if seen.stat.st_dev != self._device:
            raise _refused(seen, "it lies on another file system")


def _opened(opener: Callable[[Seen], int], seen: Seen) -> int:
    """Open what was seen, and turn what may go wrong with a guest's name into what it means."""
    try:
        return opener(seen)
    except SwappedError:
        raise
    except PermissionError as error:
        raise _refused(seen, "it cannot be read") from error
    except OSError as error:
        if error.errno in _NOT_ANY_MORE:
            raise _VanishedError from None
        raise


def _refused(seen: Seen, reason: str) -> CaptureRefusedError:
    return CaptureRefusedError(path=shown(seen.path), reason=reason)


def _what(mode: int) -> str:
    names = (
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISLNK, "a symbolic link where a log is expected"),
        (stat.S_ISBLK, "a block device"),
        (stat.S_ISCHR, "a character device"),
    )
    return next((name for test, name in names if test(mode)), "no regular file")

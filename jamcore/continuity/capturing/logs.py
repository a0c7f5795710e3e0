"""Sees to it that no generation silently lacks a log that the one before holds (CONT-1, CONT-11).

A turn that was captured must stay safe, also when the guest removes or rewrites the file it was captured from. Such a checkpoint is
refused; the last good generation stays the newest, and the next resume restores from it.
"""

from __future__ import annotations

from jamcore.continuity.capturing.growth import Live, keeps, live_file
from jamcore.continuity.generations.content import EMPTY, Content
from jamcore.continuity.generations.format import Source
from jamcore.continuity.generations.objects import Entry, Growth, Kind, Listing, read_listing
from jamcore.continuity.generations.packs import BlockDamagedError
from jamcore.continuity.tree.patterns import CaptureRules
from jamcore.domain.continuity import CaptureKind, CaptureRefusedError
from jamcore.system.trees import Names, opened_path, reading, shown


def listing_before(source: Source, content: Content | None) -> Listing:
    """Return a directory of the generation before by name; nothing, when it cannot be read: then all is read and stored anew."""
    if content is None:
        return Listing()
    try:
        return read_listing(source, content)
    except BlockDamagedError:
        return Listing()


def still_holds(source: Source, stored: Content, live: Live) -> bool:
    """Say whether a log still holds what is stored; where that cannot be read, nothing is known to be lost."""
    try:
        return keeps(source, stored, live)
    except BlockDamagedError:
        return True


class LogLedger:
    """Collects, during one capture, the logs that are new and the stored ones that are not where they were."""

    def __init__(self, source: Source, rules: CaptureRules) -> None:
        self._source = source
        self._rules = rules
        self._new: list[Names] = []
        self._lost: list[tuple[Names, Content]] = []

    def note_new(self, path: Names) -> None:
        """Note a log that the generation before does not have at this path."""
        self._new.append(path)

    def note(self, path: Names, old: Entry | None, now: Entry | None) -> None:
        """Compare one name of the generation before with what is there now."""
        if old is None:
            return
        if old.kind is Kind.FILE and old.growth is Growth.APPENDED:
            if (now is None or now.kind is not Kind.FILE) and old.content != EMPTY:
                self._lost.append((path, old.content))
        elif old.kind is Kind.DIRECTORY and (now is None or now.kind is not Kind.DIRECTORY):
            below = listing_before(self._source, old.content)
            for name in below:
                self.note((*path, name), below.entry(name), None)

    def account(self, root: int) -> None:
        """Accept a lost log only where it was moved under its own name and still holds what is stored of it.

        Raises:
            CaptureRefusedError: A log is gone.
        """
        for path, stored in self._lost:
            if self._rules.kind_of(path) is CaptureKind.APPEND_ONLY and not self._was_moved(root, path, stored):
                raise CaptureRefusedError(path=shown(path), reason="a log that the last checkpoint holds is gone")

    def _was_moved(self, root: int, path: Names, stored: Content) -> bool:
        for candidate in self._new:
            if candidate[-1] == path[-1]:
                with opened_path(root, candidate) as (descriptor, size):
                    if still_holds(self._source, stored, live_file(reading(descriptor), size)):
                        return True
        return False

"""What lies where in the checkpoint directory of an export, and in which order it is listed."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from jamcore.continuity.generations.objects import Growth
from jamcore.domain.checkpoint_exports import ExportedEntry, unspelled
from jamcore.domain.continuity import CaptureKind, EntryKind
from jamcore.system.trees import Names

LISTING = "checkpoint.json"
FILES = "files"
DATABASES = "databases"

DECLARED: Mapping[Growth, CaptureKind] = MappingProxyType(
    {Growth.WHOLE: CaptureKind.WHOLE, Growth.APPENDED: CaptureKind.APPEND_ONLY}
)
GROWTHS: Mapping[CaptureKind, Growth] = MappingProxyType({kind: growth for growth, kind in DECLARED.items()})


def names_of(entry: ExportedEntry) -> Names:
    """Return an entry's path as raw names.

    Raises:
        ValueError: It is not spelled as Jam spells paths.
    """
    return tuple(unspelled(entry.path).split(b"/"))


def place_of(entry: ExportedEntry) -> tuple[bool, Names]:
    """Return what entries are ordered by: databases come last, and each is in the order of its names."""
    return entry.kind is EntryKind.DATABASE, names_of(entry)

"""Describes the names of a tree as entries of an export, from what was learned while they were copied or read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from jamcore.domain.checkpoint_exports import spelled
from jamcore.domain.exports import ExportedKind, ExportEntry
from jamcore.system.trees import Names
from jamcore.workspace.exports.format import entry_sum
from jamcore.workspace.exports.reading import Stream
from jamcore.workspace.exports.survey import MODES, Item, Named, Survey

_KEPT = "user."
_NOT_A_FILES_OWN = frozenset({"security.selinux"})
"""The machine gives each file its label; it says nothing of the file."""


@dataclass(slots=True)
class Copied:
    """What a copy learned: the line of each item and its sum, in their order, and what a person should know."""

    lines: list[bytes] = field(default_factory=list)
    sums: list[bytes] = field(default_factory=list)
    left_out: Named = field(default_factory=Named)
    stripped: Named = field(default_factory=Named)
    credentials: Named = field(default_factory=Named)


@dataclass(frozen=True, slots=True)
class Learned:
    """What was learned of one item. ``stripped``: in words, what the copy has not got."""

    stream: Stream | None = None
    target: bytes = b""
    attributes: Mapping[str, bytes] = field(default_factory=dict)
    stripped: tuple[str, ...] = ()


def kept_attributes(found: Mapping[str, bytes]) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """Return the extended attributes that are exported, and in words those that are not."""
    kept = {name: value for name, value in found.items() if name.startswith(_KEPT)}
    others = sorted(found.keys() - kept.keys() - _NOT_A_FILES_OWN)
    return kept, tuple(f"attribute {spelled(os.fsencode(name))}" for name in others)


def spelled_attributes(attributes: Mapping[str, bytes]) -> tuple[tuple[str, str], ...]:
    """Return extended attributes as an entry has them."""
    return tuple((spelled(os.fsencode(name)), spelled(value)) for name, value in sorted(attributes.items()))


def spelled_path(top: str, path: Names) -> str:
    """Return the path that something below ``top`` has in the export."""
    return spelled(b"/".join((top.encode(), *path)))


def describe(survey: Survey, learned: Mapping[Names, Learned], top: str) -> Copied:
    """Return the entries of a copied tree, which lies below ``top`` in its export."""
    copied = Copied()
    for item in survey.items:
        of = learned.get(item.same_as or item.path, Learned())
        entry = _entry(item, of, top)
        copied.lines.append(entry.line())
        copied.sums.append(entry_sum(entry))
        if item.kind is ExportedKind.LEFT_OUT:
            copied.left_out.add(item.path, item.why)
        elif of.stripped:
            copied.stripped.add(item.path, ", ".join(of.stripped))
        if of.stream is not None and of.stream.secret:
            copied.credentials.add(item.path, of.stream.secret)
    return copied


def _entry(item: Item, learned: Learned, top: str) -> ExportEntry:
    if item.kind is ExportedKind.LEFT_OUT:
        return ExportEntry(path=spelled_path(top, item.path), kind=item.kind, why=item.why)
    is_link = item.kind is ExportedKind.SYMLINK
    return ExportEntry(
        path=spelled_path(top, item.path),
        kind=item.kind,
        mode="0777" if is_link else f"{item.mode & MODES:04o}",
        mtime_ns=item.mtime_ns,
        size=item.size if item.kind is ExportedKind.FILE else 0,
        sha256=learned.stream.sha256 if learned.stream else None,
        target=spelled(learned.target) if is_link else None,
        same_file_as=spelled_path(top, item.same_as) if item.same_as is not None else None,
        attributes=spelled_attributes(learned.attributes),
        stripped=learned.stripped,
    )

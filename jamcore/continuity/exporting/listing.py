"""Reads ``checkpoint.json`` of an export that may come from anywhere, and holds it against itself and the provider's word (WS-6, SEC-7).

What it lists becomes the state that a program starts from, so nothing is believed: a file is taken only where the provider here captures
one of that name, in the very way that the listing says.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from pydantic import ValidationError

from jamcore.continuity.exporting.form import GROWTHS, LISTING, names_of, place_of
from jamcore.continuity.generations.databases import declared
from jamcore.continuity.generations.objects import is_name
from jamcore.continuity.tree.locks import is_lock
from jamcore.continuity.tree.patterns import CaptureRules, Globs
from jamcore.domain import limits
from jamcore.domain.checkpoint_exports import CheckpointImportRefusedError, ExportedCheckpoint, ExportedEntry, unspelled
from jamcore.domain.continuity import CaptureKind, CaptureList, EntryKind
from jamcore.domain.secret_shapes import LOGIN_FILES
from jamcore.system.trees import Names, look, open_file, shown

_GLOB = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class ExportListing:
    """A listing that holds: what is in each directory of the state, and the databases."""

    exported: ExportedCheckpoint
    children: Mapping[Names, Mapping[bytes, ExportedEntry]]
    databases: Mapping[Names, ExportedEntry]


def read_listing(directory: int, digest: str | None) -> ExportedCheckpoint:
    """Read the listing of an open checkpoint directory. ``digest`` is the one that it must have, where the caller knows it.

    Raises:
        CheckpointImportRefusedError: It is no listing, has another digest, or is too large.
        OSError: It cannot be read.
    """
    seen = look(directory, LISTING.encode(), (LISTING.encode(),))
    if seen is None:
        raise _refused(LISTING, "it is not there")
    if not seen.is_file or seen.stat.st_size > limits.EXPORTED_BYTES:
        raise _refused(LISTING, f"it is no regular file of at most {limits.EXPORTED_BYTES} bytes")
    with os.fdopen(open_file(seen), "rb") as stream:
        data = stream.read(limits.EXPORTED_BYTES + 1)
    if digest is not None and hashlib.sha256(data).hexdigest() != digest:
        raise _refused(LISTING, "it is not the one that was confirmed")
    try:
        found = ExportedCheckpoint.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise _refused(LISTING, f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}") from error
    if found.canonical_json() != data:
        raise _refused(LISTING, "it is not byte for byte what Jam writes")
    return found


def checked(exported: ExportedCheckpoint, captures: CaptureList) -> ExportListing:
    """Hold a listing against itself and against what the provider here captures. Pure.

    Raises:
        CheckpointImportRefusedError: The first entry that does not fit is named.
    """
    _require_order(exported)
    identities = [one.provider_identity for one in exported.sessions]
    if len(set(identities)) != len(identities) or len({one.session_id for one in exported.sessions}) != len(identities):
        raise _refused(LISTING, "it names a session or a conversation twice")
    children: dict[Names, dict[bytes, ExportedEntry]] = {(): {}}
    databases: dict[Names, ExportedEntry] = {}
    rules, patterns = CaptureRules(captures), declared(captures)
    for entry in exported.entries:
        path = names_of(entry)
        _require_form(path, entry)
        if entry.kind is EntryKind.DATABASE:
            _require_database(path, entry, patterns)
            databases[path] = entry
            continue
        if path[:-1] not in children:
            raise _refused(shown(path), "the directory that it lies in is not listed before it")
        _require_captured(path, entry, rules)
        children[path[:-1]][path[-1]] = entry
        if entry.kind is EntryKind.DIRECTORY:
            children[path] = {}
    _require_counts(exported, databases, patterns)
    return ExportListing(exported, children, databases)


def _require_order(exported: ExportedCheckpoint) -> None:
    """Each name has one spelling and one place, so what comes twice, or out of turn, is seen here."""
    places = []
    for entry in exported.entries:
        try:
            places.append(place_of(entry))
        except ValueError as error:
            raise _refused(entry.path[:400], "it is not spelled as Jam spells paths") from error
    for (_, earlier), (_, later) in (pair for pair in pairwise(places) if pair[0] >= pair[1]):
        raise _refused(shown(later), "it is listed twice" if earlier == later else "it is not listed in order")


def _require_form(path: Names, entry: ExportedEntry) -> None:
    """Hold an entry against its own kind."""
    if not all(is_name(name) for name in path):
        raise _refused(shown(path), "it is no path below a directory")
    if len(path) > limits.CAPTURE_DEPTH:
        raise _refused(shown(path), f"deeper than {limits.CAPTURE_DEPTH} directories")
    has_bytes = entry.kind in (EntryKind.FILE, EntryKind.DATABASE)
    is_link, is_directory = entry.kind is EntryKind.LINK, entry.kind is EntryKind.DIRECTORY
    if (entry.sha256 is not None, entry.target is not None, entry.declared is None) != (has_bytes, is_link, is_directory):
        raise _refused(shown(path), f"it is not listed as a {entry.kind}")
    if is_directory and entry.size:
        raise _refused(shown(path), "a directory has no size")
    if entry.target is not None:
        _require_target(path, entry.target, entry.size)


def _require_target(path: Names, target: str, size: int) -> None:
    try:
        raw = unspelled(target)
    except ValueError as error:
        raise _refused(shown(path), "its target is not spelled as Jam spells paths") from error
    if len(raw) != size or not 0 < size <= limits.LINK_BYTES or b"\0" in raw:
        raise _refused(shown(path), "its target is none")


def _require_captured(path: Names, entry: ExportedEntry, rules: CaptureRules) -> None:
    """Take nothing that a checkpoint of this provider could not hold: it might be what a program obeys."""
    kind = rules.kind_of(path)
    if entry.kind is EntryKind.DIRECTORY:
        if kind not in GROWTHS and not rules.descends_into(path):
            raise _refused(shown(path), "the provider captures nothing there")
        return
    if path[-1] in LOGIN_FILES or rules.credentials.matches(path):
        raise _refused(shown(path), "it is a credential")
    if kind not in GROWTHS:
        raise _refused(shown(path), "the provider captures no such file")
    if entry.declared is not kind:
        raise _refused(shown(path), f"the provider captures it as {kind}, and it is listed as {entry.declared}")
    if entry.kind is EntryKind.LINK and kind is not CaptureKind.WHOLE:
        raise _refused(shown(path), "a symbolic link where a log is expected")
    if kind is CaptureKind.WHOLE and is_lock(path[-1], entry.size):
        raise _refused(shown(path), "it is a lock: it would say that a program runs")


def _require_database(path: Names, entry: ExportedEntry, patterns: tuple[str, ...]) -> None:
    if entry.declared is not CaptureKind.DATABASE or entry.mtime_ns:
        raise _refused(f"~/{shown(path)}", "it is not listed as a database")
    if not Globs(patterns).matches(path):
        raise _refused(f"~/{shown(path)}", "the provider captures no such database")
    if entry.size > limits.DATABASE_BYTES:
        raise _refused(f"~/{shown(path)}", f"more than {limits.DATABASE_BYTES} bytes")


def _require_counts(exported: ExportedCheckpoint, databases: Mapping[Names, ExportedEntry], patterns: tuple[str, ...]) -> None:
    if len(databases) > limits.DATABASES:
        raise _refused(LISTING, f"more than {limits.DATABASES} databases")
    for pattern in patterns:
        if not _GLOB & set(pattern) and tuple(pattern.encode().split(b"/")) not in databases:
            raise _refused(f"~/{pattern}", "the provider cannot do without this database, and it is not listed")
    sizes = [entry.size for entry in exported.entries if entry.declared is not None]
    if (len(sizes), sum(sizes)) != (exported.files, exported.bytes_total):
        raise _refused(LISTING, "it counts other files than it lists")


def _refused(path: str, reason: str) -> CheckpointImportRefusedError:
    return CheckpointImportRefusedError(path=path, reason=reason)

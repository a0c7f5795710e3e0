"""What of a generation goes into an export: the state of its host, or of chosen conversations alone (WS-5).

A shared host has one state for all its sessions. What of it belongs to one conversation only the provider knows, and it says so by patterns
with that conversation's id. What no pattern names is everybody's, and never goes along with one conversation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from uuid import UUID

from jamcore.continuity.generations.databases import Database, read_databases
from jamcore.continuity.generations.format import Source
from jamcore.continuity.generations.objects import Entry, Kind, Root, is_name, read_root, walk_tree
from jamcore.continuity.generations.publish import Generation
from jamcore.continuity.tree.patterns import Globs, conversation_globs
from jamcore.domain.checkpoint_exports import CheckpointExportRefusedError, CheckpointScope, ExportedConversation
from jamcore.domain.continuity import CaptureList, CheckpointCorruptError, ContinuityFailure, ContinuityRefusedError
from jamcore.system.trees import Names, shown


@dataclass(frozen=True, slots=True)
class Part:
    """What is written. ``left_out`` counts captured files that are not."""

    root: Root
    scope: CheckpointScope
    sessions: tuple[ExportedConversation, ...]
    entries: Mapping[Names, Entry]
    databases: tuple[Database, ...]
    left_out: int = 0


def select(source: Source, generation: Generation, captures: CaptureList, wanted: AbstractSet[UUID] | None) -> Part:
    """Choose what is written. ``wanted`` are sessions; ``None``: all.

    Raises:
        BlockDamagedError, CheckpointCorruptError: What lists the files is damaged, or there are others than it says.
        ContinuityRefusedError: A session's conversation is not in it.
        CheckpointExportRefusedError: A conversation cannot be told from others.
    """
    held = tuple(
        ExportedConversation(session_id=one.session_id, provider_identity=one.provider_identity, last_turn_id=one.last_turn_id)
        for one in generation.sessions
        if one.provider_identity is not None
    )
    chosen = held if wanted is None else tuple(one for one in held if one.session_id in wanted)
    for missing in sorted((wanted or frozenset()) - {one.session_id for one in chosen}):
        detail = "the checkpoint does not hold this session"
        raise ContinuityRefusedError(session=str(missing), failure=ContinuityFailure.SESSION_NOT_CAPTURED, detail=detail)
    root = read_root(source, bytes.fromhex(generation.root_digest))
    entries, databases = dict(walk_tree(source, root)), read_databases(source, root.databases)
    _require_counts(generation, root, [*_leaves(entries).values(), *databases])
    if chosen == held:
        return Part(root, CheckpointScope.HOST, held, entries, databases)
    if databases:
        reason = "a database holds the conversations of all sessions of its sandbox"
        raise CheckpointExportRefusedError(path=f"~/{shown(databases[0].path)}", reason=reason)
    others = [one.provider_identity for one in held if one not in chosen]
    kept = _kept(_leaves(entries), captures.conversation_patterns, [one.provider_identity for one in chosen], others)
    around = {path[:depth] for path in kept for depth in range(1, len(path))}
    found = {path: entry for path, entry in entries.items() if path in kept or path in around}
    return Part(root, CheckpointScope.SESSIONS, chosen, found, (), left_out=len(_leaves(entries)) - len(kept))


def _kept(files: Mapping[Names, Entry], patterns: Sequence[str], chosen: Sequence[str], others: Sequence[str]) -> set[Names]:
    """Return the files of chosen conversations, of each at least one and none that could be another's."""
    if not patterns:
        raise CheckpointExportRefusedError(path=".", reason="the provider cannot tell the conversations of a shared sandbox apart")
    not_theirs = _globs(patterns, others)
    kept: set[Names] = set()
    for identity in chosen:
        theirs = _globs(patterns, [identity])
        mine = {path for path in files if theirs.matches(path)}
        if not mine:
            raise CheckpointExportRefusedError(path=".", reason=f"no captured file is that of the conversation {identity}")
        kept |= mine
    for path in sorted(kept):
        if not_theirs.matches(path):
            raise CheckpointExportRefusedError(path=shown(path), reason="its name is that of two conversations")
    return kept


def _globs(patterns: Sequence[str], identities: Sequence[str]) -> Globs:
    if not all(is_name(identity.encode()) for identity in identities):
        raise CheckpointExportRefusedError(path=".", reason="the id of a conversation cannot be part of a file's name")
    return conversation_globs(patterns, identities)


def _leaves(entries: Mapping[Names, Entry]) -> dict[Names, Entry]:
    return {path: entry for path, entry in entries.items() if entry.kind is not Kind.DIRECTORY}


def _require_counts(generation: Generation, root: Root, holding: Sequence[Entry | Database]) -> None:
    counted = (len(holding), sum(one.content.size for one in holding))
    if counted != (root.files, root.bytes_total) or counted != (generation.files, generation.bytes_total):
        raise CheckpointCorruptError(checkpoint=str(generation.checkpoint_id), detail="the root counts other files than there are")

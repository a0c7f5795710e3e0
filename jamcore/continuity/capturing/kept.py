"""What a generation keeps of conversations whose resume was refused: what the one before has of them, whatever lies there now (CONT-7).

A program that brought a thread back blank may have written down that it is blank. In the next generation, which the others of its sandbox
ask for, that would stand in place of what the thread could still come back from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from jamcore.continuity.generations.format import Source
from jamcore.continuity.generations.objects import Entry, Kind, Root, is_name, walk_tree
from jamcore.continuity.generations.packs import BlockDamagedError
from jamcore.continuity.tree.patterns import Globs, conversation_globs
from jamcore.domain.continuity import CaptureKind, CaptureList, CaptureRefusedError
from jamcore.system.trees import Names


@dataclass(frozen=True, slots=True)
class Kept:
    """The files of some conversations.

    ``theirs`` says which paths are such files, ``held`` what the generation before has of them: names and entries by the directory that
    they are in, the directories on the way included.
    """

    theirs: Globs = field(default_factory=lambda: Globs(()))
    held: Mapping[Names, Mapping[bytes, Entry]] = field(default_factory=dict)

    def below(self, directory: Names) -> Mapping[bytes, Entry]:
        """Return what is kept in one directory, by name."""
        return self.held.get(directory, {})


NOTHING = Kept()


def can_keep(captures: CaptureList) -> bool:
    """Say whether the files of one conversation can be told from those of others; a database holds all of them."""
    return bool(captures.conversation_patterns) and all(entry.kind is not CaptureKind.DATABASE for entry in captures.entries)


def kept_of(identities: Collection[str], patterns: Iterable[str], source: Source, previous: Root | None, *, intact: bool) -> Kept:
    """Return what the generation before has of conversations.

    Args:
        identities: The conversations.
        patterns: How the provider tells the files of one; none where it cannot, and then nothing is kept.
        source: Where the units of that generation are.
        previous: Its root; ``None`` where it cannot be read, or there is none.
        intact: Whether no unit of it is known to be damaged.

    Raises:
        CaptureRefusedError: It cannot be kept, since it is damaged, or an id cannot be part of a file's name.
    """
    patterns = tuple(patterns)
    if not identities or not patterns:
        return NOTHING
    if previous is None or not intact:
        raise CaptureRefusedError(path=".", reason=f"{_KEPT}, and the last checkpoint is damaged")
    if not all(is_name(identity.encode()) for identity in identities):
        raise CaptureRefusedError(path=".", reason=f"{_KEPT}, and its id cannot be part of a file's name")
    theirs = conversation_globs(patterns, identities)
    try:
        entries = dict(walk_tree(source, previous))
    except BlockDamagedError as error:
        raise CaptureRefusedError(path=".", reason=f"{_KEPT}, and the last checkpoint is damaged") from error
    held: dict[Names, dict[bytes, Entry]] = {}
    for path, entry in entries.items():
        if entry.kind is not Kind.DIRECTORY and theirs.matches(path):
            for depth in range(1, len(path) + 1):
                held.setdefault(path[: depth - 1], {})[path[depth - 1]] = entries[path[:depth]]
    return Kept(theirs, held)


_KEPT = "a conversation whose resume was refused is to be kept as the last checkpoint has it"

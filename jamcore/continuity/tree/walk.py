"""Finds what a provider's live state holds, by descriptor alone: everything in it is under the hands of a guest."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator

from jamcore.domain import limits
from jamcore.system.trees import Names, Seen, look, names_in, open_directory, owned


def find(root: int, wanted: Callable[[Seen], bool], descend: Callable[[Names], bool]) -> Iterator[Seen]:
    """Yield what ``wanted`` accepts below ``root``, children before their directory; a wanted directory is not looked into.

    A directory that cannot be opened any more is passed over: what is gone needs no finding. The consumer may remove what it is given.
    """
    yield from _find(root, (), wanted, descend)


def _find(directory: int, path: Names, wanted: Callable[[Seen], bool], descend: Callable[[Names], bool]) -> Iterator[Seen]:
    names = names_in(directory, limits.CAPTURE_FILES)
    if len(names) > limits.CAPTURE_FILES:
        raise OSError(errno.E2BIG, f"more than {limits.CAPTURE_FILES} names in a directory", "/".join(map(repr, path)))
    for name in names:
        below = (*path, name)
        seen = look(directory, name, below)
        if seen is None:
            continue
        if wanted(seen):
            yield seen
        elif seen.is_directory and len(below) <= limits.CAPTURE_DEPTH and descend(below):
            try:
                with owned(open_directory(seen)) as child:
                    yield from _find(child, below, wanted, descend)
            except (FileNotFoundError, NotADirectoryError):
                continue

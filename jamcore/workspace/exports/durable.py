"""Makes a whole tree durable, before its name says that it is there."""

from __future__ import annotations

from collections.abc import Callable

from jamcore.domain.exports import ExportedKind
from jamcore.system.files import Files
from jamcore.system.tree_calls import TreeCalls
from jamcore.system.trees import owned
from jamcore.workspace.exports.reading import Chain
from jamcore.workspace.exports.survey import survey


def make_durable(root: int, files: Files, calls: TreeCalls, alive: Callable[[], None] = lambda: None) -> None:
    """Flush all of a tree that Jam made: at once where the system can, file by file where it cannot.

    Raises:
        OSError: Something could not be written.
    """
    if files.sync_filesystem(root):
        return
    with Chain(calls, root) as directories:
        for item in reversed(survey(root, calls, alive=alive).items):
            alive()
            if item.kind is ExportedKind.DIRECTORY:
                files.sync(directories.at(item.path))
            elif item.kind is ExportedKind.FILE:
                with owned(calls.open_file(directories.at(item.path[:-1]), item.path[-1])) as descriptor:
                    files.sync(descriptor)

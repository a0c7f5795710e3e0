"""Reads a whole tree that is already in its place, and learns of it what a copy would have learned."""

from __future__ import annotations

from collections.abc import Callable

from jamcore.domain.exports import ExportedKind
from jamcore.system.crew import spread
from jamcore.system.tree_calls import TreeCalls
from jamcore.system.trees import Names, SwappedError, owned
from jamcore.workspace.exports.describing import Learned, kept_attributes
from jamcore.workspace.exports.reading import Chain, FileReader, noting_changes, pieces
from jamcore.workspace.exports.survey import Item, Survey


def learn(
    root: int, survey: Survey, calls: TreeCalls, alive: Callable[[], None] = lambda: None
) -> tuple[dict[Names, Learned], list[Names]]:
    """Read everything that a look found; return what was learned, and what was not any more what was looked at.

    Raises:
        OSError: The machine failed.
    """
    changed: list[Names] = []
    learned: dict[Names, Learned] = {}

    def files(piece: list[Item], alive: Callable[[], None]) -> dict[Names, Learned]:
        reader = FileReader(calls, alive)
        part: dict[Names, Learned] = {}
        with Chain(calls, root) as directories:
            for item in piece:
                alive()
                with (
                    noting_changes(changed, item),
                    owned(calls.open_file(directories.at(item.path[:-1]), item.path[-1])) as descriptor,
                ):
                    _require_still(item, calls, descriptor)
                    stream = reader.digest(descriptor, item)
                    kept, others = kept_attributes(calls.attributes(descriptor))
                    part[item.path] = Learned(stream, attributes=kept, stripped=others)
        return part

    for part in spread(files, list(pieces(survey.items)), alive):
        learned |= part
    with Chain(calls, root) as directories:
        for item in survey.items:
            if item.kind in (ExportedKind.DIRECTORY, ExportedKind.SYMLINK):
                alive()
                with noting_changes(changed, item):
                    learned[item.path] = _other(item, calls, directories)
    return learned, sorted(changed)


def _other(item: Item, calls: TreeCalls, directories: Chain) -> Learned:
    if item.kind is ExportedKind.SYMLINK:
        return Learned(target=calls.target(directories.at(item.path[:-1]), item.path[-1]))
    directory = directories.at(item.path)
    _require_still(item, calls, directory)
    kept, others = kept_attributes(calls.attributes(directory))
    return Learned(attributes=kept, stripped=others)


def _require_still(item: Item, calls: TreeCalls, descriptor: int) -> None:
    if not item.is_still(calls.status_of(descriptor)):
        raise SwappedError

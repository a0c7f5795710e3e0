"""Making a distribution from a skeleton: the name is looked at first, and the directory is there whole or not at all."""

from __future__ import annotations

import keyword
import tempfile
from collections.abc import Iterator, Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path

from jamcore.domain.errors import ConflictError, InvalidInputError
from jamcore.domain.ids import plugin_name
from jamcore.engines.registry import GROUP as ENGINES
from jamcore.plugins.families import FAMILIES
from jamcore.plugins.manager import POLICIES, PROVIDERS
from jamcore.system.distributions import Found, by_name, installed

NAME = "acme"
"""The plugin's name in the skeletons."""
GROUPS = (PROVIDERS, ENGINES, POLICIES, FAMILIES)
"""The entry point groups of plugins."""
_MADE_BY_TOOLS = ("__pycache__", ".*_cache", ".hypothesis", ".coverage*", ".venv", ".tox", "build", "dist", "*.egg-info")


class Kind(StrEnum):
    """What a skeleton is of."""

    PROVIDER = "provider"
    ENGINE = "engine"
    POLICY = "policy"


def names_of(name: str) -> Mapping[str, str]:
    """Return what stands in a distribution of this plugin's for each form of the skeleton's name."""
    return {
        f"jam-{NAME}": f"jam-{name.replace('_', '-')}",
        NAME: name,
        NAME.upper(): name.upper(),
        NAME.title(): "".join(word.title() for word in name.split("_")),
    }


def files_of(kind: Kind, name: str) -> Iterator[tuple[str, str]]:
    """Yield the files of a distribution: path and content."""
    root = Path(__file__).with_name(kind.value)
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if path.is_file() and not made_by_tools(relative):
            yield _named(str(relative), name), _named(path.read_text(encoding="utf-8"), name)


def made_by_tools(path: Path) -> bool:
    """Whether a file of a distribution, by its path in there, is what a tool left beside the sources."""
    return any(fnmatchcase(part, pattern) for part in path.parts for pattern in _MADE_BY_TOOLS)


def make(kind: Kind, name: str, directory: Path | None = None) -> Path:
    """Make a distribution and return its directory.

    Args:
        kind: Of what.
        name: The plugin's name.
        directory: Where to make it; it must not be there yet. Default: ``jam-NAME`` in the current directory.

    Raises:
        InvalidInputError: The name is none, or belongs to Python.
        ConflictError: An installed plugin or package has the name, or the directory is there.
        OSError: It cannot be written.
    """
    require_free(name)
    place = (directory or Path(names_of(name)[f"jam-{NAME}"])).absolute()
    if place.is_symlink() or place.exists():
        raise ConflictError(kind="directory", ref=str(place), problem="it exists already")
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".jam-new-", dir=place.parent) as scratch:
        whole = Path(scratch, "whole")
        for relative, content in files_of(kind, name):
            path = whole / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        _put(whole, place)
    return place


def require_free(name: str) -> None:
    """Refuse a name that no plugin can have, or that one has.

    Raises:
        InvalidInputError: It is no name, or belongs to Python.
        ConflictError: An installed plugin or package has it.
    """
    plugin_name(name)
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise InvalidInputError(field="name", problem=f"{name!r} is a word of Python")
    for claimed, found in by_name(installed(GROUPS)).items():
        if claimed == name:
            raise ConflictError(kind="plugin", ref=name, problem=f"{_origins(found)} has this name")
    if find_spec(f"jam_{name}") is not None:
        raise ConflictError(kind="package", ref=f"jam_{name}", problem="a package of this name is installed already")


def _origins(found: tuple[Found, ...]) -> str:
    return " and ".join(each.origin for each in found)


def _named(text: str, name: str) -> str:
    for old, new in names_of(name).items():
        text = text.replace(old, new)
    return text


def _put(whole: Path, place: Path) -> None:
    """Move the directory where it belongs. Whoever was faster keeps theirs."""
    try:
        whole.rename(place)
    except OSError as error:
        if place.exists():
            raise ConflictError(kind="directory", ref=str(place), problem="it exists already") from error
        raise

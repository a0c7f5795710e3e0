"""What a mutant is, and how one is made: a good plugin, and replacements in its files."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

from jamcore.testing.skeleton.making import NAME, Kind, files_of

PACKAGE = f"src/jam_{NAME}"
AGENT, RUNTIME, EVENTS, OPENING, STATE, PLAN, DESCRIPTION, PLUGIN = (
    f"{PACKAGE}/{module}.py" for module in ("agent", "runtime", "events", "opening", "state", "plan", "description", "plugin")
)
"""The modules of the good plugin."""
CONFTEST = "tests/conftest.py"
PROJECT = "pyproject.toml"


class MutationError(ValueError):
    """A replacement whose place is not in the good plugin, or there more than once: the plugin has changed, and the mutant has not."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement of exactly one place in a file.

    Attributes:
        path: The file, from the distribution's directory.
        old: What stands there. Its further lines, and those of ``new``, are indented as the line is in which it begins.
        new: What stands there afterwards.
    """

    path: str
    old: str
    new: str

    def apply(self, text: str) -> str:
        """Return the file's text with the replacement.

        Raises:
            MutationError: The place is not there, or not once.
        """
        places = [*self._places(text)]
        if len(places) != 1:
            raise MutationError(f"{self.path}: {self.old!r} is there {len(places)} times")
        [(start, old, indent)] = places
        return text[:start] + self.new.replace("\n", f"\n{indent}") + text[start + len(old) :]

    def _places(self, text: str) -> Iterator[tuple[int, str, str]]:
        for found in re.finditer(re.escape(self.old.partition("\n")[0]), text):
            line = text[text.rfind("\n", 0, found.start()) + 1 : found.end()]
            indent = line[: len(line) - len(line.lstrip())]
            old = self.old.replace("\n", f"\n{indent}")
            if text.startswith(old, found.start()):
                yield found.start(), old, indent


@dataclass(frozen=True, slots=True)
class Base:
    """A good plugin.

    Attributes:
        name: What it is called.
        edits: How it differs from what ``jam plugin new`` makes, to claim what that does not.
    """

    name: str
    edits: tuple[Edit, ...] = ()


SKELETON = Base("skeleton")


@dataclass(frozen=True, slots=True)
class Mutant:
    """A good plugin with one fault.

    Attributes:
        name: What is wrong with it, in a few words with hyphens.
        found_by: The check that has to fail: the suite's class and the test, with a dot. Of a check with cases some have to.
        edits: What makes the fault.
        base: What it was made from.
        also: Checks that cannot but fail with it.
        because: Why they cannot: the rule cannot be broken alone.
    """

    name: str
    found_by: str
    edits: tuple[Edit, ...]
    base: Base = SKELETON
    also: tuple[str, ...] = ()
    because: str = ""

    @property
    def expected(self) -> frozenset[str]:
        """All checks that have to fail."""
        return frozenset((self.found_by, *self.also))


def files_with(*edits: Edit) -> Mapping[str, str]:
    """Return the files of the good plugin after these replacements, one after the other, by path.

    Raises:
        MutationError: A place is not there exactly once, or what comes of it is no Python.
    """
    files = dict(files_of(Kind.PROVIDER, NAME))
    for edit in edits:
        if edit.path not in files:
            raise MutationError(f"{edit.path} is no file of the good plugin")
        files[edit.path] = edit.apply(files[edit.path])
    for path, text in files.items():
        if path.endswith(".py"):
            try:
                compile(text, path, "exec")
            except SyntaxError as error:
                raise MutationError(f"{path}: {error}") from error
    return files


def place(directory: Path, *edits: Edit) -> Path:
    """Write the good plugin after these replacements into a directory, and what an installer would write of it beside the package.

    Returns:
        The directory that has to be on the path of modules.

    Raises:
        MutationError: As :func:`files_with`.
    """
    files = files_with(*edits)
    project = tomllib.loads(files[PROJECT])
    stem = f"src/{project['project']['name'].replace('-', '_')}-{project['project']['version']}.dist-info"
    files = {
        **files,
        f"{stem}/METADATA": _metadata(project["project"]),
        f"{stem}/entry_points.txt": _entry_points(project["project"]),
    }
    for relative, text in files.items():
        path = directory / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return directory / "src"


def _metadata(project: Mapping[str, object]) -> str:
    needs = project["dependencies"]
    assert isinstance(needs, list)
    requires = [f"Requires-Dist: {Requirement(need)}" for need in needs]
    return "\n".join(("Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {project['version']}", *requires, ""))


def _entry_points(project: Mapping[str, object]) -> str:
    groups = project["entry-points"]
    assert isinstance(groups, dict)
    return "\n".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in named.items()) for group, named in groups.items()
    )

"""Finds the source files of the workspace: what contract tests and generated pages look at."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_RUN_ON_IMPORT = frozenset({"__main__", "env"})
"""Modules that are programs: importing them runs them (``python -m``, and Alembic's environment)."""

SKELETONS = ("jamcore/testing/skeleton/provider", "jamcore/testing/skeleton/engine", "jamcore/testing/skeleton/policy")
"""What lies below the core, and is no module of it: the beginnings of other distributions (:mod:`jamcore.testing.skeleton`)."""


@dataclass(frozen=True, slots=True)
class Source:
    """One module: its dotted name, its file, and the root of the workspace it belongs to."""

    module: str
    path: Path
    root: Path

    @property
    def package(self) -> str:
        """The top-level package."""
        return self.module.partition(".")[0]

    @property
    def name(self) -> str:
        """The file's name relative to the workspace, with forward slashes."""
        return self.path.relative_to(self.root).as_posix()

    @property
    def is_importable(self) -> bool:
        """Whether importing the module only defines things: programs and migration scripts are run by others."""
        parts = self.module.split(".")
        return parts[-1] not in _RUN_ON_IMPORT and "versions" not in parts

    def tree(self) -> ast.Module:
        """Parse the file."""
        return ast.parse(self.path.read_bytes(), filename=self.name)


def workspace_root(start: Path) -> Path:
    """Return the nearest directory at or above ``start`` that holds the workspace.

    Raises:
        FileNotFoundError: There is none: generated pages are made in a checkout only.
    """
    for directory in (start, *start.parents):
        if (directory / "jamcore").is_dir() and (directory / "pyproject.toml").is_file():
            return directory
    raise FileNotFoundError(start / "pyproject.toml")


def core_sources(root: Path) -> tuple[Source, ...]:
    """Return the modules of jamcore, sorted by name."""
    return tuple(_sources(root, root / "jamcore"))


def plugin_sources(root: Path) -> tuple[Source, ...]:
    """Return the modules of every plugin of the workspace, sorted by plugin and name."""
    packages = sorted(p for p in root.glob("plugins/*/src/*") if p.is_dir() and p.suffix != ".egg-info")
    return tuple(source for package in packages for source in _sources(root, package))


def all_sources(root: Path) -> tuple[Source, ...]:
    """Return the modules of the core and of the plugins."""
    return (*core_sources(root), *plugin_sources(root))


def files_with_tests(root: Path) -> tuple[Path, ...]:
    """Return the files that may hold tests: the core's, the plugins', and the published suites."""
    places = ("tests/**/*.py", "plugins/*/tests/**/*.py", "jamcore/testing/**/*.py")
    return tuple(sorted(path for place in places for path in root.glob(place)))


def _sources(root: Path, package: Path) -> Iterator[Source]:
    skeletons = [root / place for place in SKELETONS]
    for path in sorted(package.rglob("*.py")):
        if any(map(path.is_relative_to, skeletons)):
            continue
        parts = path.relative_to(package.parent).with_suffix("").parts
        yield Source(".".join(parts[:-1] if parts[-1] == "__init__" else parts), path, root)

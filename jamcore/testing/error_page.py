"""Makes docs/errors.md: every typed error with its code and hint. Run ``python -m jamcore.testing.error_page``."""

from __future__ import annotations

import argparse
import importlib
import inspect
from collections.abc import Iterable
from pathlib import Path

from jamcore.domain.errors import FaultError, JamError, RefusalError
from jamcore.testing.sources import all_sources, workspace_root

PAGE = "docs/errors.md"
_HEAD = """\
# Errors

Made by `python -m jamcore.testing.error_page` from the code; do not edit. A code never changes its meaning. A *refusal* is something
that you can change; a *fault* is Jam or the machine being wrong. `--json` and the control interface answer with the code.
"""


def load_errors(root: Path) -> tuple[type[JamError], ...]:
    """Import every module of the workspace and return its errors, sorted by code and name. Test doubles are left out."""
    for source in all_sources(root):
        if source.is_importable and not source.module.startswith("jamcore.testing"):
            importlib.import_module(source.module)
    packages = {source.package for source in all_sources(root)}
    found = {error for error in _subclasses(JamError) if _is_published(error, packages)} | {JamError}
    return tuple(sorted(found, key=lambda error: (error.code, error.__name__)))


def kind(error: type[JamError]) -> str:
    """Return what the error means for the one who gets it."""
    return "refusal" if issubclass(error, RefusalError) else "fault" if issubclass(error, FaultError) else "other"


def render(errors: Iterable[type[JamError]]) -> str:
    """Return the page, one section per family of codes."""
    lines, family = [_HEAD], None
    for error in errors:
        if error.code.partition(".")[0] != family:
            family = error.code.partition(".")[0]
            lines.append(f"\n## {family}\n")
        summary = inspect.cleandoc(error.__doc__ or "").partition("\n")[0]
        lines.append(f"\n**`{error.code}`** ({kind(error)}, `{error.__name__}`): {summary}\n\n> {error.hint}\n")
    return "".join(lines)


def _is_published(error: type[JamError], packages: set[str]) -> bool:
    return error.__module__.partition(".")[0] in packages and not error.__module__.startswith("jamcore.testing")


def _subclasses(base: type[JamError]) -> set[type[JamError]]:
    direct = set(base.__subclasses__())
    return direct.union(*(_subclasses(error) for error in direct))


def main(arguments: list[str] | None = None) -> int:
    """Write the page."""
    argparse.ArgumentParser(prog="python -m jamcore.testing.error_page", description="Make docs/errors.md.").parse_args(arguments)
    root = workspace_root(Path.cwd())
    (root / PAGE).write_text(render(load_errors(root)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Makes docs/settings.md: every option, from its type. Run ``python -m jamcore.testing.settings_page``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from jamcore.control import predecessors
from jamcore.control.settings import PREFIX, Settings
from jamcore.testing.sources import workspace_root

PAGE = "docs/settings.md"
_HEAD = """\
# Settings

Made by `python -m jamcore.testing.settings_page` from the type of each option; do not edit.

An option is said, the strongest first, by the command line, by its variable, by a line of `config.toml` in the app directory under its own
name, by one of the older names that Jam's predecessors used, or by its default. `jam config show --origin` prints the values in force and
where each comes from. A running daemon keeps the settings that it was started with.
"""
_WORDS: Mapping[object, str] = {str: "text", float: "number", int: "whole number", bool: "true or false", Path: "path"}


def render() -> str:
    """Return the page."""
    older = predecessors.names()
    sections = [_section(name, field, older.get(name, ())) for name, field in Settings.model_fields.items()]
    return "\n".join((_HEAD, *sections))


def kind(annotation: object) -> str:
    """Return an option's type in words."""
    if get_origin(annotation) is Literal:
        return " or ".join(f"`{value}`" for value in get_args(annotation))
    if isinstance(annotation, UnionType):
        return " or ".join(kind(part) for part in get_args(annotation) if part is not NoneType)
    if get_origin(annotation) is tuple:
        return "names, separated by commas"
    if get_origin(annotation) is dict:
        return "tables; in the variable, JSON"
    return _WORDS[annotation]


def _section(name: str, field: FieldInfo, older: tuple[str, ...]) -> str:
    default = "none" if field.is_required() or field.default in (None, (), {}) else f"`{field.default}`"
    lines = [
        f"## {name}",
        "",
        field.description or "",
        "",
        f"- Variable: `{PREFIX}{name.upper()}`",
        f"- Type: {kind(field.annotation)}{''.join(_bounds(field))}",
        f"- Default: {default}",
    ]
    if older:
        lines.append(f"- Older names, the stronger first: {', '.join(f'`{variable}`' for variable in older)}")
    return "\n".join((*lines, ""))


def _bounds(field: FieldInfo) -> list[str]:
    words = {
        "gt": "more than {:g}",
        "ge": "at least {:g}",
        "lt": "less than {:g}",
        "le": "at most {:g}",
        "max_length": "at most {} characters",
    }
    marks = [(text, getattr(mark, name)) for mark in field.metadata for name, text in words.items() if hasattr(mark, name)]
    return [f", {text.format(value)}" for text, value in marks]


def main(arguments: list[str] | None = None) -> int:
    """Write the page."""
    argparse.ArgumentParser(prog="python -m jamcore.testing.settings_page", description="Make docs/settings.md.").parse_args(
        arguments
    )
    (workspace_root(Path.cwd()) / PAGE).write_text(render(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

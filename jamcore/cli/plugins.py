"""What the command line says of plugins."""

from __future__ import annotations

from collections.abc import Iterator

from jamcore.cli.output import Row
from jamcore.cli.text import safe_line
from jamcore.domain.plugins import PluginView

COLUMNS = ("PLUGIN", "KIND", "STATE", "DISTRIBUTION", "ENTRY POINT", "BUILT FOR")


def plugin_row(view: PluginView) -> Row:
    """Return a plugin as a line of a table."""
    return (
        view.name,
        view.kind,
        f"{view.state}, {view.at_next_start} at the next start" if view.at_next_start else view.state,
        f"{view.distribution} {view.version}".strip() or "not installed",
        view.entry or None,
        view.built_for,
    )


def notes_on(view: PluginView) -> Iterator[tuple[str, str]]:
    """Yield what the table has no place for, with its colour: the reasons, and what to do."""
    for problem in view.problems:
        yield f"{view.name}: {problem}", "red"
    for warning in view.warnings:
        yield f"{view.name}: deprecated: {warning}", "yellow"
    if view.block is not None and view.block.why:
        yield f"{view.name}: blocked because: {safe_line(view.block.why)}", "yellow"
    if view.hint and view.state != "loaded":
        yield f"  → {view.name}: {view.hint}", ""


def outcome(name: str, views: tuple[PluginView, ...], *, blocked: bool) -> str:
    """Say what was done, and when it counts."""
    word = "blocked" if blocked else "unblocked"
    if any(view.at_next_start for view in views):
        return f"{name}: {word} from the daemon's next start on, until then nothing changes: jam daemon restart"
    return f"{name}: {word}"

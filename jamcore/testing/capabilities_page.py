"""Makes docs/capabilities.md: what the plugins of this workspace can do, as they say themselves.

Run ``python -m jamcore.testing.capabilities_page``, with all of them installed.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import anyio

from jamcore.domain.cells import Ability, Cell, CellTable, Placement
from jamcore.domain.providers import ProviderDescription
from jamcore.engines.port import EnginePlugin
from jamcore.engines.registry import GROUP, EngineRegistry
from jamcore.plugins.manager import POLICIES, PROVIDERS, ProviderManager
from jamcore.testing.sources import workspace_root

PAGE = "docs/capabilities.md"
_HEAD = """\
# Capabilities

Made by `python -m jamcore.testing.capabilities_page` from the plugins of this workspace; do not edit. Each plugin describes itself
(`jam_describe_provider`, `EnginePlugin`), and is examined when it is loaded for what it says. `jam provider cells` prints the table of an
installation, with all plugins that it has (CAP-5); `jam plugin ls` names them.
"""


@dataclass(frozen=True, slots=True)
class Installed:
    """What the page is made of. ``absent`` are distributions of the workspace that are not installed here."""

    table: CellTable
    providers: Mapping[str, ProviderDescription]
    engines: Mapping[str, EnginePlugin]
    absent: tuple[str, ...]


async def load(root: Path) -> Installed:
    """Load the plugins of the workspace, and no other ones that may be installed beside them.

    Raises:
        ValueError: One of them was not loaded.
    """
    names = [_name(path) for path in (root / "pyproject.toml", *sorted(root.glob("plugins/*/pyproject.toml")))]
    found, absent = list[metadata.EntryPoint](), list[str]()
    for name in names:
        try:
            found += metadata.distribution(name).entry_points
        except metadata.PackageNotFoundError:
            absent.append(name)
    plugins, registry = ProviderManager(), EngineRegistry()
    await plugins.load(found=[entry for entry in found if entry.group in (PROVIDERS, POLICIES)])
    await registry.load(found=[entry for entry in found if entry.group == GROUP])
    if wrong := [str(report) for report in (*plugins.reports(), *registry.reports()) if report.state != "loaded"]:
        raise ValueError("; ".join(wrong))
    providers = {name: plugins.provider(name).description for name in plugins.names()}
    return Installed(plugins.table(), providers, registry.plugins(), tuple(absent))


def render(installed: Installed) -> str:
    """Return the page."""
    sections = (_HEAD, _cells(installed), _providers(installed.providers), _abilities(installed.engines))
    return "\n".join(sections)


def _cells(installed: Installed) -> str:
    rows = installed.table.rows()
    cells = sorted({cell for _, cell in rows}, key=str)
    body = (
        (f"`{cell}`", *(_yes((name, cell) in rows) for name in installed.providers), _engines_for(cell, installed.engines))
        for cell in cells
    )
    return "## Combinations of placement, configuration and workspace\n\n" + _table(("", *installed.providers, "engines"), body)


def _engines_for(cell: Cell, engines: Mapping[str, EnginePlugin]) -> str:
    """Return the engines whose abilities suffice: the others are refused (CAP-4)."""
    return ", ".join(name for name, engine in engines.items() if cell.needs() <= engine.abilities) or "none of these"


def _providers(providers: Mapping[str, ProviderDescription]) -> str:
    heading = ("", "agent", "program", "platforms", "credential", "exact resume", "can ask", "sessions of a shared host")
    body = ((f"`{name}`", *_facts(each)) for name, each in providers.items())
    return "## Providers\n\n" + _table(heading, body)


def _facts(about: ProviderDescription) -> tuple[str, ...]:
    spec, credential = about.toolchain, about.credential
    return (
        about.title,
        f"{spec.distribution} {spec.version}" if spec else "not pinned",
        ", ".join(spec.platforms()) if spec else "",
        f"`{credential.name}`, for {credential.origin}" if credential else "none",
        _yes(about.continuity),
        _yes(about.approvals),
        _sharing(about),
    )


def _sharing(about: ProviderDescription) -> str:
    if all(cell.placement is not Placement.SHARED for cell in about.cells):
        return ""
    return "in one process" if about.threads_share_process else "a process each"


def _abilities(engines: Mapping[str, EnginePlugin]) -> str:
    isolation = ("isolation", *(engine.isolation.name.lower() for engine in engines.values()))
    body = ((f"`{ability}`", *(_yes(ability in engine.abilities) for engine in engines.values())) for ability in sorted(Ability))
    return "## Engines\n\n" + _table(("", *engines), (isolation, *body))


def _table(heading: tuple[str, ...], body: Iterable[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(heading) + " |", "|" + "---|" * len(heading), *("| " + " | ".join(row) + " |" for row in body)]
    return "\n".join((*lines, ""))


def _yes(said: object) -> str:
    return "yes" if said else "no"


def _name(path: Path) -> str:
    return str(tomllib.loads(path.read_text(encoding="utf-8"))["project"]["name"])


def main(arguments: list[str] | None = None) -> int:
    """Write the page, unless a plugin of the workspace is not installed."""
    parser = argparse.ArgumentParser(prog="python -m jamcore.testing.capabilities_page", description="Make docs/capabilities.md.")
    parser.parse_args(arguments)
    root = workspace_root(Path.cwd())
    installed = anyio.run(load, root)
    if installed.absent:
        parser.error(f"not installed: {', '.join(installed.absent)}")
    (root / PAGE).write_text(render(installed), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

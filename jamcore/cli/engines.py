"""Which engine a new room gets: the command line fills it in and says so, before anything is made (ENG-4, CAP-1)."""

from __future__ import annotations

from jamcore.cli.output import Output
from jamcore.cli.words import NO_ISOLATION
from jamcore.control.client import JamClient
from jamcore.domain.requests import EngineView, RoomView

WARNING = "Nothing isolates this agent: it runs on this machine as you do, and can read and change everything that you can."


async def engine_for(output: Output, client: JamClient, named: str | None) -> str | None:
    """Return the engine that a request will name; ``None`` leaves the refusal to the daemon, which knows what is missing."""
    engines = await client.engines()
    chosen = next((engine for engine in engines if (engine.default if named is None else engine.name == named)), None)
    if chosen is None:
        return named
    if named is None:
        output.note(_filled_in(chosen))
    warn(output, chosen)
    return chosen.name


def warn(output: Output, shown: EngineView | RoomView) -> None:
    """Say plainly when nothing stands between an agent and the person's machine; with JSON the field ``isolation`` says it."""
    if shown.isolation == NO_ISOLATION:
        output.note(WARNING, "bold yellow")


def _filled_in(engine: EngineView) -> str:
    if engine.isolation == NO_ISOLATION:
        return f"Engine: {engine.name}, as the settings say (`jam config show`: sandboxing, engine); --engine names another."
    return f"Engine: {engine.name} (isolation: {engine.isolation}); --engine names another."

"""Which engine a request gets, and what a missing or broken one means (CAP-1, ENG-4)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from jamcore.daemon.enginehouse import EngineHouse, open_engines
from jamcore.domain.cells import Ability
from jamcore.domain.plugins import PluginKind, PluginReport
from jamcore.domain.sandboxes import EngineHealth, EngineUnavailableError, Finding, Isolation
from jamcore.engines.port import Engine, EngineContext, EnginePlugin
from jamcore.engines.registry import EngineRegistry
from jamcore.system.files import Files

pytestmark = pytest.mark.anyio


class Probed:
    """As much of an engine as choosing one needs."""

    def __init__(self, name: str, isolation: Isolation, *, usable: bool = True) -> None:
        self.name = name
        self.isolation = isolation
        self.abilities: frozenset[Ability] = frozenset()
        self.usable = usable

    async def probe(self) -> EngineHealth:
        """Say what it was told to say."""
        finding = Finding(subject=self.name, ok=self.usable, detail="it is not there", hint="install it")
        return EngineHealth(engine=self.name, usable=self.usable, findings=(finding,))


PLAIN = Probed("plain", Isolation.NONE)
SPACES = Probed("spaces", Isolation.NAMESPACE)
MACHINE = Probed("machine", Isolation.MICROVM)
ABSENT = Probed("absent", Isolation.MICROVM, usable=False)


def house(*engines: Probed, preferred: str | None = None, sandboxing: bool = True) -> EngineHouse:
    named = {engine.name: cast("Engine", engine) for engine in engines}
    return EngineHouse(named, preferred=preferred, sandboxing=sandboxing)


@pytest.mark.guarantee("ENG-4", "CAP-1")
@pytest.mark.parametrize(
    ("engines", "preferred", "sandboxing", "asked", "chosen"),
    [
        ((PLAIN, SPACES, MACHINE), None, True, None, "machine"),
        ((PLAIN, SPACES, ABSENT), None, True, None, "spaces"),
        ((PLAIN, SPACES, MACHINE), "spaces", True, None, "spaces"),
        ((PLAIN, SPACES), None, True, "plain", "plain"),
        ((PLAIN, SPACES), "plain", True, None, "plain"),
        ((PLAIN, SPACES), None, False, None, "plain"),
        ((PLAIN, SPACES), "spaces", False, None, "plain"),
        ((PLAIN, SPACES), None, False, "spaces", "spaces"),
        ((PLAIN, ABSENT), None, False, None, "plain"),
        ((PLAIN, ABSENT), None, True, None, None),
        ((PLAIN,), None, True, None, None),
        ((SPACES,), None, False, None, None),
        ((PLAIN, ABSENT), None, True, "absent", None),
        ((PLAIN,), None, True, "nowhere", None),
        ((), None, True, None, None),
    ],
)
async def test_what_a_request_gets(
    engines: tuple[Probed, ...], preferred: str | None, sandboxing: bool, asked: str | None, chosen: str | None
) -> None:
    """A name is obeyed; without one the strongest healthy sandbox, never a host process; with sandboxing off a host process, no other."""
    made = house(*engines, preferred=preferred, sandboxing=sandboxing)
    if chosen is None:
        with pytest.raises(EngineUnavailableError) as refused:
            await made.choose(asked)
        assert refused.value.hint
        return
    assert (await made.choose(asked)).name == chosen
    if asked is None:
        assert [view.name for view in await made.views() if view.default] == [chosen]


@pytest.mark.guarantee("CAP-1")
async def test_all_engines_are_shown_strongest_first() -> None:
    """With what stands between guest and host, and with what an absent one lacks."""
    views = await house(PLAIN, SPACES, ABSENT).views()
    assert [(view.name, view.isolation, view.usable, view.default) for view in views] == [
        ("absent", "microvm", False, False),
        ("spaces", "namespace", True, True),
        ("plain", "none", True, False),
    ]
    assert (views[0].detail, views[0].hint) == ("it is not there", "install it")
    assert house(PLAIN).isolation("gone") == "unknown"


class Broken:
    """An engine that cannot even be opened."""

    name = "broken"

    @asynccontextmanager
    async def open(self, context: EngineContext) -> AsyncIterator[Engine]:
        """Fail."""
        if context.root.name == self.name:
            raise RuntimeError(f"no {self.name} here")
        yield cast("Engine", PLAIN)


class Whole(Broken):
    """One that can."""

    name = "whole"

    @asynccontextmanager
    async def open(self, context: EngineContext) -> AsyncIterator[Engine]:
        """Find its directories."""
        assert context.root.is_dir()
        assert context.runtime.is_dir()
        yield cast("Engine", Probed("whole", Isolation.NAMESPACE))


class Registry(EngineRegistry):
    """Two installed engines."""

    def plugins(self) -> dict[str, EnginePlugin]:
        """Return both."""
        return {kind.name: cast("EnginePlugin", kind()) for kind in (Broken, Whole)}


@pytest.mark.guarantee("CAP-1")
async def test_an_engine_that_cannot_be_opened_stops_nothing(tmp_path: Path) -> None:
    """The daemon starts with the others; the doctor and whoever names it learn why."""
    async with AsyncExitStack() as stack:
        made = await open_engines(stack, Registry(), tmp_path, files=Files(), preferred=None, sandboxing=True)
        assert [engine.name for engine in made.all()] == ["whole"]
        found = {health.engine: health for health in await made.health()}
        assert not found["broken"].usable
        assert "no broken here" in found["broken"].findings[0].detail
        with pytest.raises(EngineUnavailableError, match="no broken here"):
            made.get("broken")
        assert [view.usable for view in await made.views()] == [True, False]


@pytest.mark.guarantee("ENG-4")
async def test_what_is_shown_as_chosen_is_what_is_chosen() -> None:
    """For every set of engines and every setting: the list of engines asks each once and foretells the choice."""
    for engines in ((PLAIN, SPACES, MACHINE), (PLAIN, ABSENT), (SPACES, ABSENT), (PLAIN,), ()):
        for sandboxing in (True, False):
            for preferred in (None, "spaces", "plain", "absent", "nowhere"):
                made = house(*engines, preferred=preferred, sandboxing=sandboxing)
                try:
                    chosen = [(await made.choose(None)).name]
                except EngineUnavailableError:
                    chosen = []
                assert [view.name for view in await made.views() if view.default] == chosen


@pytest.mark.guarantee("CAP-1", "PLUG-1")
async def test_an_engine_that_was_not_loaded_says_why() -> None:
    """Blocked by a person or broken is not the same as never installed."""
    reports = (
        PluginReport("quiet", "quiet-engine", "1.0", "blocked", kind=PluginKind.ENGINE),
        PluginReport("odd", "odd-engine", "2.0", "broken", ("raised SystemExit: 3",), kind=PluginKind.ENGINE),
    )
    made = EngineHouse({}, preferred=None, reports=reports)
    for name, words in (
        ("quiet", "blocked"),
        ("odd", "broken; raised SystemExit: 3"),
        ("nobody", "not installed; installed: none"),
    ):
        with pytest.raises(EngineUnavailableError) as refused:
            await made.choose(name)
        assert refused.value.reason == words

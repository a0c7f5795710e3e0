"""The fixtures that all parts of the engine suite share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

import pytest

from jamcore.domain.cells import Ability
from jamcore.domain.sandboxes import Access, HostMount, SandboxSpec
from jamcore.engines.port import Engine, EnginePlugin
from jamcore.testing.engines.box import WORK, Box, Python, opened

REACH_PORT = 8790


class EngineTests:
    """What a subclass sets, and the sandbox that each test gets.

    ``plugin`` is the engine's class. ``python`` says how Python is called in its guests. ``known_failures`` maps a test's name to a reason;
    such a test must fail, so that a mended one is noticed.
    """

    plugin: ClassVar[type[EnginePlugin]]
    python: ClassVar[Python] = Python()
    known_failures: ClassVar[Mapping[str, str]] = MappingProxyType({})

    @pytest.fixture(autouse=True)
    def _apply_known_failures(self, request: pytest.FixtureRequest) -> None:
        if reason := self.known_failures.get(request.node.originalname):
            request.applymarker(pytest.mark.xfail(reason=reason, strict=True))

    @pytest.fixture
    async def engine(self, tmp_path: Path) -> AsyncIterator[Engine]:
        """The engine, opened as a daemon opens it."""
        async with opened(self.plugin, tmp_path) as engine:
            yield engine

    @pytest.fixture
    def spec(self, tmp_path: Path) -> SandboxSpec:
        """A sandbox with one read-write mount, and a reach port where the engine can do that."""
        return self.make_spec(tmp_path, "jam-suite")

    @pytest.fixture
    async def box(self, engine: Engine, spec: SandboxSpec) -> Box:
        """A running sandbox; closing the engine ends it."""
        await engine.create(spec)
        return self.box_of(engine, spec)

    def make_spec(self, root: Path, name: str) -> SandboxSpec:
        """Return a specification whose directories exist below ``root``."""
        work, disk = root / f"{name}-work", root / f"{name}-disk"
        for directory in (work, disk):
            directory.mkdir(mode=0o700, exist_ok=True)
        ports = (REACH_PORT,) if Ability.REACH in self.plugin.abilities else ()
        mount = HostMount(host_path=str(work), guest_path=WORK, access=Access.READ_WRITE)
        return SandboxSpec(name=name, guest_disk=str(disk), mounts=(mount,), reach_ports=ports)

    def box_of(self, engine: Engine, spec: SandboxSpec) -> Box:
        """Return the helper for a created sandbox."""
        return Box(engine=engine, spec=spec, work=Path(spec.mounts[0].host_path), python=self.python)

    def require(self, ability: Ability) -> None:
        """Skip what the engine does not claim."""
        if ability not in self.plugin.abilities:
            pytest.skip(f"{self.plugin.name} does not claim {ability}")

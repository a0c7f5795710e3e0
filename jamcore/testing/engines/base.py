"""The fixtures that all parts of the engine suite share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

import pytest

from jamcore.domain.cells import Ability
from jamcore.domain.sandboxes import Access, HostMount, SandboxSpec
from jamcore.engines.port import Engine, EnginePlugin
from jamcore.testing.engines.box import WORK, Box, Python, opened
from jamcore.testing.engines.checks import NOT_CLAIMED, check_of

REACH_PORT = 8790


class Sickness(StrEnum):
    """How an engine's own knowledge of its sandboxes can fail."""

    TIME_OUT = "time-out"
    GARBAGE = "garbage"
    EMPTY = "empty answer"


class EngineTests:
    """What a subclass sets, and the sandbox that each test gets.

    ``plugin`` is the engine's class. ``python`` says how Python is called in its guests. ``sicknesses`` are those that :meth:`sicken` can
    bring about. An engine with the ability HOST_PATHS gets mounts whose two paths are one.
    ``known_failures`` maps a test's name to a reason; such a test must fail, so that a mended one is noticed.
    """

    plugin: ClassVar[type[EnginePlugin]]
    python: ClassVar[Python] = Python()
    sicknesses: ClassVar[frozenset[Sickness]] = frozenset()
    known_failures: ClassVar[Mapping[str, str]] = MappingProxyType({})

    @pytest.fixture(autouse=True)
    def _only_what_is_claimed(self, request: pytest.FixtureRequest) -> None:
        """Ask an engine only what it claims, and say by name what was not asked."""
        found = check_of(request.function)
        if found is not None and (reason := found.not_claimed(self.plugin)):
            pytest.skip(f"{NOT_CLAIMED}{reason}")
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
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        ports = (REACH_PORT,) if Ability.REACH in self.plugin.abilities else ()
        mount = HostMount(host_path=str(work), guest_path=self.guest_place(work, WORK), access=Access.READ_WRITE)
        return SandboxSpec(name=name, guest_disk=str(disk), mounts=(mount,), reach_ports=ports)

    @property
    def host_paths(self) -> bool:
        """Whether guests see host directories at their host paths."""
        return Ability.HOST_PATHS in self.plugin.abilities

    def guest_place(self, host: Path, guest: str) -> str:
        """Return where a guest sees a host directory: at ``guest``, or at its host path where the engine has no choice."""
        return str(host) if self.host_paths else guest

    def clone_place(self, spec: SandboxSpec) -> str:
        """Return where the guest sees its private clone."""
        return f"{spec.guest_disk}/clone" if self.host_paths else "/jam/work-clone"

    def box_of(self, engine: Engine, spec: SandboxSpec) -> Box:
        """Return the helper for a created sandbox."""
        return Box(engine=engine, spec=spec, work=Path(spec.mounts[0].host_path), python=self.python)

    def sicken(self, sickness: Sickness, root: Path, spec: SandboxSpec) -> AbstractContextManager[None]:
        """Make the engine's control fail for the duration of the context, and heal it after.

        Args:
            sickness: How; one of ``sicknesses``.
            root: The engine's private directory (``EngineContext.root``).
            spec: The sandbox that exists, stopped.
        """
        raise NotImplementedError(
            f"{type(self).__name__} names {sickness} among its sicknesses and cannot bring it about: {root} {spec.name}"
        )

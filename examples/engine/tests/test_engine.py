"""The engine passes the suite that every engine has to pass."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jamcore.api import SandboxSpec
from jamcore.testing.engines import EngineSuite, Sickness
from jamcore.testing.engines.box import Python

from jam_example_engine.plugin import ExampleEnginePlugin


class TestEngine(EngineSuite):
    """ExampleEngine's."""

    plugin = ExampleEnginePlugin
    # How Python is called in its guests: the checks are written in it.
    python = Python(argv=(sys.executable,))
    # How the engine's own knowledge of its sandboxes can fail, which `sicken` brings about.
    sicknesses = frozenset({Sickness.GARBAGE, Sickness.EMPTY})

    @contextmanager
    def sicken(self, sickness: Sickness, root: Path, spec: SandboxSpec) -> Iterator[None]:
        """Damage the sandbox's record, which is all that the engine knows of it."""
        record = root / f"{spec.name}.json"
        kept = record.read_bytes()
        record.write_bytes(b"" if sickness is Sickness.EMPTY else kept[: len(kept) // 2] + b"\xff")
        yield
        record.write_bytes(kept)

"""The local engine passes the suite that every engine has to pass, as root and as an ordinary user."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from jamcore.domain.sandboxes import SandboxSpec
from jamcore.engines.local import LocalEnginePlugin
from jamcore.testing.engines import EngineSuite, Sickness
from jamcore.testing.engines.box import Python


@pytest.mark.unprivileged
@pytest.mark.guarantee("ENG-2")
class TestLocal(EngineSuite):
    """Its guests are host processes and have the tests' own interpreter."""

    plugin = LocalEnginePlugin
    python: ClassVar[Python] = Python(argv=(sys.executable,))
    sicknesses = frozenset({Sickness.GARBAGE, Sickness.EMPTY})

    @contextmanager
    def sicken(self, sickness: Sickness, root: Path, spec: SandboxSpec) -> Iterator[None]:
        """Damage the sandbox's record, which is all that the engine knows of it; nothing that it asks can time out."""
        record = root / f"{spec.name}.json"
        kept = record.read_bytes()
        record.write_bytes(b"" if sickness is Sickness.EMPTY else kept[: len(kept) // 2] + b"\xff")
        yield
        record.write_bytes(kept)

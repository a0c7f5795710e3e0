"""The bubblewrap engine passes the suite that every engine has to pass, as root and as an ordinary user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from jamcore.domain.sandboxes import SandboxSpec
from jamcore.engines.bubblewrap import BubblewrapEnginePlugin
from jamcore.engines.bubblewrap.machine import look
from jamcore.testing.engines import EngineSuite, Sickness
from jamcore.testing.engines.box import Python

_MACHINE = look()
_LIBRARIES = _MACHINE.library_path if _MACHINE else None


@pytest.mark.needs("bubblewrap")
@pytest.mark.unprivileged
@pytest.mark.guarantee("ENG-2")
class TestBubblewrap(EngineSuite):
    """Its guests have the interpreter that runs process 1."""

    plugin = BubblewrapEnginePlugin
    python: ClassVar[Python] = Python(
        argv=(_MACHINE.python if _MACHINE else "python3",),
        environment=(("LD_LIBRARY_PATH", _LIBRARIES),) if _LIBRARIES else (),
    )
    sicknesses = frozenset({Sickness.GARBAGE, Sickness.EMPTY})

    @contextmanager
    def sicken(self, sickness: Sickness, root: Path, spec: SandboxSpec) -> Iterator[None]:
        """Damage the sandbox's record, which is all that the engine knows of it; nothing that it asks can time out."""
        record = root / f"{spec.name}.json"
        kept = record.read_bytes()
        record.write_bytes(b"" if sickness is Sickness.EMPTY else kept[: len(kept) // 2] + b"\xff")
        yield
        record.write_bytes(kept)

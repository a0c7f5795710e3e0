"""What a history stands on: an app directory whose provider is the notebook double, and copies of trees."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import UUID

import anyio

from jamcore.daemon.options import DaemonOptions
from jamcore.daemon.services import Services
from jamcore.domain.requests import TurnRequest
from jamcore.domain.sessions import TurnState
from jamcore.system.ids import SystemIds

WAIT_S = 60.0
BLOCKED = frozenset({"codex", "claude_code", "copilot", "acp", "bubblewrap", "sbx"})
"""Plugins that are not needed here: looking at them takes longer than everything else in a start."""
_ENTRY_POINTS = "[jam.providers]\nnotebook = jamcore.testing.doubles.notebook:NotebookProvider\n"
_GIT: Mapping[str, str] = MappingProxyType({"PATH": os.defpath, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull})


@dataclass(frozen=True)
class Ground:
    """A directory with everything of one daemon and its person."""

    root: Path

    @property
    def app(self) -> Path:
        """The app directory."""
        return self.root / "app"

    def options(self, **seams: Any) -> DaemonOptions:
        """Return what a daemon here is told."""
        return DaemonOptions(
            app=self.app,
            runtime=self.root / "run",
            version="1",
            pid=os.getpid(),
            environment={**_GIT, "HOME": str(self.root / "home")},
            blocked_plugins=BLOCKED,
            **seams,
        )


def install_notebook(directory: Path) -> Path:
    """Put the double's entry point into a directory that can be put on ``sys.path``, and return it."""
    info = directory / "notebook-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: notebook\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(_ENTRY_POINTS)
    return directory


async def say(services: Services, room: str, text: str) -> None:
    """Have a turn, and wait until it is captured."""
    turn = await services.rooms.say(room, TurnRequest(id=SystemIds().uuid(), text=text))
    with anyio.fail_after(WAIT_S):
        while (state := await _state(services, room, turn.id)) is not TurnState.CAPTURED:
            assert state not in (TurnState.FAILED, TurnState.CUT), state
            await anyio.sleep(0.01)


async def _state(services: Services, room: str, turn: UUID) -> TurnState:
    return next(each.state for each in await services.rooms.turns(room) if each.id == turn)


def copy_over(source: Path, target: Path) -> None:
    """Make a copy of a tree in the place of what is there. Sockets are left out."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, symlinks=True, ignore=lambda where, names: [n for n in names if Path(where, n).is_socket()])


def contents(root: Path) -> dict[str, str]:
    """Return name, mode and digest of everything below a directory."""
    found = {}
    for path in sorted(root.rglob("*")):
        data = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(root))] = f"{path.lstat().st_mode:o} {hashlib.sha256(data).hexdigest()}"
    return found

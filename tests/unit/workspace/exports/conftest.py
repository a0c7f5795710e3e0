"""An app directory with one workspace, and exports of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from jamcore.domain import layout
from jamcore.domain.cells import WorkspaceSource
from jamcore.domain.exports import ExportOrigin, ExportRequest
from jamcore.system.files import Files
from jamcore.system.removal import remove_tree
from jamcore.system.tree_calls import TreeCalls
from jamcore.system.trees import open_root, owned
from jamcore.workspace.exports.restore import ExportReader
from jamcore.workspace.exports.verify import Verified
from jamcore.workspace.exports.write import CheckpointSource, ExportWriter

HOST, SESSION, EXPORT = UUID(int=1), UUID(int=2), UUID(int=3)
ORIGIN = ExportOrigin(
    agent_id=UUID(int=4),
    agent_name="agent",
    host_id=HOST,
    session_id=SESSION,
    room_id=UUID(int=5),
    room_name="room",
    provider="double",
    engine="none",
)


class FixedClock:
    """A clock that stands still."""

    def now(self) -> datetime:
        """See :meth:`jamcore.system.clock.Clock.now`."""
        return datetime(2026, 1, 2, tzinfo=UTC)

    def monotonic(self) -> float:
        """See :meth:`jamcore.system.clock.Clock.monotonic`."""
        return 0.0


@dataclass
class World:
    """What a test works with."""

    app: Path
    calls: TreeCalls = field(default_factory=TreeCalls)
    files: Files = field(default_factory=Files)
    reached: list[str] = field(default_factory=list)

    @property
    def source(self) -> str:
        """The workspace below the app directory."""
        return layout.session_workspace(HOST, SESSION)

    @property
    def tree(self) -> Path:
        """The workspace."""
        return self.app / self.source

    @property
    def exports(self) -> Path:
        """All exports."""
        return self.app / layout.EXPORTS

    @property
    def export(self) -> Path:
        """The export."""
        return self.app / layout.export_root(EXPORT)

    @property
    def published(self) -> list[str]:
        """What is in the directory of exports: also half ones."""
        return sorted(path.name for path in self.exports.iterdir()) if self.exports.exists() else []

    def write(self, leave_out: tuple[str, ...] = (), checkpoint: CheckpointSource | None = None) -> Verified:
        """Export the workspace."""
        writer = ExportWriter(self.app, files=self.files, clock=FixedClock(), calls=self.calls, reach=self.reached.append)
        request = ExportRequest(export_id=EXPORT, origin=ORIGIN, source=WorkspaceSource.MANAGED, leave_out=leave_out)
        return writer.write(request, self.source, checkpoint=checkpoint)

    def verify(self, digest: str | None = None) -> Verified:
        """Verify the export."""
        return self.reader().verify(EXPORT, digest)

    def restore(self, digest: str, destination: str = "restored") -> Path:
        """Restore the export."""
        self.reader().restore(EXPORT, digest, destination)
        return self.app / destination

    def reader(self) -> ExportReader:
        """What reads exports."""
        return ExportReader(self.app, files=self.files, calls=self.calls, reach=self.reached.append)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """An app directory with an empty workspace; what is left of it can be removed by anybody afterwards."""
    made = World(tmp_path / "app")
    made.tree.mkdir(parents=True, mode=0o700)
    made.app.chmod(0o700)
    yield made
    with owned(open_root(tmp_path)) as parent:
        remove_tree(parent, b"app")


@pytest.fixture
def open_descriptors() -> Callable[[], int]:
    """Count what this process has open."""
    return lambda: len(list(Path("/proc/self/fd").iterdir()))

"""What an export of a large workspace costs beside ``cp -a`` and ``tar`` of the same tree.

Jam reads each file for its digest and for credentials, looks at the tree twice, flushes the file system, and reads all of it again to
verify it; the programs copy, and sync nothing. All run in turn, round after round, over a tree that is in memory.
"""

from __future__ import annotations

import os
import random
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from benchmarks.backups import emptied, run
from benchmarks.table import Row
from jamcore.domain import layout
from jamcore.domain.cells import WorkspaceSource
from jamcore.domain.exports import ExportOrigin, ExportRequest
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files
from jamcore.system.ids import SystemIds
from jamcore.workspace.exports.restore import ExportReader
from jamcore.workspace.exports.verify import Verified
from jamcore.workspace.exports.write import ExportWriter

FILES = 20_000
BYTES = 1 << 30
EACH_DIRECTORY = 100
SOURCE = "tree"


@dataclass(slots=True)
class Taken:
    """Milliseconds of one thing, and of processor time of it."""

    took: list[float] = field(default_factory=list)
    used: list[float] = field(default_factory=list)

    def measure(self, act: Callable[[], object]) -> None:
        """Do it and take what it took, children that ended included."""
        os.sync()
        used, began = _processor_time(), time.perf_counter()
        act()
        self.took.append((time.perf_counter() - began) * 1000)
        self.used.append((_processor_time() - used) * 1000)


def _processor_time() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def make_tree(root: Path) -> None:
    """Write 20,000 files of 1 GiB together: every second one is text, the others are binary."""
    source = random.Random(1)
    binary = source.randbytes(1 << 20)
    text = b" ".join(source.randbytes(4).hex().encode() for _ in range(120_000))
    size = BYTES // FILES
    for number in range(FILES):
        directory = root / str(number // EACH_DIRECTORY)
        directory.mkdir(parents=True, exist_ok=True)
        bytes_from = text if number % 2 else binary
        start = source.randrange(len(bytes_from) - size)
        directory.joinpath(f"{number}").write_bytes(bytes_from[start : start + size])


class _Jam:
    def __init__(self, app: Path) -> None:
        self._app = app
        self._ids = SystemIds()
        self._writer = ExportWriter(app, files=Files(), clock=SystemClock())
        self._reader = ExportReader(app, files=Files())
        self._origin = ExportOrigin(
            agent_id=self._ids.uuid(),
            agent_name="agent",
            host_id=self._ids.uuid(),
            session_id=self._ids.uuid(),
            room_id=None,
            room_name=None,
            provider="bench",
            engine="none",
        )
        self._done: Verified | None = None

    def export(self) -> None:
        request = ExportRequest(export_id=self._ids.uuid(), origin=self._origin, source=WorkspaceSource.MANAGED)
        self._done = self._writer.write(request, SOURCE)

    @property
    def newest(self) -> tuple[UUID, str]:
        assert self._done is not None
        return self._done.manifest.request.export_id, self._done.digest

    def verify(self) -> None:
        self._reader.verify(*self.newest)

    def restore(self, name: str) -> None:
        self._reader.restore(*self.newest, name)

    def tidy(self, name: str) -> None:
        """Give the space of a round back; see :func:`benchmarks.backups.emptied`."""
        emptied(self._app / name)
        emptied(self._app / layout.export_root(self.newest[0]))


def measure_exports(root: Path, *, rounds: int) -> list[Row]:
    """Export, verify and restore a large tree, and copy it by each program, round after round.

    Args:
        root: An empty private directory, on a disk.
        rounds: How often.
    """
    make_tree(root / SOURCE)
    jam = _Jam(root)
    names = ("export", "verify", "restore", "cp", "tar")
    taken = {name: Taken() for name in names}
    for number in range(rounds):
        copy, archive = root / f"cp-{number}", root / f"{number}.tar"
        taken["cp"].measure(lambda to=copy: run(["cp", "-a", str(root / SOURCE), str(to)]))
        taken["export"].measure(jam.export)
        taken["verify"].measure(jam.verify)
        taken["tar"].measure(lambda to=archive: run(["tar", "-cf", str(to), "-C", str(root), SOURCE]))
        taken["restore"].measure(lambda number=number: jam.restore(f"restored-{number}"))
        jam.tidy(f"restored-{number}")
        emptied(copy)
        archive.unlink()
    return _rows(taken)


def _rows(taken: dict[str, Taken]) -> list[Row]:
    export, verify, cp = taken["export"], taken["verify"], taken["cp"]
    both = [one + other for one, other in zip(export.took, verify.took, strict=True)]
    used = [one + other for one, other in zip(export.used, verify.used, strict=True)]
    return [
        Row("a workspace of 1 GiB in 20,000 files exported", export.took, "cp -a", cp.took),
        Row("exported and verified", both, "cp -a", cp.took, aim="2 x"),
        Row("exported and verified", both, "tar", taken["tar"].took),
        Row("exported and verified: processor time", used, "cp -a", cp.used),
        Row("restored, verified before and compared after", taken["restore"].took, "cp -a", cp.took),
    ]

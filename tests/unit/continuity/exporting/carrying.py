"""A host whose checkpoint goes into an export, and another one, elsewhere, that is made from it: what these tests have in common."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from jamcore.continuity.exporting.building import Build, CheckpointBuilder
from jamcore.continuity.exporting.materialise import CheckpointExporter
from jamcore.continuity.exporting.seats import Seat
from jamcore.continuity.generations.publish import Generations
from jamcore.system.files import Files
from jamcore.system.tree_calls import TreeCalls

if TYPE_CHECKING:
    from jamcore.domain.checkpoint_exports import CheckpointSummary
    from jamcore.domain.continuity import Checkpoint
    from tests.unit.continuity.conftest import World

Json = dict[str, Any]


@dataclass(frozen=True)
class Carried:
    """A checkpoint as plain files. ``digest`` is that of the listing as it is now."""

    directory: Path
    summary: CheckpointSummary

    @property
    def listing(self) -> Path:
        """The listing."""
        return self.directory / "checkpoint.json"

    def read(self) -> Json:
        """Return the listing as data."""
        found: Json = json.loads(self.listing.read_bytes())
        return found

    def write(self, data: Json) -> None:
        """Write the listing as Jam would."""
        self.listing.write_bytes(json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode())

    def entry(self, data: Json, path: str) -> Json:
        """Return one entry of the listing."""
        found: Json = next(entry for entry in data["entries"] if entry["path"] == path)
        return found


def carry(world: World, row: Checkpoint, into: Path, sessions: frozenset[UUID] | None = None) -> Carried:
    """Write a checkpoint of a host into a new directory, as a process does that has just started."""
    into.mkdir(mode=0o700, parents=True)
    exporter = CheckpointExporter(Generations(world.app, Files()))
    return Carried(into, exporter.materialise(row, into, captures=world.captures, sessions=sessions))


def builder(world: World, calls: TreeCalls | None = None) -> CheckpointBuilder:
    """Compose the builder of a host's app directory."""
    return CheckpointBuilder(
        world.generations, broker=world.broker, store=world.store, clock=world.clock, crash=world.crash, calls=calls
    )


def seats(world: World, carried: Carried) -> dict[UUID, Seat]:
    """Give each conversation of an export a session of a host: the one that has it already, or a new one that has none."""
    stored = world.store.now(lambda repos: repos.sessions.of_host(world.host.id))
    mine = {session.provider_identity: session.id for session in stored}
    return {one.session_id: Seat(mine.get(one.provider_identity) or world.add_session(None).id) for one in carried.summary.sessions}


def asked(world: World, carried: Carried, taken: Mapping[UUID, Seat] | None = None, *, checkpoint_id: UUID | None = None) -> Build:
    """Return what asks for a generation of a host to be made from an export."""
    return Build(
        directory=carried.directory,
        digest=carried.summary.digest,
        host=world.host,
        checkpoint_id=checkpoint_id or world.ids.uuid(),
        sessions=seats(world, carried) if taken is None else taken,
        captures=world.captures,
    )


def on_disk(root: Path, *, private: bool = False) -> dict[bytes, tuple[int, int, bytes]]:
    """Return everything below a directory by its raw path: mode, time, and content or target. Not ``private``: with modes as they are."""
    top, found = os.fsencode(root), {}
    for where, folders, files in os.walk(top):
        for name in (*folders, *files):
            path = os.path.join(where, name)  # noqa: PTH118
            status = os.lstat(path)
            content = b""
            if os.path.islink(path):  # noqa: PTH114
                content = os.readlink(path)  # noqa: PTH115
            elif name in files:
                with open(path, "rb") as stream:  # noqa: PTH123
                    content = stream.read()
            found[os.path.relpath(path, top)] = (0 if private else status.st_mode, status.st_mtime_ns, content)
    return found


def edited(path: str, /, **changes: object) -> Callable[[Carried], None]:
    """Return what changes one entry of the listing; without a path, the listing itself."""

    def do(carried: Carried) -> None:
        data = carried.read()
        (carried.entry(data, path) if path else data).update(changes)
        carried.write(data)

    return do

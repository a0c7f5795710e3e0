"""Generations as clients see them: listed, looked into, verified, compared. Read-only."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import ClassVar

from jamcore.continuity.generations.looking import Look, differing, shown
from jamcore.continuity.generations.publish import Generations
from jamcore.daemon.views import bound_room
from jamcore.domain.continuity import Checkpoint, CheckpointCorruptError
from jamcore.domain.errors import JamError, RefusalError
from jamcore.domain.requests import CheckpointDiff, CheckpointVerdict, CheckpointView
from jamcore.domain.retention import PayloadRemovedError
from jamcore.store import Repos, Store
from jamcore.system.blocking import in_thread
from jamcore.system.files import Files

SHOWN_ENTRIES = 5000
"""How many entries of a generation one answer lists; the counts are of all."""


@dataclass(eq=False)
class CheckpointsApartError(RefusalError):
    """Two checkpoints of different sandboxes have nothing in common that could be compared."""

    code: ClassVar[str] = "continuity.checkpoints_apart"
    hint: ClassVar[str] = (
        "Compare two of one sandbox: `jam checkpoint ls ROOM` lists those that a fresh start left apart from the others."
    )

    older: str
    newer: str
    problem: str
    room: str


class Checkpoints:
    """See :class:`~jamcore.daemon.services.CheckpointService`."""

    def __init__(self, app: Path, *, store: Store, files: Files) -> None:
        self._app = app
        self._store = store
        self._files = files

    async def list(self, room: str) -> tuple[Checkpoint, ...]:
        """Return the generations of a room's host, newest first, and after them those of hosts that a fresh start left behind."""

        def read(repos: Repos) -> tuple[Checkpoint, ...]:
            hosts = repos.continuity_resets.lineage(bound_room(repos, repos.rooms.find(room)).host.id)
            return tuple(row for host in hosts for row in repos.checkpoints.of_host(host)[::-1])

        return await self._store.read(read)

    async def show(self, ref: str) -> CheckpointView:
        """Return one with what it holds.

        Raises:
            CheckpointCorruptError: What lists its files is missing or damaged.
        """
        checkpoint, removed_at = await self._store.read(partial(_found, ref))
        if removed_at is not None:
            return CheckpointView(checkpoint=checkpoint, entries=(), entries_total=0, removed_at=removed_at)
        found = await in_thread(partial(self._look().entries, checkpoint.host_id, checkpoint.id))
        listed = tuple(shown(path, found[path]) for path in sorted(found)[:SHOWN_ENTRIES])
        return CheckpointView(checkpoint=checkpoint, entries=listed, entries_total=len(found))

    async def verify(self, ref: str) -> CheckpointVerdict:
        """Read one whole and say whether it is sound; a damaged one is an answer, not an error; so is a removed one.

        Sound is what a resume would find: every unit wherever a sound copy lies. What of its own pack is damaged is noted.
        """
        checkpoint, removed_at = await self._store.read(partial(_found, ref))
        if removed_at is not None:
            return CheckpointVerdict(checkpoint=checkpoint, sound=False, removed_at=removed_at)
        problem = note = ""
        look = self._look()
        try:
            await in_thread(partial(look.verify, checkpoint.host_id, checkpoint.id, checkpoint))
            note = await in_thread(partial(look.damaged_copies, checkpoint.host_id, checkpoint.id))
        except CheckpointCorruptError as error:
            problem = error.detail
        with suppress(JamError):  # the answer does not depend on its being kept
            await self._store.transact(lambda repos: repos.verifications.note(checkpoint.id, checkpoint.host_id, problem))
        return CheckpointVerdict(checkpoint=checkpoint, sound=not problem, problem=problem, note=note)

    async def diff(self, older: str, newer: str) -> CheckpointDiff:
        """Return what lies between two generations of one host.

        Raises:
            CheckpointsApartError: They are of two hosts.
            PayloadRemovedError: What one of them held was removed.
            CheckpointCorruptError: What lists their files is missing or damaged.
        """
        one, two = await self._held(older), await self._held(newer)
        if one.host_id != two.host_id:
            raise await self._store.read(partial(_apart, one, two))
        return await in_thread(partial(self._diff, one, two))

    async def _held(self, ref: str) -> Checkpoint:
        checkpoint, removed_at = await self._store.read(partial(_found, ref))
        if removed_at is not None:
            room = await self._store.read(partial(_room_of, checkpoint))
            raise PayloadRemovedError(checkpoint=str(checkpoint.id), removed_at=f"{removed_at:%Y-%m-%d}", room=room)
        return checkpoint

    def _diff(self, one: Checkpoint, two: Checkpoint) -> CheckpointDiff:
        look = self._look()
        old, new = (look.entries(each.host_id, each.id) for each in (one, two))
        added, changed, removed = differing(old, new)
        return CheckpointDiff(
            older=one,
            newer=two,
            added=tuple(shown(path, new[path]) for path in added[:SHOWN_ENTRIES]),
            changed=tuple(shown(path, new[path]) for path in changed[:SHOWN_ENTRIES]),
            removed=tuple(shown(path, old[path]) for path in removed[:SHOWN_ENTRIES]),
            total=len(added) + len(changed) + len(removed),
        )

    def _look(self) -> Look:
        return Look(Generations(self._app, files=self._files))


def _apart(one: Checkpoint, two: Checkpoint, repos: Repos) -> CheckpointsApartError:
    lineages = [repos.continuity_resets.lineage(each.host_id) for each in (one, two)]
    related = one.host_id in lineages[1] or two.host_id in lineages[0]
    return CheckpointsApartError(
        older=str(one.id),
        newer=str(two.id),
        problem="a fresh start lies between them: they are of two conversations" if related else "they are of different rooms",
        room=_room_of(two, repos),
    )


def _room_of(checkpoint: Checkpoint, repos: Repos) -> str:
    """Return the name of a room whose conversation the checkpoint holds; empty for one that holds none."""
    held = next(iter(checkpoint.sessions), None)
    return repos.rooms.get(repos.bindings.of_session(held.session_id).room_id).name if held else ""


def _found(ref: str, repos: Repos) -> tuple[Checkpoint, datetime | None]:
    """Return the one that a person meant, and when its payload was removed."""
    checkpoint = repos.checkpoints.find(ref)
    deletion = repos.payload_deletions.of_checkpoint(checkpoint.id)
    return checkpoint, deletion.removed_at if deletion else None

"""What a host's conversation must be, beside a real host: the model that the state machine of continuity drives."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from jamcore.continuity.generations.publish import CheckpointFailedError
from jamcore.continuity.generations.restoring import is_half_restored
from jamcore.continuity.resuming.restore import RESTORE_POINTS
from jamcore.domain.continuity import (
    Activation,
    CaptureRefusedError,
    CheckpointCorruptError,
    ContinuityFailure,
    ContinuityRefusedError,
    ResumeSource,
)
from jamcore.domain.retention import RemovalRefusedError
from jamcore.domain.sessions import TurnState
from jamcore.journal.points import CrashPoints
from tests.unit.continuity.crashing import CrashWith, Killed, KilledError, Tree, is_readable, read_back
from tests.unit.continuity.removing import Removals

if TYPE_CHECKING:
    from jamcore.domain.continuity import Checkpoint
    from jamcore.store import Repos
    from tests.unit.continuity.conftest import World

T = TypeVar("T")
Run = Callable[[Callable[[], Awaitable[T]]], T]
CAPTURED = ("sessions", "archived", "config")


@dataclass
class Modelled:
    """One real host, and what must be true of it.

    ``trees`` is what was captured under each id. ``hurt`` says that bytes were damaged, so that a generation may be unreadable; ``healed``
    is the generation that was made after the damage had been found, which must be whole until something is damaged again.
    """

    world: World
    run: Run[object]
    trees: dict[UUID, Tree] = field(default_factory=dict)
    must_appear: set[UUID] = field(default_factory=set)
    lines: dict[UUID, bytes] = field(default_factory=dict)
    captured: dict[UUID, UUID] = field(default_factory=dict)
    removed: set[UUID] = field(default_factory=set)
    checked: object = None
    hurt: bool = False
    healed: UUID | None = None
    told: bool = False

    # ------------------------------------------------------------------------------------------------------ the provider

    @property
    def home(self) -> Path:
        """Where the provider writes."""
        return self.world.state / "home"

    def live(self) -> Tree:
        """Return what the provider's captured files hold now."""
        return {
            path.relative_to(self.home).as_posix(): path.read_bytes()
            for top in CAPTURED
            for path in sorted((self.home / top).rglob("*"))
            if path.is_file()
        }

    def write(self, name: str, data: bytes) -> None:
        """Write a file whole, with a change time that differs from the one it had."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.stat().st_ctime_ns if path.exists() else 0
        path.write_bytes(data)
        _tick(path, before)

    def rewrite_unseen(self, name: str) -> None:
        """Write other bytes of the same size and put the modification time back, as nobody honest does."""
        path = self.home / name
        was = path.stat()
        path.write_bytes(bytes(255 - byte for byte in path.read_bytes()))
        os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
        _tick(path, was.st_ctime_ns, was.st_mtime_ns)

    def finish_turn(self, name: str, number: int) -> None:
        """A turn ends well, and its line is in a log."""
        line = b"turn %d %s\n" % (number, b"." * (number * 977 % 40_000))
        with suppress(FileNotFoundError):
            if (whole := (self.home / name).read_bytes()) and not whole.endswith(b"\n"):
                line = b"\n" + line
        self.write(name, ((self.home / name).read_bytes() if (self.home / name).exists() else b"") + line)
        self.lines[self.world.add_turn(self.world.session, TurnState.COMPLETED)] = line.strip(b"\n")

    def settle(self) -> None:
        """Do what a resume does: turns that the provider does not remember are cut."""
        there = _logs(self.live())
        for identifier, turn in self.world.store.turns.items():
            if turn.state is TurnState.COMPLETED and self.lines[identifier] not in there:
                self.world.store.now(partial(_cut, identifier))

    # ---------------------------------------------------------------------------------------------------------- actions

    def capture(self, checkpoint: UUID | None = None) -> bool:
        """Capture, and return whether a generation was made; a refusal changes nothing."""
        identifier, tree, before = checkpoint or self.world.ids.uuid(), self.live(), self.published()
        rows = self.world.store.checkpoints
        try:
            row = self._do(lambda: self.world.capture(checkpoint_id=identifier))
        except CaptureRefusedError:
            assert (self.live(), self.published(), self.world.store.checkpoints) == (tree, before, rows)
            assert not self.must_appear - rows.keys() or self.hurt
            return False
        assert row == self.world.store.checkpoints[identifier]
        self.trees.setdefault(identifier, tree)
        self.must_appear.add(identifier)
        self.healed, self.told = (identifier, False) if self.told else (self.healed, False)
        return True

    def crash_in_capture(self, point: str) -> None:
        """Capture, be killed at a boundary, and start again over what is on disk then."""
        crash = CrashWith(point, self.world.recovery)
        self._restart(crash)
        identifier, tree = self.world.ids.uuid(), self.live()
        try:
            self._do(lambda: self.world.capture(checkpoint_id=identifier))
        except KilledError:
            crash.apply()
        except CaptureRefusedError:
            assert not crash.passed or point == "publish.begun"
        if crash.passed and point in ("publish.completed", "publish.recorded"):
            self.trees[identifier] = tree
            self.must_appear.add(identifier)
        self._restart()

    def retry(self) -> None:
        """Ask for the newest generation once more: nothing changes, whatever the live state is by now."""
        newest, before = self.newest(), self.published()
        if newest is not None:
            self._restart()
            assert self._do(lambda: self.world.capture(checkpoint_id=newest.id)) == newest
            assert self.published() == before

    def resume(self) -> bool:
        """Inspect and place, and return whether that went well: then every byte is right, else nothing was changed."""
        before = self.live(), self.published()
        placement, problem = None, ""
        try:
            placement = self._do(self.world.place)
        except (ContinuityRefusedError, CheckpointCorruptError) as error:
            problem = error.detail
        if placement is None:
            assert (self.live(), self.published()) == before
            assert problem
            assert self.newest() is None or self.hurt
            return False
        wanted, now = self.trees[self._need_newest().id], self.live()
        if placement.source is ResumeSource.GENERATION:
            assert now == wanted
        else:
            assert now == before[0]
            assert all(_extends(now.get(name, b""), data, name) for name, data in wanted.items())
        assert not is_half_restored(self.world.recovery)
        self.settle()
        return True

    def crash_in_restore(self, point: str) -> None:
        """Be killed in a restore; until it is repeated, nothing is captured; repeated, it is whole."""
        crash = CrashWith(point, self.world.recovery)
        self._restart(crash)
        with suppress(KilledError, ContinuityRefusedError, CheckpointCorruptError):
            self._do(self.world.place)
        crash.apply()
        self._restart()
        assert not crash.passed or is_half_restored(self.world.recovery) == (point in RESTORE_POINTS[1:4])
        if is_half_restored(self.world.recovery):
            assert not self.capture(), "half restored"
        if crash.passed:
            assert self.resume() or self.hurt
        self.settle()

    def remove(self, chosen: frozenset[int], point: str) -> None:
        """Remove the payload of some checkpoints, perhaps the newest, as a person who confirms the plan; be killed, and start again.

        What is refused changes nothing. What was begun is finished by the start.
        """
        rows = sorted(self.world.store.checkpoints.values(), key=lambda row: row.generation)
        wanted = [row for number, row in enumerate(rows) if number in chosen]
        refusable = bool({row.id for row in wanted} & {rows[-1].id, *self.removed})
        crash = CrashWith(point, self.world.recovery)
        self._restart(crash)
        removals, before = Removals(self.world), self.published()
        try:
            plan = self._do(lambda: removals.plan(*wanted))
            self._do(lambda: removals.run(removals.intent(plan)))
        except KilledError:
            crash.apply()
        except RemovalRefusedError:
            assert self.published() == before
            assert refusable or self.hurt
        except CheckpointCorruptError:
            assert self.hurt
        self._restart()
        left = self._do(Removals(self.world).replay)
        assert self.hurt or refusable or not left
        self.removed = {row.checkpoint_id for row in Removals(self.world).rows.values() if row.removed_at is not None}
        assert rows[-1].id not in self.removed, "the newest is what the rooms come back from"

    def look(self, *, fresh: bool) -> None:
        """Inspect: exactly what can be read back resumes, anything else is named. Whoever captures next knows of the damage."""
        if fresh:
            self._restart()
        decision = self._do(self.world.inspect)
        newest = self.newest()
        if fresh and newest is not None:
            assert (decision.outcome is Activation.EXACT_RESUME) == is_readable(self.world, newest)
        assert decision.outcome is Activation.EXACT_RESUME or decision.evidence.problem or newest is None
        self.told = decision.failure is ContinuityFailure.CORRUPT and self.world.generations.blocks(self.world.host.id).damaged

    def restart(self) -> None:
        """Start again: nothing is remembered but what is on disk."""
        self._restart()

    # ------------------------------------------------------------------------------------------------------------ damage

    def files(self) -> list[Path]:
        """Return what is published, packs and roots, oldest first."""
        shared = sorted((self.world.recovery / "packs").glob("*.shared"))
        return [*self.world.packs, *shared, *sorted((self.world.recovery / "checkpoints").glob("*/complete.json"))]

    def published(self) -> Tree:
        """Return what is published, byte for byte, without packs that a crash left."""
        complete = {path.parent.name for path in self.files() if path.name == "complete.json"}
        kept = {str(row) for row in self.world.store.checkpoints} | {
            str(made) for made in self.must_appear if str(made) in complete
        }
        return {str(path): path.read_bytes() for path in self.files() if _owner(path) in kept}

    def damage(self, which: int, where: int, bit: int) -> None:
        """Flip one bit of what is published; with ``bit`` 8, remove the file; with 9, cut it there."""
        found = self.files()
        if not found:
            return
        path = found[which % len(found)]
        data = bytearray(path.read_bytes())
        if bit == 8 or not data:
            path.unlink()
        elif bit == 9:
            os.truncate(path, where % len(data))
        else:
            data[where % len(data)] ^= 1 << bit
            path.write_bytes(data)
        self.hurt, self.healed, self.told = True, None, False

    # -------------------------------------------------------------------------------------------------------- what holds

    def check(self) -> None:
        """Hold everything against the model; generations are read again when anything of them changed."""
        rows = self.world.store.checkpoints
        assert rows.keys() <= self.trees.keys()
        seen = [(path, status.st_ino, status.st_ctime_ns) for path in self.files() for status in (path.stat(),)], set(rows)
        if seen != self.checked:
            self._check_generations(rows)
            self.checked = seen
        self._check_turns(self.newest())

    def _check_generations(self, rows: dict[UUID, Checkpoint]) -> None:
        problems = {}
        for row in rows.values():
            try:
                found = read_back(self.world, row)
            except CheckpointCorruptError as error:
                problems[row.id] = error.detail
            else:
                assert found == self.trees[row.id], "verified and wrong"
        assert self.removed <= problems.keys(), "what was removed is not there"
        assert self.hurt or problems.keys() <= self.removed, "nobody damaged anything"
        assert all(problems.values()), "found and not named"
        assert self.healed not in problems, "it was made after the damage had been found"

    def _check_turns(self, newest: Checkpoint | None) -> None:
        now = {turn.id: turn.checkpoint_id for turn in self.world.store.turns.values() if turn.state is TurnState.CAPTURED}
        assert self.captured.items() <= now.items(), "a turn that was safe is safe for ever"
        self.captured = {turn: checkpoint for turn, checkpoint in now.items() if checkpoint is not None}
        assert len(self.captured) == len(now)
        if newest is not None:
            logs = _logs(self.trees[newest.id])
            assert all(self.lines[turn] in logs for turn in self.captured), "the newest generation holds every safe turn"

    def newest(self) -> Checkpoint | None:
        """Return the row that a resume would use."""
        return max(self.world.store.checkpoints.values(), key=lambda row: row.generation, default=None)

    def _need_newest(self) -> Checkpoint:
        newest = self.newest()
        assert newest is not None
        return newest

    def _restart(self, crash: CrashPoints | None = None) -> None:
        self.world.restart(crash)
        self.told = False

    def _do(self, work: Callable[[], Awaitable[T]]) -> T:
        async def guarded() -> T:
            try:
                return await work()
            except Killed as killed:
                raise KilledError(str(killed)) from killed

        try:
            return self.run(guarded)  # type: ignore[return-value]
        except CheckpointFailedError as error:
            raise AssertionError(f"the machine did not fail: {error}") from error


def _cut(turn: UUID, repos: Repos) -> None:
    repos.turns.move(turn, TurnState.CUT)


def _owner(path: Path) -> str:
    """Return whose a published file is; a shared pack has its own name, and is nobody's."""
    return path.parent.name if path.name == "complete.json" else path.stem if path.suffix == ".pack" else path.name


def _logs(tree: Tree) -> bytes:
    return b"".join(data for name, data in tree.items() if not name.startswith("config/"))


def _extends(now: bytes, captured: bytes, name: str) -> bool:
    return now == captured if name.startswith("config/") else now.startswith(captured[: captured.rfind(b"\n") + 1])


def _tick(path: Path, before: int, mtime: int | None = None) -> None:
    """Touch a file until its change time is another one: a coarse clock would hide the change from anybody."""
    while (now := path.stat()).st_ctime_ns == before:
        os.utime(path, ns=(now.st_atime_ns, now.st_mtime_ns if mtime is None else mtime))

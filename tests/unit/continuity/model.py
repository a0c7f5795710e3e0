"""What a host's conversation must be, beside a real host: the model that the state machine of continuity drives."""

from __future__ import annotations

import os
import shutil
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from jamcore.continuity.content import read_blocks
from jamcore.continuity.looking import Look
from jamcore.continuity.objects import Kind
from jamcore.continuity.packs import BlockDamagedError
from jamcore.continuity.publish import CheckpointFailedError, Generations
from jamcore.continuity.restore import is_half_restored
from jamcore.domain.continuity import (
    Activation,
    CaptureRefusedError,
    CheckpointCorruptError,
    ContinuityFailure,
    ContinuityRefusedError,
    ResumeSource,
)
from jamcore.domain.sessions import TurnState
from jamcore.journal.points import CrashPoints
from jamcore.system.files import Files

if TYPE_CHECKING:
    from jamcore.domain.continuity import Checkpoint
    from jamcore.store import Repos
    from tests.unit.continuity.conftest import World

T = TypeVar("T")
Run = Callable[[Callable[[], Awaitable[T]]], T]
Tree = dict[str, bytes]
CAPTURED = ("sessions", "archived", "config")


class KilledError(Exception):
    """Ends an action at a boundary, as a crash would."""


class Ids:
    """Ids in the order of their making, the same in every run."""

    def __init__(self, host: int) -> None:
        self._next = 0x0189_0000_0000_7000_8000_0000_0000_0000 + (host << 40)

    def uuid(self) -> UUID:
        """See :class:`~jamcore.system.ids.IdSource`."""
        self._next += 1 << 80
        return UUID(int=self._next)

    def nonce(self) -> str:
        """See :class:`~jamcore.system.ids.IdSource`."""
        return "0" * 64


class CrashWith:
    """Kills at one boundary. What is on disk then is what a start finds, whatever an ending program would have tidied up."""

    def __init__(self, point: str, directory: Path) -> None:
        self._point = point
        self._directory = directory
        self._kept = directory.with_name("at-the-crash")
        self.passed = False

    def reach(self, point: str) -> None:
        """Keep what is on disk, and raise at the boundary."""
        if point == self._point and not self.passed:
            self.passed = True
            if self._directory.exists():
                shutil.copytree(self._directory, self._kept, symlinks=True)
            raise KilledError(point)

    def apply(self) -> None:
        """Put what was kept in place."""
        if self.passed and self._kept.exists():
            shutil.rmtree(self._directory)
            self._kept.rename(self._directory)


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
        self._restart()
        if is_half_restored(self.world.recovery):
            assert not self.capture(), "half restored"
        if crash.passed:
            assert self.resume() or self.hurt
        self.settle()

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
        return [*self.world.packs, *sorted((self.world.recovery / "checkpoints").glob("*/complete.json"))]

    def published(self) -> Tree:
        """Return what is published, byte for byte, without packs that a crash left."""
        kept = {str(row) for row in (*self.world.store.checkpoints, *self.must_appear)}
        return {
            str(path): path.read_bytes()
            for path in self.files()
            if (path.stem if path.suffix == ".pack" else path.parent.name) in kept
        }

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
        """Hold everything against the model."""
        rows, problems = self.world.store.checkpoints, {}
        assert rows.keys() <= self.trees.keys()
        for row in rows.values():
            try:
                found = read_back(self.world, row)
            except CheckpointCorruptError as error:
                problems[row.id] = error.detail
            else:
                assert found == self.trees[row.id], "verified and wrong"
        assert self.hurt or not problems, "nobody damaged anything"
        assert all(problems.values()), "found and not named"
        assert self.healed not in problems, "it was made after the damage had been found"
        newest = self.newest()
        self._check_turns(newest)

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
        try:
            return self.run(work)  # type: ignore[return-value]
        except CheckpointFailedError as error:
            raise AssertionError(f"the machine did not fail: {error}") from error


def read_back(world: World, row: Checkpoint) -> Tree:
    """Return all files of a generation as a new process reads them.

    Raises:
        CheckpointCorruptError: Anything of it is missing or damaged.
    """
    generations = Generations(world.app, Files())
    look = Look(generations)
    look.verify(world.host.id, row.id, row)
    found: Tree = {}
    with generations.blocks(world.host.id).reader() as source:
        for path, entry in look.entries(world.host.id, row.id).items():
            if entry.kind is Kind.FILE:
                try:
                    found[path.decode().removeprefix("home/")] = b"".join(read_blocks(source, entry.content))
                except BlockDamagedError as error:
                    raise AssertionError("verified and not readable") from error
    return found


def is_readable(world: World, row: Checkpoint) -> bool:
    """Say whether a generation can be read back."""
    try:
        read_back(world, row)
    except CheckpointCorruptError:
        return False
    return True


def _cut(turn: UUID, repos: Repos) -> None:
    repos.turns.move(turn, TurnState.CUT)


def _logs(tree: Tree) -> bytes:
    return b"".join(data for name, data in tree.items() if not name.startswith("config/"))


def _extends(now: bytes, captured: bytes, name: str) -> bool:
    return now == captured if name.startswith("config/") else now.startswith(captured[: captured.rfind(b"\n") + 1])


def _tick(path: Path, before: int, mtime: int | None = None) -> None:
    """Touch a file until its change time is another one: a coarse clock would hide the change from anybody."""
    while (now := path.stat()).st_ctime_ns == before:
        os.utime(path, ns=(now.st_atime_ns, now.st_mtime_ns if mtime is None else mtime))

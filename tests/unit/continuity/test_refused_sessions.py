"""What a program made of a conversation whose resume was refused is in no generation (CONT-7), and its siblings' are made without it."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jamcore.continuity.resuming.observe import observation_of
from jamcore.domain.continuity import Activation, CaptureEntry, CaptureKind, CaptureList, CaptureRefusedError, ResumeSource
from jamcore.domain.sessions import TurnState

if TYPE_CHECKING:
    from jamcore.domain.continuity import Checkpoint
    from jamcore.domain.sessions import RuntimeSession
    from tests.unit.continuity.conftest import MakeWorld, World

pytestmark = [pytest.mark.anyio, pytest.mark.unprivileged, pytest.mark.guarantee("CONT-7", "CONT-11")]

ENTRIES = (
    CaptureEntry(pattern="home/threads/**", kind=CaptureKind.WHOLE),
    CaptureEntry(pattern="home/sessions/**/*.jsonl", kind=CaptureKind.APPEND_ONLY),
)
TELLS = CaptureList(entries=ENTRIES, conversation_patterns=("home/threads/{identity}/**", "home/sessions/*/*-{identity}.jsonl"))


class Shared:
    """A host on which one conversation is refused while another goes on."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sibling: RuntimeSession = world.add_session("thread-2")
        for thread in ("thread-1", "thread-2"):
            world.write(f"home/threads/{thread}/parts/what was said", f"all of {thread}".encode())
            world.write(f"home/sessions/day/log-{thread}.jsonl", f'"all of {thread}"\n'.encode())

    @property
    def mine(self) -> dict[str, bytes]:
        """The files of the refused conversation, as they lie there."""
        files = [path for path in self.world.state.rglob("*") if path.is_file()]
        return {str(path.relative_to(self.world.state)): path.read_bytes() for path in files if "thread-2" not in str(path)}

    async def attempt(self, row: Checkpoint, reported: str | None, *, lost: bool = False) -> None:
        """Observe an attempt to resume."""
        world = self.world
        seen = observation_of(
            world.session,
            row.id,
            observation_id=world.ids.uuid(),
            observed_at=world.clock.now(),
            source=ResumeSource.LIVE,
            reported=reported,
            lost=lost,
        )
        await world.observer.record(seen)


@pytest.fixture
async def shared(make_world: MakeWorld, tmp_path: Path) -> AsyncIterator[Shared]:
    async with make_world(tmp_path / "app", captures=TELLS) as world:
        yield Shared(world)


def made_blank(world: World) -> None:
    """The program began the thread anew under its name."""
    world.write("home/threads/thread-1/parts/what was said", b"")
    world.write("home/threads/thread-1/parts/another", b"nothing yet")
    world.write("home/sessions/day/log-thread-1.jsonl", b'"new"\n')
    world.write("home/sessions/later/log-thread-1.jsonl", b'"new"\n')


def went_on(world: World) -> None:
    """It wrote behind what was said."""
    with (world.state / "home/sessions/day/log-thread-1.jsonl").open("ab") as log:
        log.write(b'"resumed"\n')


def removed(world: World) -> None:
    """It removed the thread, directories and all."""
    shutil.rmtree(world.state / "home/threads/thread-1")
    (world.state / "home/sessions/day/log-thread-1.jsonl").unlink()


@pytest.mark.parametrize("harm", [made_blank, went_on, removed])
@pytest.mark.parametrize("reported", ["thread-1", "thread-9", None], ids=["blank", "another", "not at all"])
async def test_a_siblings_checkpoint_keeps_what_a_refused_session_comes_back_from(
    shared: Shared, harm: Callable[[World], None], reported: str | None
) -> None:
    """However it was refused and whatever its program left: the sibling's turn is safe, and the newest generation has the other as it was.

    A turn of the refused one that is in no generation does not become safe by it.
    """
    world, before = shared.world, shared.mine
    row = await world.capture()
    unsure = world.add_turn(world.session, TurnState.COMPLETED)
    harm(world)
    await shared.attempt(row, reported, lost=True)
    world.write("home/threads/thread-2/parts/what was said", b"more of thread-2")
    safe = world.add_turn(shared.sibling, TurnState.COMPLETED)
    newest = await world.capture()
    assert (world.store.turns[safe].state, world.store.turns[unsure].state) == (TurnState.CAPTURED, TurnState.COMPLETED)
    shutil.rmtree(world.state)
    world.state.mkdir()
    decision = await world.inspect()
    assert (decision.outcome, decision.evidence.checkpoint_id) == (Activation.EXACT_RESUME, newest.id)
    await world.place(decision)
    assert shared.mine == before
    assert (world.state / "home/threads/thread-2/parts/what was said").read_bytes() == b"more of thread-2"
    assert newest.files == len([path for path in world.state.rglob("*") if path.is_file()])


async def test_once_it_came_back_its_state_is_captured_again(shared: Shared) -> None:
    """A later success supersedes the failure, and what it said since is in the next generation."""
    world = shared.world
    row = await world.capture()
    went_on(world)
    await shared.attempt(row, None)
    await world.capture()
    await shared.attempt(row, "thread-1")
    turn = world.add_turn(world.session, TurnState.COMPLETED)
    now = shared.mine
    await world.capture()
    assert world.store.turns[turn].state is TurnState.CAPTURED
    shutil.rmtree(world.state)
    world.state.mkdir()
    await world.place()
    assert shared.mine == now


async def test_what_cannot_be_kept_is_not_captured_without_it(shared: Shared) -> None:
    """Where the generation before is damaged, nothing newer takes its place."""
    world = shared.world
    row = await world.capture()
    await shared.attempt(row, None)
    for pack in world.packs:
        pack.chmod(0o600)
        pack.write_bytes(pack.read_bytes()[:-40])
    world.restart()
    with pytest.raises(CaptureRefusedError, match=r"resume was refused.*damaged"):
        await world.capture()
    assert list(world.store.checkpoints) == [row.id]


async def test_a_siblings_log_that_is_gone_with_the_directory_is_missed(shared: Shared) -> None:
    """What is kept of a directory that is gone is the refused conversation's alone."""
    world = shared.world
    row = await world.capture()
    await shared.attempt(row, None)
    shutil.rmtree(world.state / "home/sessions/day")
    with pytest.raises(CaptureRefusedError, match="a log that the last checkpoint holds is gone"):
        await world.capture()

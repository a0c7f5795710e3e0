"""A damaged generation is refused before the program starts: the kind, what is damaged, and what to type next (CONT-1, CONT-7, CONT-9)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from jamcore.continuity.generations.packs import ENTRY_BYTES, HEADER_BYTES
from jamcore.control.client import JamClient
from jamcore.domain import layout
from jamcore.domain.continuity import Checkpoint
from jamcore.domain.requests import RoomView
from jamcore.testing.daemon import DaemonChild
from jamcore.testing.jam_program import program
from jamcore.testing.rooms import ask, managed, refused
from jamcore.testing.servers.history import said_in
from jamcore.testing.servers.responses import ResponsesServer
from tests.unit.continuity.damage import on_disk

pytestmark = [pytest.mark.anyio, pytest.mark.needs("bubblewrap", "codex")]


@dataclass(frozen=True)
class Kind:
    """One kind of damage, the failure that it is, and the words that name it."""

    name: str
    do: Callable[[Path, Path, Path], object]
    failure: str
    words: tuple[str, ...]


def flip(pack: Path) -> None:
    """Change one bit of a pack's last unit, the root: no live state can take its place."""
    data = bytearray(pack.read_bytes())
    data[-1] ^= 1
    pack.write_bytes(data)


KINDS = (
    Kind("a flipped bit", lambda pack, _, __: flip(pack), "corrupt", (".pack",)),
    Kind("no complete.json", lambda _, complete, __: complete.unlink(), "missing", ("complete.json", "gone")),
    Kind(
        "the generation of another room",
        lambda _, complete, theirs: complete.write_bytes(theirs.read_bytes()),
        "corrupt",
        ("complete.json", "another generation"),
    ),
)


def complete_of(app: Path, room: RoomView, checkpoint: Checkpoint) -> Path:
    """Return where a generation's root is."""
    return app / layout.checkpoint_root(room.host.id, checkpoint.id) / "complete.json"


@pytest.mark.guarantee("CONT-1", "CONT-7", "CONT-9")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_the_program_is_never_started_on_it(
    client: JamClient, daemon: DaemonChild, app: Path, model: ResponsesServer, kind: Kind
) -> None:
    """Asked by the client and as a person: refused both times, nothing written, nothing sent to the model, no process of the room."""
    other = await client.create_room(managed("codex", model.base_url))
    await ask(client, other, "hello")
    await client.stop(str(other.room.id))
    room = await client.create_room(managed("codex", model.base_url, name="lost"))
    await ask(client, room, "Remember me")
    await client.stop("lost")
    newest, theirs = (await client.checkpoints("lost"))[0], (await client.checkpoints(str(other.room.id)))[0]
    pack = app / layout.packs(room.host.id) / f"{newest.id}.pack"
    kind.do(pack, complete_of(app, room, newest), complete_of(app, other, theirs))

    state, recovery = app / layout.provider_state(room.host.id, "codex"), app / layout.recovery(room.host.id)
    before, asked, family = (on_disk(state), on_disk(recovery)), len(model.requests), daemon.family()
    with refused("continuity.refused") as caught:
        await client.resume("lost")
    assert caught.value.context()["failure"] == kind.failure
    assert [word for word in kind.words if word not in caught.value.context()["detail"]] == []
    done = program(app, "resume", "lost")
    assert done.status != 0
    assert [word for word in (kind.failure, *kind.words, "jam continuity inspect") if word not in done.err] == []
    shown = program(app, "session", "inspect", "lost")
    assert [word for word in (kind.failure, *kind.words) if word not in shown.out] == []
    verdict = await client.verify_checkpoint(str(newest.id))
    assert not verdict.sound
    assert [word for word in kind.words if word not in verdict.problem] == []

    assert (on_disk(state), on_disk(recovery)) == before
    assert len(model.requests) == asked
    assert set(daemon.family()) <= set(family), "no process of the room is there"
    assert (await ask(client, other, "and you?")).state == "captured", "the other room is well"


@pytest.mark.guarantee("CONT-1", "CONT-7", "CONT-11")
async def test_live_state_that_holds_all_of_it_comes_back_exactly(client: JamClient, app: Path, model: ResponsesServer) -> None:
    """A block of the conversation is damaged on the disk and whole in the live state: said, resumed, and captured anew at once."""
    room = await client.create_room(managed("codex", model.base_url, name="held"))
    await ask(client, room, "Remember me")
    await client.stop("held")
    damaged = (await client.checkpoints("held"))[0]
    for pack in (app / layout.packs(room.host.id)).glob("*.pack"):
        data = bytearray(pack.read_bytes())
        data[HEADER_BYTES + ENTRY_BYTES] ^= 1  # the first thing that is stored: the beginning of a file
        pack.write_bytes(data)
    assert not (await client.verify_checkpoint(str(damaged.id))).sound
    shown = program(app, "continuity", "inspect", "held")
    assert "the live state holds all of it" in " ".join((shown.out + shown.err).split())
    await client.resume("held")
    newest = (await client.checkpoints("held"))[0]
    assert newest.generation > damaged.generation, "it is captured before anything is said"
    assert (await client.verify_checkpoint(str(newest.id))).sound
    assert (await ask(client, room, "and now?")).state == "captured"
    assert said_in(model.model_requests[-1].body) == ["Remember me", "and now?"]

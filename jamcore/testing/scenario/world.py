"""The machine of the scenario: a daemon with one provider, a scripted model, and what the model must still be told in each room."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from anyio import to_thread

from jamcore.control.client import JamClient
from jamcore.domain import layout
from jamcore.domain.continuity import ObservationOutcome
from jamcore.domain.requests import RoomRequest, RoomView, TurnRequest
from jamcore.domain.sessions import Turn, TurnState
from jamcore.testing.crash import Lives
from jamcore.testing.daemon import DaemonChild, gone, place_toolchain, room_event, running_daemon
from jamcore.testing.exchanges import LOG, Exchange, Question, repeated, said_in
from jamcore.testing.rooms import ENDED, ask, managed, new_id
from jamcore.testing.scenario.rows import ProviderRow
from jamcore.testing.servers.history import AssistantText, Item, UserText, contains_in_order
from jamcore.testing.servers.ledger import RecordedRequest, held_at
from jamcore.testing.servers.script import Rule
from jamcore.testing.servers.server import ModelServer

LIMIT_S = 120.0
"""How long anything here may take: a turn takes about a second, but a large program may start for half a minute on a busy machine."""
ENGINE = "bubblewrap"


@dataclass(slots=True)
class Told:
    """One room, and what its model must be told from now on, in order: grown from the script and the model server's record."""

    view: RoomView
    identity: str | None = None
    expected: list[Item] = field(default_factory=list)
    never: list[Item] = field(default_factory=list)

    @property
    def ref(self) -> str:
        """How clients name it."""
        return str(self.view.room.id)


@dataclass(slots=True)
class Machine:
    """One app directory with its daemon, and the model that its rooms talk to."""

    row: ProviderRow
    daemon: DaemonChild
    client: JamClient
    model: ModelServer
    tokens: tuple[str, ...]

    @property
    def app(self) -> Path:
        """The app directory."""
        return self.daemon.app

    def request(self, **more: object) -> RoomRequest:
        """Return the request for a room of the provider, in a sandbox of the real engine unless told otherwise."""
        return managed(self.row.provider, self.model.base_url, **{"engine": ENGINE, "model": self.row.model, **more})

    async def open(self, **more: object) -> Told:
        """Make a room."""
        return Told(await self.client.create_room(self.request(**more)))

    def work(self, told: Told) -> Path:
        """Return the room's directory on the host."""
        return self.app / layout.session_workspace(told.view.host.id, told.view.session.id)

    def log(self, told: Told) -> list[str]:
        """Return what the commands of a room have written: a token for each that ran."""
        path = self.work(told) / LOG
        return path.read_text().split() if path.exists() else []

    async def turn(self, told: Told, exchange: Exchange) -> Turn:
        """Have a turn of a room to its capture."""
        turn = await ask(self.client, told.view, exchange.said, limit_s=LIMIT_S)
        assert turn.state is TurnState.CAPTURED, turn
        told.expected.extend(exchange.items())
        return turn

    async def say(self, told: Told, exchange: Exchange) -> Turn:
        """Begin a turn of a room, and return when its model stands still."""
        turn = await self.client.say(told.ref, TurnRequest(id=new_id(), text=exchange.said))
        await self.model.wait_for(held_at(exchange.gate), LIMIT_S)
        return turn

    async def state(self, told: Told, turn: Turn) -> Turn:
        """Return a turn of a room as it is now."""
        return next(each for each in await self.client.turns(told.ref) if each.id == turn.id)

    def interrupted(self, told: Told, exchange: Exchange) -> None:
        """Note what the model must, and must not, be told of a turn that a person interrupted."""
        told.expected.extend(exchange.acknowledged(self.model.model_requests))
        told.never.append(AssistantText("".join(exchange.second)))

    def cut(self, told: Told, exchange: Exchange, turn: Turn, *, outlived: bool = False) -> None:
        """Note what the model must, and must not, be told of a turn in which something was killed. ``outlived``: the daemon was not."""
        acknowledged = exchange.acknowledged(self.model.model_requests)
        if self.row.cut == "none":
            # The databases are put back as they were captured; a daemon that lived on may have captured them once more, as they were left.
            told.never.extend(item for item in exchange.items() if not (outlived and item in acknowledged))
            return
        if self.row.cut == "said":  # the provider says when it has written down what the person said
            acknowledged = acknowledged[: turn.provider_turn is not None]
        told.expected.extend(acknowledged)
        if exchange.holds != "item-done":
            told.never.append(AssistantText("".join(exchange.second)))

    async def kill(self, *exchanges: Exchange) -> None:
        """Kill the daemon, see that everything below it ends with it, and start it again. Its turns stood still at these places."""
        family = self.daemon.family()
        await to_thread.run_sync(self.daemon.kill)
        self.daemon.start()
        left = await to_thread.run_sync(gone, family)
        assert not left, f"they outlived the daemon: {left}"
        await self.daemon.up()
        for exchange in exchanges:
            self.model.release(exchange.gate)

    async def come_back(self, told: Told) -> None:
        """Bring a room back: as the same thread, with a record of it."""
        view = await self.client.resume(told.ref)
        assert view.live
        assert view.session.provider_identity == told.identity
        latest = (await self.client.inspect(told.ref)).observations[-1]
        assert (latest.outcome, latest.reported_identity) == (ObservationOutcome.SUCCEEDED, told.identity)

    async def remembers(self, told: Told, question: Question) -> None:
        """Ask something, and see that the model is told all that it must be, once, in order, and nothing that never was."""
        turn = await ask(self.client, told.view, question.said, limit_s=LIMIT_S)
        assert turn.state is TurnState.CAPTURED, turn
        (request,) = [r for r in self.model.model_requests if is_last(r, question.said)]
        heard = said_in(request, self.tokens)
        told.expected.append(question.items()[0])
        missing = contains_in_order(told.expected, heard)
        assert missing is None, f"{missing} is not in {heard}"
        twice = repeated(item for item in heard if getattr(item, "text", "") not in self.row.own_words)
        assert not twice, twice
        assert not set(told.never) & set(heard), "an answer that was never finished"
        assert not self.model.unmatched, self.model.unmatched[0].body
        if self.row.cut == "said":
            told.expected = list(heard)  # what is left of a cut turn, however much it is, is never less later
        told.expected.append(question.items()[1])
        identity = (await self.client.room(told.ref)).session.provider_identity
        assert identity is not None
        assert told.identity in (None, identity)
        told.identity = identity

    def sound(self, told: Told) -> None:
        """No command of a room ran twice."""
        log = self.log(told)
        assert len(log) == len(set(log)), "a command ran twice"


async def ended(client: JamClient, told: Told, turn: Turn, *states: TurnState) -> Turn:
    """Wait for the end of a turn, and return it; it must be one of these ends."""
    await room_event(
        client,
        told.ref,
        lambda event: event.turn_id == turn.id and event.payload.kind == "turn.state" and event.payload.state in ENDED,
        limit_s=LIMIT_S,
    )
    now = next(each for each in await client.turns(told.ref) if each.id == turn.id)
    assert now.state in states, now
    return now


def is_last(request: RecordedRequest, said: str) -> bool:
    """Whether a request's last text of a person is this one."""
    users = [item for item in request.conversation if isinstance(item, UserText)]
    return bool(users) and users[-1].text == said


def settings_of(row: ProviderRow) -> dict[str, str]:
    """Return the settings of a daemon that knows the provider."""
    return {"JAM_PROVIDERS": json.dumps(row.tables)} if row.tables else {}


@asynccontextmanager
async def modelled(row: ProviderRow, parts: Sequence[Exchange | Question]) -> AsyncIterator[ModelServer]:
    """Run the scripted model of these turns."""
    rules: list[Rule] = [rule for part in reversed(parts) for rule in part.rules()]
    async with row.model_server(*rules) as model:
        yield model


@asynccontextmanager
async def machine(
    row: ProviderRow,
    directory: Path,
    model: ModelServer,
    parts: Sequence[Exchange | Question],
    lives: Lives | None = None,
    **more: str,
) -> AsyncIterator[Machine]:
    """Run the daemon of a machine in a directory, with the provider's pinned program in place; ``more`` are settings of its own."""
    app = directory / "app"
    if not row.standin:
        await place_toolchain(app, row.provider, tables=row.tables)
    tokens = tuple(part.token for part in parts if isinstance(part, Exchange))
    daemon = DaemonChild(app, environment={**settings_of(row), **more}, private=directory / "private", lives=lives)
    async with running_daemon(daemon) as client:
        yield Machine(row, daemon, client, model, tokens)

"""The scenario itself: what every provider goes through, step by step, each named and each with what it proves.

Two machines: on the first one a room works, is interrupted, dies in the middle of a turn, comes back and is exported; on the second one
the export goes on with the exact conversation. Then the first machine is cleaned up. The proof of every step that is about a conversation
is what the model is told afterwards.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from anyio import to_thread

from jamcore.domain import layout
from jamcore.domain.approvals import ApprovalAnswer, ApprovalPolicy, ApprovalState, DecisionRequest
from jamcore.domain.cleanup_plans import CleanupQuestion, CleanupRequest
from jamcore.domain.events import ApprovalRequested, RoomEvent
from jamcore.domain.exports import MANIFEST
from jamcore.domain.host_cleanups import CleanupStage
from jamcore.domain.imports import AdoptRequest, ConfirmRequest, ImportRequest
from jamcore.domain.keeping import ArchiveQuestion, ArchiveRequest, RoomExportRequest
from jamcore.domain.removal import RemovalOverride
from jamcore.domain.requests import EndpointChoice, TurnRequest
from jamcore.domain.sessions import HostState, Turn, TurnState
from jamcore.testing.crash import Lives
from jamcore.testing.daemon import room_event
from jamcore.testing.exchanges import Exchange, Place, Question
from jamcore.testing.rooms import new_id, refused
from jamcore.testing.scenario.rows import ProviderRow
from jamcore.testing.scenario.world import ENGINE, LIMIT_S, Machine, Told, ended, machine, modelled
from jamcore.testing.servers.history import ToolOutput


@dataclass(slots=True)
class Story:
    """One provider's way through the steps."""

    here: Machine
    elsewhere: Callable[[], Awaitable[Machine]]
    exchanges: dict[str, Exchange]
    questions: dict[str, Question]
    room: Told = field(init=False)
    export: Path = field(init=False)

    # ------------------------------------------------------------------------------------------------------------- steps

    async def program(self) -> None:
        """The daemon has loaded the provider, and its pinned program is installed; of one without a pin none can be."""
        (view,) = [each for each in await self.here.client.providers() if each.name == self.here.row.provider]
        assert (view.state, view.problems) == ("loaded", ())
        if self.here.row.standin:
            assert view.program_version is None
            with refused("toolchain.none"):
                await self.here.client.install(self.here.row.provider)
        else:
            assert view.installed

    async def open(self) -> None:
        """A room is made: its sandbox runs, and the provider's program answers in it."""
        self.room = await self.here.open()
        assert self.room.view.live
        assert self.room.view.host.engine == ENGINE

    async def work(self) -> None:
        """In a turn the agent changes a file through its own tool, and the turn is captured."""
        exchange = self.exchanges["work"]
        turn = await self.here.turn(self.room, exchange)
        assert self.here.log(self.room) == [exchange.token]
        kinds = [event.payload.kind for event in await self._events(self.room, turn)]
        assert {"text.delta", "message"} <= set(kinds), kinds
        assert {"command.finished", "file.changed", "tool.call"} & set(kinds), kinds
        await self.here.remembers(self.room, self.questions["work"])

    async def deny(self) -> None:
        """In a room whose agent asks, nothing happens before the answer; denied, it never does: the model is told, or the turn ends."""
        exchange = self.exchanges["denied"]
        asking = await self.here.open(approvals=ApprovalPolicy.ASK)
        turn = await self.here.client.say(asking.ref, TurnRequest(id=new_id(), text=exchange.said))
        asked = await room_event(
            self.here.client,
            asking.ref,
            lambda e: e.turn_id == turn.id and isinstance(e.payload, ApprovalRequested),
            limit_s=LIMIT_S,
        )
        assert isinstance(asked.payload, ApprovalRequested)
        assert self.here.log(asking) == []
        no = DecisionRequest(id=new_id(), decision=ApprovalAnswer.DENY)
        assert (await self.here.client.approvals.decide(asked.payload.request, no)).state is ApprovalState.DENIED
        ends = (TurnState.CAPTURED,) if self.here.row.told_no else (TurnState.CAPTURED, TurnState.INTERRUPTED)
        await ended(self.here.client, asking, turn, *ends)
        assert self.here.log(asking) == []
        own = exchange.requests(self.here.model.model_requests)
        outputs = [item for item in own[-1].conversation if isinstance(item, ToolOutput) and item.call_id == exchange.call_id]
        assert len(outputs) == self.here.row.told_no
        assert all(exchange.token not in item.output for item in outputs)
        asking.identity = (await self.here.client.room(asking.ref)).session.provider_identity
        await self.here.client.stop(asking.ref)
        await self.here.come_back(asking)  # however its turn ended: what was captured of it is still there
        await self.here.client.stop(asking.ref)

    async def interrupt(self) -> None:
        """A turn is interrupted in the middle of an answer; the room takes the next one, and remembers what the person said."""
        exchange = self.exchanges["interrupted"]
        turn = await self.here.say(self.room, exchange)
        await self.here.client.interrupt(self.room.ref)
        await ended(self.here.client, self.room, turn, TurnState.INTERRUPTED)
        self.here.model.release(exchange.gate)
        self.here.interrupted(self.room, exchange)
        await self.here.remembers(self.room, self.questions["interrupted"])

    async def checkpoint(self) -> None:
        """The last checkpoint is whole, and holds the conversation under the identity that the program reported."""
        newest = (await self.here.client.checkpoints(self.room.ref))[0]
        verdict = await self.here.client.verify_checkpoint(str(newest.id))
        assert verdict.sound, verdict
        last = (await self.here.client.turns(self.room.ref))[-1]
        assert [(held.provider_identity, held.last_turn_id) for held in newest.sessions] == [(self.room.identity, last.id)]

    async def die(self) -> None:
        """The daemon is killed while the model is asked with the output of a command: everything below it ends with it."""
        exchange = self.exchanges["killed"]
        turn = await self.here.say(self.room, exchange)
        await self.here.kill(exchange)
        left = await self.here.state(self.room, turn)
        assert left.state is not TurnState.CAPTURED
        self.here.cut(self.room, exchange, left)

    async def resume(self) -> None:
        """The room is the same thread again; the turn is cut, not run again, and the model hears all before it and what is left of it."""
        asked = len(self.exchanges["killed"].requests(self.here.model.model_requests))
        await self.here.come_back(self.room)
        cut = (await self.here.client.turns(self.room.ref))[-1]
        assert cut.state is TurnState.CUT, cut
        await self.here.remembers(self.room, self.questions["resumed"])
        assert len(self.exchanges["killed"].requests(self.here.model.model_requests)) == asked, "a cut turn was sent again"
        self.here.sound(self.room)

    async def park(self) -> None:
        """The room is stopped, and comes back as the same thread for a further turn."""
        assert (await self.here.client.stop(self.room.ref)).outcome == "parked"
        await self.here.come_back(self.room)
        await self.here.turn(self.room, self.exchanges["after"])
        await self.here.remembers(self.room, self.questions["after"])
        self.here.sound(self.room)

    async def keep(self) -> None:
        """The room is exported, files and conversation, as a plain directory that verifies; it is brought elsewhere as a copy."""
        await self.here.client.stop(self.room.ref)
        request = RoomExportRequest(id=new_id())
        await self.here.client.exports.new(self.room.ref, request)
        assert (await self.here.client.exports.verify(str(request.id))).sound
        self.export = self.here.app.parent / "brought"
        await to_thread.run_sync(shutil.copytree, self.here.app / layout.export_root(request.id), self.export)
        assert (self.export / MANIFEST).exists()

    async def go_on_elsewhere(self) -> None:
        """Another machine takes the export in, confirmed by its digest; the room goes on there with files and exact conversation.

        Where a conversation cannot go on in another directory, there are the files, and the conversation is refused.
        """
        there = await self.elsewhere()
        view = await there.client.imports.take(ImportRequest(id=new_id(), path=str(self.export)))
        ref = str(view.export.id)
        await there.client.imports.confirm(ref, ConfirmRequest(confirmed=view.digest))
        endpoint = EndpointChoice(origin=there.model.base_url)
        room = Told(
            await there.client.imports.restore(ref, AdoptRequest(id=new_id(), endpoint=endpoint)),
            self.room.identity,
            list(self.room.expected),
            list(self.room.never),
        )
        assert there.log(room) == self.here.log(self.room)
        if not self.here.row.moves:
            with refused("continuity.resume_failed"):
                await there.client.resume(room.ref)
            return
        await there.come_back(room)
        await there.remembers(room, self.questions["elsewhere"])
        await there.turn(room, self.exchanges["elsewhere"])
        assert there.log(room)[-1] == self.exchanges["elsewhere"].token
        there.sound(room)

    async def clean_up(self) -> None:
        """Archived and confirmed, the sandbox goes with its files; the export outlives it, and the room says what became of it."""
        client, ref = self.here.client, self.room.ref
        words = tuple(
            RemovalOverride(reason=each.reason, path=each.path)
            for each in (await client.exports.plan_archive(ref, ArchiveQuestion())).standing
        )
        digest = (await client.exports.plan_archive(ref, ArchiveQuestion(overrides=words))).digest
        kept = await client.exports.archive(ref, ArchiveRequest(id=new_id(), confirmed=digest, overrides=words))
        plan = await client.clearing.plan_cleanup(ref, CleanupQuestion())
        assert plan.standing == ()
        done = await client.clearing.clean_up(ref, CleanupRequest(id=new_id(), confirmed=plan.digest))
        assert done.cleanup.stage is CleanupStage.SUCCEEDED
        assert (await client.room(ref)).host.state is HostState.REMOVED
        assert not (self.here.app / layout.host_root(self.room.view.host.id) / "guest-disk").exists()
        assert (await client.exports.verify(str(kept.export.id))).sound

    # -------------------------------------------------------------------------------------------------------------- parts

    async def _events(self, told: Told, turn: Turn) -> list[RoomEvent]:
        events = self.here.client.events(told.ref, after=0, follow=False)
        return [event async for event in events if event.turn_id == turn.id]


STEPS: tuple[tuple[str, Callable[[Story], Awaitable[None]]], ...] = (
    ("the program is there", Story.program),
    ("a room", Story.open),
    ("a turn that changes a file", Story.work),
    ("a question, denied", Story.deny),
    ("an interrupt", Story.interrupt),
    ("a checkpoint", Story.checkpoint),
    ("the daemon killed in a turn", Story.die),
    ("exact resume", Story.resume),
    ("stop, and back again", Story.park),
    ("an export", Story.keep),
    ("import on another machine", Story.go_on_elsewhere),
    ("clean-up", Story.clean_up),
)
"""The steps in their order, by the names that the page gives them. Each needs those before it."""

_EXCHANGES: tuple[tuple[str, Place], ...] = (
    ("work", "nowhere"),
    ("denied", "nowhere"),
    ("interrupted", "delta-2"),
    ("killed", "request-2"),
    ("after", "nowhere"),
    ("elsewhere", "nowhere"),
)
_QUESTIONS = ("work", "interrupted", "resumed", "after", "elsewhere")


@asynccontextmanager
async def story(row: ProviderRow, directory: Path, lives: Lives) -> AsyncIterator[Story]:
    """Make both machines of a provider's story, the second one when it is asked for, and end them."""
    exchanges = {name: Exchange.make(name, f"t{number}x", place, row.shell) for number, (name, place) in enumerate(_EXCHANGES)}
    questions = {name: Question.make(name, f"q{number}x") for number, name in enumerate(_QUESTIONS)}
    parts: tuple[Exchange | Question, ...] = (*exchanges.values(), *questions.values())
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(modelled(row, parts))
        here = await stack.enter_async_context(machine(row, directory / "here", model, parts, lives))

        async def elsewhere() -> Machine:
            return await stack.enter_async_context(machine(row, directory / "there", model, parts, lives))

        yield Story(here, elsewhere, exchanges, questions)

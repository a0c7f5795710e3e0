"""Rooms with a real agent, a real account and any engine: what live tests are made of (LIVE-2).

Everything goes through the client that ``jam`` uses, so that a test holds for every engine and every provider. The environment says where
it runs: ``JAM_LIVE_ENGINE`` (absent: what the daemon takes by itself), ``JAM_LIVE_MODEL`` (absent: the provider's own default), and
``JAM_LIVE_ENDPOINT``, an origin that stands in for the real one: a scripted model, with which the code of a live test is proven to run.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread

from jamcore.control.client import JamClient
from jamcore.domain import layout
from jamcore.domain.cells import Placement
from jamcore.domain.continuity import ObservationOutcome
from jamcore.domain.events import RoomPayload
from jamcore.domain.providers import CredentialSpec
from jamcore.domain.requests import EndpointChoice, RoomRequest, RoomView
from jamcore.domain.sandboxes import Isolation, Presence
from jamcore.domain.sessions import TurnState
from jamcore.engines.port import EngineContext, EnginePlugin
from jamcore.engines.registry import EngineRegistry
from jamcore.plugins.manager import ProviderManager
from jamcore.testing.daemon import DaemonChild, place_toolchain, running_daemon
from jamcore.testing.live import ENDPOINT
from jamcore.testing.rooms import ask, managed, new_id

ENGINE = "JAM_LIVE_ENGINE"
MODEL = "JAM_LIVE_MODEL"
TURN_S = 600.0
"""A turn of a real model, with its own retries."""


@dataclass(frozen=True, slots=True)
class Place:
    """What the environment says of where a live test runs."""

    engine: str | None
    endpoint: str | None
    model: str | None


def place() -> Place:
    """Read it from the environment of the process."""
    return Place(*(os.environ.get(name) or None for name in (ENGINE, ENDPOINT, MODEL)))


@dataclass(frozen=True, slots=True)
class Words:
    """What one room is told: a word to remember, which is in no file, and a word to write into one."""

    spoken: str
    written: str

    @property
    def told(self) -> str:
        """The first message."""
        return (
            f"Remember the word {self.spoken}. Then write the word {self.written} into the file word.txt in your working directory, "
            "and nothing else. When that is done, answer with the one word: done"
        )

    @property
    def write(self) -> str:
        """The command that does what the first message asks for."""
        return f"printf '%s\\n' {self.written} > word.txt"


ASKED = "Which word did I ask you to remember? Answer with that word alone. Use no tool and read no file."
RUN = "Run exactly this shell command in your working directory, once, whatever it prints, and nothing else: "


def look_around(secret: Path) -> str:
    """Return a command that looks for a file of the host, for secrets in what processes were given, and says that it is done."""
    looks = (
        f"cat '{secret}'",
        f"cat '/proc/1/root{secret}'",
        "env",
        "cat /proc/1/environ",
        "cat /proc/self/environ | tr '\\000' ' '",
    )
    return f"({'; '.join(looks)}; echo; echo looked-everywhere) > found.txt 2>&1"


def try_to_reach(host: str, port: str) -> str:
    """Return a command that tries an address directly and, as a program with a proxy in its environment would, over HTTPS.

    ``tcp-denied`` is said by the very program that tried, so that a missing one never reads as a denial.
    """
    direct = f"bash -c '(exec 3<>/dev/tcp/{host}/{port}) 2>/dev/null && echo tcp-reached || echo tcp-denied'"
    return f"({direct}; curl --silent --max-time 20 --output /dev/null https://{host}:{port}/; echo curl-$?) > found.txt 2>&1"


class LiveJam:
    """A daemon of its own with the pinned program of one provider."""

    def __init__(
        self, provider: str, daemon: DaemonChild, client: JamClient, where: Place, endpoint: EndpointChoice | None = None
    ) -> None:
        self.provider = provider
        self.endpoint = EndpointChoice(origin=where.endpoint) if where.endpoint else endpoint
        self.daemon = daemon
        self.client = client
        self.place = where

    def request(self, **more: object) -> RoomRequest:
        """Return the request for a room on the engine of this run, with the provider's own endpoint and account or their stand-in."""
        request = managed(self.provider, "", engine=self.place.engine, model=self.place.model, **more)
        return request.model_copy(update={"endpoint": self.endpoint})

    async def open(self, **more: object) -> RoomView:
        """Make a room."""
        return await self.client.create_room(self.request(**more))

    async def say(self, room: RoomView, text: str) -> tuple[RoomPayload, ...]:
        """Say something and return what the turn brought; a turn that does not end captured is a failure."""
        turn = await ask(self.client, room, text, limit_s=TURN_S)
        assert turn.state is TurnState.CAPTURED, f"{turn.state}: {turn.detail}"
        events = self.client.events(str(room.room.id), after=0, follow=False)
        return tuple([event.payload async for event in events if event.turn_id == turn.id])

    async def tell(self, room: RoomView, words: Words) -> None:
        """Have the agent remember one word and write another, which is then in the room's files."""
        await self.say(room, words.told)
        assert f"+{words.written}\n" in await self.patch(room)

    async def require_recall(self, room: RoomView, words: Words, *others: Words) -> None:
        """Ask for the word that only the conversation holds; no word of another conversation may come."""
        payloads = await self.say(room, ASKED)
        answer = "".join(payload.text for payload in payloads if payload.kind == "message")
        assert words.spoken in answer, answer
        assert not [other for other in others if other.spoken in answer], answer
        assert not [payload for payload in payloads if payload.kind == "command.started"], "it looked for the word instead"

    async def run_command(self, room: RoomView, command: str) -> str:
        """Have the agent run a command, and return the patch of the room's files after it."""
        await self.say(room, f"{RUN}{command}")
        return await self.patch(room)

    async def patch(self, room: RoomView) -> str:
        """Return what the room's files have become, as a patch, whatever the engine and wherever they lie."""
        change = await self.client.build_change(str(room.room.id), new_id())
        return (await self.client.change(str(change.id))).patch

    async def killed(self) -> None:
        """SIGKILL the daemon with everything below it, and start it again."""
        await to_thread.run_sync(self.daemon.kill)
        self.daemon.start()
        await self.daemon.up()

    async def resume(self, room: RoomView) -> RoomView:
        """Bring the room back: the provider itself must report the identity that it had."""
        ref = str(room.room.id)
        before = (await self.client.room(ref)).session.provider_identity
        assert before
        view = await self.client.resume(ref)
        assert view.live
        assert view.session.provider_identity == before
        last = (await self.client.inspect(ref)).observations[-1]
        assert (last.outcome, last.reported_identity) == (ObservationOutcome.SUCCEEDED, before)
        return view

    async def remove_sandbox(self, room: RoomView) -> None:
        """Stop the daemon, remove the room's sandbox by the engine itself behind its back, and start the daemon again."""
        await to_thread.run_sync(self.daemon.stop)
        plugin = (await engines())[room.host.engine]
        assert self.daemon.private is not None
        runtime = self.daemon.private / "engine"
        runtime.mkdir(mode=0o700, exist_ok=True)
        root = self.daemon.app / layout.engine_root(room.host.engine)
        async with plugin.open(EngineContext(root=root, runtime=runtime)) as engine:
            assert await engine.presence(room.host.sandbox) is not Presence.ABSENT
            await engine.remove(room.host.sandbox)
            assert await engine.presence(room.host.sandbox) is Presence.ABSENT
        self.daemon.start()
        await self.daemon.up()


@asynccontextmanager
async def live_jam(
    directory: Path, provider: str, *, endpoint: EndpointChoice | None = None, **environment: str
) -> AsyncIterator[LiveJam]:
    """Run a daemon for a live test, in a directory of the test, with the provider's program in place.

    Args:
        directory: Of the test.
        provider: Whose rooms they are.
        endpoint: Instead of the provider's own, for a provider that has none; a stand-in goes before it.
        environment: Variables of the daemon besides this process's own.
    """
    app = directory / "app"
    await place_toolchain(app, provider)
    daemon = DaemonChild(app, environment=environment, private=directory / "private")
    async with running_daemon(daemon) as client:
        yield LiveJam(provider, daemon, client, place(), endpoint)


async def turn_and_exact_resume(directory: Path, provider: str, *, endpoint: EndpointChoice | None = None) -> None:
    """The live test that each provider has: a turn changes a file, and after a kill the same conversation answers.

    Raises:
        AssertionError: It does not.
        JamError: What Jam refused, for example because there is no credential.
    """
    words = Words("quetzal-7731", "ocelot-2290")
    async with live_jam(directory, provider, endpoint=endpoint) as jam:
        room = await jam.open()
        await jam.tell(room, words)
        await jam.killed()
        await jam.resume(room)
        await jam.require_recall(room, words)
        await jam.client.stop(str(room.room.id))


# ------------------------------------------------------------------------------------------------------------------ needs


async def engines() -> Mapping[str, EnginePlugin]:
    """Return the installed engines by name."""
    registry = EngineRegistry()
    await registry.load()
    return registry.plugins()


def probe_engine(ability: str) -> str | None:
    """``engine:ABILITY``: the engine of this run, or without one any that isolates, has this ability; with ``any`` instead, it is there."""
    found = anyio.run(engines)
    named = place().engine
    if named is not None and named not in found:
        return f"no engine {named} is installed; installed: {', '.join(sorted(found))}"
    asked = [found[named]] if named else [plugin for plugin in found.values() if plugin.isolation is not Isolation.NONE]
    if ability == "any" or any(ability in plugin.abilities for plugin in asked):
        return None
    names = ", ".join(sorted(plugin.name for plugin in asked)) or "none installed"
    return f"the engine of this run ({names}) does not have {ability}"


def probe_account(provider: str) -> str | None:
    """``account:PROVIDER``: the environment has the provider's credential, or an endpoint that stands in for the real one."""
    if place().endpoint:
        return None
    credential = anyio.run(partial(_credential, provider))
    names = credential.environment_names if credential else ()
    if not names or any(os.environ.get(name) for name in names):
        return None
    return f"the environment has no {' or '.join(names)}"


async def _credential(provider: str) -> CredentialSpec | None:
    manager = ProviderManager()
    await manager.load()
    return manager.provider(provider).description.credential if provider in manager.names() else None


__all__ = [
    "ASKED",
    "RUN",
    "EndpointChoice",
    "LiveJam",
    "Place",
    "Placement",
    "Words",
    "engines",
    "live_jam",
    "look_around",
    "place",
    "probe_account",
    "probe_engine",
    "try_to_reach",
    "turn_and_exact_resume",
]

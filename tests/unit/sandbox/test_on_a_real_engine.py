"""The same path over a real sandbox: real namespaces, a real endpoint on the loopback, a real relay between them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from aiohttp import web

from jamcore.domain import layout
from jamcore.domain.ownership import GUEST_MARKER, OwnerMarker
from jamcore.domain.plan import ModelEndpoint, Plan
from jamcore.domain.sandboxes import ExecRefusedError, Presence
from jamcore.egress.relay import Relay, RelayCredential
from jamcore.engines.bubblewrap import BubblewrapEnginePlugin
from jamcore.engines.port import Engine, EngineContext
from jamcore.sandbox.ensure import Ensured, Renewal
from jamcore.sandbox.ownership import Ownership
from jamcore.sandbox.planning import EngineFacts
from jamcore.sandbox.prepare import PreparationRequest, Preparer
from jamcore.sandbox.prepared import NetworkPolicy, PreparedExec
from jamcore.sandbox.records import OwnerRecords
from jamcore.sandbox.teardown import Removal, park, remove
from jamcore.system.files import Files
from jamcore.system.ids import SystemIds
from jamcore.testing.doubles import plans, providers

pytestmark = [pytest.mark.anyio, pytest.mark.needs("bubblewrap"), pytest.mark.unprivileged]

SECRET = "sk-live-0123456789abcdefghijklmnop"
ASK = """
import json, sys, urllib.request
request = urllib.request.Request("http://127.0.0.1:8790" + sys.argv[1], data=b'{"n":1}', headers={"authorization": "Bearer guest"})
try:
    with urllib.request.urlopen(request, timeout=10) as answer:
        print(answer.status, answer.read().decode())
except urllib.error.HTTPError as error:
    print(error.code, json.loads(error.read())["error"]["code"])
"""


class Daemon:
    """One daemon's life over an app directory."""

    def __init__(self, app: Path, engine: Engine, endpoint: ModelEndpoint, relay: Relay) -> None:
        self.app = app
        self.engine = engine
        self.relay = relay
        files = Files()
        self.ownership = Ownership(OwnerRecords(app, files=files), engine)
        self.preparer = Preparer(app, ownership=self.ownership, files=files, ids=SystemIds())
        built = plans.plan(engine=EngineFacts.of(engine))
        self.plan: Plan = built.model_copy(update={"endpoint": endpoint})

    async def prepare(self) -> PreparedExec:
        """Take the whole path."""
        request = PreparationRequest(
            plan=self.plan,
            policy=NetworkPolicy(endpoint=self.plan.endpoint),
            contribution=providers.CONTRIBUTION,
            preparation=providers.GoodProvider().jam_prepare(),
        )
        return await self.preparer.prepare(request, route=self.relay)


@asynccontextmanager
async def daemon(app: Path, origin: str) -> AsyncIterator[Daemon]:
    files = Files()
    root, runtime = files.make_private(app / "engines/bubblewrap"), files.make_private(app / "engines/bubblewrap/run")
    endpoint = ModelEndpoint(origin=origin, paths=("POST /v1/answers",), credential="good")
    credential = RelayCredential(header="authorization", value=f"Bearer {SECRET}")
    async with (
        Relay.open(endpoint, credential=credential) as relay,
        BubblewrapEnginePlugin().open(EngineContext(root=root, runtime=runtime)) as engine,
    ):
        yield Daemon(app, engine, endpoint, relay)


@asynccontextmanager
async def model(seen: list[str]) -> AsyncIterator[str]:
    async def answer(request: web.Request) -> web.Response:
        seen.append(request.headers["authorization"])
        return web.json_response({"got": await request.json()})

    app = web.Application()
    app.router.add_post("/v1/answers", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def python_in(prepared: PreparedExec) -> str:
    """Return a Python of the guest: the engine's own, or the system's."""
    for candidate in ("/jam/python/bin/python3", "/usr/bin/python3", "python3"):
        with suppress(ExecRefusedError):
            if (await prepared.run((candidate, "-c", ""), cwd="/", timeout_s=20))[0] == 0:
                return candidate
    pytest.fail("no Python in the guest")


@pytest.mark.guarantee("OWN-1", "OWN-3", "PREP-1", "SEC-4", "ENV-4")
async def test_created_parked_and_brought_back_by_another_daemon(tmp_path: Path) -> None:
    """A guest reaches the model through the relay and nothing else; the next daemon proves the sandbox, starts it and removes it."""
    seen: list[str] = []
    app = Files().make_private(tmp_path / "app")
    async with model(seen) as origin:
        async with daemon(app, origin) as first:
            prepared = await first.prepare()
            assert prepared.outcome is Ensured.CREATED
            ask = (await python_in(prepared), "-c", ASK)
            answered = await prepared.run((*ask, "/v1/answers"), cwd="/home/agent", timeout_s=30)
            refused = await prepared.run((*ask, "/v1/other"), cwd="/home/agent", timeout_s=30)
            assert answered == (0, b'200 {"got": {"n": 1}}\n')
            assert refused == (0, b"404 relay_path_refused\n")
            assert seen == [f"Bearer {SECRET}"]
            code, found = await prepared.run(
                ("/bin/sh", "-c", f"grep -rsl {SECRET[:12]} /proc/*/environ /home /jam/state /jam/work /tmp; env"),
                cwd="/",
                timeout_s=30,
            )
            assert SECRET.encode() not in found
            assert b"GOOD_HOME=/jam/state/good/home" in found
            assert code is not None
            code, _ = await prepared.run(
                ("/bin/sh", "-c", "cat /jam/state/good/home/config.toml && touch /jam/state/good/home/made /jam/work/x"),
                cwd="/",
                timeout_s=10,
            )
            assert code == 0
            assert (app / layout.provider_state(plans.HOST, "good") / "home/made").exists()
            marker = OwnerMarker.model_validate_json((app / layout.owner_marker(first.plan.name)).read_bytes())
            code, guest = await prepared.run(
                ("/bin/sh", "-c", f"stat -c %a {GUEST_MARKER}; cat {GUEST_MARKER}"), cwd="/", timeout_s=10
            )
            assert guest == b'600\n{"nonce":"' + marker.nonce.encode() + b'"}\n'
            prepared.shut()
            await park(first.engine, first.plan.name)
        async with daemon(app, origin) as second:
            assert await second.engine.presence(second.plan.name) is Presence.STOPPED
            resumed = await second.prepare()
            assert resumed.outcome is Ensured.STARTED
            assert (await resumed.run((*ask, "/v1/answers"), cwd="/", timeout_s=30))[1].startswith(b"200")
            assert await remove(second.ownership, second.plan.name, second.plan.owner) is Removal.REMOVED
            assert await second.engine.presence(second.plan.name) is Presence.ABSENT
            assert not (app / layout.owner_marker(second.plan.name)).exists()


SPOIL = {
    "emptied home": "cd ~ && find . -mindepth 1 -delete",
    "forged": f'echo \'{{"nonce":"0"}}\' > {GUEST_MARKER}',
    "link": f"ln -sf /etc/passwd {GUEST_MARKER}",
    "directory": f"rm {GUEST_MARKER} && mkdir -p {GUEST_MARKER}/a/b && touch {GUEST_MARKER}/a/c",
    "pipe": f"rm {GUEST_MARKER} && mkfifo {GUEST_MARKER}",
    "endless": f"rm {GUEST_MARKER} && ln -s /dev/zero {GUEST_MARKER}",
}


@pytest.mark.guarantee("OWN-3", "OWN-8")
@pytest.mark.parametrize("how", SPOIL)
async def test_a_guest_that_spoils_its_proof_keeps_nobody_out(tmp_path: Path, how: str) -> None:
    """Running and parked, and for the next daemon: the engine's proof holds, the guest's is written anew, and a removal works."""
    app = Files().make_private(tmp_path / "app")
    async with model([]) as origin:
        async with daemon(app, origin) as here:
            prepared = await here.prepare()
            assert prepared.renewal is None
            assert await prepared.run(("/bin/sh", "-c", SPOIL[how]), cwd="/", timeout_s=10) == (0, b"")
            again = await here.prepare()
            assert (again.outcome, again.renewal) == (Ensured.REUSED, Renewal.WRITTEN)
            assert await again.run(("stat", "-c", "%a %F", GUEST_MARKER), cwd="/", timeout_s=10) == (0, b"600 regular file\n")
            assert await again.run(("/bin/sh", "-c", SPOIL[how]), cwd="/", timeout_s=10) == (0, b"")
        async with daemon(app, origin) as next_one:
            back = await next_one.prepare()
            assert (back.outcome, back.renewal) == (Ensured.STARTED, Renewal.WRITTEN)
            assert await back.run(("/bin/sh", "-c", SPOIL[how]), cwd="/", timeout_s=10) == (0, b"")
            await next_one.engine.stop(next_one.plan.name)
            assert await remove(next_one.ownership, next_one.plan.name, next_one.plan.owner) is Removal.REMOVED
            assert await next_one.engine.presence(next_one.plan.name) is Presence.ABSENT


@pytest.mark.guarantee("OWN-8")
async def test_a_guest_that_lets_nothing_be_written_is_brought_back_all_the_same(tmp_path: Path) -> None:
    """A directory that even its owner cannot empty stands in the proof's place: it is said, and the sandbox serves."""
    app = Files().make_private(tmp_path / "app")
    async with model([]) as origin, daemon(app, origin) as here:
        prepared = await here.prepare()
        spoil = f"rm {GUEST_MARKER} && mkdir -p {GUEST_MARKER}/a/b && chmod 0 {GUEST_MARKER}/a"
        assert await prepared.run(("/bin/sh", "-c", spoil), cwd="/", timeout_s=10) == (0, b"")
        again = await here.prepare()
        assert (again.outcome, again.renewal) == (Ensured.REUSED, Renewal.REFUSED)
        assert await again.run(("true",), cwd="/", timeout_s=10) == (0, b"")
        assert await remove(here.ownership, here.plan.name, here.plan.owner) is Removal.REMOVED
        (app / layout.guest_disk(plans.HOST) / "home" / GUEST_MARKER.rpartition("/")[2] / "a").chmod(0o700)

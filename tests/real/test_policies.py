"""The example of a policy in a real daemon: it is a part of every room of every provider, or there is no room."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jamcore.domain.approvals import ApprovalPolicy
from jamcore.domain.keeping import RoomExportRequest
from jamcore.domain.sessions import TurnState
from jamcore.plugins.manager import POLICIES, PROVIDERS
from jamcore.testing.daemon import DaemonChild, running_daemon
from jamcore.testing.providers.case import told
from jamcore.testing.rooms import ask, managed, new_id, refused
from jamcore.testing.servers.chat import ChatServer
from jamcore.testing.servers.history import ToolOutput
from jamcore.testing.servers.script import Call, Match, Rule, Script, say
from jamcore.testing.skeleton.examples import EXAMPLES
from jamcore.testing.skeleton.making import Kind
from jamcore.testing.wheels import build_wheel, install_wheels

pytestmark = [
    pytest.mark.slow,
    pytest.mark.guarantee("PLUG-1", "PLAN-5"),
    pytest.mark.needs("bubblewrap"),
]

ROOT = Path(__file__).parents[2]
POLICY = EXAMPLES[Kind.POLICY]
TWIN = """
from jam_example_agent.description import DESCRIPTION
from jam_example_agent.plan import contribute
from jam_example_agent.plugin import ExampleAgentPlugin
from jamcore.api import hookimpl


class Twin(ExampleAgentPlugin):
    description = DESCRIPTION.model_copy(update={"name": "example_twin"})

    @hookimpl
    def jam_contribute_plan(self, context):
        made = contribute(context)
        more = ("GET /v1/files", "GET /v1/models")
        return made.model_copy(update={"endpoint_paths": (*made.endpoint_paths, *more)})
"""
"""A second provider, which asks its endpoint for more: what is denied to it would be let through without the policy."""
FAILING = """
from jamcore.api import hookimpl


class Failing:
    api_version = (1, 0)

    @hookimpl(wrapper=True)
    def jam_contribute_plan(self):
        answer = yield
        raise LookupError("the register of rules is closed")
"""
PROVIDERS_HERE = (EXAMPLES[Kind.PROVIDER], "example_twin")
LOOK = r"""
import json, os, urllib.error, urllib.request
place = os.environ.get("EXAMPLE_POLICY_RULES", "")
def attempt(act):
    try:
        act()
    except OSError as error:
        return type(error).__name__
    return "done"
def status(path):
    try:
        return urllib.request.urlopen("http://127.0.0.1:8790" + path, timeout=20).status
    except urllib.error.HTTPError as error:
        return error.read().decode()
found = {"files": status("/v1/files"), "models": status("/v1/models")}
if place:
    found["rules"] = open(place + "/house.md").read()
    found["change"] = attempt(lambda: open(place + "/house.md", "w"))
    found["add"] = attempt(lambda: open(place + "/mine.md", "w"))
    found["remove"] = attempt(lambda: os.unlink(place + "/house.md"))
    found["move"] = attempt(lambda: os.rename(place, place + "-moved"))
print(json.dumps(found))
"""
RULES = (
    Rule(match=Match(last_user_contains="look", last_is_tool_output=True), answer=say("Seen.").answer),
    Rule(
        match=Match(last_user_contains="look"),
        answer=(Call(name="shell", arguments={"command": f"python3 -c '{LOOK}'"}, call_id="call_1"),),
    ),
    say("Hello."),
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which the example of a provider, its twin and the example of a policy are installed."""
    made = tmp_path_factory.mktemp("site")
    for kind in (Kind.PROVIDER, Kind.POLICY):  # a copy: building leaves files beside the sources
        shutil.copytree(ROOT / "examples" / kind.value, made / kind.value)
    quiet = ["--quiet", "--disable-pip-version-check", "--root-user-action=ignore"]
    options = [*quiet, "--no-index", "--no-deps", "--no-build-isolation", "--target", str(made / "site")]
    argv = [sys.executable, "-m", "pip", "install", *options, str(made / Kind.PROVIDER.value), str(made / Kind.POLICY.value)]
    subprocess.run(argv, check=True, timeout=100)
    entries = {PROVIDERS: {"example_twin": "jam_twin:Twin"}}
    install_wheels(made / "site", build_wheel(made, "jam-twin", "1.0", modules={"jam_twin": TWIN}, entries=entries))
    return made / "site"


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with one more policy, which fails whenever it is asked."""
    made = tmp_path_factory.mktemp("failing")
    entries = {POLICIES: {"closed": "jam_closed:Failing"}}
    install_wheels(made / "site", build_wheel(made, "jam-closed", "1.0", modules={"jam_closed": FAILING}, entries=entries))
    return made / "site"


def daemon_with(tmp_path: Path, *sites: Path, **environment: str) -> DaemonChild:
    """Return a daemon beside which these are installed."""
    path = ":".join(map(str, sites))
    return DaemonChild(tmp_path / "app", private=tmp_path / "private", environment={"PYTHONPATH": path, **environment})


async def looked(daemon: DaemonChild, model: ChatServer, provider: str) -> dict[str, object]:
    """Return what the agent of a new room finds in its sandbox."""
    async with running_daemon(daemon) as client:
        room = await client.create_room(managed(provider, model.base_url, engine="bubblewrap", approvals=ApprovalPolicy.NEVER))
        turn = await ask(client, room, "look")
        await client.stop(str(room.room.id))
    assert turn.state is TurnState.CAPTURED
    (output,) = [item.output for item in told(model) if isinstance(item, ToolOutput)]
    found: dict[str, object] = json.loads(output[output.index("{") : output.rindex("}") + 1])
    return found


@pytest.mark.guarantee("KIT-1", "SEC-4")
@pytest.mark.parametrize("provider", PROVIDERS_HERE)
async def test_every_room_has_the_mount_and_the_denial(tmp_path: Path, site: Path, provider: str) -> None:
    """Read back from inside: the rules are there and cannot be changed, and the relay refuses what is denied, and only that."""
    async with ChatServer(Script(rules=RULES)) as model:
        found = await looked(daemon_with(tmp_path, site), model, provider)
        asked = {request.path for request in model.requests}
    assert found["rules"] == (ROOT / "examples/policy/src/jam_example_policy/rules/house.md").read_text()
    assert {found["change"], found["add"], found["remove"]} == {"OSError"}
    assert found["move"] != "done"
    assert "relay_path_refused" in str(found["files"])
    assert (found["models"] == 200) is (provider == "example_twin")
    assert "/v1/files" not in asked


async def test_without_the_policy_the_same_room_has_neither(tmp_path: Path, site: Path) -> None:
    """The control: a person blocked the policy, and the relay lets the request through that it would deny."""
    async with ChatServer(Script(rules=RULES)) as model:
        found = await looked(daemon_with(tmp_path, site, JAM_BLOCKED_PLUGINS=POLICY), model, "example_twin")
        asked = {request.path for request in model.requests}
    assert "rules" not in found
    assert "relay_path_refused" not in str(found["files"])
    assert "/v1/files" in asked


async def test_a_denied_host_is_no_endpoint_of_any_room(tmp_path: Path, site: Path) -> None:
    """Whoever names it, and however it is written; nothing is made of such a room."""
    async with running_daemon(daemon_with(tmp_path, site)) as client:
        for origin in ("https://models.example.net", "https://EU.Models.Example.net.:8443"):
            with refused("plan.refused") as caught:
                await client.create_room(managed("example_twin", origin, engine="bubblewrap"))
            assert "models.example.net: a policy" in str(caught.value)
        assert await client.rooms() == ()


async def test_a_policy_that_fails_stops_every_room(tmp_path: Path, site: Path, failing: Path) -> None:
    """By a typed error that says what failed and names the policies; no room is left of it."""
    async with running_daemon(daemon_with(tmp_path, site, failing)) as client:
        for provider in PROVIDERS_HERE:
            with refused("plugin.failed") as caught:
                await client.create_room(managed(provider, "http://127.0.0.1:9", engine="bubblewrap"))
            assert "the register of rules is closed" in str(caught.value)
            assert "closed, example_policy" in str(caught.value)
        assert await client.rooms() == ()


async def test_while_a_policy_is_broken_no_room_is_made_or_comes_back(tmp_path: Path, site: Path) -> None:
    """Its rules are gone: a new room and one that was there are refused by name, until a person blocks the policy.

    A room that was made with the policy goes on under a block; one that was made without it is refused when the policy is back.
    """
    async with ChatServer(Script(rules=RULES)) as model:
        request = managed(EXAMPLES[Kind.PROVIDER], model.base_url, engine="bubblewrap", approvals=ApprovalPolicy.NEVER)
        async with running_daemon(daemon_with(tmp_path, site)) as client:
            with_it = await client.create_room(request)
            await client.stop(str(with_it.room.id))
        async with running_daemon(daemon_with(tmp_path, site, EXAMPLE_POLICY_RULES=str(tmp_path / "gone"))) as client:
            with refused("plugin.policy_not_loaded") as caught:
                await client.create_room(managed("example_twin", model.base_url, engine="bubblewrap"))
            assert f"jam plugin block {POLICY}" in str(caught.value)
            with refused("plugin.policy_not_loaded"):
                await client.resume(str(with_it.room.id))
            await client.plugins.block(POLICY, why="its rules are gone")
        async with running_daemon(daemon_with(tmp_path, site)) as client:
            without = await client.create_room(managed("example_twin", model.base_url, engine="bubblewrap"))
            await client.resume(str(with_it.room.id))
            for room in (without, with_it):
                assert (await ask(client, room, "hello")).state is TurnState.CAPTURED
                await client.stop(str(room.room.id))
            await client.plugins.unblock(POLICY)
        async with running_daemon(daemon_with(tmp_path, site)) as client:
            with refused("plugin.policy_not_applied") as caught:
                await client.resume(str(without.room.id))
            assert "example_policy" in str(caught.value)
            made = await client.exports.new(str(without.room.id), RoomExportRequest(id=new_id()))
            assert made.manifest is not None
            await client.resume(str(with_it.room.id))
            assert (await ask(client, with_it, "hello")).state is TurnState.CAPTURED
            await client.stop(str(with_it.room.id))

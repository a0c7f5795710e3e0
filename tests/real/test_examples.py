"""What `jam plugin new` makes does in a real daemon what its suite says: the examples, installed beside it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jamcore.domain.approvals import ApprovalPolicy
from jamcore.domain.sessions import TurnState
from jamcore.testing.daemon import DaemonChild, running_daemon
from jamcore.testing.providers.case import told
from jamcore.testing.rooms import ask, managed
from jamcore.testing.servers.chat import ChatServer
from jamcore.testing.servers.history import AssistantText, UserText
from jamcore.testing.servers.script import Match, Script, say
from jamcore.testing.skeleton.examples import EXAMPLES
from jamcore.testing.skeleton.making import Kind

ROOT = Path(__file__).parents[2]
PLUGINS = (Kind.PROVIDER, Kind.ENGINE)
"""A policy would be a part of every room; tests/real/test_policies.py is about that."""
RULES = (say("answer-2", match=Match(last_user_contains="second")), say("answer-1", match=Match(last_user_contains="first")))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which both plugins are installed from their sources."""
    directory = tmp_path_factory.mktemp("site")
    sources = directory / "sources"
    for kind in PLUGINS:  # a copy: building leaves files beside the sources
        shutil.copytree(ROOT / "examples" / kind.value, sources / kind.value)
    options = [
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-build-isolation",
        "--disable-pip-version-check",
        "--root-user-action=ignore",
    ]
    argv = [sys.executable, "-m", "pip", "install", *options, "--target", str(directory / "site")]
    subprocess.run([*argv, *(str(sources / kind.value) for kind in PLUGINS)], check=True, timeout=100)
    return directory / "site"


@pytest.mark.slow
@pytest.mark.guarantee("KIT-1", "CONT-1", "PLUG-2")
@pytest.mark.parametrize(
    "engine",
    [pytest.param("bubblewrap", marks=pytest.mark.needs("bubblewrap")), EXAMPLES[Kind.ENGINE]],
)
async def test_a_room_of_the_examples_comes_back_exactly(tmp_path: Path, site: Path, engine: str) -> None:
    """The agent in a sandbox, and on the engine beside it: a turn, the daemon killed, the same conversation, a turn more."""
    daemon = DaemonChild(tmp_path / "app", private=tmp_path / "private", environment={"PYTHONPATH": str(site)})
    async with ChatServer(Script(rules=RULES)) as model:
        async with running_daemon(daemon) as client:
            room = await client.create_room(
                managed(EXAMPLES[Kind.PROVIDER], model.base_url, engine=engine, approvals=ApprovalPolicy.NEVER)
            )
            first = await ask(client, room, "first")
        async with running_daemon(daemon) as client:
            await client.resume(str(room.room.id))
            second = await ask(client, room, "second")
            await client.stop(str(room.room.id))
        said = told(model)
    assert [first.state, second.state] == [TurnState.CAPTURED] * 2
    assert [item.text for item in said if isinstance(item, UserText)] == ["first", "second"]
    assert [item.text for item in said if isinstance(item, AssistantText)] == ["answer-1"]

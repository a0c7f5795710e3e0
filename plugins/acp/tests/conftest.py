"""The real OpenCode as a plain child process against a scripted model on loopback, and a stand-in for any agent; nothing here isolates."""

from __future__ import annotations

import tomllib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from jam_acp.plugin import AcpPlugin, OpenCodePlugin, plugin_of
from jam_acp.profile import Profile, Resume, profile_of
from jam_acp.profiles.opencode import OPENCODE
from jamcore.api import CaptureEntry, CaptureKind, CaptureList, ProviderRuntime
from jamcore.testing.local_guest import LocalGuest
from jamcore.testing.providers.fixtures import (
    anyio_backend,
    case,
    guest,
    make_guest,
    nothing_is_left,
    open_runtime,
    provider_hooks,
    tools,
)
from jamcore.testing.providers.opening import hooks_of, opened
from jamcore.testing.providers.standin import NOWHERE, Bad, StandIn
from jamcore.testing.providers.subject import ProviderUnderTest, missing
from jamcore.testing.scenario.rows import rows_in
from jamcore.testing.servers.chat import ChatServer
from jamcore.testing.servers.script import Call

__all__ = ["anyio_backend", "case", "guest", "make_guest", "nothing_is_left", "open_runtime", "provider_hooks", "tools"]

OpenProfile = Callable[..., AbstractAsyncContextManager[ProviderRuntime]]
ASKS = ("OPENCODE_DISABLE_MODELS_FETCH",)
"""Without these variables it asks for its list of models, ..."""
INSTALLED = ("node_modules", "package-lock.json")
"""... and without these files for its package registry."""


def shell(call_id: str, command: str) -> Call:
    """Return a call of the shell."""
    return Call(name="bash", arguments={"command": command, "description": "a command"}, call_id=call_id)


def write(call_id: str, work: Path, name: str, content: str) -> Call:
    """Return a call that makes a file."""
    return Call(name="write", arguments={"filePath": name, "content": content}, call_id=call_id)


def loud() -> AcpPlugin:
    """Return OpenCode's plugin without what keeps it from asking."""
    environment = tuple(pair for pair in OPENCODE.environment if pair[0] not in ASKS)
    prepared = tuple(file for file in OPENCODE.prepared if not any(part in INSTALLED for part in Path(file.path).parts))
    return plugin_of(OPENCODE.model_copy(update={"environment": environment, "prepared": prepared}))


assert OPENCODE.toolchain is not None
ROW = next(row for row in rows_in(Path(__file__).parent) if row.provider == OPENCODE.name)
UNDER_TEST = ProviderUnderTest(
    name=OPENCODE.name,
    package="jam_acp",
    plugin=OpenCodePlugin,
    loud=loud,
    toolchain=OPENCODE.toolchain,
    server=ChatServer,
    model="some/model",
    shell=shell,
    write=write,
    normalisation=ROW.normalisation,
    unknown="ses_dd42c930cffe9QnJMC2uY5hKY7",
    keeps_empty_threads=True,
    refuses_second_writer=False,
    limit_s=60.0,
)


@pytest.fixture(scope="session")
def provider() -> ProviderUnderTest:
    """OpenCode."""
    return UNDER_TEST


def probe_codex_acp() -> str | None:
    """``codex_acp``: the pinned program of the example can be had and is for this machine."""
    table = tomllib.loads((Path(__file__).parents[1] / "examples" / "codex-acp.toml").read_text())["providers"]["codex_acp"]
    profile = profile_of("codex_acp", {key: value for key, value in table.items() if key != "family"})
    assert profile.toolchain is not None
    return missing(profile.toolchain)


@pytest.hookimpl
def pytest_jam_needs() -> dict[str, Callable[[], str | None]]:
    """Contribute the needs ``opencode`` and ``codex_acp``."""
    return {**UNDER_TEST.needs(), "codex_acp": probe_codex_acp}


@pytest.fixture
def open_profile() -> OpenProfile:
    """Open any profile's runtime in a guest."""

    @asynccontextmanager
    async def opening(
        profile: Profile, guest: LocalGuest, url: str, tools: Path, expected_version: str | None = None
    ) -> AsyncIterator[ProviderRuntime]:
        hooks = await hooks_of(profile.name, plugin_of(profile))
        async with opened(hooks, guest, url, tools, expected_version) as runtime:
            yield runtime

    return opening


PROGRAM = """#!/usr/bin/env python3
import json, os, sys, time

def send(message):
    sys.stdout.buffer.write(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\\n")
    sys.stdout.buffer.flush()

def result(value):
    send({"jsonrpc": "2.0", "id": asked["id"], "result": value})

def error(code, message, data=None):
    send({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": code, "message": message, "data": data}})

def told(kind, session="s", **more):
    update = {"sessionUpdate": kind, **more}
    send({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}})

def say(kind, words, **more):
    told(kind, content={"type": "text", "text": words}, **more)

def ask(method, **params):
    send({"jsonrpc": "2.0", "id": 70, "method": method, "params": {"sessionId": "s", **params}})
    return json.loads(sys.stdin.readline())

CAPABLE = {"loadSession": True, "sessionCapabilities": {"list": {}, "resume": {}}}
authenticated = False

for line in sys.stdin:
    asked = json.loads(line)
    match asked["method"]:
        case "initialize":
            #initialize
            result({"protocolVersion": 1, "agentCapabilities": CAPABLE, "agentInfo": {"name": "x", "version": "1.2.3"}})
        case "authenticate":
            #authenticate
            authenticated = True
            result({})
        case "session/new":
            #new
            result({"sessionId": "s"})
        case "session/load" | "session/resume":
            #load
            say("user_message_chunk", "hello")
            say("agent_message_chunk", "old answer")
            result({})
        case "session/list":
            #list
            result({"sessions": []})
        case "session/set_config_option" | "session/set_mode" | "session/set_model":
            #choose
            result({})
        case "session/prompt":
            #prompt
            say("agent_message_chunk", "kept")
            #running
            result({"stopReason": "end_turn"})
        case "session/cancel":
            #cancel
            pass
"""

PLAIN = Profile(
    name="plain",
    title="Plain",
    argv=("{tools_root}/agent",),
    capture=CaptureList(entries=(CaptureEntry(pattern="sessions/*", kind=CaptureKind.WHOLE),)),
    resume=Resume.LOAD,
)


@pytest.fixture
def plain() -> Profile:
    """A profile that says no more than it must."""
    return PLAIN


@pytest.fixture
def fake(guest: LocalGuest, open_profile: OpenProfile, tmp_path: Path) -> Bad:
    """Open the runtime over the stand-in with one misbehaviour, by the plain profile or another."""

    def opening(
        profile: Profile = PLAIN, *, expected_version: str | None = None, **places: str
    ) -> AbstractAsyncContextManager[ProviderRuntime]:
        tools = tmp_path / "tools"
        StandIn("agent", PROGRAM).write(tools, **places)
        return open_profile(profile, guest, NOWHERE, tools, expected_version)

    return opening

"""What Jam's provider suite has to know of ExampleAgent, above all how a scripted model calls its tools."""

from __future__ import annotations

from pathlib import Path

import pytest
from jamcore.testing.providers.fixtures import *  # noqa: F403
from jamcore.testing.providers.subject import ProviderUnderTest
from jamcore.testing.servers.chat import ChatServer
from jamcore.testing.servers.script import Call

from jam_example_agent.plugin import ExampleAgentPlugin


def shell(call_id: str, command: str) -> Call:
    """Return the model's call of the program's shell."""
    return Call(name="shell", arguments={"command": command}, call_id=call_id)


def write(call_id: str, work: Path, name: str, content: str) -> Call:
    """Return the model's call that makes a file in the session's directory."""
    return Call(name="write", arguments={"path": name, "content": content}, call_id=call_id)


UNDER_TEST = ProviderUnderTest(
    name="example_agent",
    package="jam_example_agent",
    plugin=ExampleAgentPlugin,
    # The pinned program, once there is one: the suite installs it, and each test module gets
    # pytestmark = pytest.mark.needs("example_agent")
    toolchain=None,
    server=ChatServer,  # or ResponsesServer, or MessagesServer: the API that the program speaks
    model="example_agent-1",
    shell=shell,
    write=write,
    unknown="01a2f000-0000-4000-8000-000000000000",
)


@pytest.fixture(scope="session")
def provider() -> ProviderUnderTest:
    """ExampleAgent."""
    return UNDER_TEST

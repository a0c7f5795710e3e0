"""The real Claude Code as a plain child process against a scripted model on loopback; nothing here isolates anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from jam_claude_code import config
from jam_claude_code.pins import TOOLCHAIN
from jam_claude_code.plugin import ClaudeCodePlugin
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
from jamcore.testing.providers.subject import ProviderUnderTest
from jamcore.testing.scenario.rows import rows_in
from jamcore.testing.servers.messages import MessagesServer
from jamcore.testing.servers.script import Call

__all__ = ["anyio_backend", "case", "guest", "make_guest", "nothing_is_left", "open_runtime", "provider_hooks", "tools"]

OFF = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING")


def shell(call_id: str, command: str) -> Call:
    """Return a call of the shell."""
    return Call(name="Bash", arguments={"command": command}, call_id=call_id)


def write(call_id: str, work: Path, name: str, content: str) -> Call:
    """Return a call that makes a file."""
    return Call(name="Write", arguments={"file_path": str(work / name), "content": content}, call_id=call_id)


def loud() -> ClaudeCodePlugin:
    """Return the plugin without the variables that forbid everything but the model."""
    config._FIXED = tuple((name, value) for name, value in config._FIXED if name not in OFF)
    return ClaudeCodePlugin()


(ROW,) = rows_in(Path(__file__).parent)
UNDER_TEST = ProviderUnderTest(
    name="claude_code",
    package="jam_claude_code",
    plugin=ClaudeCodePlugin,
    loud=loud,
    toolchain=TOOLCHAIN,
    server=MessagesServer,
    model="claude-sonnet-5-5",
    shell=shell,
    write=write,
    normalisation=ROW.normalisation,
    unknown="01a2f000-0000-7000-8000-000000000000",
)


@pytest.fixture(scope="session")
def provider() -> ProviderUnderTest:
    """Claude Code."""
    return UNDER_TEST


@pytest.hookimpl
def pytest_jam_needs() -> dict[str, Callable[[], str | None]]:
    """Contribute the need ``claude_code``."""
    return UNDER_TEST.needs()

"""The real Copilot as a plain child process against a scripted model on loopback; nothing here isolates anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from jam_copilot import config, opening, plan
from jam_copilot.pins import TOOLCHAIN
from jam_copilot.plugin import CopilotPlugin
from jamcore.api import RuntimeRequest
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
from jamcore.testing.servers.responses import Call, ResponsesServer

__all__ = ["anyio_backend", "case", "guest", "make_guest", "nothing_is_left", "open_runtime", "provider_hooks", "tools"]


def shell(call_id: str, command: str) -> Call:
    """Return a call of the shell."""
    return Call(name="bash", arguments={"command": command, "description": "what it does"}, call_id=call_id)


def write(call_id: str, work: Path, name: str, content: str) -> Call:
    """Return a call that makes a file."""
    return Call(name="create", arguments={"path": str(work / name), "file_text": content}, call_id=call_id)


def loud() -> CopilotPlugin:
    """Return the plugin with a token, and without what is off."""
    changed = {"COPILOT_OFFLINE": "false", "COPILOT_GITHUB_TOKEN": "github_pat_" + "x" * 82}
    own_environment, own_arguments = plan.environment, config.arguments

    def environment(state_root: str, tools_root: str) -> tuple[tuple[str, str], ...]:
        return tuple((dict(own_environment(state_root, tools_root)) | changed).items())

    def arguments(request: RuntimeRequest) -> tuple[str, ...]:
        return tuple(part for part in own_arguments(request) if not part.startswith("--no-auto"))

    setattr(opening, "environment", environment)  # noqa: B010 - it is imported there
    setattr(opening, "arguments", arguments)  # noqa: B010
    return CopilotPlugin()


(ROW,) = rows_in(Path(__file__).parent)
UNDER_TEST = ProviderUnderTest(
    name="copilot",
    package="jam_copilot",
    plugin=CopilotPlugin,
    loud=loud,
    toolchain=TOOLCHAIN,
    server=ResponsesServer,
    model="mock-model",
    shell=shell,
    write=write,
    normalisation=ROW.normalisation,
    unknown="01a2f000-0000-4000-8000-000000000000",
)


@pytest.fixture(scope="session")
def provider() -> ProviderUnderTest:
    """Copilot."""
    return UNDER_TEST


@pytest.hookimpl
def pytest_jam_needs() -> dict[str, Callable[[], str | None]]:
    """Contribute the need ``copilot``."""
    return UNDER_TEST.needs()

"""The real Codex as a plain child process against a scripted model on loopback; nothing here isolates anything."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from jam_codex import config
from jam_codex.pins import TOOLCHAIN
from jam_codex.plugin import CodexPlugin
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
    return Call(name="exec_command", arguments={"cmd": command}, call_id=call_id)


def write(call_id: str, work: Path, name: str, content: str) -> Call:
    """Return a call that makes a file: Codex takes the shell's word for a patch."""
    lines = "".join(f"+{line}\n" for line in content.splitlines())
    return shell(call_id, f"apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: {name}\n{lines}*** End Patch\nEOF")


def loud() -> CodexPlugin:
    """Return the plugin with Codex's own plugins switched on, which it would fetch."""
    added = {"features.plugins": True}
    config._SETTINGS = (*((key, value) for key, value in config._SETTINGS if key not in added), *added.items())
    return CodexPlugin()


(ROW,) = rows_in(Path(__file__).parent)
UNDER_TEST = ProviderUnderTest(
    name="codex",
    package="jam_codex",
    plugin=CodexPlugin,
    loud=loud,
    toolchain=TOOLCHAIN,
    server=ResponsesServer,
    model="mock-model",
    shell=shell,
    write=write,
    normalisation=ROW.normalisation,
    unknown="01a2f000-0000-7000-8000-000000000000",
    shown=lambda shown, asked: shown.endswith(f"/bash -lc {shlex.quote(asked)}"),  # where the shell lies is the machine's
    quiet=False,  # of a model that it does not know it says so
)


@pytest.fixture(scope="session")
def provider() -> ProviderUnderTest:
    """Codex."""
    return UNDER_TEST


@pytest.hookimpl
def pytest_jam_needs() -> dict[str, Callable[[], str | None]]:
    """Contribute the need ``codex``."""
    return UNDER_TEST.needs()

"""What is peculiar to agents of the Agent Client Protocol in the scenario of all providers (:mod:`jamcore.testing.scenario`).

OpenCode, Cursor by its stand-in, and one agent that is there by configuration alone.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from jam_acp.family import FAMILY
from jam_acp.profiles.cursor import CURSOR
from jamcore.testing.scenario.rows import ProviderRow
from jamcore.testing.servers.chat import ChatServer
from jamcore.testing.servers.history import Normalisation
from jamcore.testing.servers.responses import ResponsesServer
from jamcore.testing.servers.script import Call

HERE = Path(__file__).parent
EXAMPLE = HERE.parent / "examples" / "codex-acp.toml"
STANDIN = "cursor_standin"


def shell(call_id: str, command: str) -> Call:
    """Return the model's call of the shell of OpenCode and of the stand-in."""
    return Call(name="bash", arguments={"command": command, "description": "a command"}, call_id=call_id)


def exec_command(call_id: str, command: str) -> Call:
    """Return the model's call of the shell of the agent in the example."""
    return Call(name="exec_command", arguments={"cmd": command}, call_id=call_id)


def standin() -> dict[str, Any]:
    """Return Cursor's profile as a table, with the stand-in as its program, which is written below the state root."""
    table: dict[str, Any] = CURSOR.model_dump(mode="json", exclude_defaults=True, exclude={"name", "credential", "default_origin"})
    program = ("python3", "{state_root}/cursor-agent.py")
    return {
        **table,
        "family": FAMILY,
        "environment": dict(CURSOR.environment),
        "argv": [*program, *CURSOR.argv[1:]],
        "version_argv": [*program, *CURSOR.version_argv[1:]],
        "endpoint_paths": ["POST /v1/chat/completions"],
        "prepared": [{"path": "cursor-agent.py", "content": (HERE / "cursor_standin.py").read_text()}],
    }


ROWS = (
    ProviderRow(
        provider="opencode",
        title="OpenCode",
        server=ChatServer,
        shell=shell,
        model="mock-model",
        shared=False,
        told_no=False,
        cut="none",
    ),
    ProviderRow(
        provider=STANDIN,
        title="Cursor",
        server=ChatServer,
        shell=shell,
        standin="a stand-in that was written from public facts",
        tables={STANDIN: standin()},
        own_process=True,
        cut="none",
        moves=False,
        failing=dict.fromkeys(("too many requests", "the model is down", "a cut stream"), "other"),
    ),
    ProviderRow(
        provider="codex_acp",
        title="Codex by ACP",
        server=ResponsesServer,
        shell=exec_command,
        tables=tomllib.loads(EXAMPLE.read_text())["providers"],
        shared=False,
        told_no=False,
        failing=dict.fromkeys(("too many requests", "a cut stream"), "other"),
        normalisation=Normalisation(beginnings=("<environment_context>", "<turn_aborted>")),
    ),
)

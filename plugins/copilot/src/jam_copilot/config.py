"""How Copilot is configured: by its command line, and by what each session is created and resumed with.

Nothing of it is read from a file, and nothing is remembered from one start to the next: a resume says everything again.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from jam_copilot.pins import PROGRAM
from jamcore.api import ApprovalPolicy, RuntimeRequest, ThreadRequest, surroundings

KEY = "jam"
"""No key: Copilot wants one, and Jam's relay puts the real one in its place outside the guest."""

LEFT_OUT = (
    # Agents of its own live and speak beside the conversation, and would not come back with it.
    "task",
    "read_agent",
    "list_agents",
    "write_agent",
    # A database beside the journal, which no resume brings back.
    "sql",
    "semantic_code_search",
    # There is no network.
    "web_fetch",
)
"""Tools that the model is not offered."""

_SETTINGS: Mapping[str, object] = MappingProxyType(
    {
        "clientName": "jam",
        "streaming": True,
        # Without it a tool that would have to ask fails; whether anybody is asked is decided below.
        "requestPermission": True,
        "envValueMode": "direct",
        "excludedTools": list(LEFT_OUT),
        # Databases that grow beside the journal, hold what was said, and differ from it after a restore.
        "enableSessionStore": False,
        "skipEmbeddingRetrieval": True,
        "memory": {"enabled": False},
        # A compaction was never measured; it replaces what the model is told.
        "infiniteSessions": {"enabled": False},
        # Files that the agent can write: hooks, skills, servers.
        "enableConfigDiscovery": False,
        "enableFileHooks": False,
        "enableSkills": False,
        "enableSessionTelemetry": False,
    }
)

EVERYTHING: Mapping[str, object] = MappingProxyType(
    {"approveAllToolPermissionRequests": True, "approveAllReadPermissionRequests": True, "paths": {"unrestricted": True}}
)
"""What nobody is asked about where a thread never asks. Without the last, files beside the workspace are still asked about."""


def arguments(request: RuntimeRequest) -> tuple[str, ...]:
    """Return the whole command line of the program in the guest."""
    quiet = ("--no-auto-update", "--no-auto-login", "--log-level", "none")
    return (f"{request.tools_root}/{PROGRAM}", "--headless", "--stdio", *quiet)


def session_settings(request: ThreadRequest, *, relay_url: str, isolated: bool = True) -> dict[str, object]:
    """Return what ``session.create`` and ``session.resume`` have in common.

    Args:
        request: What the thread needs. Without a model a resumed one goes on with the one it had.
        relay_url: Where the model endpoint answers in the guest.
        isolated: Whether Jam's sandbox is around the program; the agent is told.
    """
    settings: dict[str, object] = {
        **_SETTINGS,
        "workingDirectory": request.cwd,
        "provider": {"type": "openai", "wireApi": "responses", "baseUrl": f"{relay_url}/v1", "apiKey": KEY},
        "systemMessage": {"mode": "append", "content": surroundings(isolated=isolated)},
    }
    return settings if request.model is None else {**settings, "model": request.model}


def approves_all(request: ThreadRequest) -> bool:
    """Whether nothing is ever asked: the sandbox is the boundary. Copilot forgets it with each start."""
    return request.approvals is ApprovalPolicy.NEVER

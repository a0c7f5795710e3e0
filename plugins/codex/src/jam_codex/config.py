"""How Codex is configured: by ``-c`` arguments alone.

Arguments win over every file that Codex reads, and the guest can change files but not how it is started. So nothing that an agent writes
into its state or its repository changes where requests go, and nothing of the configuration has to be captured or restored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from types import MappingProxyType

from jam_codex.plan import sqlite_home
from jamcore.api import ApprovalPolicy, RuntimeRequest, ThreadRequest, surroundings

MODEL_PROVIDER = "jam"

REQUEST_RETRIES = 3
STREAM_RETRIES = 3
"""Codex's own retries of one model request (START-5 allows a provider its own bounded ones): 7 s of an endpoint
that fails or is not there, then the turn fails and the thread stays usable."""
STREAM_IDLE_MS = 300_000
"""A model may think for minutes before its next event; Codex's own default."""

UNREAD = "AGENTS.md"
"""Codex loads AGENTS.md only for a project that it trusts, and a trusted project's ``.codex/config.toml`` is obeyed too: a broken one
then refuses the thread, also on resume. An agent must not be able to lock itself out, so no project is trusted (CONT-1)."""

POLICIES: Mapping[ApprovalPolicy, str] = MappingProxyType({ApprovalPolicy.NEVER: "never", ApprovalPolicy.ASK: "untrusted"})
"""``on-request`` asks only for what Codex's own sandbox would forbid, and that sandbox is off: it would never ask."""

_SETTINGS: tuple[tuple[str, object], ...] = (
    ("model_provider", MODEL_PROVIDER),
    (f"model_providers.{MODEL_PROVIDER}.name", "Jam"),
    (f"model_providers.{MODEL_PROVIDER}.wire_api", "responses"),
    (f"model_providers.{MODEL_PROVIDER}.request_max_retries", REQUEST_RETRIES),
    (f"model_providers.{MODEL_PROVIDER}.stream_max_retries", STREAM_RETRIES),
    (f"model_providers.{MODEL_PROVIDER}.stream_idle_timeout_ms", STREAM_IDLE_MS),
    # Jam's sandbox is the boundary; Codex's own inside it would only fail where namespaces cannot be nested.
    ("sandbox_mode", "danger-full-access"),
    ("approval_policy", "never"),
    # Plugins alone make Codex contact GitHub and ChatGPT at start.
    ("features.plugins", False),
    ("features.apps", False),
    ("analytics.enabled", False),
    ("check_for_update_on_startup", False),
    # Otherwise a turn never ends while the endpoint is unreachable.
    ("features.unbounded_connection_retries", False),
    # Goals start turns by themselves and live in a database; sub-agents are threads of their own. Neither is in the captured rollout.
    ("features.goals", False),
    ("features.multi_agent", False),
    # Hooks come from files that the agent can write.
    ("features.hooks", False),
    # The vendor's hosted search would be a way out of a sandbox that has no network.
    ("web_search", "disabled"),
    # The guest's environment holds nothing of the host (ENV-1), so commands may have it; Codex's own home is none of their business.
    ("shell_environment_policy.inherit", "all"),
    ("shell_environment_policy.ignore_default_excludes", False),
    ("shell_environment_policy.exclude", ["CODEX_HOME"]),
)


def arguments(request: RuntimeRequest) -> tuple[str, ...]:
    """Return the whole command line of the program in the guest."""
    own = (
        (f"model_providers.{MODEL_PROVIDER}.base_url", f"{request.relay_url}/v1"),
        ("sqlite_home", sqlite_home(request.home)),
    )
    pairs = (f"{key}={_toml(value)}" for key, value in (*_SETTINGS, *own))
    flags = tuple(part for pair in pairs for part in ("-c", pair))
    return (f"{request.tools_root}/bin/codex", "app-server", *flags)


def thread_settings(request: ThreadRequest, *, isolated: bool = True) -> dict[str, object]:
    """Return what ``thread/start`` and ``thread/resume`` have in common.

    Args:
        request: What the thread needs.
        isolated: Whether Jam's sandbox is around the program; the agent is told.
    """
    cwd = PurePosixPath(request.cwd)
    # The project is the working directory or the repository above it, whichever Codex finds.
    untrusted = {str(path): {"trust_level": "untrusted"} for path in (cwd, *cwd.parents)}
    settings: dict[str, object] = {
        "cwd": request.cwd,
        "approvalPolicy": POLICIES[request.approvals],
        "sandbox": "danger-full-access",
        "developerInstructions": surroundings(isolated=isolated, unread=UNREAD),
        "config": {"projects": untrusted},
    }
    return settings if request.model is None else {**settings, "model": request.model}


def turn_settings(*, isolated: bool = True) -> dict[str, object]:
    """Return what each ``turn/start`` says besides the text: the sandbox is somebody else's, its network restricted; or none is there."""
    around = {"type": "externalSandbox", "networkAccess": "restricted"}
    return {"sandboxPolicy": around if isolated else {"type": "dangerFullAccess"}}


def _toml(value: object) -> str:
    """Return a value as TOML: for text, numbers, truth values and lists of text, JSON is TOML."""
    return json.dumps(value)

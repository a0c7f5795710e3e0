"""How Claude Code is configured: by its arguments and its environment alone.

No source of settings is read, neither a person's nor a repository's, and what the program itself keeps in its configuration directory is
removed before each start: a line in one of those files can redirect its requests, run commands, or keep it from starting.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType

from jam_claude_code.pins import TOOLCHAIN
from jam_claude_code.plan import temporary_directory, thread_directory
from jamcore.api import ApprovalPolicy, RuntimeRequest, ThreadRequest, surroundings

RETRIES = 3
"""Claude Code's own retries of one model request (START-5 allows a provider its own bounded ones): some 5 s of an endpoint that fails or is
not there, then the turn fails and the thread stays usable. Its default is 10, which are minutes."""
STREAM_IDLE_MS = 300_000
"""A model may think for minutes before its next event. Without a bound a stream that goes silent is waited for without end."""
TRANSCRIPT_DAYS = 36_500
"""Claude Code deletes transcripts by age when it starts, after 30 days unless it is told otherwise."""

CREDENTIAL_STAND_IN = "proxy-managed"
"""Without a credential Claude Code asks nothing of anybody. Jam's relay puts the real one in its place, outside the guest."""

TOOLS = ("Bash", "Read", "Edit", "Write", "Glob", "Grep", "NotebookEdit", "Agent")
"""All tools there are: a list of what may be, so that a new release brings none by itself. Left out: what starts turns by itself (Monitor,
cron, wake-ups, workflows), what speaks with other sessions (SendMessage, ListAgents), what changes the mode or the directory of the thread
(plan mode, worktrees), the vendor's hosted search and fetching, which would be a way out of a sandbox without a network."""

UNREAD = "CLAUDE.md or AGENTS.md"
"""No source of settings brings a repository's instructions either."""

MODES: Mapping[ApprovalPolicy, tuple[str, ...]] = MappingProxyType(
    {
        ApprovalPolicy.NEVER: ("--permission-mode=bypassPermissions",),
        ApprovalPolicy.ASK: ("--permission-mode=default", "--permission-prompt-tool=stdio"),
    }
)
"""Said at each start: a mode is not part of a transcript."""

_FIXED: tuple[tuple[str, str], ...] = (
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ("DISABLE_AUTOUPDATER", "1"),
    ("DISABLE_UPDATES", "1"),
    ("DISABLE_TELEMETRY", "1"),
    ("DISABLE_ERROR_REPORTING", "1"),
    ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1"),
    ("CLAUDE_CODE_DISABLE_CRON", "1"),
    ("CLAUDE_CODE_DISABLE_WORKFLOWS", "1"),
    # What the model writes there is in no transcript, so it would not come back.
    ("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "1"),
    ("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS", "1"),
    ("CLAUDE_CODE_MAX_RETRIES", str(RETRIES)),
    ("CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS", str(STREAM_IDLE_MS)),
    # All tools are in each request: finding some of them later is one more thing that could differ after a resume.
    ("ENABLE_TOOL_SEARCH", "false"),
)


def arguments(request: RuntimeRequest, thread: ThreadRequest, identity: str, *, resume: bool) -> tuple[str, ...]:
    """Return the whole command line of one thread's program in the guest.

    Args:
        request: Where things are in the guest.
        thread: What the thread needs.
        identity: The thread's id, chosen by Jam when it is begun.
        resume: Whether the thread exists. Never decided by what the program says: an id that exists must not start blank.
    """
    return (
        program(request),
        "--print",
        "--verbose",
        "--input-format=stream-json",
        "--output-format=stream-json",
        "--include-partial-messages",
        f"--resume={identity}" if resume else f"--session-id={identity}",
        *MODES[thread.approvals],
        f"--tools={','.join(TOOLS)}",
        "--setting-sources=",
        "--strict-mcp-config",
        "--disable-slash-commands",
        f"--settings={json.dumps(_settings(request))}",
        f"--append-system-prompt={surroundings(isolated=request.isolated, unread=UNREAD)}",
        *(() if thread.model is None else (f"--model={thread.model}",)),
    )


def program(request: RuntimeRequest) -> str:
    """Return the program's path in the guest."""
    return f"{request.tools_root}/{TOOLCHAIN.program}"


def environment(request: RuntimeRequest, identity: str) -> tuple[tuple[str, str], ...]:
    """Return the variables of one thread's program.

    ``IS_SANDBOX`` lets the program run as root without asking, which it refuses otherwise; said only where it is true.
    """
    return (
        *_FIXED,
        ("CLAUDE_CONFIG_DIR", thread_directory(request.state_root, identity)),
        ("CLAUDE_CODE_TMPDIR", temporary_directory(request.home, identity)),
        ("ANTHROPIC_BASE_URL", request.relay_url),
        ("ANTHROPIC_API_KEY", CREDENTIAL_STAND_IN),
        *((("IS_SANDBOX", "1"),) if request.isolated else ()),
    )


def _settings(request: RuntimeRequest) -> dict[str, object]:
    """Return the settings that win over those of every file."""
    return {
        "cleanupPeriodDays": TRANSCRIPT_DAYS,
        "disableAllHooks": True,
        "env": {"ANTHROPIC_BASE_URL": request.relay_url},
    }

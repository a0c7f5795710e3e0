"""Claude Code's part of a plan: where its state lies, what it needs of the guest disk, which requests its model endpoint gets (PLAN-5).

Every thread has a configuration directory and a temporary directory of its own. Threads that share one see each other and can write to
each other, and whatever one of them leaves there decides how the others start.
"""

from __future__ import annotations

from jamcore.api import PlanContext, PlanContribution

AGENT_IMAGE = "claude"
THREADS = "threads"
"""Below the state root: ``threads/<id>`` is the configuration directory of one thread."""
TEMPORARY = ".jam/claude-code"
"""Below the guest's home: a directory for each thread's sockets and scratch files, which nothing needs after a restart."""

ENDPOINT_PATHS = ("POST /v1/messages?beta=true",)
"""All that Claude Code asked of the endpoint it was given, failures included, always with this query; tokens are not counted there, models
not listed."""


def contribute(context: PlanContext) -> PlanContribution:
    """Return the contribution; it is the same for every cell."""
    return PlanContribution(
        agent_image=AGENT_IMAGE,
        state_subdirectories=(THREADS,),
        guest_directories=(TEMPORARY,),
        endpoint_paths=ENDPOINT_PATHS,
    )


def thread_directory(state_root: str, identity: str) -> str:
    """Return the configuration directory of a thread."""
    return f"{state_root}/{THREADS}/{identity}"


def temporary_directory(home: str, identity: str) -> str:
    """Return the temporary directory of a thread. Its sockets have paths of at most 108 bytes, so the name is short."""
    return f"{home}/{TEMPORARY}/{identity.replace('-', '')[:16]}"

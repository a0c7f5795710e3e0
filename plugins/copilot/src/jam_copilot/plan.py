"""Copilot's part of a plan: where its state lies and which requests its model endpoint gets (PLAN-5)."""

from __future__ import annotations

from jamcore.api import PlanContext, PlanContribution

AGENT_IMAGE = "copilot"
SESSIONS = "session-state"
"""Below the state root, which is Copilot's home: a directory for each conversation. Everything beside it is swept before each start."""

ENDPOINT_PATHS = ("POST /v1/responses",)
"""All that Copilot asked of an endpoint of one's own; models are not listed."""


def contribute(context: PlanContext) -> PlanContribution:
    """Return the contribution; it is the same for every cell."""
    return PlanContribution(
        agent_image=AGENT_IMAGE,
        state_subdirectories=(SESSIONS,),
        environment=environment(context.state_root, context.tools_root),
        endpoint_paths=ENDPOINT_PATHS,
    )


def environment(state_root: str, tools_root: str) -> tuple[tuple[str, str], ...]:
    """Return the variables that Copilot itself needs. The state root is its home; what it would unpack is there already."""
    return (
        ("COPILOT_HOME", state_root),
        ("COPILOT_PKG_CACHE_HOME", tools_root),
        ("COPILOT_OFFLINE", "true"),  # no telemetry, no login, no hosts of the vendor
        ("COPILOT_AUTO_UPDATE", "false"),
        ("COPILOT_DISABLE_KEYTAR", "1"),
    )

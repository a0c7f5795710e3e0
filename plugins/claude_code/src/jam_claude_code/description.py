"""What Claude Code is to Jam: its cells, its program, its credential."""

from __future__ import annotations

from jam_claude_code.pins import TOOLCHAIN
from jamcore.api import (
    FULL_CELLS,
    CredentialReport,
    CredentialSpec,
    CredentialView,
    PlacementAnswer,
    PlacementRequest,
    ProviderDescription,
)

NAME = "claude_code"
ORIGIN = "https://api.anthropic.com"

SHARED_SEATS = 8
"""Sessions on one shared host: each has a process of its own, which takes some 200 MB (docs/facts-claude-code.md)."""

CREDENTIAL = CredentialSpec(
    name="anthropic",
    environment_names=("ANTHROPIC_API_KEY",),
    header="x-api-key",
    prefix="",
    origin=ORIGIN,
)

DESCRIPTION = ProviderDescription(
    name=NAME,
    title="Claude Code",
    cells=FULL_CELLS,
    toolchain=TOOLCHAIN,
    credential=CREDENTIAL,
    default_origin=ORIGIN,
    continuity=True,
    threads_share_process=False,
    approvals=True,
)


def check_credentials(view: CredentialView) -> CredentialReport:
    """Ready when there is an API key; whether it is a good one only the endpoint knows, and says it in the first turn."""
    if view.present:
        return CredentialReport(ready=True)
    return CredentialReport(
        ready=False,
        reason="there is no Anthropic API key",
        hint="Run `jam credential set anthropic`, or set ANTHROPIC_API_KEY in the daemon's environment. A Claude login cannot be used: its "
        "file would lie in the sandbox, and each refresh would make every other copy of it useless.",
    )


def place_session(request: PlacementRequest) -> PlacementAnswer:
    """A process serves one conversation, so each session of a shared host gets its own, up to a bound of memory (SHARE-5)."""
    if request.seats < SHARED_SEATS:
        return PlacementAnswer(accepted=True, own_process=True)
    return PlacementAnswer(
        accepted=False, own_process=True, reason=f"at most {SHARED_SEATS} Claude Code processes run in one sandbox"
    )

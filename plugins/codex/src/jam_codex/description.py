"""What Codex is to Jam: its cells, its program, its credential."""

from __future__ import annotations

from jam_codex.pins import TOOLCHAIN
from jamcore.api import (
    FULL_CELLS,
    CredentialReport,
    CredentialSpec,
    CredentialView,
    PlacementAnswer,
    PlacementRequest,
    ProviderDescription,
)

NAME = "codex"
ORIGIN = "https://api.openai.com"

SHARED_SEATS = 20
"""Threads that one process was measured with: 170 MB with twenty loaded."""

CREDENTIAL = CredentialSpec(
    name="openai",
    environment_names=("OPENAI_API_KEY",),
    header="authorization",
    prefix="Bearer ",
    origin=ORIGIN,
)

DESCRIPTION = ProviderDescription(
    name=NAME,
    title="OpenAI Codex",
    cells=FULL_CELLS,
    toolchain=TOOLCHAIN,
    credential=CREDENTIAL,
    default_origin=ORIGIN,
    continuity=True,
    threads_share_process=True,
    approvals=True,
)


def check_credentials(view: CredentialView) -> CredentialReport:
    """Ready when there is an API key; whether it is a good one only the endpoint knows, and says it in the first turn."""
    if view.present:
        return CredentialReport(ready=True)
    return CredentialReport(
        ready=False,
        reason="there is no OpenAI API key",
        hint="Set OPENAI_API_KEY in the daemon's environment. A ChatGPT login cannot be used: its file would lie in the sandbox.",
    )


def place_session(request: PlacementRequest) -> PlacementAnswer:
    """One process serves all sessions of a shared host, each thread with its own working directory (SHARE-5)."""
    if request.seats < SHARED_SEATS:
        return PlacementAnswer(accepted=True, own_process=False)
    return PlacementAnswer(accepted=False, own_process=False, reason=f"one Codex process serves at most {SHARED_SEATS} sessions")

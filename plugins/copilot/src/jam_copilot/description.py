"""What Copilot is to Jam: its cells, its program, its credential."""

from __future__ import annotations

from jam_copilot.pins import TOOLCHAIN
from jamcore.api import (
    FULL_CELLS,
    CredentialReport,
    CredentialSpec,
    CredentialView,
    PlacementAnswer,
    PlacementRequest,
    ProviderDescription,
)

NAME = "copilot"
ORIGIN = "https://api.openai.com"
"""Copilot with a key of one's own speaks OpenAI's Responses API. Its vendor's models need a GitHub login and several hosts, which one
relay to one origin cannot give it."""

SHARED_SEATS = 20
"""Sessions that one process may serve: 187 MB were measured with ten."""

CREDENTIAL = CredentialSpec(
    name="copilot",
    environment_names=("COPILOT_PROVIDER_API_KEY", "OPENAI_API_KEY"),
    header="authorization",
    prefix="Bearer ",
    origin=ORIGIN,
)

DESCRIPTION = ProviderDescription(
    name=NAME,
    title="GitHub Copilot",
    cells=FULL_CELLS,
    toolchain=TOOLCHAIN,
    credential=CREDENTIAL,
    default_origin=ORIGIN,
    continuity=True,
    threads_share_process=True,
    approvals=True,
)

MISSING = (
    "Set COPILOT_PROVIDER_API_KEY, or OPENAI_API_KEY, in the daemon's environment, or name an endpoint of your own that speaks the "
    "Responses API. A GitHub login cannot be used: Copilot's own models need more hosts than the one that a sandbox reaches."
)


def check_credentials(view: CredentialView) -> CredentialReport:
    """Ready when there is a key; whether it is a good one only the endpoint knows, and says it in the first turn."""
    if view.present:
        return CredentialReport(ready=True)
    return CredentialReport(ready=False, reason="there is no key for Copilot's model endpoint", hint=MISSING)


def place_session(request: PlacementRequest) -> PlacementAnswer:
    """One process serves all sessions of a shared host, each with its own working directory (SHARE-5)."""
    if request.seats < SHARED_SEATS:
        return PlacementAnswer(accepted=True, own_process=False)
    return PlacementAnswer(accepted=False, own_process=False, reason=f"one Copilot process serves at most {SHARED_SEATS} sessions")

"""What Copilot is to Jam: its cells, its program, its credential."""

from __future__ import annotations

from jam_copilot.pins import TOOLCHAIN
from jamcore.api import (
    FULL_CELLS,
    CredentialSpec,
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
    needs_model=True,
)

NO_LOGIN = (
    "An endpoint of your own that speaks the Responses API will do. A GitHub login cannot be used: Copilot's own models need more hosts "
    "than the one that a sandbox reaches."
)

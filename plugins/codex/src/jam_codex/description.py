"""What Codex is to Jam: its cells, its program, its credential."""

from __future__ import annotations

from jam_codex.pins import TOOLCHAIN
from jamcore.api import (
    FULL_CELLS,
    CredentialSpec,
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

NO_LOGIN = "A ChatGPT login cannot be used: its file would lie in the sandbox."

"""What Claude Code is to Jam: its cells, its program, its credential."""

from __future__ import annotations

from jam_claude_code.pins import TOOLCHAIN
from jamcore.api import (
    FULL_CELLS,
    CredentialSpec,
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

NO_LOGIN = (
    "A Claude login cannot be used: its file would lie in the sandbox, and each refresh would make every other copy of it useless."
)

"""What is peculiar to Codex in the scenario of all providers (:mod:`jamcore.testing.scenario`)."""

from __future__ import annotations

from jamcore.testing.scenario.rows import ProviderRow
from jamcore.testing.servers.history import Normalisation
from jamcore.testing.servers.responses import ResponsesServer
from jamcore.testing.servers.script import Call


def shell(call_id: str, command: str) -> Call:
    """Return the model's call of the shell."""
    return Call(name="exec_command", arguments={"cmd": command}, call_id=call_id)


ROWS = (
    ProviderRow(
        provider="codex",
        title="Codex",
        server=ResponsesServer,
        shell=shell,
        failing={"too many requests": "rate_limited", "the model is down": "server_error", "a cut stream": "stream_cut"},
        normalisation=Normalisation(
            beginnings=(
                "<environment_context>",
                "<skills_instructions>",
                "<user_instructions>",
                "<turn_aborted>",
                "# AGENTS.md instructions",
                "Another language model started to solve this problem",  # which stands for what a compaction replaced
            )
        ),
    ),
)

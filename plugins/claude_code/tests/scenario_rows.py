"""What is peculiar to Claude Code in the scenario of all providers (:mod:`jamcore.testing.scenario`)."""

from __future__ import annotations

from jamcore.testing.scenario.rows import ProviderRow
from jamcore.testing.servers.history import Normalisation
from jamcore.testing.servers.messages import MessagesServer
from jamcore.testing.servers.script import Call


def shell(call_id: str, command: str) -> Call:
    """Return the model's call of the shell."""
    return Call(name="Bash", arguments={"command": command}, call_id=call_id)


ROWS = (
    ProviderRow(
        provider="claude_code",
        title="Claude Code",
        server=MessagesServer,
        shell=shell,
        model="claude-sonnet-5-5",
        own_process=True,
        cut="said",
        normalisation=Normalisation(elements=("system-reminder",)),
        failing={"too many requests": "rate_limited", "the model is down": "server_error", "a cut stream": "stream_cut"},
        own_words=frozenset({"No response requested.", "[Request interrupted by user]\n"}),
    ),
)

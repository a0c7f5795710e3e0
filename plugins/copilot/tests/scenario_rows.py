"""What is peculiar to Copilot in the scenario of all providers (:mod:`jamcore.testing.scenario`)."""

from __future__ import annotations

from jamcore.testing.scenario.rows import ProviderRow
from jamcore.testing.servers.history import Normalisation
from jamcore.testing.servers.responses import ResponsesServer
from jamcore.testing.servers.script import Call


def shell(call_id: str, command: str) -> Call:
    """Return the model's call of the shell."""
    return Call(name="bash", arguments={"command": command, "description": "what it does"}, call_id=call_id)


ROWS = (
    ProviderRow(
        provider="copilot",
        title="Copilot",
        server=ResponsesServer,
        shell=shell,
        model="mock-model",
        cut="said",
        failing={"the model is down": "server_error", "a cut stream": "stream_cut"},
        nearly=frozenset({"the model is down"}),  # it waits some fifteen seconds in all, by chance
        normalisation=Normalisation(elements=("current_datetime",)),
    ),
)

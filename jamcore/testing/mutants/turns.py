"""Mutants whose turns are not what a turn is."""

from __future__ import annotations

from jamcore.testing.mutants.mutation import AGENT, Edit, Mutant

PART = "ProviderTurns"
MUTANTS = (
    Mutant(
        "message-is-of-another-item",
        f"{PART}.test_a_turn_is_typed_and_in_order",
        (Edit(AGENT, 'self.tell("message", item=answer["item"],', 'self.tell("message", item=str(uuid.uuid4()),'),),
    ),
    Mutant(
        "offers-a-hosted-tool",
        f"{PART}.test_only_tools_that_a_sandbox_can_have_are_offered",
        (Edit(AGENT, "TOOLS = {", 'TOOLS = {\n    "web_search": ("Search the web.", {"query": "for what"}),'),),
    ),
)

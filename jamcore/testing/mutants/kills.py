"""Mutants that lose something when they are killed at some boundary of the protocol."""

from __future__ import annotations

from jamcore.testing.mutants.mutation import AGENT, Edit, Mutant
from jamcore.testing.mutants.resume import KEEP_TURN, WHEN_LOADED

PART = "ProviderKills"
MUTANTS = (
    Mutant(
        "writes-the-end-of-a-turn-with-the-next",
        f"{PART}.test_a_kill_at_any_event_loses_no_finished_turn_and_no_text_of_the_person",
        (
            Edit(
                AGENT,
                'self.conversation.keep("end", turn=self.identity, outcome=outcome)',
                'self.conversation.later.append({"turn": self.identity, "outcome": outcome})',
            ),
            Edit(
                AGENT,
                "self.records: list[dict[str, Any]] = []",
                "self.records: list[dict[str, Any]] = []\nself.later: list[dict[str, str]] = []",
            ),
            Edit(
                AGENT,
                "def of(self, *kinds: str)",
                """\
def keep_later(self) -> None:
    while self.later:
        self.keep("end", **self.later.pop(0))

def of(self, *kinds: str)""",
            ),
            Edit(AGENT, KEEP_TURN, f"conversation.keep_later()\n{KEEP_TURN}"),
            Edit(
                AGENT,
                "for turn in turns:\n    turn.worker.join()",
                """\
for turn in turns:
    turn.worker.join()
for conversation in self.conversations.values():
    conversation.keep_later()""",
            ),
        ),
    ),
    Mutant(
        "forgets-a-cut-turn-that-changed-a-file",
        f"{PART}.test_a_kill_at_any_event_loses_no_finished_turn_and_no_text_of_the_person",
        (
            Edit(
                AGENT,
                WHEN_LOADED,
                f"""\
last = conversation.of("turn")[-1]
called = {{call["name"] for record in conversation.of("answer") if record["n"] > last["n"] for call in record["calls"]}}
if "write" in called and all(record["turn"] != last["turn"] for record in conversation.of("end")):
    del conversation.records[last["n"] :]
{WHEN_LOADED}""",
            ),
        ),
    ),
)

"""What an agent asks before it acts, and Jam's answer: this once, or no.

An answer is chosen by an option's kind, never by its name or place. "Always" is never said: what is allowed for good is Jam's to know, and
agents keep it in files that are not the conversation's.
"""

from __future__ import annotations

from collections.abc import Mapping

from jamcore.api import ApprovalAnswer, entries

ONCE: Mapping[ApprovalAnswer, str] = {ApprovalAnswer.ALLOW: "allow_once", ApprovalAnswer.DENY: "reject_once"}
CANCELLED: Mapping[str, object] = {"outcome": {"outcome": "cancelled"}}


def reply(options: object, answer: ApprovalAnswer | None) -> Mapping[str, object]:
    """Return what is said to the agent. Where it offers no "once" there is nothing to choose, and the question is cancelled."""
    if answer is None:
        return CANCELLED
    chosen = next((option.get("optionId") for option in entries(options) if option.get("kind") == ONCE[answer]), None)
    if not isinstance(chosen, str):
        return CANCELLED
    return {"outcome": {"outcome": "selected", "optionId": chosen}}

"""What Jam answers when Codex asks what no person is asked: no.

Approval is not needed inside Jam's sandbox, so in a thread that never asks a question means that something is off. What a thread that asks
may ask is in :mod:`jam_codex.questions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jamcore.api import Notice, not_offered, text, was_refused

DECLINES: Mapping[str, Mapping[str, object]] = {
    "item/commandExecution/requestApproval": {"decision": "decline"},
    "item/fileChange/requestApproval": {"decision": "decline"},
    "execCommandApproval": {"decision": "denied"},
    "applyPatchApproval": {"decision": "denied"},
    "item/tool/requestUserInput": {"answers": {}},
    "mcpServer/elicitation/request": {"action": "decline"},
    "item/tool/call": {"contentItems": [], "success": False},
}
"""Polite refusals: the model is told, and the turn goes on. Every other request is refused with an error."""


def decline(method: str) -> dict[str, object]:
    """Return the answer that declines ``method``.

    Raises:
        RemoteError: The request has no polite refusal.
    """
    if method not in DECLINES:
        raise not_offered(method)
    return dict(DECLINES[method])


def notice(method: str, params: Mapping[str, Any]) -> Notice:
    """Return what a person is told about it."""
    about = next((text(params.get(key), 200) for key in ("command", "reason", "message", "tool") if text(params.get(key))), "")
    return was_refused("Codex", method, about)

"""The typed client's part for approvals: ``client.approvals``."""

from __future__ import annotations

from typing import Protocol, TypeVar
from urllib.parse import quote, urlencode
from uuid import UUID

from jamcore.domain.approvals import Approval, ApprovalList, ApprovalRule, ApprovalState, DecisionRequest, RuleList
from jamcore.domain.errors import InvalidInputError
from jamcore.domain.records import Record

R = TypeVar("R", bound=Record)

REF_LIMIT = 255
"""Characters of one reference: no name is longer, and two of them, encoded, fit into the first line of a request."""


class Ask(Protocol):
    """Asks a question of the daemon, within the client's deadline."""

    async def __call__(self, kind: type[R], target: str) -> R:
        """Return the answer."""


class Change(Protocol):
    """Asks the daemon for a change, without a deadline (CTRL-4)."""

    async def __call__(
        self, kind: type[R], method: str, target: str, body: Record | None = None, *, operation: UUID | None = None
    ) -> R:
        """Return the answer. ``operation`` is the id of the journaled operation that is asked for, if it is one."""


class ApprovalClient:
    """Made by the client, with its own ways to the daemon."""

    def __init__(self, ask: Ask, change: Change) -> None:
        self._ask = ask
        self._change = change

    async def list(self, *, room: str | None = None, state: ApprovalState | None = None) -> tuple[Approval, ...]:
        """List what agents asked to do, newest first."""
        wanted = {name: value for name, value in (("room", room), ("state", state)) if value is not None}
        target = "/v1/approvals" + (f"?{encoded(wanted)}" if wanted else "")
        return (await self._ask(ApprovalList, target)).items

    async def get(self, ref: str) -> Approval:
        """Return one."""
        return await self._ask(Approval, f"/v1/approvals/{quoted(ref)}")

    async def decide(self, ref: str, request: DecisionRequest) -> Approval:
        """Answer one; the request's id makes a retry exact."""
        return await self._change(Approval, "POST", f"/v1/approvals/{quoted(ref)}/decision", request)

    async def rules(self) -> tuple[ApprovalRule, ...]:
        """List what people allowed for good, newest first."""
        return (await self._ask(RuleList, "/v1/approval-rules")).items

    async def remove_rule(self, ref: str) -> ApprovalRule:
        """Remove a rule and return what it was."""
        return await self._change(ApprovalRule, "DELETE", f"/v1/approval-rules/{quoted(ref)}")


def quoted(text: str) -> str:
    """Return a part of a path.

    Raises:
        InvalidInputError: It cannot be sent, or nothing has such a name: it is empty, or too long for a line of a request.
    """
    if not 0 < len(text) <= REF_LIMIT:
        raise InvalidInputError(field="ref", problem=f"is empty, or longer than {REF_LIMIT} characters")
    try:
        return quote(text, safe="")
    except UnicodeEncodeError as error:
        raise InvalidInputError(field="ref", problem="holds characters that are no valid Unicode") from error


def encoded(wanted: dict[str, str]) -> str:
    """Return the part of a target that follows the question mark."""
    try:
        return urlencode(wanted)
    except UnicodeEncodeError as error:
        raise InvalidInputError(field="room", problem="holds characters that are no valid Unicode") from error

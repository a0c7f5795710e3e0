"""Approvals as a person sees them: lists, one question, and the prompt of ``jam attach``."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from uuid import UUID

from jamcore.cli.invoke import Session
from jamcore.cli.output import Output
from jamcore.cli.views import moment
from jamcore.cli.words import SHORT_ID, shortened
from jamcore.control.client import JamClient
from jamcore.domain.approvals import Approval, ApprovalAnswer, ApprovalRule, ApprovalState, DecisionRequest, RuleScope
from jamcore.domain.errors import JamError
from jamcore.domain.events import ApprovalDecided, ApprovalRequested, RoomEvent, TurnEnded

KEYS: Mapping[str, tuple[ApprovalAnswer, RuleScope | None]] = MappingProxyType(
    {
        "y": (ApprovalAnswer.ALLOW, None),
        "yes": (ApprovalAnswer.ALLOW, None),
        "n": (ApprovalAnswer.DENY, None),
        "no": (ApprovalAnswer.DENY, None),
        "a": (ApprovalAnswer.ALLOW, RuleScope.ROOM),
        "always": (ApprovalAnswer.ALLOW, RuleScope.ROOM),
    }
)


def show_approvals(output: Output, approvals: Iterable[Approval]) -> None:
    """Print a list of approvals."""
    output.table(
        ("APPROVAL", "ROOM", "STATE", "BY", "ASKED", "SUBJECT", "WHAT"),
        (
            (
                str(one.id)[:SHORT_ID],
                str(one.room_id)[:SHORT_ID],
                one.state,
                one.decided_by,
                moment(one.asked_at),
                one.subject,
                shortened(one.detail),
            )
            for one in approvals
        ),
    )


def show_approval(output: Output, one: Approval) -> None:
    """Print one, with all that is known of what it would do."""
    output.pairs(
        (
            ("approval", one.id),
            ("room", one.room_id),
            ("turn", one.turn_id),
            ("state", one.state),
            ("decided by", one.decided_by),
            ("rule", one.rule_id),
            ("asked", moment(one.asked_at)),
            ("waits until", moment(one.deadline_at)),
            ("decided", moment(one.decided_at)),
            ("subject", one.subject),
        )
    )
    for text in (one.detail, one.preview):
        for line in text.splitlines():
            output.line(f"  {line}")


def show_rules(output: Output, rules: Iterable[ApprovalRule]) -> None:
    """Print a list of rules."""
    output.table(
        ("RULE", "SCOPE", "OF", "SUBJECT", "MATCH", "MADE", "WHAT"),
        (
            (
                str(rule.id)[:SHORT_ID],
                rule.scope,
                str(rule.scope_id)[:SHORT_ID],
                rule.subject,
                rule.match,
                moment(rule.created_at),
                shortened(rule.text),
            )
            for rule in rules
        ),
    )


_GONE = "The question that was asked here is gone, so nothing was answered and nothing was sent."


class Asking:
    """The questions of one room that wait for the person at this terminal, oldest first.

    A word that answers may have been begun while a question was open that is gone when the line comes, and nobody can tell. So the first
    such word after a question went without this person is neither an answer to the next question nor a message; and after this person's
    own answer none is a message while that turn runs, for it may be the same key twice. Typed once more it is taken as it stands.
    """

    def __init__(self, session: Session, client: JamClient, ref: str, *, watch: bool) -> None:
        """Take the room.

        Args:
            session: The command's.
            client: The command's.
            ref: How the person calls the room.
            watch: Whether nothing is read; then, or without a person at a terminal, nothing is asked and no line is an answer.
        """
        self.prompts = not watch and not session.output.json and sys.stdin.isatty()
        self._session = session
        self._client = client
        self._ref = ref
        self._past = 0
        self._waiting: dict[UUID, bool] = {}
        self._prompted: UUID | None = None
        self._answered_here: set[UUID] = set()
        self._late = False
        """Whether the next word that answers may be about a question that somebody else, its deadline or its turn's end decided."""
        self._twice = False
        """Whether one may be a repetition of this person's own answer."""

    async def begin(self, last_seq: int, history: int) -> int:
        """Learn what waits already, to be asked once the history has been shown; return after which event that begins."""
        after = max(0, last_seq - history)
        if self.prompts:
            pending = await self._client.approvals.list(room=self._ref, state=ApprovalState.PENDING)
            self._past = last_seq
            self._waiting.update({one.id: one.subject != "other" for one in reversed(pending)})
            if after == last_seq:
                self._prompt()
        return after

    def heard(self, event: RoomEvent) -> None:
        """Take an event, after it was shown."""
        payload = event.payload
        if not self.prompts or event.seq < self._past:
            return
        if isinstance(payload, TurnEnded):
            self._twice = False
        if event.seq > self._past and isinstance(payload, ApprovalRequested) and payload.request:
            self._waiting[UUID(payload.request)] = payload.subject != "other"
        elif isinstance(payload, ApprovalDecided):
            self._waiting.pop(payload.approval, None)
            self._late = self._late or (payload.approval == self._prompted and payload.approval not in self._answered_here)
        elif event.seq != self._past:
            return
        self._prompt()

    async def answered(self, line: str) -> bool:
        """Answer the question that is prompted for, when a line is an answer, or say that it is gone; whether either was done."""
        chosen = KEYS.get(line.strip().casefold())
        asked = self._prompted
        late = self._late or (asked is None and self._twice)
        self._late = self._twice = False
        if chosen is None:
            return False
        if late:
            self._say_gone(line.strip())
            return True
        if asked is None:
            return False
        answer, always = chosen
        self._prompted, self._twice = None, True
        self._answered_here.add(asked)
        try:
            await self._client.approvals.decide(
                str(asked), DecisionRequest(id=self._session.ids.uuid(), decision=answer, always=always)
            )
        except JamError as error:
            self._answered_here.discard(asked)
            self._session.output.problem(error)
            self._prompt()  # if it still waits: what refused the answer may have been a rule that makes no sense
        return True

    def _say_gone(self, typed: str) -> None:
        """Say why an answer was not taken, and what it would be if it were typed again."""
        if self._prompted is None:
            self._session.output.note(f"{_GONE} To say {typed} to the agent, type it again.", "yellow")
            return
        self._session.output.note(f"{_GONE} Another one waits:", "yellow")
        self._prompted = None
        self._prompt()

    def _prompt(self) -> None:
        """Ask about the oldest that waits, once."""
        oldest = next((one for one in self._waiting if one not in self._answered_here), None)
        if oldest is not None and oldest != self._prompted:
            always = ", a: always in this room" if self._waiting[oldest] else ""
            self._session.output.note(f"  allow? y: this once, n: no{always}   ({str(oldest)[-12:]})", "bold yellow")
        self._prompted = oldest

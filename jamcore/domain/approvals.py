"""Approvals: what a provider may do only after a person, or a person's own rule, said yes.

A row is bound to its turn and to the daemon's life in which it was asked. Only "this once" or "no" is ever told to a provider: "always" is
Jam's own rule, which a person can see and remove, and which outlives no change of what was asked.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import ClassVar, Literal
from uuid import UUID

from jamcore.domain.errors import InvalidInputError, RefusalError
from jamcore.domain.records import Record
from jamcore.domain.redaction import redacted
from jamcore.domain.transitions import TransitionTable

DETAIL_CHARACTERS = 16 << 10
"""Characters of what is asked that are stored and shown; a longer one can be answered, and a rule compares the whole."""
BEYOND_THE_CUT = 4096
"""So much more is looked at for secrets, so that none is cut in two and not recognised."""
REQUEST_CHARACTERS = 256
"""Longest id that a provider may give its request."""
CUT = "\n[cut by Jam]"

ApprovalSubject = Literal["command", "file-change", "other"]
"""What is asked for: to run a command, to change files, or anything else, which no rule covers."""


class ApprovalPolicy(StrEnum):
    """Whether a session's agent asks before it acts. In a sandbox it need not: the sandbox is the boundary."""

    NEVER = "never"
    ASK = "ask"


class ApprovalState(StrEnum):
    """What became of a request."""

    PENDING = "pending"
    ALLOWED = "allowed"
    DENIED = "denied"
    EXPIRED = "expired"


APPROVAL = TransitionTable(
    "approval",
    {
        ApprovalState.PENDING: frozenset({ApprovalState.ALLOWED, ApprovalState.DENIED, ApprovalState.EXPIRED}),
        ApprovalState.ALLOWED: frozenset(),
        ApprovalState.DENIED: frozenset(),
        ApprovalState.EXPIRED: frozenset(),
    },
)


class DecidedBy(StrEnum):
    """Who or what decided: the last three mean that nobody did."""

    PERSON = "person"
    RULE = "rule"
    DEADLINE = "deadline"
    RESTART = "restart"
    TURN_ENDED = "turn-ended"


class ApprovalAnswer(StrEnum):
    """All that a provider is ever told."""

    ALLOW = "allow"
    DENY = "deny"


ANSWERED: Mapping[ApprovalAnswer, ApprovalState] = MappingProxyType(
    {ApprovalAnswer.ALLOW: ApprovalState.ALLOWED, ApprovalAnswer.DENY: ApprovalState.DENIED}
)


class Approval(Record):
    """One request. ``request`` is the provider's own opaque id; ``decision_id`` is the client's, by which an exact retry is known (CTRL-3).

    ``detail`` and ``preview`` are bounded and redacted; ``digest`` is of the whole detail as it was asked, and is what rules compare.
    ``preview`` is what a person looks at besides, as the change of a file: no rule depends on it.
    """

    id: UUID
    room_id: UUID
    session_id: UUID
    turn_id: UUID
    process_epoch: int
    request: str
    item: str
    subject: ApprovalSubject
    detail: str
    preview: str
    digest: str
    state: ApprovalState
    decided_by: DecidedBy | None
    decision_id: UUID | None
    rule_id: UUID | None
    asked_at: datetime
    deadline_at: datetime
    decided_at: datetime | None


class RuleScope(StrEnum):
    """Where a rule holds: in one room, or in every room of one agent."""

    ROOM = "room"
    AGENT = "agent"


class RuleMatch(StrEnum):
    """How a rule compares: the very same request, or a plain command that begins with the same words."""

    EXACT = "exact"
    PREFIX = "prefix"


class ApprovalRule(Record):
    """A person's "always". It only ever allows. ``text`` is the words of a prefix, or for an exact rule what a person is shown of it."""

    id: UUID
    scope: RuleScope
    scope_id: UUID
    subject: ApprovalSubject
    match: RuleMatch
    text: str
    digest: str
    created_at: datetime
    created_by_approval: UUID


class DecisionRequest(Record):
    """A person's answer. ``id`` is the client's. ``always`` makes a rule too; ``prefix`` widens it to commands that begin so."""

    id: UUID
    decision: ApprovalAnswer
    always: RuleScope | None = None
    prefix: str | None = None


class ApprovalList(Record):
    """Approvals, newest first."""

    items: tuple[Approval, ...]


class RuleList(Record):
    """Rules, newest first."""

    items: tuple[ApprovalRule, ...]


@dataclass(eq=False)
class ApprovalDecidedError(RefusalError):
    """This was decided already, so the answer changed nothing."""

    code: ClassVar[str] = "conflict.approval_decided"
    hint: ClassVar[str] = "Look at it with `jam approvals show`; what is asked anew gets a request of its own."

    approval: str
    state: str
    decided_by: str


@dataclass(eq=False)
class ApprovalsNotOfferedError(RefusalError):
    """This agent cannot ask before it acts."""

    code: ClassVar[str] = "capability.no_approvals"
    hint: ClassVar[str] = "Leave `--approvals ask` off: the sandbox is the boundary."

    provider: str


def digest_of(subject: ApprovalSubject, detail: str) -> str:
    """Return what two requests have in common exactly when they ask for the same."""
    return hashlib.sha256(f"{subject}\0{detail}".encode(errors="surrogatepass")).hexdigest()


def shown(text: str) -> str:
    """Return a text as it is stored and shown: redacted, cut and marked beyond :data:`DETAIL_CHARACTERS`."""
    whole = redacted(text[: DETAIL_CHARACTERS + BEYOND_THE_CUT])
    return whole if len(whole) <= DETAIL_CHARACTERS else whole[: DETAIL_CHARACTERS - len(CUT)] + CUT


def rule_from(
    approval: Approval, request: DecisionRequest, *, identifier: UUID, agent: UUID, created_at: datetime
) -> ApprovalRule | None:
    """Return the rule that an answer makes, if it makes one.

    Raises:
        InvalidInputError: "Always" beside a denial, for what no rule covers, or a prefix that the command does not begin with.
    """
    if request.always is None:
        if request.prefix is not None:
            raise InvalidInputError(field="prefix", problem="it widens a rule, so it needs always")
        return None
    if request.decision is not ApprovalAnswer.ALLOW:
        raise InvalidInputError(field="always", problem="a rule only ever allows; deny each time, or stop the turn")
    if approval.subject == "other":
        raise InvalidInputError(field="always", problem="only commands and changes of files can be allowed for good")
    text, match = approval.detail, RuleMatch.EXACT
    if request.prefix is not None:
        words = _prefix(request.prefix)
        if approval.subject != "command" or not _begins(command_words(approval.detail), words):
            raise InvalidInputError(field="prefix", problem="this is not a plain command that begins with these words")
        text, match = shlex.join(words), RuleMatch.PREFIX
    return ApprovalRule(
        id=identifier,
        scope=request.always,
        scope_id=approval.room_id if request.always is RuleScope.ROOM else agent,
        subject=approval.subject,
        match=match,
        text=text,
        digest=approval.digest if match is RuleMatch.EXACT else "",
        created_at=created_at,
        created_by_approval=approval.id,
    )


def covers(rule: ApprovalRule, subject: ApprovalSubject, detail: str) -> bool:
    """Whether a rule allows what is asked; ``detail`` is the whole, as the provider gave it."""
    if subject == "other" or rule.subject != subject:
        return False
    if rule.match is RuleMatch.EXACT:
        return rule.digest == digest_of(subject, detail)
    return _begins(command_words(detail), tuple(shlex.split(rule.text)))


# ------------------------------------------------------------------------------------------------------------ commands as words

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
_INLINE = frozenset({"-c", "-lc", "-ic", "-lic"})
_MEANS_MORE = re.compile(r"[\n\r;&|<>$`(){}\[\]*?~!#\\\0]")
"""What lets a shell do more than run one command with these words. In quotes some mean nothing; being wrong there costs one question."""


def command_words(command: str) -> tuple[str, ...] | None:
    """Return the words of a plain command, out of a shell's ``-c`` where it is in one.

    Returns:
        ``None`` when a shell would do more than run one program with these words: chains, redirections, expansions, assignments.
    """
    try:
        words = shlex.split(command)
        if len(words) == 3 and _is_shell(words[0]) and words[1] in _INLINE:
            command = words[2]
        if _MEANS_MORE.search(command):
            return None
        words = shlex.split(command)
    except ValueError:
        return None
    return tuple(words) if words and "=" not in words[0] else None


def _prefix(text: str) -> tuple[str, ...]:
    words = command_words(text)
    if words is None or (_is_shell(words[0]) and len(words) == 1):
        raise InvalidInputError(field="prefix", problem="give the first words of a plain command, as: git status")
    return words


def _begins(words: tuple[str, ...] | None, prefix: tuple[str, ...]) -> bool:
    return words is not None and bool(prefix) and words[: len(prefix)] == prefix


def _is_shell(word: str) -> bool:
    return PurePosixPath(word).name in _SHELLS

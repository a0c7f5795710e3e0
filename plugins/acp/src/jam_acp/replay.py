"""What an agent tells again when it loads a session: never shown, but it says which turns the session holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from jam_acp.profile import GUARD
from jam_acp.updates import SPOKEN
from jamcore.api import ProviderTurn, TurnOutcome, identifier, member, text

TURNS = 100_000
"""Turns of a session that are counted."""
PERSON = "user_message_chunk"


def turn_id(number: int, digest: str | None) -> str:
    """Return what Jam calls a turn of an agent, which has no name for one itself: its place in the session, and what was said."""
    return str(number) if digest is None else f"{number}-{digest[:16]}"


class Digest:
    """The digest of a person's text that comes in pieces, without what Jam put before it."""

    def __init__(self) -> None:
        self._sum = sha256()
        self._begun = False

    def add(self, words: str) -> None:
        """Take the next piece."""
        if words:
            self._sum.update((words if self._begun else words.removeprefix(GUARD)).encode(errors="surrogatepass"))
            self._begun = True

    def text(self) -> str:
        """Return the digest in hexadecimal."""
        return self._sum.hexdigest()


def digest_of(words: str) -> str:
    """Return the digest of a whole text."""
    digest = Digest()
    digest.add(words)
    return digest.text()


@dataclass
class _Turn:
    message: str
    digest: Digest = field(default_factory=Digest)
    is_text: bool = True
    answered: bool = False
    """Whether the last that is known of it is the agent's words, as in a turn that came to its end."""


class Replay:
    """Counts the turns in what is told again."""

    def __init__(self) -> None:
        self.identity = ""
        """The session of which the agent told a turn again; it may say anything of a blank one."""
        self._turns: list[_Turn] = []

    def take(self, identity: str, update: Mapping[str, object]) -> None:
        """Take an update."""
        kind = update.get("sessionUpdate")
        if kind == PERSON:
            self._person(update)
            self.identity = self.identity or identity
        elif kind in SPOKEN:
            if kind == "agent_message_chunk":
                self._answered(text(member(update, "content", "text")) != "")
            elif kind != "agent_thought_chunk":
                self._answered(False)

    def turns(self) -> tuple[ProviderTurn, ...]:
        """Return the turns, oldest first. One is complete when the agent had the last word in it, which a cut one has not."""
        return tuple(_told(number, turn) for number, turn in enumerate(self._turns, 1))

    def _person(self, update: Mapping[str, object]) -> None:
        message = identifier(update.get("messageId"))
        words = member(update, "content", "text")
        # Jam sends each text as one piece, so a piece without a name is a message of its own.
        same = message != "" and bool(self._turns) and message == self._turns[-1].message
        if not same and len(self._turns) < TURNS:
            self._turns.append(_Turn(message))
        if not self._turns:
            return
        if isinstance(words, str) and member(update, "content", "type") == "text":
            self._turns[-1].digest.add(words)
        else:
            self._turns[-1].is_text = False

    def _answered(self, answered: bool) -> None:
        if self._turns:
            self._turns[-1].answered = answered


def _told(number: int, turn: _Turn) -> ProviderTurn:
    digest = turn.digest.text() if turn.is_text else None
    outcome = TurnOutcome.COMPLETED if turn.answered else TurnOutcome.INTERRUPTED
    return ProviderTurn(provider_turn=turn_id(number, digest), outcome=outcome, text_digest=digest)

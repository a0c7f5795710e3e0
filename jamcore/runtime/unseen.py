"""A turn that reached the provider while Jam's note of its start was lost: found again in what the provider remembers (CONT-11)."""

from __future__ import annotations

from hashlib import sha256
from itertools import takewhile

from jamcore.domain.providers import ProviderTurn
from jamcore.domain.sessions import Turn, TurnState


def text_digest(text: str) -> str:
    """Return what :attr:`jamcore.domain.providers.ProviderTurn.text_digest` holds for a person's text."""
    return sha256(text.encode(errors="surrogatepass")).hexdigest()


def match_unseen(turns: tuple[Turn, ...], remembered: tuple[ProviderTurn, ...]) -> tuple[Turn, ProviderTurn] | None:
    """Return the turn whose start was not noted, with what the provider calls it; ``None`` where that cannot be said for certain.

    Turns of a session are sent one after the other, and the next only once the one before is noted as started or as ended. So at most the
    oldest accepted turn was sent, and it is the one turn after all known ones. A failed turn that has no id of the provider may have been
    sent too (the note itself failed): where it fits as well, nothing is decided.

    Args:
        turns: The session's turns, in order of acceptance.
        remembered: The provider's turns, oldest first.
    """
    known = {turn.provider_turn for turn in turns if turn.provider_turn}
    unknown = tuple(takewhile(lambda entry: entry.provider_turn not in known, reversed(remembered)))
    if len(unknown) != 1:
        return None
    found = unknown[0]
    last_known = max((place for place, turn in enumerate(turns) if turn.provider_turn), default=-1)
    later = turns[last_known + 1 :]
    sent = [turn for turn in later if turn.state is TurnState.FAILED]
    sent += [turn for turn in later if turn.state is TurnState.ACCEPTED][:1]
    fitting = [turn for turn in sent if found.text_digest in (None, text_digest(turn.text))]
    if len(fitting) != 1 or fitting[0].state is not TurnState.ACCEPTED:
        return None
    return fitting[0], found

"""Whether a provider that came back has what was captured: its own name for the thread alone proves nothing (CONT-1, CONT-7)."""

from __future__ import annotations

from uuid import UUID

from jamcore.domain.events import TurnOutcome
from jamcore.domain.providers import ProviderTurn
from jamcore.domain.sessions import Turn, TurnState
from jamcore.runtime.unseen import text_digest


def in_generation(turns: tuple[Turn, ...], last: UUID | None) -> tuple[Turn, ...]:
    """Return the captured turns that a generation holds, oldest first.

    One that was made from an export holds those up to the export; what was captured later went with its own generation.

    Args:
        turns: The session's turns, in order of acceptance.
        last: The last one that the generation contains. One of another machine is none of these, and then all are held.
    """
    captured = tuple(turn for turn in turns if turn.state is TurnState.CAPTURED)
    places = [place for place, turn in enumerate(captured) if turn.id == last]
    return captured[: places[0] + 1] if places else captured


def what_is_lost(captured: tuple[Turn, ...], remembered: tuple[ProviderTurn, ...]) -> str:
    """Say what of the captured turns a provider does not hold, finished and in their order; empty where it holds all of them.

    A turn is known by the provider's name for it. Some providers name a turn by its place, which may move by a turn that nobody saw begin;
    there the digest of the person's text stands for the name, unless the entry is another captured turn by name.

    Args:
        captured: The turns that the generation holds, oldest first.
        remembered: The provider's turns, oldest first.
    """
    names = {turn.provider_turn for turn in captured}
    rest = iter(remembered)
    for place, turn in enumerate(captured):
        digest = text_digest(turn.text)
        if not any(
            entry.outcome is TurnOutcome.COMPLETED
            and (entry.provider_turn == turn.provider_turn or (entry.text_digest == digest and entry.provider_turn not in names))
            for entry in rest
        ):
            return f"of {len(captured)} captured turns it has the first {place}, and turn {turn.id} not, finished and in its place"
    return ""

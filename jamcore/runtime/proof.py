"""Whether a provider that came back has what was captured: its own name for the thread alone proves nothing (CONT-1, CONT-7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from jamcore.domain.continuity import Checkpoint
from jamcore.domain.providers import ProviderTurn
from jamcore.domain.sessions import Turn, TurnState
from jamcore.runtime.unseen import text_digest


@dataclass(frozen=True, slots=True)
class Lineage:
    """Where a host's generation comes from.

    Args:
        numbers: The number of each generation of the host.
        from_exports: Those that were made from an export, up to the one in question, oldest first.
    """

    numbers: Mapping[UUID, int]
    from_exports: tuple[Checkpoint, ...]

    def number_of(self, turn: Turn) -> int:
        """Return the number of the generation that held a turn first."""
        return 0 if turn.checkpoint_id is None else self.numbers.get(turn.checkpoint_id, 0)


def still_held(turns: tuple[Turn, ...], session: UUID, lineage: Lineage) -> tuple[Turn, ...]:
    """Return the captured turns that a generation still holds, oldest first.

    One that was made from an export holds those up to the export, and so do all that follow it: what was captured between the two went with
    its own generation.

    Args:
        turns: The session's turns, in order of acceptance.
        session: The session.
        lineage: Where the generation comes from.
    """
    places = {turn.id: place for place, turn in enumerate(turns)}
    held = [turn for turn in turns if turn.state is TurnState.CAPTURED]
    for row in lineage.from_exports:
        last = _last_of(row, session)
        if last is None or last in places:
            until = -1 if last is None else places[last]
            held = [turn for turn in held if places[turn.id] <= until or lineage.number_of(turn) > row.generation]
    return tuple(held)


def came_with_turns(turns: tuple[Turn, ...], session: UUID, lineage: Lineage) -> bool:
    """Whether the conversation was taken over from another machine, with turns of which none is known here."""
    known = {turn.id for turn in turns}
    return any(last is not None and last not in known for last in (_last_of(row, session) for row in lineage.from_exports))


def _last_of(row: Checkpoint, session: UUID) -> UUID | None:
    return next((one.last_turn_id for one in row.sessions if one.session_id == session), None)


def what_is_lost(captured: tuple[Turn, ...], remembered: tuple[ProviderTurn, ...]) -> str:
    """Say what of the captured turns a provider does not hold, in their order; empty where it holds all of them.

    A turn is known by the provider's name for it, or by the digest of the person's text: some providers name a turn by its place, which
    may move by a turn that nobody saw begin. How it ended is not compared: the bytes are proven to be those that were captured, and
    some programs tell of an end otherwise when they tell a conversation again.

    Args:
        captured: The turns that the generation holds, oldest first.
        remembered: The provider's turns, oldest first.
    """
    rest = iter(remembered)
    for place, turn in enumerate(captured):
        digest = text_digest(turn.text)
        if not any(entry.provider_turn == turn.provider_turn or entry.text_digest == digest for entry in rest):
            return f"of {len(captured)} captured turns it has the first {place}, and turn {turn.id} not, in its place"
    return ""

"""Turns of one session for tests of what becomes of them."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

from jamcore.domain.sessions import Turn, TurnState

SESSION = UUID(int=101)


def turns(*rows: tuple[TurnState, str | None, str]) -> tuple[Turn, ...]:
    """Return a session's turns: state, the provider's id, text."""
    return tuple(
        Turn(
            id=UUID(int=number),
            room_id=UUID(int=100),
            session_id=SESSION,
            text=text,
            state=state,
            provider_turn=provider_turn,
            detail="",
            checkpoint_id=None,
            workspace_digest=None,
            process_epoch=1,
            accepted_at=datetime(2026, 1, 1, tzinfo=UTC),
            ended_at=None,
        )
        for number, (state, provider_turn, text) in enumerate(rows)
    )

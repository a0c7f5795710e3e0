"""Transition tables as data: the one way a state may change."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Generic, TypeVar

from jamcore.domain.errors import IllegalTransitionError

S = TypeVar("S", bound=StrEnum)


class TransitionTable(Generic[S]):
    """Which state may follow which. A state that is not listed as a key is a programming error found at import."""

    def __init__(self, machine: str, edges: Mapping[S, frozenset[S]]) -> None:
        self.machine = machine
        self._edges: Mapping[S, frozenset[S]] = MappingProxyType(dict(edges))
        states = type(next(iter(edges)))
        if missing := set(states) - set(edges):
            raise ValueError(f"{machine}: no row for {sorted(missing)}")

    def allows(self, old: S, new: S) -> bool:
        """Say whether ``new`` may follow ``old``."""
        return new in self._edges[old]

    def require(self, old: S, new: S, *, ref: str = "") -> None:
        """Accept one step.

        Raises:
            IllegalTransitionError: ``new`` does not follow ``old``.
        """
        if not self.allows(old, new):
            raise IllegalTransitionError(machine=self.machine, ref=ref, old=old, new=new)

    def is_terminal(self, state: S) -> bool:
        """Say whether nothing follows ``state``."""
        return not self._edges[state]

    def sources_of(self, new: S) -> frozenset[S]:
        """Return every state from which ``new`` may be reached in one step: the condition of a conditional update."""
        return frozenset(old for old, news in self._edges.items() if new in news)

    def edges(self) -> tuple[tuple[S, S], ...]:
        """Return every legal (old, new) pair, sorted, for tests and documents."""
        return tuple(sorted((old, new) for old, news in self._edges.items() for new in news))

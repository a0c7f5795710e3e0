"""The journal of one daemon, put together: who keeps it, who runs its actions, which kinds there are, and who tells of them."""

from __future__ import annotations

from dataclasses import dataclass

from jamcore.daemon.operations import OperationNews, Operations
from jamcore.journal.points import CrashPoints
from jamcore.journal.replay import ActionRegistry
from jamcore.journal.runner import Runner
from jamcore.store import Store, StoreJournal


@dataclass(frozen=True, slots=True)
class Journaled:
    """The parts; ``actions`` is filled by whoever composes the daemon."""

    journal: StoreJournal
    runner: Runner
    actions: ActionRegistry
    operations: Operations


def journaled(store: Store, crash: CrashPoints) -> Journaled:
    """Build them on a store."""
    news, actions = OperationNews(), ActionRegistry()
    journal = StoreJournal(store, news.announce)
    runner = Runner(journal, crash)
    return Journaled(journal, runner, actions, Operations(store=store, news=news, runner=runner, actions=actions))

"""Sandboxes from Linux namespaces, with bubblewrap: no daemon, no root, installs with pip."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from jamcore.domain.cells import Ability
from jamcore.domain.sandboxes import Isolation
from jamcore.engines.port import Engine, EngineContext


class BubblewrapEnginePlugin:
    """What the entry point names."""

    api_version = (1, 0)
    name = "bubblewrap"
    isolation = Isolation.NAMESPACE
    abilities = frozenset({Ability.CLONE, Ability.FREEZE, Ability.HOST_VIEW, Ability.KEEPS_DISK, Ability.REACH, Ability.RESOURCES})

    def open(self, context: EngineContext) -> AbstractAsyncContextManager[Engine]:
        """See :class:`~jamcore.engines.port.EnginePlugin`."""
        from jamcore.engines.bubblewrap.engine import open_engine  # late: listing plugins needs none of it

        return open_engine(context)

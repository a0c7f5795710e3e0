"""Host processes: no isolation at all, for development and for agents that run as they did before there were sandboxes."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from jamcore.domain.cells import Ability
from jamcore.domain.sandboxes import Isolation
from jamcore.engines.port import Engine, EngineContext


class LocalEnginePlugin:
    """What the entry point names."""

    api_version = (1, 0)
    name = "local"
    isolation = Isolation.NONE
    abilities = frozenset(
        {
            Ability.CLONE,
            Ability.FREEZE,
            Ability.HOST_HOME,
            Ability.HOST_NETWORK,
            Ability.HOST_PATHS,
            Ability.HOST_VIEW,
            Ability.KEEPS_DISK,
        }
    )

    def open(self, context: EngineContext) -> AbstractAsyncContextManager[Engine]:
        """See :class:`~jamcore.engines.port.EnginePlugin`."""
        from jamcore.engines.local.engine import open_engine  # late: listing plugins needs none of it

        return open_engine(context)

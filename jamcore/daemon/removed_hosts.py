"""Hosts that were cleaned up, or are on their way: nothing of them is brought up again (WS-8, WS-17)."""

from __future__ import annotations

from jamcore.domain.cleanup_plans import CleanupUnfinishedError, HostRemovedError
from jamcore.domain.sessions import HostState, RuntimeHost
from jamcore.store import Repos


def require_there(repos: Repos, host: RuntimeHost) -> None:
    """Require that a host is neither gone nor being taken away.

    Raises:
        HostRemovedError: It was cleaned up.
        CleanupUnfinishedError: A clean-up of it was begun.
    """
    if host.state is HostState.REMOVED:
        raise HostRemovedError(sandbox=host.sandbox)
    if (going := repos.host_cleanups.unfinished(host.id)) is not None:
        raise CleanupUnfinishedError(sandbox=host.sandbox, problem=f"the clean-up {going.id} was begun: it is {going.stage}")

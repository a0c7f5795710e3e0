"""What a stop of the daemon refuses and cancels: work that may take minutes and can be begun again (START-4).

A turn is not such work: it is interrupted, recorded and checkpointed by its host's worker.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import anyio

from jamcore.domain.errors import RefusalError


@dataclass(eq=False)
class DaemonStoppingError(RefusalError):
    """The daemon is being stopped: nothing new is begun, and what can be begun again was cut short and cleaned up."""

    code: ClassVar[str] = "daemon.stopping"
    hint: ClassVar[str] = "Nothing is lost: repeat the command, which starts the daemon again."

    work: str


class StopGate:
    """Lets work through until it is closed; then refuses more and cancels what it let through. One object per daemon."""

    def __init__(self) -> None:
        self._closed = False
        self._under_way: dict[anyio.CancelScope, str] = {}

    def require_open(self, work: str) -> None:
        """Refuse when the daemon is being stopped.

        Raises:
            DaemonStoppingError: It is.
        """
        if self._closed:
            raise DaemonStoppingError(work=work)

    @contextmanager
    def until_stop(self, work: str) -> Iterator[None]:
        """Run the block unless the daemon is being stopped; a stop cancels it, and its own finalisers run as after any cancellation.

        Raises:
            DaemonStoppingError: It was refused, or cut short.
        """
        self.require_open(work)
        with anyio.CancelScope() as scope:
            self._under_way[scope] = work
            try:
                yield
            finally:
                del self._under_way[scope]
        if scope.cancelled_caught:
            raise DaemonStoppingError(work=work)

    def under_way(self) -> tuple[str, ...]:
        """Return what was let through and goes on, in its own words."""
        return tuple(self._under_way.values())

    def close(self) -> None:
        """Refuse and cancel, from now on. Idempotent."""
        self._closed = True
        for scope in self._under_way:
            scope.cancel()

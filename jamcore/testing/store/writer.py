"""A daemon's life in a process of its own: ``python -m jamcore.testing.store.writer URL DAEMON ROOM``.

It writes numbered notices into the room until it may not any more, says each number once it is written, and says at the end why it ended.
"""

from __future__ import annotations

import sys
from uuid import UUID

import anyio

from jamcore.domain.errors import JamError
from jamcore.domain.events import SessionNotice
from jamcore.store import open_store
from jamcore.system.clock import SystemClock
from jamcore.system.files import Files


async def write(url: str, daemon: UUID, room: UUID) -> str:
    """Write until an error ends it, and return the error's code."""
    async with open_store(url, files=Files(), clock=SystemClock(), daemon_id=daemon) as store:
        epoch = store.fence.epoch
        while True:
            notice = SessionNotice(code="life", detail=str(epoch))
            try:
                (event,) = await store.transact(lambda repos, notice=notice: repos.events.append(room, None, [notice]))  # type: ignore[misc]
            except JamError as error:
                return error.code
            print(event.seq, flush=True)


if __name__ == "__main__":
    print(anyio.run(write, sys.argv[1], UUID(sys.argv[2]), UUID(sys.argv[3])), flush=True)

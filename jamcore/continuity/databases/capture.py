"""The databases of one generation on their way into its pack (CONT-5, CONT-10).

The copies are made while the guest stands still, beside the reading of its files. They are checked, read, looked through for credentials
and stored after it goes on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import anyio.to_thread

from jamcore.continuity.databases.guest_calls import Asked, Copied, Copies, GuestDatabases
from jamcore.continuity.generations.databases import Database, DatabaseWriter, read_databases, write_databases
from jamcore.continuity.generations.format import Sink, Source
from jamcore.continuity.generations.objects import Root
from jamcore.continuity.generations.packs import BlockDamagedError
from jamcore.domain.continuity import CaptureRefusedError, DatabaseHelperError, DatabaseRefusedError
from jamcore.system.trees import Names, shown

LOCKED_S = 2.0
"""How long a database may be locked where the guest cannot be held still; one that is held still unlocks nothing."""


class DatabaseCapture:
    """One run of the helper for one reading of the state."""

    def __init__(self, copies: Copies, patterns: Sequence[str], host: str) -> None:
        self._copies = copies
        self._asked = Asked(patterns, ())
        self._host = host

    @staticmethod
    @asynccontextmanager
    async def begun(
        guest: GuestDatabases | None, patterns: Sequence[str], *, frozen: bool, host: str
    ) -> AsyncIterator[DatabaseCapture | None]:
        """Have the helper ready where databases are declared, and end it when the context is left.

        Raises:
            DatabaseHelperError: There is no way into this guest, or the helper could not be started.
        """
        if not patterns:
            yield None
        elif guest is None:
            raise DatabaseHelperError(host=host, problem="the provider declares databases, and nothing can be started in its guest")
        else:
            async with guest.copying(patterns, wait_s=0.0 if frozen else LOCKED_S) as copies:
                yield DatabaseCapture(copies, patterns, host)

    async def begin(self) -> None:
        """Let the helper copy.

        Raises:
            DatabaseHelperError: It is gone.
        """
        await self._copies.begin()

    async def made(self, before: Sequence[Names]) -> None:
        """Wait for the copies, and hold them against the databases that the generation before has.

        Raises:
            DatabaseRefusedError: One is gone, or cannot be copied.
            DatabaseBusyError: One is locked.
            DatabaseHelperError: The helper failed.
        """
        there = {one.path for one in await self._copies.made()}
        for path in before:
            if path not in there and self._asked.holds(path):
                raise DatabaseRefusedError(path=f"~/{shown(path)}", reason="the last checkpoint holds it, and it is gone")

    async def stored(self, sink: Sink, root: Root, room: int) -> Root:
        """Store the copies, and return the root that names them besides what ``root`` has.

        Args:
            sink: Where units go.
            root: The root of what was read of the state.
            room: Bytes that one checkpoint may hold.

        Raises:
            SecretInStateError: One holds a credential.
            CaptureRefusedError: All together are too large, or one is damaged.
            DatabaseHelperError: The helper failed.
        """
        found = await stored(self._copies, sink, self._host)
        total = root.bytes_total + sum(one.content.size for one in found)
        if total > room:
            raise CaptureRefusedError(path=f"~/{shown(found[-1].path)}", reason=f"more than {room} bytes in all")
        table = await anyio.to_thread.run_sync(write_databases, sink, found)
        return replace(root, databases=table, files=root.files + len(found), bytes_total=total)


async def stored(copies: Copies, sink: Sink, host: str) -> list[Database]:
    """Read all copies that were made into ``sink``.

    Raises:
        SecretInStateError, DatabaseRefusedError: One holds a credential, or is damaged.
        DatabaseHelperError: The helper failed.
    """
    found: list[Database] = []
    with copies.bounded():
        async for one, content in copies.each():
            found.append(await _stored(one, content, sink, host))
    return found


async def _stored(one: Copied, content: AsyncIterator[bytes], sink: Sink, host: str) -> Database:
    writer = DatabaseWriter(sink, one.path, one.page)
    try:
        async for data in content:
            await anyio.to_thread.run_sync(writer.take, data)
        return await anyio.to_thread.run_sync(partial(writer.finish, one.mode))
    except ValueError as error:
        raise DatabaseHelperError(host=host, problem=f"of ~/{shown(one.path)} {error}") from error


def paths_before(source: Source, root: Root | None) -> tuple[Names, ...]:
    """Return the databases of the generation before; none, where that cannot be read: then all is stored anew."""
    if root is None:
        return ()
    try:
        return tuple(one.path for one in read_databases(source, root.databases))
    except BlockDamagedError:
        return ()

"""A daemon that is asked from outside its event loop, in a world that can be put back: on SQLite or on PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar
from uuid import UUID

from anyio.from_thread import BlockingPortal, start_blocking_portal
from sqlalchemy import NullPool, create_engine, inspect, text

from jamcore.daemon.compose import composed
from jamcore.daemon.options import DaemonOptions
from jamcore.daemon.services import Services
from jamcore.domain import layout
from jamcore.domain.operations import UNFINISHED
from jamcore.testing.crash import Killed
from jamcore.testing.parked_world import World, files_in, replace_tree
from jamcore.testing.postgres import PostgresServer

T = TypeVar("T")
BLANK, USED = "histories_blank", "histories"
"""Databases of a server: what each history begins with, and what it is in."""
_MOVING = frozenset({"leases"})
"""Tables that say who is alive."""


class Cut:
    """Ends a life in effect at a boundary; nothing is armed to begin with."""

    def __init__(self) -> None:
        self.point: str | None = None

    def reach(self, point: str) -> None:
        """See :meth:`jamcore.journal.points.CrashPoints.reach`."""
        if point == self.point:
            self.point = None
            raise Killed(point)


@dataclass(frozen=True)
class Place:
    """Where histories happen, one after the other: a world, the copy that each begins with, and the database server, if it is one."""

    world: World
    blank: Path
    server: PostgresServer | None = None

    @property
    def url(self) -> str:
        """The database's URL."""
        return self.server.url(USED) if self.server else f"sqlite:///{self.world.app / layout.DATABASE}"

    def put_back(self) -> None:
        """Make everything as it was in the beginning. Nobody lives here."""
        replace_tree(self.blank, self.world.root)
        if self.server:
            self.server.drop(USED)
            self.server.create(USED, template=BLANK)

    @contextmanager
    def damaged(self, host: UUID) -> Iterator[Callable[[], None]]:
        """Damage every checkpoint of a host; mend them in the end, unless what is yielded was called."""
        packs = {path: path.read_bytes() for path in (self.world.app / layout.packs(host)).glob("*.pack")}
        for path, data in packs.items():
            path.write_bytes(data[:-1])
        yield packs.clear
        for path, data in packs.items():
            path.write_bytes(data)

    # ------------------------------------------------------------------------------------------------------------ looking at it

    def rows(self, query: str) -> list[tuple[object, ...]]:
        """Ask the database beside the daemon."""
        engine = create_engine(self.url, poolclass=NullPool)
        with engine.connect() as connection:
            return [tuple(row) for row in connection.execute(text(query))]

    def digest(self) -> dict[str, str]:
        """Return everything that an exact retry must leave as it is: rows, exports, work trees."""
        engine = create_engine(self.url, poolclass=NullPool)
        names = sorted(set(inspect(engine).get_table_names()) - _MOVING)
        found = {name: repr(sorted(map(repr, self.rows(f'SELECT * FROM "{name}"')))) for name in names}  # noqa: S608 - names
        return found | files_in(self.world.app / layout.EXPORTS) | files_in(self.world.app / layout.HOST_NATIVE)

    def unfinished(self) -> list[tuple[object, ...]]:
        """Return (kind, id) of the operations that have not ended."""
        states = ", ".join(f"'{state.value}'" for state in UNFINISHED)
        return self.rows(f"SELECT kind, id FROM operations WHERE state IN ({states})")  # noqa: S608 - names

    def ended(self, operation: UUID) -> str | None:
        """Return an operation's state; ``None`` when it was never begun."""
        found = self.rows(f"SELECT state FROM operations WHERE id = '{operation}'")  # noqa: S608 - an id
        return str(found[0][0]) if found else None

    def files(self, session: UUID) -> dict[str, bytes]:
        """Return the files of a session's work tree; none where there is no tree."""
        tree = self.tree(session)
        return (
            {str(path.relative_to(tree)): path.read_bytes() for path in sorted(tree.rglob("*")) if path.is_file()} if tree else {}
        )

    def tree(self, session: UUID) -> Path | None:
        """Return a session's work tree, if it is there."""
        places = (f"{layout.HOST_NATIVE}/*/*/{session}", f"{layout.HOSTS}/*/workspace-root/sessions/{session}")
        return next((found for place in places for found in self.world.app.glob(place)), None)

    def exports(self) -> set[str]:
        """Return the names of what lies among the exports, whole or half made."""
        directory = self.world.app / layout.EXPORTS
        return {path.name for path in directory.iterdir()} if directory.exists() else set()

    def on_the_way_out(self) -> list[Path]:
        """Return the trees that were set aside and not removed."""
        return [*self.world.app.glob(f"{layout.HOSTS}/*/.archived-*"), *self.world.app.glob(f"{layout.HOSTS}/.*")]


class Daemon:
    """One life. Killed, it is left as a daemon that ends in order; what a real kill loses, the crash matrix looks for."""

    def __init__(self, place: Place, *, killed_at: str | None = None) -> None:
        self.cut = Cut()
        self.cut.point = killed_at
        self._stack = ExitStack()
        options = place.world.options(crash=self.cut, database_url=place.server and place.url)
        self._portal: BlockingPortal = self._stack.enter_context(start_blocking_portal())
        self._services = self._stack.enter_context(self._portal.wrap_async_context_manager(_life(options)))

    @property
    def lives(self) -> bool:
        """Whether its start went to its end."""
        return self._services is not None

    def ask(self, what: Callable[[Services], Awaitable[T]], *, killed_at: str | None = None) -> T | None:
        """Ask for something and return the answer; ``None`` when the daemon was killed over it."""
        assert self._services is not None
        services, self.cut.point = self._services, killed_at

        async def guarded() -> T | None:
            try:
                return await what(services)
            except Killed:
                return None

        return self._portal.call(guarded)

    def end(self) -> None:
        """End it; its hosts are parked."""
        self.cut.point = None
        self._stack.close()


@asynccontextmanager
async def _life(options: DaemonOptions) -> AsyncIterator[Services | None]:
    began = False
    try:
        async with composed(options) as services:
            began = True
            yield services
    except BaseException as error:
        if began or not _is_kill(error):
            raise
        yield None


def _is_kill(error: BaseException) -> bool:
    return isinstance(error, Killed) or (isinstance(error, BaseExceptionGroup) and error.split(Killed)[1] is None)

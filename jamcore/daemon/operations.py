"""Operations as clients see them: listed, told, and followed to their end (WS-2, WS-3, START-1)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any
from uuid import UUID

import anyio
import structlog

from jamcore.daemon.operation_names import Names, hint_of_class
from jamcore.domain.operation_views import LISTED, OperationLine, OperationPage, OperationRow, OperationView
from jamcore.domain.operations import OPERATION, Operation, OperationEvent, OperationState
from jamcore.journal.replay import ActionRegistry
from jamcore.journal.runner import INTENDED, Runner
from jamcore.store import Repos, Store

CUT = "It was cut short: it goes on when its command is repeated, and at each start of the daemon (`jam daemon restart`)."
ELSEWHERE = "Another version of Jam began it: start that one to finish it."
DAMAGED = "The row is kept as it is; the daemon's log has the details (`jam daemon logs`)."


class OperationNews:
    """Wakes whoever follows an operation. What is told is read from the store: a slow follower slows nothing."""

    def __init__(self) -> None:
        self._heard: dict[UUID, anyio.Event] = {}

    def announce(self, operation: UUID) -> None:
        """Say that something of an operation was committed."""
        if waiting := self._heard.pop(operation, None):
            waiting.set()

    def of(self, operation: UUID) -> anyio.Event:
        """Return what is set at the next announcement."""
        return self._heard.setdefault(operation, anyio.Event())


class Operations:
    """See :class:`~jamcore.daemon.services.OperationService`."""

    def __init__(self, *, store: Store, news: OperationNews, runner: Runner, actions: ActionRegistry) -> None:
        self._store = store
        self._news = news
        self._runner = runner
        self._actions = actions

    @property
    def actions(self) -> ActionRegistry:
        """The kinds that there are."""
        return self._actions

    async def list(
        self, *, room: str | None = None, host: str | None = None, unfinished: bool = False, limit: int = LISTED
    ) -> OperationPage:
        """Return operations, newest first; a damaged row is one of them."""
        return await self._store.read(partial(self._page, room, host, unfinished=unfinished, limit=limit))

    async def show(self, ref: str) -> OperationView:
        """Return one with its story."""
        return await self._store.read(partial(self._view, ref))

    @asynccontextmanager
    async def events(self, ref: str, *, after: int, follow: bool) -> AsyncIterator[AsyncIterator[OperationLine]]:
        """Stream the lines of a story with a number greater than ``after``; with ``follow`` until the operation has ended."""
        found = await self._store.read(lambda repos: repos.operations.find(ref))
        async with aclosing(self._follow(found, after=after, follow=follow)) as lines:
            yield lines

    async def _follow(self, identifier: UUID, *, after: int, follow: bool) -> AsyncGenerator[OperationLine]:
        seen = after
        while True:
            # Taken before the look: what is committed between the two wakes this follower at once.
            heard = self._news.of(identifier)
            lines = await self._store.read(lambda repos: story(repos.operations.story(identifier)))
            for line in lines:
                if line.seq > seen:
                    seen = line.seq
                    yield line
            if not follow or (lines and lines[-1].last):
                return
            await heard.wait()

    def _page(self, room: str | None, host: str | None, repos: Repos, *, unfinished: bool, limit: int) -> OperationPage:
        names = Names(repos)
        of_room = repos.rooms.find(room).id if room is not None else None
        of_host = names.host_of(host if host is not None else room) if host is not None or room is not None else None
        found = repos.operations.refs(room=of_room, host=of_host, unfinished=unfinished, limit=limit + 1)
        rows = tuple(self._row(repos, names, ref, kind)[0] for ref, kind in found[:limit])
        return OperationPage(items=rows, more=len(found) > limit)

    def _row(self, repos: Repos, names: Names, ref: str, kind: str) -> tuple[OperationRow, Operation | None]:
        """Read one row; whatever is wrong with it is said in its place, and hides no other."""
        try:
            found = repos.operations.get(UUID(ref))
        except Exception as error:  # noqa: BLE001 - named boundary: a damaged row shows in as many ways as it can be damaged
            structlog.get_logger("jam.operations").warning("an operation cannot be read", operation=ref, error=repr(error))
            title = self._title(kind, "")
            return OperationRow(id=ref, kind=kind, title=title, problem=f"its row cannot be read: {type(error).__name__}"), None
        room, sandbox = names.room(found), names.sandbox(found)
        row = OperationRow(
            id=ref,
            kind=kind,
            title=self._title(kind, room or sandbox),
            state=found.state,
            result=found.result,
            room=room,
            sandbox=sandbox,
            started_at=found.started_at,
            ended_at=found.ended_at,
            under_way=self._runner.is_under_way(found.id),
        )
        return row, found

    def _title(self, kind: str, of: str) -> str:
        declared = self._actions.declared(kind)
        words = declared.title if declared else f"{kind} (unknown to this Jam)"
        return f"{words} of {of}" if of else words

    def _view(self, ref: str, repos: Repos) -> OperationView:
        identifier = repos.operations.find(ref)
        names = Names(repos)
        row, found = self._row(repos, names, str(identifier), repos.operations.kind_of(identifier))
        lines, problem = _readable(lambda: story(repos.operations.story(identifier)))
        if problem:
            row = row.model_copy(update={"problem": "; ".join(filter(None, (row.problem, problem)))})
        if found is None:
            return OperationView(row=row, lines=lines, next=DAMAGED)
        return OperationView(
            row=row, about=names.about(found), lines=lines, stays=self._stays(found, lines), next=self._next(row, found, lines)
        )

    def _stays(self, found: Operation, lines: tuple[OperationLine, ...]) -> str:
        if found.state is not OperationState.FAILED:
            return ""
        reached = next((line.step for line in reversed(lines) if line.step), "")
        return self._actions.leaves(found.kind, reached)

    def _next(self, row: OperationRow, found: Operation, lines: tuple[OperationLine, ...]) -> str:
        if not found.finished and not row.under_way:
            return ELSEWHERE if self._actions.declared(found.kind) is None else CUT
        return next((line.hint for line in reversed(lines) if line.failure), "") if found.state is OperationState.FAILED else ""


def story(events: tuple[OperationEvent, ...]) -> tuple[OperationLine, ...]:
    """Return the lines of a story, each with how long what it ends has taken."""
    begun: dict[str, OperationEvent] = {}
    lines: list[OperationLine] = []
    for event in events:
        last = not event.step and OPERATION.is_terminal(event.state)
        starts = event.phase == INTENDED if event.step else not last
        since = None if starts else begun.get(event.step)
        lines.append(
            OperationLine(
                seq=event.seq,
                at=event.at,
                state=event.state,
                step=event.step,
                phase=event.phase,
                took_s=None if since is None else max(0.0, (event.at - since.at).total_seconds()),
                failure=event.result,
                hint=hint_of_class(event.result),
                last=last,
            )
        )
        begun.setdefault(event.step, event)
        if starts and event.step:
            begun[event.step] = event
    return tuple(lines)


def _readable(look: Callable[[], Any]) -> tuple[Any, str]:
    try:
        return look(), ""
    except Exception as error:  # noqa: BLE001 - see Operations._row
        return (), f"its story cannot be read: {type(error).__name__}"

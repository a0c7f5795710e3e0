"""Faults of transactions: torn, overlapping, and seen too early."""

from __future__ import annotations

import math
import threading
import time
from contextlib import ExitStack
from functools import partial
from typing import Any

import anyio
import pytest
from anyio import to_thread

from jamcore.domain.errors import JamError, NotFoundError
from jamcore.store import Store
from jamcore.store.failures import typed_failures
from jamcore.store.fencing import require_epoch
from jamcore.store.repos import Context, Repos
from jamcore.store.repos.hosts import Agents
from jamcore.store.repos.rooms import Events, Rooms
from jamcore.testing.store.bad.fault import around, found_by
from jamcore.testing.store.base import raw

SLOW_S = 0.002
"""How long the first statement of a slow disk takes."""


@found_by("test_an_error_undoes_everything_before_it")
def keeps_agents_of_a_failed_transaction(patch: pytest.MonkeyPatch) -> None:
    """What a transaction wrote of agents before it failed is kept."""

    def run(good: Any, self: Any, work: Any, *, write: bool) -> Any:
        kept: list[Any] = []

        def noting(repos: Repos) -> Any:
            def insert(agent: Any) -> Any:
                kept.append(agent)
                return Agents.insert(repos.agents, agent)

            vars(repos.agents)["insert"] = insert
            return work(repos)

        try:
            return good(self, noting, write=write)
        except JamError:
            if kept:
                good(self, lambda repos: [repos.agents.insert(agent) for agent in kept], write=True)
            raise

    around(patch, Store, "_run", run)


@found_by("test_a_row_that_refers_to_nothing_is_a_fault_of_ours")
def calls_a_fault_of_its_own_a_wrong_request(patch: pytest.MonkeyPatch) -> None:
    """A room of an agent that is not there is refused as if somebody had named one."""

    def insert(good: Any, self: Any, room: Any) -> Any:
        if Agents(self._context)._by_id(room.agent_id) is None:
            raise NotFoundError(kind="agent", ref=str(room.agent_id))
        return good(self, room)

    around(patch, Rooms, "insert", insert)


@found_by("test_a_hundred_writers_leave_numbers_without_gaps")
def leaves_out_a_number_after_a_hundred(patch: pytest.MonkeyPatch) -> None:
    """Of two events in one transaction the number 101 is given to none."""

    def reserve(good: Any, self: Any, room: Any, count: int) -> Any:
        first = good(self, room, count)
        if (first, count) != (101, 2):
            return first
        good(self, room, 1)
        return first + 1

    around(patch, Events, "_reserve", reserve)


class _Lazy:
    """Repositories whose transaction begins when the first one is asked for."""

    def __init__(self, store: Any, gate: threading.Lock, stack: ExitStack) -> None:
        self._store, self._gate, self._stack = store, gate, stack
        self._repos: Repos | None = None

    def __getattr__(self, name: str) -> Any:
        if self._repos is None:
            self._stack.enter_context(self._gate)
            connection = self._stack.enter_context(self._store._engine.connect())
            connection.execution_options(**self._store._options[True])
            self._stack.enter_context(connection.begin())
            require_epoch(connection, self._store.fence)
            self._repos = Repos(Context(connection=connection, now=self._store._moment(), fence=self._store.fence))
        return getattr(self._repos, name)


@found_by("test_writers_never_overlap")
def begins_a_transaction_when_it_is_needed(patch: pytest.MonkeyPatch) -> None:
    """What writers do before they first ask for something, several do at once."""

    def made(good: Any, self: Any, *made_of: Any, **named: Any) -> None:
        good(self, *made_of, **named)
        self._writer, self.gate = anyio.CapacityLimiter(10), threading.Lock()

    def run(good: Any, self: Any, work: Any, *, write: bool) -> Any:
        if not write:
            return good(self, work, write=False)
        with typed_failures(self._file), ExitStack() as stack:
            return work(_Lazy(self, self.gate, stack))

    around(patch, Store, "__init__", made)
    around(patch, Store, "_run", run)


@found_by("test_a_read_goes_on_beside_a_write_and_sees_one_moment")
def reads_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    """Who reads while a transaction is open reads in it."""
    begun: dict[object, Repos] = {}

    def run(good: Any, self: Any, work: Any, *, write: bool) -> Any:
        def noting(repos: Repos) -> Any:
            begun[self] = repos
            try:
                return work(repos)
            finally:
                del begun[self]

        if not write and self in begun:
            return work(begun[self])
        return good(self, noting if write else work, write=write)

    around(patch, Store, "_run", run)


@found_by("test_a_read_keeps_its_view_while_others_commit")
def reads_each_statement_at_its_own_moment(patch: pytest.MonkeyPatch) -> None:
    """A read that begins when nobody writes has no view to keep."""

    def run(good: Any, self: Any, work: Any, *, write: bool) -> Any:
        def torn(repos: Repos) -> Any:
            raw(repos).exec_driver_sql("COMMIT")
            return work(repos)

        return good(self, work if write or self._writer.borrowed_tokens else torn, write=write)

    around(patch, Store, "_run", run)


@found_by("test_cancellation_never_tears_a_transaction")
def does_not_wait_for_what_is_cancelled(patch: pytest.MonkeyPatch) -> None:
    """Whoever is cancelled goes on while the transaction still runs, and what it writes appears later."""

    async def transact(_good: Any, self: Any, work: Any) -> Any:
        cancelled = anyio.current_effective_deadline() == -math.inf
        with anyio.CancelScope(shield=cancelled):
            run = partial(self._run, work, write=True)
            return await to_thread.run_sync(run, limiter=self._writer, abandon_on_cancel=True)

    around(patch, Store, "transact", transact)


@found_by("test_a_finaliser_can_still_write")
def writes_nothing_for_who_is_cancelled(patch: pytest.MonkeyPatch) -> None:
    """In a scope that is cancelled already no transaction begins."""

    async def transact(good: Any, self: Any, work: Any) -> Any:
        await anyio.lowlevel.checkpoint_if_cancelled()
        return await good(self, work)

    around(patch, Store, "transact", transact)


class _Enough(Exception):  # noqa: N818 - it is no error
    """Nobody waits for the rest."""


@found_by("test_cancelled_transactions_are_whole_or_absent")
def commits_what_there_is_when_time_is_over(patch: pytest.MonkeyPatch) -> None:
    """A transaction whose time is over after its first row is committed with that; the disk is slow."""

    async def transact(good: Any, self: Any, work: Any) -> Any:
        end = anyio.current_effective_deadline()

        def torn(repos: Repos) -> Any:
            def insert(agent: Any) -> Any:
                if time.monotonic() > end:
                    raise _Enough
                return Agents.insert(repos.agents, agent)

            def first(agent: Any) -> Any:
                vars(repos.agents)["insert"] = insert
                inserted = Agents.insert(repos.agents, agent)
                time.sleep(SLOW_S)
                return inserted

            vars(repos.agents)["insert"] = first
            try:
                return work(repos)
            except _Enough:
                return None

        return await good(self, torn if end < math.inf else work)

    around(patch, Store, "transact", transact)

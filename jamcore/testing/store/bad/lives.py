"""Faults of several daemons, and of several processes, at the same time."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from sqlalchemy import func, select, update

import jamcore.store.engine as engine_module
import jamcore.store.failures as failures_module
import jamcore.testing.store.lives as lives_module
from jamcore.store import StoreUnusableError
from jamcore.store.repos import Fence
from jamcore.store.repos.hosts import Hosts
from jamcore.store.repos.rooms import Events
from jamcore.store.tables.hosts import DAEMONS
from jamcore.testing.store.bad.fault import around, found_by

MEMORY, DEAF = "counts-in-its-memory", "hears-nothing-of-a-later-life"
"""What the other process may do, where it alone is bad."""


def break_this_process(patch: pytest.MonkeyPatch, how: str) -> None:
    """Make the store of this process bad, which is the other one of a check."""
    if how == DEAF:
        around(patch, engine_module, "require_epoch", lambda good, connection, fence: fence.epoch > 1 or good(connection, fence))
        return
    counted: dict[object, int] = {}

    def reserve(good: Any, self: Any, room: Any, count: int) -> Any:
        first = counted[room] if room in counted else good(self, room, count)
        counted[room] = first + count
        return first

    around(patch, Events, "_reserve", reserve)


def _elsewhere(patch: pytest.MonkeyPatch, how: str) -> None:
    patch.setattr(lives_module, "WRITER", (sys.executable, "-m", "jamcore.testing.store.bad.writer", how))


def _leaves_a_number_out(patch: pytest.MonkeyPatch, number: int, *, after_daemons: int = 0, many: bool = False) -> None:
    """Let a number be given to no event: once so many daemons are known, or where several events are written at once."""

    def reserve(good: Any, self: Any, room: Any, count: int) -> Any:
        first = good(self, room, count)
        daemons = self._connection.execute(select(func.count()).select_from(DAEMONS)).scalar_one()
        if first != number or daemons < after_daemons or (many and count == 1):
            return first
        good(self, room, 1)
        return first + 1

    around(patch, Events, "_reserve", reserve)


@found_by("test_a_former_life_in_another_process_ends_with_the_next_one")
def another_process_hears_nothing_of_a_later_life(patch: pytest.MonkeyPatch) -> None:
    """A daemon that is begun again asks for its epoch no more."""
    _elsewhere(patch, DEAF)


@found_by("test_two_processes_number_a_room_without_gaps")
def another_process_counts_in_its_memory(patch: pytest.MonkeyPatch) -> None:
    """It asks for a room's number once and goes on from there by itself."""
    _elsewhere(patch, MEMORY)


@found_by("test_the_first_event_of_a_room_may_be_contended")
def leaves_out_a_number_after_the_first(patch: pytest.MonkeyPatch) -> None:
    """Several events that come second begin one too late."""
    _leaves_a_number_out(patch, 2, many=True)


@found_by("test_daemons_at_once_number_a_room_without_gaps")
def leaves_out_a_number_where_many_daemons_write(patch: pytest.MonkeyPatch) -> None:
    """With more than three daemons the number 50 is given to none."""
    _leaves_a_number_out(patch, 50, after_daemons=4)


@found_by("test_one_shared_host_wins")
def sees_no_host_of_another_daemon(patch: pytest.MonkeyPatch) -> None:
    """Who lost the race to another daemon finds nothing."""

    def live_shared(good: Any, self: Any, agent: Any) -> Any:
        found = good(self, agent)
        return found if found and found.daemon_id == self._context.fence.daemon_id else None

    around(patch, Hosts, "live_shared", live_shared)


@found_by("test_what_another_one_holds_is_busy")
def calls_what_another_one_holds_damaged(patch: pytest.MonkeyPatch) -> None:
    """A database that is locked is unusable."""
    patch.setattr(failures_module, "StoreBusyError", StoreUnusableError)


@found_by("test_daemons_begin_at_once")
def begins_the_third_daemon_in_its_second_life(patch: pytest.MonkeyPatch) -> None:
    """The epoch of a new daemon depends on how many there are."""

    def take_over(good: Any, connection: Any, daemon_id: Any) -> Any:
        fence = good(connection, daemon_id)
        daemons = connection.execute(select(func.count()).select_from(DAEMONS)).scalar_one()
        if fence.epoch > 1 or daemons < 3:
            return fence
        connection.execute(update(DAEMONS).where(DAEMONS.c.id == daemon_id).values(fence_epoch=2))
        return Fence(daemon_id=daemon_id, epoch=2)

    around(patch, engine_module, "take_over", take_over)
